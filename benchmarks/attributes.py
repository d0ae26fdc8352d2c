"""Two sensitive columns of a real table, by their combinations and each by itself.

    python benchmarks/attributes.py --data FOLDER

The Census-Income (KDD) table (299,285 rows, sex and race, 7 standardised columns) in five
clusters, by `FairKMeans` and `AnchorFairClustering`, with ``attributes="intersection"`` and
``"separate"``, on one core: time on the clock, and of the processor. For each column: by how many
rows its worst cell misses exact proportions, and the relative balance, which with cells of at
least q rows should be at least 1 - 2 / q. Without ``--data`` the rows are blobs.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from _common import claim, finish, median, parsed, parser_of, print_table, progress, timed
from fairanchor import AnchorFairClustering, FairKMeans, datasets
from fairanchor.metrics import attribute_relative_balance_scores, worst_violation

N_CLUSTERS = 5
METHODS = {"FairKMeans": FairKMeans, "AnchorFairClustering": AnchorFairClustering}
SECONDS_GOAL = 10.0


def main(arguments=None):
    parser = parser_of(__doc__)
    parser.add_argument("--data", help="folder of the real tables")
    options = parsed(parser, arguments)
    X, columns = table(options.data, 2_000 if options.quick else 100_000)
    some = slice(None, None, max(1, len(X) // 2_000))
    for make in METHODS.values():  # compiles what is not cached yet
        make(3, attributes="separate").fit(X[some], sensitive_features=columns[some])
    records = []
    for method in METHODS:
        for attributes in ("intersection", "separate"):
            progress(f"{method}, {attributes}")
            records.append(measure(method, attributes, X, columns, options.repeats))
    report(records)
    settings = {"rows": len(X), "n_clusters": N_CLUSTERS, "repeats": options.repeats}
    return finish(
        "attributes", options, settings=settings, records=records, checks=checks_of(records),
        goals=goals_of(records),
    )  # fmt: skip


def table(folder, n_rows):
    """Standardised rows, and a frame of two sensitive columns."""
    if folder is None:
        blobs = datasets.make_fair_blobs(
            n_rows, n_features=5, centers=4, group_shares=(0.6, 0.3, 0.1), random_state=0
        )
        second = np.random.default_rng(0).choice(["f", "m"], n_rows)
        return blobs.data, pd.DataFrame({"sex": second, "race": blobs.sensitive_features})
    load = datasets.load_kdd_census_income
    sex, race = (load(Path(folder), sensitive=name) for name in ("sex", "race"))
    X = StandardScaler().fit_transform(np.asarray(sex.data, dtype=np.float64))
    frame = {"sex": np.asarray(sex.sensitive_features), "race": np.asarray(race.sensitive_features)}
    return X, pd.DataFrame(frame)


def measure(method, attributes, X, columns, n_repeats):
    model = METHODS[method](N_CLUSTERS, attributes=attributes, n_jobs=1, random_state=0)
    seconds, processor = [], []
    for _ in range(n_repeats):
        started = time.process_time()
        seconds.append(timed(model.fit, X, sensitive_features=columns)[0])
        processor.append(time.process_time() - started)
    relative = attribute_relative_balance_scores(model.labels_, sensitive_features=columns)
    each = {}
    for title in columns:
        groups = columns[title]
        each[title] = {
            "violation": worst_violation(model.labels_, sensitive_features=groups),
            "relative_balance": relative[title],
            "smallest_cell": int(pd.crosstab(model.labels_, groups).to_numpy().min()),
        }
    return {
        "method": method,
        "attributes": attributes,
        "seconds": median(seconds),
        "processor_seconds": median(processor),
        "cost_per_row": model.inertia_ / len(X),
        "columns": each,
    }


def checks_of(records):
    separate = [
        own for r in records if r["attributes"] == "separate" for own in r["columns"].values()
    ]
    worst = max(own["violation"] for own in separate)
    yield claim("each column by itself misses proportions by less than a row", worst < 1.0, worst)
    missing = max(1 - 2 / own["smallest_cell"] - own["relative_balance"] for own in separate)
    yield claim("relative balances are at least 1 - 2 / (smallest cell)", missing <= 0.0, missing)


def goals_of(records):
    slowest = max(record["processor_seconds"] for record in records)
    text = f"each fit takes at most {SECONDS_GOAL:g} s of the processor"
    yield claim(text, slowest <= SECONDS_GOAL, slowest)


def report(records):
    print_table(
        ("method", "attributes", "seconds", "processor", "cost per row", "column", "violation",
         "relative", "smallest"),
        [
            (
                r["method"], r["attributes"], f"{r['seconds']:.1f}",
                f"{r['processor_seconds']:.1f}", f"{r['cost_per_row']:.3f}", title,
                f"{own['violation']:.2f}", f"{own['relative_balance']:.4f}", own["smallest_cell"],
            )
            for r in records
            for title, own in r["columns"].items()
        ],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
