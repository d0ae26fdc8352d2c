"""Fair clustering of a census against plain k-means, on the same array.

    python benchmarks/census.py --data FOLDER

The census-like table has 2,458,285 rows and 25 columns of codes, as generated. The KDD census
table (299,285 rows, 5 groups by race, 7 standardised columns) is used if ``--data`` names the
folder that holds it. Methods take turns in one process, with all cores; figures are medians.
Memory and the first call are measured in a process per method: peak resident memory above what
interpreter, imports and table hold before the fit.
"""

import sys

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.preprocessing import StandardScaler

from _common import (
    MEGABYTE,
    caught,
    claim,
    finish,
    in_new_process,
    median,
    number,
    parsed,
    parser_of,
    peak_memory,
    print_table,
    progress,
    reset_peak_memory,
    timed,
)
from fairanchor import AnchorFairClustering, FairKMeans, datasets
from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score

N_CLUSTERS = 5
FAIR = ("FairKMeans", "AnchorFairClustering")
METHODS = {
    "FairKMeans": lambda seed: FairKMeans(N_CLUSTERS, n_jobs=-1, random_state=seed),
    "AnchorFairClustering": lambda seed: AnchorFairClustering(
        N_CLUSTERS, n_jobs=-1, random_state=seed
    ),
    "KMeans": lambda seed: KMeans(N_CLUSTERS, n_init=1, random_state=seed),
    "MiniBatchKMeans": lambda seed: MiniBatchKMeans(N_CLUSTERS, n_init=1, random_state=seed),
}
CENSUS, CENSUS_STANDARDISED, KDD = "census-like", "census-like, standardised", "KDD census"
CENSUS_ROWS = 2_458_285
QUICK_ROWS = 6000
# Extra memory of a fair method: at most this often the table, and this much more.
TIMES_TABLE, EXTRA_MB = 2, 300
FIRST_CALL_SECONDS = 3.0

# Seconds after which a method is not run again.
ONCE_IS_ENOUGH = 30.0


def main(arguments=None):
    parser = parser_of(__doc__)
    parser.add_argument("--data", help="folder of kdd_census_income.parquet, or that file")
    parser.add_argument(
        "--tables", nargs="+", choices=[CENSUS, CENSUS_STANDARDISED, KDD], default=[CENSUS, KDD]
    )
    parser.add_argument("--rows", type=int, help="rows of the census-like table")
    options = parsed(parser, arguments)
    records, checks, goals = [], [], []
    for title in options.tables:
        if title == KDD and options.data is None:
            records.append({"table": title, "skipped": "the table was not given by --data"})
            progress(f"{title} skipped: the table was not given by --data")
            continue
        record = measure_table(title, options)
        records.append(record)
        checks += checks_of(record)
        goals += goals_of(record)
    report(records)
    settings = {"n_clusters": N_CLUSTERS, "repeats": options.repeats}
    return finish("census", options, settings=settings, records=records, checks=checks, goals=goals)


