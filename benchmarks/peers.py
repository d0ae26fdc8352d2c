"""Other implementations on the same rows: cost, balance and time.

    python benchmarks/peers.py
    python benchmarks/peers.py --sizes 2000 --limit 30

Generated Zafar data (2 features, 2 groups: more holisticai's methods cannot take), standardised, 5
clusters. holisticai's VFC runs in an environment of its own, made here on first use
(benchmarks/.venv-holisticai, 1.2 GB); where it cannot be installed the result says why. Its weight
of fairness acts against a cost that grows with the rows, so besides the defaults it is tried with
several multiples of their number (where that is too much for it, it returns plain k-means). Every
run has a process of its own and is killed after ``--limit`` seconds; time is that of ``fit`` alone,
after a warm-up on few rows for all but holisticai, which compiles nothing.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.preprocessing import StandardScaler

from _common import (
    FOLDER,
    RunFailed,
    caught,
    finish,
    in_new_process,
    number,
    parsed,
    parser_of,
    print_table,
    progress,
    timed,
    without_places,
)
from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.datasets import make_zafar
from fairanchor.metrics import (
    balance_score,
    clustering_cost,
    dataset_balance,
    relative_balance_score,
)

N_CLUSTERS = 5
SIZES, QUICK_SIZES = [2_000, 10_000, 50_000], [1_000]
WARM_UP_ROWS = 500
METHODS = {
    "AnchorFairClustering": AnchorFairClustering(N_CLUSTERS, n_jobs=-1, random_state=0),
    "FairKMeans": FairKMeans(N_CLUSTERS, n_jobs=-1, random_state=0),
    "KMeans": KMeans(N_CLUSTERS, n_init=10, random_state=0),
    "MiniBatchKMeans": MiniBatchKMeans(N_CLUSTERS, n_init=10, random_state=0),
}
QUICK_METHODS = ["FairKMeans", "KMeans"]
FAIR = ("AnchorFairClustering", "FairKMeans")
ENVIRONMENT = FOLDER / ".venv-holisticai"
REQUIREMENT = "holisticai[bias]"  # without the extra its imports fail
INSTALL_SECONDS = 1200
# Weights of fairness, as multiples of the number of rows.
WEIGHTS = (0.1, 0.25, 0.5, 1.0)


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--limit", type=float, default=120, help="seconds, then a run is killed")
    options = parsed(parser, arguments)
    sizes = sorted(options.sizes or (QUICK_SIZES if options.quick else SIZES))
    peer = quick_peer() if options.quick else peer_environment(ENVIRONMENT, REQUIREMENT)
    if "note" in peer:
        progress(f"holisticai: {peer['note']}")
    records = []
    methods = QUICK_METHODS if options.quick else list(METHODS)
    for n_rows in sizes:
        records += measure_size(n_rows, methods, peer, options.limit)
    report(records)
    settings = {
        "data": "Zafar, original variant, standardised",
        "n_clusters": N_CLUSTERS,
        "limit_seconds": options.limit,
        "holisticai": {key: value for key, value in peer.items() if key != "python"},
    }
    return finish("peers", options, settings=settings, records=records)


def measure_size(n_rows, methods, peer, limit):
    """One record for each method; a run without a result has a note instead."""
    X, groups = load(n_rows)
    shared = {"rows": n_rows, "bound": dataset_balance(groups)}
    records = []
    for name in methods:
        progress(f"{n_rows:,} rows: {name}")
        run = attempt(in_new_process, fit_own, name, n_rows, limit=limit)
        records.append(shared | {"method": name} | scored(run, X, groups))
    for title, parameters in vfc_settings(n_rows).items():
        if "note" in peer:
            run = {"note": peer["note"]}
        else:
            progress(f"{n_rows:,} rows: holisticai VFC, {title}")
            run = attempt(fit_vfc, peer["python"], X, groups, parameters, limit)
        record = {"method": "holisticai VFC", "setting": title, "parameters": parameters}
        records.append(shared | record | scored(run, X, groups))
    return records


def load(n_rows):
    data = make_zafar(n_rows, variant="original", random_state=0)
    return StandardScaler().fit_transform(data.data), data.sensitive_features


def attempt(function, *arguments, **keywords):
    """The result, or a note that says why there is none."""
    try:
        return function(*arguments, **keywords)
    except RunFailed as error:
        return {"note": without_places(str(error))}


def scored(run, X, groups):
    """Measures of the labels, the same for all methods; the labels themselves are dropped."""
    labels = run.pop("labels", None)
    if labels is None:
        return run
    return run | {
        "cost_per_row": clustering_cost(X, labels) / len(labels),
        "balance": balance_score(labels, sensitive_features=groups),
        "relative_balance": relative_balance_score(labels, sensitive_features=groups),
        "clusters_found": len(np.unique(labels)),
    }


def fit_own(name, n_rows):
    """Labels and seconds of a method of this environment (in a process of its own)."""
    X, groups = load(n_rows)
    model = METHODS[name]
    keywords = {"sensitive_features": groups} if name in FAIR else {}
    some = {key: values[:WARM_UP_ROWS] for key, values in keywords.items()}
    caught(model.fit, X[:WARM_UP_ROWS], **some)
    seconds, (_, notes) = timed(caught, model.fit, X, **keywords)
    return {"labels": model.labels_, "seconds": seconds, "warnings": notes}


# holisticai, in an environment of its own.


def vfc_settings(n_rows):
    """Parameters by title. Without `normalize_input=False` rows are projected to the sphere."""
    settings = {"defaults": {"n_clusters": N_CLUSTERS, "seed": 0}}
    for weight in WEIGHTS:
        settings[f"lmbda={weight:g}n"] = {
            "n_clusters": N_CLUSTERS,
            "seed": 0,
            "lmbda": weight * n_rows,
            "normalize_input": False,
        }
    return settings


def fit_vfc(python, X, groups, parameters, limit):
    with tempfile.TemporaryDirectory() as folder:
        table, labels = Path(folder) / "table.npz", Path(folder) / "labels.npz"
        np.savez(table, X=X, second=groups == np.unique(groups)[1])
        script = FOLDER / "_vfc_of_holisticai.py"
        command = [python, "-W", "ignore", script, table, labels, json.dumps(parameters)]
        run_command(command, limit)
        with np.load(labels) as result:
            return {
                "labels": result["labels"].astype(np.int64),
                "seconds": float(result["seconds"]),
                "version": str(result["version"]),
            }


def quick_peer():
    return {"note": "not run with --quick: it needs an environment of 1.2 GB"}


def peer_environment(folder, requirement):
    """The Python of an environment with the requirement, or a note why there is none."""
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if done.exists():
        return {"python": python, "requirement": requirement}
    progress(f"installing {requirement}")
    try:
        venv.create(folder, clear=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        run_command([*pip, "install", "--quiet", requirement], INSTALL_SECONDS)
    except (OSError, subprocess.CalledProcessError, RunFailed) as error:
        note = f"{requirement} could not be installed: {error}"
        return {"note": without_places(note), "requirement": requirement}
    done.touch()
    return {"python": python, "requirement": requirement}


def run_command(command, limit):
    """Run to the end within the limit, or raise what its last lines say."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"killed after {limit:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise RunFailed(" ".join(errors[-2:]) or f"exit code {done.returncode}")


def report(records):
    print_table(["rows", "method", "seconds", "cost/row", "balance (bound)", "relative", "note"], [
        [
            f"{record['rows']:,}",
            f"{record['method']} {record.get('setting', '')}".rstrip(),
            number(record.get("seconds")), number(record.get("cost_per_row"), "{:.4f}"),
            f"{number(record.get('balance'), '{:.3f}')} ({record['bound']:.3f})",
            number(record.get("relative_balance"), "{:.4f}"), record.get("note", "")[:60],
        ]
        for record in records
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
