"""What the kernels cost per row on one thread, and what the machine allows.

    python benchmarks/kernels.py

The row solvers of the anchor graph for several numbers of features d and anchors m and ridges
alpha, on standardised census-like rows: CPU time, the best of the repetitions, second derivatives
included. All of them are exact; how far their soft labels differ is checked.
The limits are one pass over the table (its sum) and the product of rows and anchors that every
solver starts from; then the squared distances to centres and the transport that makes counts
exact.
"""

import sys
import time

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from _common import claim, finish, number, parsed, parser_of, print_table, progress
from fairanchor._groups import check_groups
from fairanchor.anchors import select_anchors
from fairanchor.assignment import largest_remainder, proportional_counts, transport
from fairanchor.clusterers._fair_lloyd import distances_to
from fairanchor.datasets import make_census
from fairanchor.graph import AnchorGraphProblem
from fairanchor.graph._row_solvers import (
    ActiveSetRows,
    PivotingRows,
    ResidualRows,
    choose_row_solver,
)
from fairanchor.rows import MemoryRows

# Features, anchors, ridge.
SHAPES = [
    (25, 40, 1.0), (25, 40, 10.0), (25, 40, 30.0), (25, 40, 100.0), (10, 40, 10.0),
    (4, 40, 100.0), (25, 100, 10.0), (25, 100, 100.0),
]  # fmt: skip
QUICK_SHAPES = [(4, 20, 100.0)]
SOLVERS = {"active set": ActiveSetRows, "pivoting": PivotingRows, "residual": ResidualRows}
N_CLUSTERS, N_GROUPS = 5, 2
BLOCK_ROWS = 4096
LARGEST_DIFFERENCE = 1e-8


def main(arguments=None):
    options = parsed(parser_of(__doc__), arguments)
    n_rows = 8192 if options.quick else 32_768
    shapes = QUICK_SHAPES if options.quick else SHAPES
    large = 20_000 if options.quick else 1_000_000
    # BLAS threads would work on another thread's time, and are not used in a sweep either.
    with threadpool_limits(limits=1):
        records = [measure_solvers(*shape, n_rows, options.repeats) for shape in shapes]
        records += [measure_distances(large, k, options.repeats) for k in (5, 20)]
        records += [
            measure_transport(large, n_clusters, options.repeats) for n_clusters in (2, 5, 10)
        ]
        records.append(measure_memory(large, options.repeats))
    report(records)
    settings = {"rows_of_row_solvers": n_rows, "rows": large, "repeats": options.repeats}
    return finish("kernels", options, settings=settings, records=records, checks=checks_of(records))


# The row solvers.


def measure_solvers(n_features, n_anchors, alpha, n_rows, n_repeats):
    """CPU microseconds per row of every row solver and of the product that all start from."""
    progress(f"row solvers: d={n_features}, m={n_anchors}, alpha={alpha:g}")
    rows, problem = graph_problem(n_features, n_anchors, alpha, n_rows)
    multipliers = np.zeros((N_CLUSTERS, rows.n_groups))
    targets = np.ones((N_CLUSTERS, rows.n_groups))
    chosen = choose_row_solver(problem, rows, multipliers, targets)
    microseconds, answers = {}, {}
    for name, make in SOLVERS.items():
        microseconds[name], answers[name], support = sweep_time(
            make(problem), rows, multipliers, n_repeats
        )
    first = next(iter(answers.values()))
    return {
        "kernel": "row solvers",
        "features": n_features,
        "anchors": n_anchors,
        "alpha": alpha,
        "mean_support": support,
        "microseconds": microseconds,
        "chosen": name_of(chosen),
        "chosen_microseconds": sweep_time(chosen, rows, multipliers, n_repeats)[0],
        "fastest": min(microseconds, key=microseconds.get),
        "product_microseconds": product_time(rows, problem, n_repeats),
        "largest_difference": max(float(np.abs(a - first).max()) for a in answers.values()),
    }


def graph_problem(n_features, n_anchors, alpha, n_rows):
    """Rows, and a problem with anchors of every cluster."""
    census = make_census(n_rows, n_features=n_features, random_state=0)
    X = np.ascontiguousarray(StandardScaler().fit_transform(census.data))
    groups = check_groups(census.sensitive_features, n_rows)
    rows = MemoryRows(X, groups.codes, groups.n_groups, n_jobs=1)
    anchors = select_anchors(rows, groups, "kmeans", n_anchors, "balanced", N_CLUSTERS, 0)
    # Anchors of a cluster are near each other, as a clusterer would have them.
    order = np.argsort(anchors.points @ np.ones(n_features), kind="stable")
    labels = np.empty(n_anchors, dtype=np.int64)
    labels[order] = np.arange(n_anchors) * N_CLUSTERS // n_anchors
    return rows, AnchorGraphProblem(anchors.points, labels, N_CLUSTERS, alpha)


