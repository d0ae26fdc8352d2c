"""The benchmarks run, say what they measured, and measure what they say."""

import importlib
import itertools
import json
import os
import platform
import subprocess
import sys
import time
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = ["census", "fair_kmeans", "scaling", "kernels", "streaming", "peers", "tolerance",
         "attributes"]  # fmt: skip
MACHINE = {"cores", "memory_gb", "system", "architecture", "threads", "python", "versions"}
MODULES = {"anchors", "anchor clustering", "graph", "propagation", "other"}


def imported(name):
    """A module of the benchmarks, which are scripts and no package."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)


common, census, fair_kmeans, peers, scaling, figures = map(
    imported, ["_common", "census", "fair_kmeans", "peers", "scaling", "readme_figures"]
)


# One test, so that the run is done once however the tests are spread over processes.
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_quick_run_of_all_benchmarks_leaves_complete_results(tmp_path, capsys):
    command = [sys.executable, FOLDER / "run.py", "--quick", "--results", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr + done.stdout
    expected = {f"{name}.json" for name in NAMES} | {"scaling.png"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")

    results = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in NAMES}
    for name, document in results.items():
        assert_says_where_it_was_measured(name, document)
        assert_names_no_machine(json.dumps(document), tmp_path)
    assert_census_has_time_memory_and_threads(*results["census"]["records"])
    assert_fair_kmeans_compares_both_kinds_of_blobs(results["fair_kmeans"]["records"])
    assert_modules_add_up_to_the_time_of_fit(*results["scaling"]["records"])
    assert_kernels_have_all_solvers_and_the_limits(results["kernels"]["records"])
    assert_peers_have_quality_or_a_reason(results["peers"]["records"])
    assert_tables_hold_the_figures(done.stdout, results)

    assert figures.main(["--results", str(tmp_path)]) == 1
    assert "census.json comes from a run with --quick" in capsys.readouterr().err


def assert_says_where_it_was_measured(name, document):
    assert document["benchmark"] == name
    assert document["quick"] is True
    assert set(document["machine"]) == MACHINE
    assert document["machine"]["cores"] >= 1
    assert {"fairanchor", "numpy", "scikit-learn", "numba"} <= set(document["machine"]["versions"])
    assert document["records"]
    assert all(claim["holds"] for claim in document["checks"])


def assert_names_no_machine(text, results):
    for secret in (platform.node(), str(Path.home()), str(FOLDER.parent), str(results)):
        # A short name can be part of a word.
        assert (f'"{secret}"' if len(secret) < 4 else secret) not in text


def assert_census_has_time_memory_and_threads(made, skipped):
    assert "--data" in skipped["skipped"]
    assert list(made["methods"]) == ["AnchorFairClustering", "KMeans", "MiniBatchKMeans"]
    for result in made["methods"].values():
        assert result["median_seconds"] == pytest.approx(np.median(result["seconds"]), rel=1e-4)
        assert result["extra_mb"] >= 0
        assert result["held_before_mb"] > made["table_mb"]
    ours, plain = made["methods"]["AnchorFairClustering"], made["methods"]["KMeans"]
    assert ours["proportional"]
    assert not plain["proportional"]
    assert plain["time_over_kmeans"] == 1.0
    ratio = ours["median_seconds"] / plain["median_seconds"]
    assert ours["time_over_kmeans"] == pytest.approx(ratio, rel=1e-3)
    assert made["same_labels_for_1_and_2_threads"]
    difference = ours["first_call_seconds"] - ours["second_call_seconds"]
    assert ours["first_call_extra_seconds"] == pytest.approx(difference, abs=1e-3)


def assert_fair_kmeans_compares_both_kinds_of_blobs(records):
    assert [record["data"] for record in records] == ["separated", "overlapping"]
    for record in records:
        assert record["relative_balance"] >= 0.999 > record["kmeans_relative_balance"]
        assert 0.5 < record["cost_over_one_assignment"] <= 1.0
        assert record["cost_at_means_over_one_assignment"] > 0.9
        assert record["cost_over_kmeans"] >= 1.0


def assert_modules_add_up_to_the_time_of_fit(small, large):
    assert large["rows"] == 4 * small["rows"]
    growth = large["median_seconds"] / small["median_seconds"]
    assert large["time_over_quarter"] == pytest.approx(growth, rel=1e-3)
    for record in (small, large):
        assert set(record["modules"]) >= MODULES
        assert min(record["modules"].values()) >= 0
        assert sum(record["modules"].values()) == pytest.approx(record["median_seconds"], rel=1e-3)
        assert record["worst_violation"] < 1


def assert_kernels_have_all_solvers_and_the_limits(records):
    kinds = {record["kernel"] for record in records}
    assert kinds == {"row solvers", "distances", "transport", "one pass over memory"}
    for record in records:
        if record["kernel"] == "row solvers":
            assert set(record["microseconds"]) == {"active set", "pivoting", "residual"}
            assert 1 <= record["mean_support"] <= record["anchors"]
            assert record["fastest"] in record["microseconds"]
        else:
            assert record["microseconds"] > 0


def assert_peers_have_quality_or_a_reason(records):
    for record in records:
        if record["method"] == "holisticai VFC":
            assert "--quick" in record["note"]
        else:
            assert record["seconds"] > 0
            assert 0 <= record["balance"] <= record["bound"]
            assert record["clusters_found"] == peers.N_CLUSTERS
    assert {"AnchorFairClustering", "KMeans"} <= {record["method"] for record in records}


def assert_tables_hold_the_figures(printed, results):
    for record in results["scaling"]["records"]:
        assert f"| {record['rows']:,} | {record['median_seconds']:.2f} |" in printed
    ours = results["census"]["records"][0]["methods"]["AnchorFairClustering"]
    assert f"| AnchorFairClustering | {ours['median_seconds']:.2f} |" in printed
    assert printed.count("\n| ---") == len(NAMES)


def test_readme_tables_name_files_that_are_not_there(tmp_path, capsys):
    assert figures.main(["--results", str(tmp_path), "--only", "census"]) == 0
    assert "census.json is not there: run benchmarks/census.py" in capsys.readouterr().err


# What the figures rest on.


def test_one_fair_assignment_is_the_cheapest_of_all_proportional_ones():
    rng = np.random.default_rng(0)
    groups = np.array([0] * 4 + [1] * 4)
    X = rng.normal(size=(8, 2)) + 2.0 * groups[:, None]
    centers = np.array([[0.0, 0.0], [2.0, 2.0]])
    distances = ((X[:, None] - centers) ** 2).sum(axis=2)
    plain = types.SimpleNamespace(cluster_centers_=centers, labels_=distances.argmin(axis=1))
    # Exactly proportional: as many of the first group in a cluster as of the second.
    fair = [
        sum(distances[i, l] for i, l in enumerate(labels))
        for labels in itertools.product(range(2), repeat=8)
        if sum(labels[:4]) == sum(labels[4:])
    ]
    found = fair_kmeans.one_fair_assignment(X, groups, plain)
    assert found[:4].sum() == found[4:].sum()
    assert distances[np.arange(8), found].sum() == pytest.approx(min(fair), rel=1e-9)


def test_a_reference_that_is_not_the_cheapest_is_refused(monkeypatch):
    def dearest(scores, *rest):
        return original(-scores, *rest)

    original = fair_kmeans.free_sizes
    X = np.random.default_rng(0).normal(size=(200, fair_kmeans.N_FEATURES))
    X[:150, 0] += 20.0
    centers = np.zeros((fair_kmeans.N_CLUSTERS, fair_kmeans.N_FEATURES))
    centers[0, 0] = 20.0
    centers[1:, 1] = np.arange(1, fair_kmeans.N_CLUSTERS) * 8.0
    nearest = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    plain = types.SimpleNamespace(cluster_centers_=centers, labels_=nearest)
    groups = np.arange(200) % 2
    fair_kmeans.one_fair_assignment(X, groups, plain)
    monkeypatch.setattr(fair_kmeans, "free_sizes", dearest)
    with pytest.raises(RuntimeError, match="free sizes cannot be dearer"):
        fair_kmeans.one_fair_assignment(X, groups, plain)


@given(
    table=st.lists(
        st.lists(st.integers(0, 30), min_size=2, max_size=2), min_size=2, max_size=4
    ).filter(lambda t: all(map(sum, t)) and all(map(sum, zip(*t, strict=True))))
)
def test_proportional_means_floor_or_ceiling_of_every_cell(table):
    cells = [(l, r) for l, row in enumerate(table) for r, n in enumerate(row) for _ in range(n)]
    labels, groups = np.array(cells).T
    n = len(cells)
    expected = all(
        abs(count - Fraction(sum(row) * sum(column), n)) < 1
        for row in table
        for count, column in zip(row, zip(*table, strict=True), strict=True)
    )
    assert census.is_proportional(labels, groups) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can set the peak back")
def test_peak_memory_counts_what_is_freed_before_the_end():
    held = common.reset_peak_memory()
    np.ones(8_000_000)  # 64 MB, freed at once
    assert 60 < common.peak_memory() - held < 90
    assert common.reset_peak_memory() < held + 10


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (time.sleep, (60,), "killed after 0.5 s"),
        (os._exit, (3,), "died, exit code 3"),
    ],
)
def test_a_process_without_result_says_why(function, arguments, message):
    with pytest.raises(common.RunFailed, match=message):
        common.in_new_process(function, *arguments, limit=0.5 if function is time.sleep else 60)


def test_a_process_hands_on_results_and_errors():
    assert common.in_new_process(divmod, 7, 2) == (3, 1)
    with pytest.raises(common.RunFailed, match="ValueError: invalid literal.*'x'"):
        common.in_new_process(int, "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no https://index.example/simple/a now", "no <address> now"),
        ("HTTPSConnectionPool(host='index.example', port=443)",
         "HTTPSConnectionPool(host=<address>, port=443)"),
        ("in /home/somebody/x.py, line 3", "in <path>, line 3"),
        ("ratio 3/4 and/or 1/2", "ratio 3/4 and/or 1/2"),
    ],
)  # fmt: skip
def test_notes_lose_addresses_and_paths_and_nothing_else(text, expected):
    assert common.without_places(text) == expected


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "results.json"
    common.write_json(path, {"a": np.float64(1 / 3), "b": [np.int64(2)]})
    assert json.loads(path.read_text()) == {"a": 0.33333, "b": [2]}
    with pytest.raises(ValueError, match="JSON compliant"):
        common.write_json(path, {"a": float("nan")})
    with pytest.raises(OSError, match="full"):
        common.write_whole(path, lambda file: (file.write(b"half"), raise_(OSError("full"))))
    assert json.loads(path.read_text())["a"] == 0.33333
    assert list(path.parent.iterdir()) == [path]


def raise_(error):
    raise error


@pytest.fixture
def staged(monkeypatch):
    """A module with a function, a mapping of functions, and a class with a recursive method.

    They take 3, 1 and (for each level) 2 seconds of a clock that only they move.
    """
    now = [0.0]

    def wait(seconds):
        now[0] += seconds

    monkeypatch.setattr(scaling, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    module = types.ModuleType("staged")
    module.nap = lambda: wait(3)
    module.TABLE = {"doze": lambda: wait(1)}

    class Solver:
        def solve(self, depth):
            wait(2)
            if depth:
                self.solve(depth - 1)

    module.Solver = Solver
    return module


def test_stopwatches_time_functions_keys_and_methods_and_put_them_back(staged):
    before = staged.nap, dict(staged.TABLE), staged.Solver.solve
    names = {"a": "nap", "b": "TABLE.doze", "c": "Solver.solve"}
    with scaling.stopwatches(staged, names) as spent:
        staged.nap()
        staged.TABLE["doze"]()
        staged.TABLE["doze"]()
        staged.Solver().solve(2)
    # A call within a call is part of it: 6, not 2 + 4 + 6.
    assert spent == {"a": 3.0, "b": 2.0, "c": 6.0}
    assert (staged.nap, staged.TABLE, staged.Solver.solve) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("snooze", "staged has no snooze"),
        ("TABLE.snooze", "staged has no TABLE.snooze"),
        ("Solver.solve", "fit did not call Solver.solve"),
    ],
)
def test_stopwatches_refuse_names_that_time_nothing(staged, name, message):
    before = staged.nap, dict(staged.TABLE), staged.Solver.solve
    with (
        pytest.raises(RuntimeError, match=message),
        scaling.stopwatches(staged, {"a": "nap", "b": name}),
    ):
        staged.nap()
    assert (staged.nap, staged.TABLE, staged.Solver.solve) == before


def test_growth_is_given_only_where_a_quarter_of_the_rows_was_measured():
    records = [{"rows": n, "median_seconds": n / 10.0} for n in (10, 40, 100, 160, 201)]
    scaling.add_growth(records, from_rows=40)
    assert [record.get("time_over_quarter") for record in records] == [None, None, None, 4.0, None]


def test_a_size_that_fails_is_noted_and_the_others_are_kept(tmp_path, monkeypatch, capsys):
    done = {"median_seconds": 1.0, "kmeans_median_seconds": 1.0, "extra_mb": 9.0, "table_mb": 1.0}

    def measured(function, n_rows, *arguments, limit):
        if n_rows == 400:
            raise common.RunFailed("died, exit code -9")
        return done | {"rows": n_rows, "modules": {"graph": 0.5, "other": 0.5}}

    monkeypatch.setattr(scaling, "in_new_process", measured)
    code = scaling.main(["--quick", "--sizes", "100", "400", "--results", str(tmp_path)])
    assert code == 1
    kept, failed = json.loads((tmp_path / "scaling.json").read_text())["records"]
    assert kept["rows"] == 100
    assert failed == {"rows": 400, "note": "died, exit code -9"}
    assert "FAILS  every number of rows came to a result" in capsys.readouterr().out


def test_a_peer_that_cannot_be_installed_says_so_without_naming_places(tmp_path):
    found = peers.peer_environment(tmp_path / "environment", str(tmp_path / "no-such-package"))
    assert "python" not in found
    assert "could not be installed" in found["note"]
    assert str(tmp_path) not in found["note"]
    assert not (tmp_path / "environment" / ".installed").exists()


@pytest.mark.parametrize(
    ("code", "limit", "message"),
    [
        ("import time; time.sleep(60)", 0.5, "killed after 0.5 s"),
        ("raise ValueError('two groups only')", 30, "ValueError: two groups only"),
        ("import sys; sys.exit(4)", 30, "exit code 4"),
    ],
)
def test_a_failed_run_of_a_peer_becomes_its_note(code, limit, message):
    found = peers.attempt(peers.run_command, [sys.executable, "-c", code], limit)
    assert found == {"note": message} or message in found["note"]


def test_repeats_below_one_are_refused(capsys):
    with pytest.raises(SystemExit) as refused:
        census.main(["--repeats", "0"])
    assert refused.value.code == 2
    assert "--repeats 0 should be at least 1" in capsys.readouterr().err
