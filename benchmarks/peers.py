"""Other implementations on the same rows, in one run: cost, balance, sizes and CPU time.

    python benchmarks/peers.py --data FOLDER [--page docs/background/_peers.md]
    python benchmarks/peers.py --data FOLDER --environment VENV --limit 60

Tables: Law School, Credit and Bank of the paper (numeric columns, standardised) and generated Zafar
data with 20,000 rows; 5 clusters; 5 seeds. The tables, the number of clusters and all settings were
written down before the first run. Bank has three groups, which holisticai does not take.
Methods in three parts: without a constraint (`KMeans`, `MiniBatchKMeans`, faiss), fair (ours and
holisticai's variational clustering, with its defaults and with weights that grow with the rows,
as its cost does) and with sizes within 10 % of equal ones (`FairKMeans` and k-means-constrained).
Everything has one start, except that ours choose their starts by default.

holisticai, k-means-constrained and faiss run in a separate environment, made on first use
(benchmarks/.venv-peers, 1.5 GB); where they cannot be installed, the result states why. Each fit of
a peer runs in a new process that is killed after ``--limit`` seconds of CPU time, so that other
jobs on the machine cannot cause it; all seeds of ours run in one process each. Time is CPU time of
``fit`` alone, of all threads, after a warm-up on few rows for ours. MS-FlowFC
(fair-clustering-at-scale) is not on PyPI, and its requirements include a commercial solver from
another package index, so it is not measured.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.preprocessing import StandardScaler

from _common import (
    FOLDER,
    RunFailed,
    caught,
    finish,
    in_new_process,
    machine_facts,
    median,
    number,
    parsed,
    parser_of,
    print_table,
    progress,
    without_places,
)
from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets, datasets
from fairanchor.metrics import clustering_cost, relative_balance_score

N_CLUSTERS, N_SEEDS = 5, 5
ROWS_OF_ZAFAR, QUICK_ROWS = 20_000, 1_000
WARM_UP_ROWS = 1_000
LEAST, GREATEST = 0.9, 1.1
ENVIRONMENT = FOLDER / ".venv-peers"
REQUIREMENTS = ("holisticai[bias]", "k-means-constrained", "faiss-cpu")
INSTALL_SECONDS = 1200
WALL_SECONDS = 3600
LOADERS = {
    "Law School": datasets.load_law_school,
    "Credit": datasets.load_credit_card,
    "Bank": datasets.load_bank_marketing,
}
# Weights of holisticai's fairness, as multiples of the number of rows.
WEIGHTS = (0.1, 1.0)


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--data", type=Path, help="folder of the public tables")
    parser.add_argument("--environment", type=Path, default=ENVIRONMENT, help="of the peers")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds of a fit of a peer")
    parser.add_argument("--page", type=Path, help="Markdown file for the table of the results")
    options = parsed(parser, arguments)
    # Threads that wait for work would otherwise count as CPU time.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    peer = quick_peer() if options.quick else peer_environment(options.environment)
    if "note" in peer:
        progress(peer["note"])
    records = []
    for title in ["Zafar"] if options.quick or not options.data else ["Zafar", *LOADERS]:
        records += measure_table(title, options, peer)
    report(records)
    if options.page is not None:
        options.page.write_text(page(records, os.getloadavg()[1]))
    settings = {"clusters": N_CLUSTERS, "seeds": N_SEEDS, "limit_seconds": options.limit}
    return finish("peers", options, settings=settings, records=records)


def load(title, data, quick):
    """Standardised rows and the codes of their groups."""
    if title == "Zafar":
        rows = QUICK_ROWS if quick else ROWS_OF_ZAFAR
        table = datasets.make_zafar(rows, variant="original", random_state=0)
    else:
        table = LOADERS[title](data)
    X = StandardScaler().fit_transform(np.asarray(table.data, dtype=np.float64))
    return X, np.unique(table.sensitive_features, return_inverse=True)[1]


def measure_table(title, options, peer):
    """One record for each method, with medians over seeds; a method that failed has a note."""
    X, group = load(title, options.data, options.quick)
    n_groups = int(group.max()) + 1
    shared = {"table": title, "rows": len(X), "features": X.shape[1], "groups": n_groups}
    seeds = range(1 if options.quick else N_SEEDS)
    records = []
    for name in ours(len(X)):
        progress(f"{title}: {name}")
        arguments = (name, title, options.data, options.quick, len(seeds))
        try:
            runs = in_new_process(fit_ours, *arguments)
        except RunFailed as error:
            runs = {"note": without_places(str(error))}
        records.append(shared | {"method": name} | summary(runs, X, group))
    for name, (method, parameters) in theirs(len(X), n_groups).items():
        runs = {"note": peer["note"]} if "note" in peer else []
        for seed in seeds if runs == [] else ():
            progress(f"{title}: {name}, seed {seed}")
            own = parameters | {"seed" if method != "k-means-constrained" else "random_state": seed}
            try:
                runs.append(fit_peer(peer["python"], method, X, group, own, options.limit))
            except RunFailed as error:
                runs = {"note": without_places(str(error))}
                break
        records.append(shared | {"method": name} | summary(runs, X, group))
    return records


def ours(n_rows):
    """Estimators of this environment by title; seeds are set later."""
    least, greatest = size_bounds(n_rows)
    bounds = FairnessTargets(min_size=least, max_size=greatest)
    return {
        "KMeans": KMeans(N_CLUSTERS, n_init=1),
        "MiniBatchKMeans": MiniBatchKMeans(N_CLUSTERS, n_init=1),
        "FairKMeans": FairKMeans(N_CLUSTERS),
        "AnchorFairClustering": AnchorFairClustering(N_CLUSTERS),
        "FairKMeans, sizes": FairKMeans(N_CLUSTERS, fairness=bounds),
    }


def theirs(n_rows, n_groups):
    """Method and parameters of the peers by title."""
    least, greatest = size_bounds(n_rows)
    plain = {"k": N_CLUSTERS, "niter": 100, "max_points_per_centroid": n_rows}
    sizes = {"n_clusters": N_CLUSTERS, "size_min": least, "size_max": greatest, "n_init": 1}
    found = {
        "faiss": ("faiss", plain),
        "k-means-constrained, sizes": ("k-means-constrained", sizes),
    }
    if n_groups == 2:
        found["holisticai VFC, defaults"] = ("holisticai", {"n_clusters": N_CLUSTERS})
        for weight in WEIGHTS:
            more = {"lmbda": weight * n_rows, "normalize_input": False}
            title = f"holisticai VFC, lmbda={weight:g}n"
            found[title] = ("holisticai", {"n_clusters": N_CLUSTERS} | more)
    return found


def size_bounds(n_rows):
    return int(LEAST * n_rows / N_CLUSTERS), int(np.ceil(GREATEST * n_rows / N_CLUSTERS))


def fit_ours(name, title, data, quick, n_seeds):
    """Labels and CPU seconds for each seed (in a process of its own)."""
    X, group = load(title, data, quick)
    keywords = {"sensitive_features": group} if name.endswith(("Means", "Clustering")) else {}
    if name in ("KMeans", "MiniBatchKMeans"):
        keywords = {}
    few = {key: values[:WARM_UP_ROWS] for key, values in keywords.items()}
    caught(ours(WARM_UP_ROWS)[name].fit, X[:WARM_UP_ROWS], **few)
    runs = []
    for seed in range(n_seeds):
        model = ours(len(X))[name].set_params(random_state=seed)
        start = process_time()
        caught(model.fit, X, **keywords)
        runs.append({"seconds": process_time() - start, "labels": model.labels_})
    return runs


def fit_peer(python, method, X, group, parameters, limit):
    with tempfile.TemporaryDirectory() as folder:
        table, labels = Path(folder) / "table.npz", Path(folder) / "labels.npz"
        np.savez(table, X=X, group=group)
        script = FOLDER / "_peer_fit.py"
        command = [python, "-W", "ignore", script, method, table, labels, json.dumps(parameters)]
        run_command(command, WALL_SECONDS, cpu_limit=int(limit))
        with np.load(labels) as result:
            return {key: result[key] if key == "labels" else result[key].item() for key in result}


def summary(runs, X, group):
    """Medians over seeds of what the labels are and cost; the labels are dropped."""
    if isinstance(runs, dict):
        return runs
    of_seeds = []
    for run in runs:
        labels = np.asarray(run["labels"], dtype=np.int64)
        sizes = np.bincount(labels, minlength=N_CLUSTERS)
        of_seeds.append({
            "cpu_seconds": run["seconds"],
            "cost_per_row": clustering_cost(X, labels) / len(labels),
            "relative_balance": relative_balance_score(labels, sensitive_features=group),
            "smallest_cluster": sizes.min() / len(labels) * N_CLUSTERS,
            "largest_cluster": sizes.max() / len(labels) * N_CLUSTERS,
        })  # fmt: skip
    found = {key: median([one[key] for one in of_seeds]) for key in of_seeds[0]}
    return found | {"version": runs[0].get("version", ""), "of_seeds": of_seeds}


def quick_peer():
    return {"note": "other projects are not run with --quick: they need an environment of 1.5 GB"}


def peer_environment(folder):
    """The Python of an environment with the peers, or a note why there is none."""
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if done.exists():
        return {"python": python}
    progress(f"installing {', '.join(REQUIREMENTS)}")
    try:
        venv.create(folder, clear=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        run_command([*pip, "install", "--quiet", *REQUIREMENTS], INSTALL_SECONDS)
    except (OSError, subprocess.CalledProcessError, RunFailed) as error:
        return {"note": without_places(f"the peers could not be installed: {error}")}
    done.touch()
    return {"python": python}


def run_command(command, limit, *, cpu_limit=resource.RLIM_INFINITY):
    """Run to the end within the limits, or raise an error with its last lines."""

    def bound():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit))

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, preexec_fn=bound
        )
    except subprocess.TimeoutExpired:
        raise RunFailed(f"killed after {limit:g} s") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise RunFailed(f"killed after {cpu_limit} s of CPU time, or for its memory")
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise RunFailed(" ".join(errors[-2:]) or f"exit code {done.returncode}")


TITLES = ["method", "CPU s", "cost per row", "relative balance", "smallest", "largest"]


def lines_of(records):
    """Cells of a table of results."""
    for record in records:
        name = f"{record['method']} {record.get('version', '')}".strip()
        if "note" in record:
            yield [name, record["note"][:60], "", "", "", ""]
            continue
        yield [
            name,
            number(record["cpu_seconds"]),
            number(record["cost_per_row"], "{:#.4g}"),
            number(record["relative_balance"], "{:.4f}"),
            number(record["smallest_cluster"], "{:.2f}"),
            number(record["largest_cluster"], "{:.2f}"),
        ]


def by_table(records):
    """Heading and records of each table."""
    found = {}
    for record in records:
        size = f"{record['rows']:,} rows, {record['features']} features, {record['groups']} groups"
        found.setdefault(f"{record['table']}: {size}", []).append(record)
    return found.items()


def report(records):
    for title, some in by_table(records):
        print(f"\n{title}")
        print_table(TITLES, list(lines_of(some)))


def page(records, load_average):
    """The tables for the documentation; sizes are relative to equal ones."""
    lines = [
        "<!-- Written by benchmarks/peers.py --page; do not edit. -->",
        "",
        f"Medians of {N_SEEDS} seeds; {N_CLUSTERS} clusters; CPU time of all threads on "
        f"{machine_facts()['cores']} cores shared with other jobs (load {load_average:.1f} at the "
        "end of the run). Smallest and largest cluster are relative to equal sizes.",
    ]
    for title, some in by_table(records):
        lines += ["", f"**{title}**", ""]
        lines += ["| " + " | ".join(TITLES) + " |", "|" + " --- |" * len(TITLES)]
        lines += ["| " + " | ".join(cells) + " |" for cells in lines_of(some)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