def sweep_time(solver, rows, multipliers, n_repeats):
    """Microseconds per row, soft labels, and mean support."""
    allowed = np.ones((rows.n_groups, solver.problem.n_anchors), dtype=bool)
    active = np.ones(rows.n_groups, dtype=bool)
    soft_labels = np.empty((rows.n_rows, N_CLUSTERS))

    def sweep():
        priced = solver.at(multipliers, allowed)
        counts = np.zeros(2)
        for block in rows.blocks():
            own = soft_labels[block.start : block.stop]
            counts += priced.sweep(block, active, own)[3]
        return counts

    counts = sweep()  # compiles
    if counts[1]:
        raise RuntimeError(f"{type(solver).__name__} left {int(counts[1])} rows unsolved")
    return per_row(sweep, rows.n_rows, n_repeats), soft_labels, counts[0] / rows.n_rows


def product_time(rows, problem, n_repeats):
    out = np.empty((BLOCK_ROWS, problem.n_anchors))
    transposed = np.ascontiguousarray(problem.H.T)

    def multiply():
        for block in rows.blocks():
            np.matmul(block.X, transposed, out=out[: len(block.X)])

    return per_row(multiply, rows.n_rows, n_repeats)


def name_of(solver):
    return next(name for name, kind in SOLVERS.items() if isinstance(solver, kind))


# Everything else that touches all rows.


def measure_distances(n_rows, n_clusters, n_repeats, n_features=25):
    progress(f"distances: {n_rows:,} rows, {n_clusters} centres")
    rng = np.random.default_rng(0)
    rows = plain_rows(rng.normal(size=(n_rows, n_features)))
    centers = rng.normal(size=(n_clusters, n_features))
    distances_to(rows, centers)  # compiles
    return {
        "kernel": "distances",
        "features": n_features,
        "centres": n_clusters,
        "microseconds": per_row(lambda: distances_to(rows, centers), n_rows, n_repeats),
    }


def measure_transport(n_rows, n_clusters, n_repeats, n_groups=3):
    """Time of exact counts: each group leans to clusters of its own, so that many rows move."""
    progress(f"transport: {n_rows:,} rows, {n_clusters} clusters")
    rng = np.random.default_rng(0)
    groups = rng.choice(n_groups, n_rows, p=[0.6, 0.3, 0.1])
    scores = rng.dirichlet(np.full(n_clusters, 0.5), n_rows)
    scores += 0.3 * (groups[:, None] == np.arange(n_clusters) % n_groups)
    sizes = largest_remainder(np.arange(1, n_clusters + 1), n_rows)
    counts = proportional_counts(sizes, np.bincount(groups))
    result = transport(scores, groups, counts)  # compiles
    reached = np.bincount(result.labels * n_groups + groups, minlength=counts.size)
    return {
        "kernel": "transport",
        "clusters": n_clusters,
        "groups": n_groups,
        "microseconds": per_row(lambda: transport(scores, groups, counts), n_rows, n_repeats),
        "gap": result.gap,
        "moved": float(np.mean(result.labels != scores.argmax(axis=1))),
        "exact_counts": bool(np.array_equal(reached.reshape(counts.shape), counts)),
    }


def measure_memory(n_rows, n_repeats, n_features=25):
    """One pass over the table: nothing that looks at every number can be faster."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_features))
    microseconds = per_row(X.sum, n_rows, n_repeats)
    return {
        "kernel": "one pass over memory",
        "features": n_features,
        "microseconds": microseconds,
        "gigabytes_per_second": X.nbytes / n_rows / microseconds / 1e3,
    }


def plain_rows(X):
    return MemoryRows(X, np.zeros(len(X), dtype=np.int64), 1, n_jobs=1)


def per_row(function, n_rows, n_repeats):
    """CPU microseconds per row, in the best of the repetitions.

    CPU time of the whole process, which does nothing else: a pool of threads, were there
    one, would not go uncounted.
    """
    best = np.inf
    for _ in range(n_repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return 1e6 * best / n_rows


def checks_of(records):
    difference = max(r["largest_difference"] for r in records if r["kernel"] == "row solvers")
    exact = [r["exact_counts"] for r in records if r["kernel"] == "transport"]
    return [
        claim(f"soft labels of all row solvers agree to {LARGEST_DIFFERENCE:g}",
              difference <= LARGEST_DIFFERENCE, f"{difference:.1e}"),
        claim("the transport's counts are exact", all(exact), f"{sum(exact)} of {len(exact)}"),
    ]  # fmt: skip


def report(records):
    solvers = [record for record in records if record["kernel"] == "row solvers"]
    print_table(["d", "m", "alpha", "support", *SOLVERS, "chosen", "takes", "product"], [
        [
            record["features"], record["anchors"], f"{record['alpha']:g}",
            number(record["mean_support"], "{:.1f}"),
            *[number(record["microseconds"][name]) for name in SOLVERS], record["chosen"],
            number(record["chosen_microseconds"]), number(record["product_microseconds"], "{:.3f}"),
        ]
        for record in solvers
    ])  # fmt: skip
    others = [record for record in records if record["kernel"] != "row solvers"]
    print_table(["kernel", "shape", "CPU us per row"], [
        [record["kernel"], shape_of(record), number(record["microseconds"], "{:.4f}")]
        for record in others
    ])  # fmt: skip


def shape_of(record):
    return ", ".join(
        f"{record[name]} {name}" for name in ("features", "centres", "clusters") if name in record
    )


if __name__ == "__main__":
    sys.exit(main())
