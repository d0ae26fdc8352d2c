"""Who breaks when some recorded groups are wrong: relative balance of the honest rows.

Two small tables: scikit-learn's digits from 0 to 4, half of which are inverted (the groups live
apart), and the Zafar data (the groups overlap). The attack is
``attack="search"`` with few evaluations, with random groups as control. Medians over the seeds,
which draw the rows and start the methods.

    python benchmarks/robustness.py [--seeds 5] [--page docs/trust.md]
    python benchmarks/robustness.py --data Zafar --methods FairKMeans --add

With ``--add`` only what the result file lacks is measured.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from _common import (
    finish,
    number,
    parsed,
    parser_of,
    print_table,
    progress,
    timed,
    with_earlier,
    write_whole,
)
from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairletClustering,
    FairSpectralClustering,
    robustness_check,
)
from fairanchor.datasets import make_zafar

BEGIN, END = "<!-- table of attacks -->", "<!-- end of attacks -->"
# All rows of such small tables would be anchors.
SMALL = {"n_anchors": 200}


def framework(clusterer):
    """The framework with a clusterer, as a function of the number of clusters and the seed."""
    return lambda k, seed: AnchorFairClustering(k, clusterer=clusterer, random_state=seed, **SMALL)


METHODS = {
    "FairKMeans": lambda k, seed: FairKMeans(k, n_init=1, random_state=seed),
    "framework, SpFC": framework("spfc"),
    "framework, fairlets": framework("fairlets"),
    "framework, consensus": framework("consensus"),
    "fairlets alone": lambda k, seed: FairletClustering(
        k, method="tree", objective="kmedian", random_state=seed
    ),
    "SpFC alone": lambda k, seed: FairSpectralClustering(k, random_state=seed),
}
# The attacker controls a fifth of the rows; the curve has a point at each quarter of them.
ATTACK = {"attack": "search", "rows": 0.2}
# Columns of the table: entry of the records, and the number of the point on the curve.
COLUMNS = {
    "as recorded": ("worst", 0),
    "5 % random": ("control", 1),
    "10 %": ("control", 2),
    "20 %": ("control", 4),
    "5 % searched": ("worst", 1),
    "10 % ": ("worst", 2),
    "20 % ": ("worst", 4),
}


def digits(seed):
    """901 handwritten digits from 0 to 4; a random half is inverted."""
    X = load_digits(n_class=5).data
    inverted = np.random.default_rng(seed).permutation(len(X)) % 2
    return np.where(inverted[:, None] == 1, 16 - X, X), inverted, 5


def zafar(seed):
    """Two groups whose features overlap."""
    data = make_zafar(900, variant="original", random_state=seed)
    return data.data, data.sensitive_features, 5


DATA = {"inverted digits": digits, "Zafar": zafar}


def measure(data, method, n_evaluations, seed):
    """Curve of the attack, with the baseline as its first point."""
    X, groups, n_clusters = DATA[data](seed)
    estimator = METHODS[method](n_clusters, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, result = timed(
            robustness_check, estimator, X, groups, **ATTACK, n_evaluations=n_evaluations,
            random_state=seed,
        )  # fmt: skip
    record = {"data": data, "method": method, "seed": seed, "seconds": seconds}
    return record | {name: values.tolist() for name, values in result.curve.items()}


def key_of(record):
    return record["data"], record["method"], record["seed"]


def cell(records, data, method, column):
    """Median over the seeds, or None."""
    entry, point = COLUMNS[column]
    values = [
        record[entry][point]
        for record in records
        if (record["data"], record["method"]) == (data, method)
    ]
    return float(np.median(values)) if values else None


def lines_of(records):
    return [
        [data, method, *(number(cell(records, data, method, column)) for column in COLUMNS)]
        for data in DATA
        for method in METHODS
        if any((record["data"], record["method"]) == (data, method) for record in records)
    ]


def write_page(page, lines):
    """Replace the table of a page."""
    titles = ["data", "method", *(column.strip() for column in COLUMNS)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *lines])
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
    write_whole(page, lambda file: file.write(text.encode()))


def main(arguments=None):
    """Attack every method on every table."""
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--evaluations", type=int, default=4, help="of the search, at each point")
    parser.add_argument("--add", action="store_true", help="what the result file lacks")
    parser.add_argument("--page", type=Path, help="page whose table is replaced")
    options = parsed(parser, arguments)
    seeds, n_evaluations = (1, 1) if options.quick else (options.seeds, options.evaluations)
    records = []
    if options.add:
        records = with_earlier("robustness", options, records, key_of)
    done = {key_of(record) for record in records}
    for data in options.data[: 1 if options.quick else None]:
        for method in options.methods[: 1 if options.quick else None]:
            progress(f"{data}, {method}")
            for seed in range(seeds):
                if (data, method, seed) not in done:
                    records.append(measure(data, method, n_evaluations, seed))
    lines = lines_of(records)
    print_table(["data", "method", *COLUMNS], lines)
    if options.page is not None:
        write_page(options.page, lines)
    settings = {"seeds": seeds, "evaluations": n_evaluations}
    return finish("robustness", options, settings=settings, records=records)


if __name__ == "__main__":
    sys.exit(main())
