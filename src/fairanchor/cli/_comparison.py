"""Methods of ``fairanchor compare``: how each is run, and what is measured of it."""

import time
import warnings
from contextlib import contextmanager

from fairanchor.cli._common import measures_of
from fairanchor.cli._fit import CLUSTERERS, FAIR_KMEANS

PLAIN, ALONE = "k-means", "fair k-means"
ON_ANCHORS = tuple(f"anchors+{name}" for name in CLUSTERERS if name != FAIR_KMEANS)
METHODS = (PLAIN, ALONE, *ON_ANCHORS)


def warm_up(methods, seed):
    """Load compiled code, which happens at its first use and is no part of any method's time."""
    from fairanchor.datasets import make_zafar

    data = make_zafar(400, variant="original", random_state=0)
    with warnings.catch_warnings():
        # Warnings about these few rows are not about the user's.
        warnings.simplefilter("ignore")
        for method in methods:
            _fitted(_estimator(method, 2, seed, 1), data.data, data.sensitive_features)


def measured(method, loaded, n_clusters, seed, jobs):
    """One row of the comparison; a method that fails has its reason in place of figures.

    Its warnings are in the row, and are repeated with the method's name in front.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    loaded : fairanchor.tables._load.LoadedTable
    n_clusters, seed, jobs : int

    Returns
    -------
    record : dict
    """
    estimator = _estimator(method, n_clusters, seed, jobs)
    groups = named_groups(loaded.grouping)
    with _attributed(method) as said, _threads(jobs):
        start = time.perf_counter()
        try:
            _fitted(estimator, loaded.X, groups)
        except (ValueError, RuntimeError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            return {"method": method, "error": reason, "warnings": said}
        seconds = time.perf_counter() - start
    return {
        "method": method,
        **_figures(estimator, loaded, n_clusters),
        "converged": _converged(estimator),
        "seconds": round(seconds, 4),
        "warnings": said,
    }


def head_of_summary(source, loaded, options):
    """Entries of ``--json`` about the table, whatever is compared on it."""
    return {
        "command": "compare",
        "input": source,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        "n_clusters": options["n_clusters"],
        "groups": loaded.grouping.names,
        "group_sizes": loaded.grouping.sizes,
        "seed": options["seed"],
    }


def write_records(run, columns, path, force):
    """Write a table of results, columns by name, unless there is no path to write it to."""
    if path is None:
        return
    import pyarrow as pa

    from fairanchor.tables import write_table

    with run.step("write", f"Writing {path}"):
        write_table(pa.table(columns), path, force=force)
    run.say(f"table: {path}")


def is_unfair(record):
    """Whether a method that guarantees proportional clusters misses them by a row or more."""
    return record["method"] != PLAIN and record.get("worst_violation", 0.0) >= 1.0


def relate_costs(records):
    """Add each cost over that of plain k-means, if it took part."""
    plain = next((r["cost"] for r in records if r["method"] == PLAIN and "cost" in r), None)
    for record in records:
        if plain and "cost" in record:
            record["relative_cost"] = record["cost"] / plain


def _estimator(method, n_clusters, seed, jobs):
    from sklearn.cluster import KMeans

    from fairanchor import AnchorFairClustering, FairKMeans
    from fairanchor.report._collect import PLAIN_STARTS

    if method == PLAIN:
        return KMeans(n_clusters, n_init=PLAIN_STARTS, random_state=seed)
    if method == ALONE:
        return FairKMeans(n_clusters, random_state=seed, n_jobs=jobs)
    clusterer = method.removeprefix("anchors+")
    return AnchorFairClustering(n_clusters, clusterer=clusterer, random_state=seed, n_jobs=jobs)


def _fitted(estimator, X, groups):
    from sklearn.cluster import KMeans

    plain = isinstance(estimator, KMeans)
    return estimator.fit(X) if plain else estimator.fit(X, sensitive_features=groups)


def _figures(estimator, loaded, n_clusters):
    import numpy as np

    from fairanchor.groups._groups import count_cells
    from fairanchor.metrics import clustering_cost

    grouping = loaded.grouping
    counts = count_cells(estimator.labels_, grouping.codes, n_clusters, len(grouping.names))
    proportional = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    # From exact proportions, and from the method's own targets.
    missed = max(float(np.abs(counts - proportional).max()),
                 float(getattr(estimator, "worst_violation_", 0.0)))  # fmt: skip
    return {
        "cost": clustering_cost(loaded.X, estimator.labels_),
        **measures_of(counts),
        "smallest_cluster": int(counts.sum(axis=1).min()),
        "worst_violation": missed,
    }


def _converged(estimator):
    if hasattr(estimator, "converged_"):
        return bool(estimator.converged_)
    return bool(estimator.n_iter_ < estimator.max_iter)


def named_groups(grouping):
    """Name of each row's group, as messages will call it.

    A missing value is a group like any other here, whatever a method calls missing.
    """
    from fairanchor.tables._grouping import object_array

    return object_array(_distinct_names(grouping.names))[grouping.codes]


def named_columns(grouping, titles):
    """A table with the value of each row in each sensitive column, missing ones as a group."""
    import pyarrow as pa

    names = grouping.names if len(titles) > 1 else [(name,) for name in grouping.names]
    arrays = []
    for parts in zip(*names, strict=True):
        distinct = list(dict.fromkeys(parts))
        called = dict(zip(distinct, _distinct_names(distinct), strict=True))
        # A column of an Arrow table has one type, and the name of missing values is a text.
        values = [str(called[part]) if None in distinct else part for part in parts]
        arrays.append(pa.array(values).take(pa.array(grouping.codes)))
    return pa.table(arrays, names=list(titles))


def _distinct_names(names):
    """The names with a text for missing values that no other name has."""
    names = [_without_none(name) for name in names]
    for position, name in enumerate(names):
        # "(missing)" may be a value of the column as well.
        while names.count(name) > 1:
            name = f"{name} "
            names[position] = name
    return names


def _without_none(name):
    if isinstance(name, tuple):
        return tuple(map(_without_none, name))
    return "(missing)" if name is None else name


@contextmanager
def _attributed(method):
    """A list that gets the warnings of the block, which are given again with the method's name."""
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        # Deprecations of libraries are not for users.
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        try:
            yield said
        finally:
            said.extend(dict.fromkeys(str(warning.message) for warning in caught))
    for message in said:
        warnings.warn(f"{method}: {message}", UserWarning, stacklevel=2)


@contextmanager
def _threads(jobs):
    """Limit the threads of libraries that know no ``n_jobs``, scikit-learn's k-means among them."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(None if jobs == -1 else jobs):
        yield