def load(title, options):
    """Rows and groups of a table."""
    if title == KDD:
        table = datasets.load_kdd_census_income(options.data, sensitive="race")
        if options.quick:
            some = np.arange(0, len(table.data), len(table.data) // QUICK_ROWS)
            table.data, table.sensitive_features = table.data[some], table.sensitive_features[some]
    else:
        n_rows = options.rows or (QUICK_ROWS if options.quick else CENSUS_ROWS)
        table = datasets.make_census(n_rows, random_state=0)
    if title != CENSUS:
        table.data = StandardScaler().fit_transform(table.data)
    return np.ascontiguousarray(table.data), table.sensitive_features


def measure_table(title, options):
    progress(f"{title}: table")
    X, groups = load(title, options)
    record = {
        "table": title,
        "rows": len(X),
        "features": X.shape[1],
        "groups": len(np.unique(groups)),
        "table_mb": X.nbytes / MEGABYTE,
        "bound": dataset_balance(groups),
    }
    for name in FAIR:
        fit(METHODS[name](0), X, groups)  # compiles what is not in the cache yet
    record["methods"] = take_turns(title, X, groups, options.repeats)
    for name in FAIR:
        record["methods"][name] |= compare_threads(title, name, X, groups)
    del X
    for name, measured in record["methods"].items():
        progress(f"{title}: memory of {name}")
        measured |= in_new_process(first_calls, title, name, options)
    return record


def take_turns(title, X, groups, n_repeats):
    """Time and quality of every method; a repetition has its own seed, the same for all."""
    measured = {name: {"seconds": [], "cost": [], "notes": []} for name in METHODS}
    for seed in range(n_repeats):
        for name, make in METHODS.items():
            if max(measured[name]["seconds"], default=0.0) > ONCE_IS_ENOUGH:
                continue
            progress(f"{title}: {name}, run {seed + 1}")
            seconds, (model, notes) = timed(fit, make(seed), X, groups)
            result = measured[name]
            result["seconds"].append(seconds)
            result["cost"].append(model.inertia_)
            result["notes"] = sorted({*result["notes"], *notes})
            quality = qualities(model.labels_, groups)
            for key, value in quality.items():
                result[key] = min(value, result.get(key, value))
    plain = measured["KMeans"]
    for result in measured.values():
        result["median_seconds"] = median(result["seconds"])
        result["time_over_kmeans"] = result["median_seconds"] / median(plain["seconds"])
        result["cost_over_kmeans"] = median(result["cost"]) / median(plain["cost"])
    return measured


def fit(model, X, groups):
    """The fitted model and its warnings."""
    if isinstance(model, (AnchorFairClustering, FairKMeans)):
        return caught(model.fit, X, sensitive_features=groups)
    return caught(model.fit, X)


def qualities(labels, groups):
    return {
        "balance": balance_score(labels, sensitive_features=groups),
        "relative_balance": relative_balance_score(labels, sensitive_features=groups),
        "proportional": is_proportional(labels, groups),
    }


def is_proportional(labels, groups):
    """Whether every cell is the floor or the ceiling of size of cluster x share of group.

    In whole numbers, and from the labels alone: nothing that the model says is used.
    """
    _, codes = np.unique(groups, return_inverse=True)
    n_groups = codes.max() + 1
    cells = np.bincount(labels * n_groups + codes, minlength=(labels.max() + 1) * n_groups)
    table = cells.reshape(-1, n_groups)
    wanted = np.outer(table.sum(axis=1), table.sum(axis=0))  # times the number of rows
    return bool((np.abs(table * len(labels) - wanted) < len(labels)).all())


def compare_threads(title, name, X, groups):
    """Labels and time of one thread and of two."""
    runs = {}
    for n_jobs in (1, 2):
        progress(f"{title}: {name}, {n_jobs} thread(s)")
        model = METHODS[name](0).set_params(n_jobs=n_jobs)
        runs[n_jobs] = timed(fit, model, X, groups)
    labels = [model.labels_ for _, (model, _) in runs.values()]
    return {
        "seconds_by_threads": {n_jobs: seconds for n_jobs, (seconds, _) in runs.items()},
        "same_labels_for_1_and_2_threads": bool(np.array_equal(*labels)),
    }


def first_calls(title, name, options):
    """Extra memory of the first fit in this process, and how much longer than the second it is."""
    X, groups = load(title, options)
    held = reset_peak_memory()
    seconds = []
    for call in range(2):
        seconds.append(timed(fit, METHODS[name](0), X, groups)[0])
        if call == 0:
            extra = peak_memory() - held
    return {
        "extra_mb": extra,
        "held_before_mb": held,
        "first_call_seconds": seconds[0],
        "second_call_seconds": seconds[1],
        "first_call_extra_seconds": seconds[0] - seconds[1],
    }


def checks_of(record):
    for name in FAIR:
        own, title = record["methods"][name], f"{record['table']}, {name}"
        yield claim(
            f"{title}: every cell is the floor or the ceiling of its target",
            own["proportional"],
            f"relative balance {own['relative_balance']:.6f}",
        )
        yield claim(
            f"{title}: same labels for 1 and 2 threads, bit for bit",
            own["same_labels_for_1_and_2_threads"],
            "compared on all rows",
        )


def goals_of(record):
    limit = TIMES_TABLE * record["table_mb"] + EXTRA_MB
    for name in FAIR:
        own, title = record["methods"][name], f"{record['table']}, {name}"
        yield claim(
            f"{title}: extra memory at most {TIMES_TABLE} x table + {EXTRA_MB} MB",
            own["extra_mb"] <= limit,
            f"{own['extra_mb']:.0f} of {limit:.0f} MB",
        )
        yield claim(
            f"{title}: first call at most {FIRST_CALL_SECONDS:g} s longer than the second",
            own["first_call_extra_seconds"] <= FIRST_CALL_SECONDS,
            f"{own['first_call_extra_seconds']:.2f} s",
        )


def report(records):
    titles = ["table", "method", "seconds", "x KMeans", "cost", "balance (bound)", "relative", "MB"]
    print_table(titles, [
        [
            record["table"], name, number(result["median_seconds"]),
            number(result["time_over_kmeans"]), number(result["cost_over_kmeans"], "{:.3f}"),
            f"{result['balance']:.3f} ({record['bound']:.3f})",
            number(result["relative_balance"], "{:.4f}"), number(result["extra_mb"], "{:.0f}"),
        ]
        for record in records if "methods" in record
        for name, result in record["methods"].items()
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
