"""What is promised when things go wrong: a few of the cases that ``benchmarks/trust`` tries."""

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from fairanchor import AnchorFairClustering, FairKMeans, ReconstructionGraph

FOLDERS = [Path(__file__).parents[1] / "benchmarks" / name for name in ("trust", ".")]


def imported(name):
    """A module of the scripts, which are no package."""
    for folder in FOLDERS:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return importlib.import_module(name)


inputs, fuzzing, interruptions, trust, tiny_disk = map(
    imported, ["_inputs", "_fuzz", "_interruptions", "trust", "_tiny_disk"]
)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="children are forked and limited as on Linux"
)
RELAXED = settings(suppress_health_check=[HealthCheck.too_slow], database=None)


# Tables


@pytest.mark.parametrize("name", inputs.ESTIMATORS)
@RELAXED
@given(case=inputs.cases())
@pytest.mark.slow
def test_every_table_is_clustered_or_refused_with_a_reason(name, case):
    inputs.check_fit(name, case)


@RELAXED
@given(case=inputs.cases(), setting=st.sampled_from(inputs.SETTINGS))
@pytest.mark.slow
def test_every_setting_keeps_its_promises(case, setting):
    inputs.check_fit("AnchorFairClustering", case, **setting)


@RELAXED
@given(case=inputs.cases(most_rows=200), seed=st.integers(0, 1000))
def test_every_measure_is_in_its_range_or_refused_with_a_reason(case, seed):
    inputs.check_metrics(case, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("estimator", "n_groups"),
    [
        (AnchorFairClustering(3, clusterer=FairKMeans(n_init=1)), 200),
        (FairKMeans(3, n_init=1, max_iter=3), 200),
        pytest.param(FairKMeans(3, n_init=1, max_iter=3), 2_000, marks=pytest.mark.slow),
    ],
)
def test_many_groups_of_one_row_or_two_are_counted_exactly(estimator, n_groups):
    """All clusters get what they are due, to the row."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, 3, size=n_groups)))
    X = rng.normal(size=(len(groups), 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations and small groups
        model = estimator.set_params(random_state=0).fit(X, sensitive_features=groups)
    table = np.zeros((3, n_groups))
    np.add.at(table, (model.labels_, groups), 1)
    np.testing.assert_array_equal(model.counts_, table)
    assert np.abs(table - model.targets_).max() < 1


# Files


@pytest.fixture
def scene_of(tmp_path):
    return lambda rows: interruptions.Scene(tmp_path, rows)


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "plain.parquet", "packed.arrow"])
def test_damaged_tables_are_read_or_refused(name, tmp_path):
    content = fuzzing.example_files(fuzzing.example_table(np.random.default_rng(0)))[name]
    tally = fuzzing.fuzz(fuzzing.read_table, tmp_path, name, content, 100)
    assert tally.violations == []
    assert tally.endings["error"] > 20


@pytest.mark.slow
def test_forged_models_are_refused_and_run_nothing(tmp_path):
    records = list(trust.try_models(tmp_path, 60))
    assert [record["first_violations"] for record in records] == [[], []]
    assert records[1]["endings"] == {"error": records[1]["tried"]}
    assert records[1]["tried"] > 100


@pytest.mark.slow
def test_forged_checkpoints_are_refused_and_run_nothing(tmp_path):
    records = list(trust.try_checkpoints(tmp_path, 60))
    assert [record["violations"] for record in records] == [0, 0]


# Kills, and too little of everything


@pytest.mark.slow
def test_a_killed_run_leaves_the_old_files_or_whole_new_ones(scene_of):
    tally = interruptions.kills(scene_of(20_000), 8, seed=1)
    assert tally.violations == []
    assert tally.endings["killed"] == 8


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_files_and_says_so_in_one_line(scene_of):
    tally = interruptions.full_disks(scene_of(5_000), 4)
    assert tally.violations == []
    assert tally.endings["error in one line"] >= 4


@pytest.mark.slow
def test_a_full_file_system_leaves_the_old_files_and_says_so_in_one_line(tmp_path):
    try:
        with tiny_disk.tiny_disk(tmp_path / "tiny") as outputs:
            tally = interruptions.full_file_systems(
                interruptions.Scene(tmp_path, 5_000, outputs), 5, seed=1
            )
    except tiny_disk.CannotMountError as reason:
        pytest.skip(str(reason))
    assert tally.violations == []
    assert tally.endings["error in one line"] >= 2


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_labels_of_an_undisturbed_one(tmp_path):
    tally = interruptions.resumed_runs(tmp_path, 1, rows=3_000)
    assert tally.violations == []


# Certificates


def test_every_fit_has_its_certificates_and_a_failure_is_announced():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(500, 3)), rng.integers(0, 3, size=500)
    model = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=groups)
    assert model.converged_
    assert model.worst_violation_ < 1
    assert 0 <= model.assignment_gap_ < 1e-9 * model.inertia_
    graph = ReconstructionGraph()
    model = AnchorFairClustering(3, n_anchors=40, graph=graph, random_state=0)
    model.fit(X, sensitive_features=groups)
    assert model.converged_
    assert model.mass_error_ <= 1e-3 * 500
    assert abs(model.duality_gap_) < 1e-2 * model.inertia_
    impatient = model.set_params(graph=ReconstructionGraph(max_iter=1, tol=1e-14))
    with pytest.warns(ConvergenceWarning, match="did not converge|mass error"):
        impatient.fit(X, sensitive_features=groups)
    assert not impatient.converged_
    assert impatient.mass_error_ > 1e-14
    lloyd = FairKMeans(3, init=X[:3], max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        lloyd.fit(X, sensitive_features=groups)
    assert not lloyd.converged_
