"""Time and memory against plain k-means, as rows, clusters, features, groups or copies grow.

    python benchmarks/scaling.py
    python benchmarks/scaling.py --vary rows --largest 1000000

Overlapping blobs; one quantity varies, the others stay at 200,000 rows, 10 features, 5 clusters and
3 groups. Every setting has a process of its own, in which all methods take turns with all cores
after a fit on few rows. Memory is the peak of the first fit above what interpreter, imports and
data hold. Draws scaling.png, time against rows, beside the result file.
"""

import sys

import numpy as np
from sklearn.cluster import KMeans

from _common import (
    MEGABYTE,
    RunFailed,
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
    without_places,
    write_whole,
)
from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.datasets import make_fair_blobs

BASE = {
    "rows": 200_000, "clusters": 5, "features": 10, "groups": 3, "copies": 1, "dtype": "float64",
}  # fmt: skip
VARIED = {
    "rows": (10_000, 100_000, 1_000_000, 2_500_000, 4_000_000, 10_000_000),
    "clusters": (20, 50, 100, 500),
    "features": (2, 50, 200),
    "groups": (2, 20, 100),
    "copies": (3,),  # rows per distinct row
    "dtype": ("float32",),
}
QUICK_ROWS = 4_000
QUICK_VARIED = {"rows": (2_000, 8_000), "copies": (3,)}
METHODS = {
    "FairKMeans": lambda k: FairKMeans(k, n_jobs=-1, random_state=0),
    "AnchorFairClustering": lambda k: AnchorFairClustering(k, n_jobs=-1, random_state=0),
    "KMeans": lambda k: KMeans(k, n_init=1, random_state=0),
}
BLOCK_ROWS = 500_000


def main(arguments=None):
    parser = parser_of(__doc__)
    parser.add_argument("--vary", nargs="+", choices=list(VARIED), default=list(VARIED))
    parser.add_argument("--largest", type=int, default=10**9, help="leave out more rows than that")
    parser.add_argument("--limit", type=float, default=3600, help="seconds of one setting")
    options = parsed(parser, arguments)
    records = []
    for setting in settings_of(options):
        progress(", ".join(f"{value} {name}" for name, value in setting.items()))
        try:
            found = in_new_process(measure, setting, options.repeats, limit=options.limit)
        except RunFailed as error:
            found = {"note": without_places(str(error))}
        records.append(setting | found)
    measured = [record for record in records if "note" not in record]
    report(measured)
    draw(measured, options.results / "scaling.png")
    failed = [record for record in records if "note" in record]
    worst = max((record["worst_violation"] for record in measured), default=0.0)
    checks = [
        claim("every setting came to a result", not failed, failed or "all did"),
        claim("every cell is the floor or the ceiling of its target", worst < 1, worst),
    ]
    settings = {"base": BASE, "repeats": options.repeats}
    return finish("scaling", options, settings=settings, records=records, checks=checks)


def settings_of(options):
    """The base setting, then one quantity after the other."""
    base = BASE | {"rows": QUICK_ROWS} if options.quick else BASE
    varied = QUICK_VARIED if options.quick else VARIED
    found = [base]
    for name in options.vary:
        found += [base | {name: value} for value in varied.get(name, ())]
    return [setting for setting in found if setting["rows"] <= options.largest]


# One setting, in a process of its own.


def measure(setting, n_repeats):
    X, groups = generate(setting)
    few = slice(0, min(len(X), max(2_000, 10 * setting["clusters"])))
    measured, worst = {}, 0.0
    for name in METHODS:
        fit(name, setting, X[few], groups[few])
        held = reset_peak_memory()
        seconds, model, notes = fit(name, setting, X, groups)
        measured[name] = {
            "seconds": [seconds],
            "extra_mb": peak_memory() - held,
            "cost": float(model.inertia_),
            "notes": notes,
        }
        worst = max(worst, getattr(model, "worst_violation_", 0.0))
        del model
    for _ in range(n_repeats - 1):
        for name, result in measured.items():
            result["seconds"].append(fit(name, setting, X, groups)[0])
    for result in measured.values():
        result["median_seconds"] = median(result["seconds"])
    plain = measured["KMeans"]
    for result in measured.values():
        result["time_over_kmeans"] = result["median_seconds"] / plain["median_seconds"]
        result["cost_over_kmeans"] = result["cost"] / plain["cost"]
    return {
        "table_mb": X.nbytes / MEGABYTE,
        "methods": measured,
        "worst_violation": float(worst),
    }


def generate(setting):
    """Blobs block by block, so that the generator needs little more than the table itself."""
    n_rows, n_groups = setting["rows"], setting["groups"]
    shape = (setting["clusters"], setting["features"])
    centers = np.random.default_rng(0).uniform(-1.0, 1.0, shape)
    shares = 1.0 / np.arange(1, n_groups + 1)
    X = np.empty((n_rows, setting["features"]), dtype=setting["dtype"])
    groups = np.empty(n_rows, dtype=np.int64)
    for block, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
        span = slice(start, min(start + BLOCK_ROWS, n_rows))
        blobs = make_fair_blobs(
            span.stop - start, centers=centers, group_shares=shares / shares.sum(),
            random_state=block,
        )  # fmt: skip
        X[span], groups[span] = blobs.data, blobs.sensitive_features
    if setting["copies"] > 1:
        chosen = np.random.default_rng(0).integers(0, n_rows // setting["copies"], n_rows)
        X, groups = X[chosen], groups[chosen]
    return X, groups


def fit(name, setting, X, groups):
    """Seconds, the fitted model, and its warnings."""
    model = METHODS[name](setting["clusters"])
    keywords = {} if name == "KMeans" else {"sensitive_features": groups}
    seconds, (_, notes) = timed(caught, model.fit, X, **keywords)
    return seconds, model, notes


# All settings.


def report(records):
    titles = [*BASE, "method", "seconds", "x KMeans", "cost", "extra MB"]
    print_table(titles, [
        [
            *[record[name] for name in BASE], name, number(result["median_seconds"], "{:.3f}"),
            number(result["time_over_kmeans"]), number(result["cost_over_kmeans"], "{:.3f}"),
            number(result["extra_mb"], "{:.0f}"),
        ]
        for record in records
        for name, result in record["methods"].items()
    ])  # fmt: skip


def draw(records, path):
    """Time against the number of rows, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    others = [name for name in BASE if name != "rows"]
    lines = sorted(
        (record for record in records if all(record[name] == BASE[name] for name in others)),
        key=lambda record: record["rows"],
    )
    if not lines:
        return
    rows = [record["rows"] for record in lines]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name in METHODS:
        seconds = [record["methods"][name]["median_seconds"] for record in lines]
        axes.plot(rows, seconds, "o-", label=f"{name}(n_init=1)" if name == "KMeans" else name)
    axes.plot(rows, [seconds[-1] * n / rows[-1] for n in rows], "k:", label="linear")
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title="Time of fit")
    axes.grid(which="major", alpha=0.3)
    axes.legend(frameon=False)
    write_whole(path, lambda file: figure.savefig(file, dpi=130, metadata={"Software": None}))
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
