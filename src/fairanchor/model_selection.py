"""What fairness costs: a table clustered for many tolerances, or many numbers of clusters."""

import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np

from fairanchor.cluster import FairKMeans
from fairanchor.constraints._bounds import check_tolerance
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import balance_of_table, relative_balance_of_table

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
_WANTED = {
    "fairness_path": "one number of clusters with several tolerances",
    "clusters_path": "several numbers of clusters, with and without the constraint",
}


@dataclass(frozen=True)
class FairnessPath:
    """Clusterings of one table, and what each costs.

    Attributes
    ----------
    records : list of dict
        One per clustering: ``tolerance``, ``n_clusters``, ``cost`` (k-means cost of the labels to
        their centres), ``lp_value`` (certified lower bound on what labels within the bounds cost
        with these centres), ``violation`` (rows by which the worst cell misses its bounds),
        ``balance`` and ``relative_balance`` (of the worst attribute, if there are several),
        ``smallest_cluster``, ``smallest_cell``, ``n_iter``, ``converged`` and ``start``: whether
        the previous clustering was the better start ("warm") or the data ("cold"). Labels that
        miss a bound by a part of a row (``violation`` above 0, as is common with tolerance 0) may
        gain by it: ``cost - lp_value`` can then be negative, and is no distance from an optimum.
        With ``attributes="separate"`` also ``attributes``: by the name of each column its
        ``balance``, ``relative_balance`` and ``violation``.
    models : list of FairKMeans
        The fitted estimators, with ``labels_`` and `predict`.
    """

    records: list
    models: list = field(repr=False)

    @property
    def table(self):
        """Columns of the records by name, for instance for a data frame: dict of ndarray.

        What is known of separate attributes is in columns of its own, such as
        ``relative_balance_sex``.
        """
        flat = [_flat(record) for record in self.records]
        return {name: np.array([own[name] for own in flat]) for name in flat[0]}


def fairness_path(
    X,
    sensitive_features,
    tolerances=TOLERANCES,
    *,
    n_clusters=8,
    attributes="intersection",
    sample_weight=None,
    missing_groups="error",
    n_init=10,
    max_iter=100,
    tol=1e-4,
    n_jobs=None,
    random_state=None,
):
    """The cost-fairness curve: fair k-means for one tolerance after the other.

    From tight to loose. Labels found for a tolerance are allowed by the next, looser one, so they
    are a warm start there, and the cheaper of this and of a fresh start is kept. Hence the cost
    does not rise along the path, except where cells are so small that the tighter labels miss
    the looser bounds by a part of a row too and labels that miss nothing replace them (and, with
    unequal weights, except for their rounding).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to cluster, in memory.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row; see ``attributes`` for several columns.
    tolerances : sequence of floats in [0, 1], default=(0, 0.05, 0.1, 0.2, 0.5, 1)
        In any order; they are sorted. 0 asks for exact proportions, 1 for nothing.
    n_clusters : int, default=8
        Number of clusters.
    attributes : {"intersection", "separate"}, default="intersection"
        What several sensitive columns mean, see `FairKMeans`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    missing_groups, n_init, max_iter, tol, n_jobs, random_state
        As in `FairKMeans`.

    Returns
    -------
    path : FairnessPath
        In the order of increasing tolerance.

    Examples
    --------
    >>> from fairanchor import fairness_path
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(400, variant="original", random_state=0)
    >>> path = fairness_path(data.data, data.sensitive_features, (0, 0.2, 1), n_clusters=2,
    ...                      random_state=0)
    >>> costs = path.table["cost"]
    >>> bool((costs[1:] <= costs[:-1]).all())
    True
    """
    records, models, before = [], [], None
    for tolerance in _sorted_tolerances(tolerances):
        model = FairKMeans(
            n_clusters, tolerance=tolerance, attributes=attributes, missing_groups=missing_groups,
            n_init=n_init, max_iter=max_iter, tol=tol, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        before, is_warm = model._fit_after(before, X, sensitive_features, sample_weight)
        records.append(_record(model) | {"start": "warm" if is_warm else "cold"})
        models.append(model)
    return FairnessPath(records, models)


def clusters_path(
    X,
    sensitive_features,
    n_clusters=tuple(range(2, 11)),
    *,
    tolerance=0.0,
    attributes="intersection",
    sample_weight=None,
    missing_groups="error",
    n_init=10,
    max_iter=100,
    tol=1e-4,
    n_jobs=None,
    random_state=None,
):
    """Cost and balance of fair k-means over the number of clusters, to help to choose it.

    Every record also has ``plain_cost``, of k-means without a constraint, and ``cost_ratio``, the
    price of fairness. Costs fall with the number of clusters in any case; look for where they
    stop falling fast, where the ratio begins to rise, and for cells so small (``smallest_cell``)
    that a share of them means little. It is a help to judge, not a rule.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to cluster, in memory.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row.
    n_clusters : sequence of int, default=(2, ..., 10)
        Numbers of clusters.
    tolerance : float in [0, 1], default=0.0
        See `FairKMeans`.
    attributes : {"intersection", "separate"}, default="intersection"
        What several sensitive columns mean, see `FairKMeans`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    missing_groups, n_init, max_iter, tol, n_jobs, random_state
        As in `FairKMeans`.

    Returns
    -------
    path : FairnessPath
        In the order of increasing numbers of clusters.
    """
    check_tolerance(tolerance)
    records, models = [], []
    for number in _sorted_numbers(n_clusters):
        path = fairness_path(
            X, sensitive_features, sorted({tolerance, 1.0}), n_clusters=number,
            attributes=attributes, sample_weight=sample_weight, missing_groups=missing_groups,
            n_init=n_init, max_iter=max_iter, tol=tol, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        plain = path.records[-1]["cost"]
        record = path.records[0]
        ratio = record["cost"] / plain if plain > 0 else 1.0
        records.append(record | {"plain_cost": plain, "cost_ratio": ratio})
        models.append(path.models[0])
    return FairnessPath(records, models)


def suggest_tolerance(path, *, extra_cost=0.05):
    """The smallest tolerance of a path that costs at most so much more than the loosest one.

    A reading of the curve, not advice: what fairness may cost, and whether any tolerance is
    acceptable, depends on what the clusters are used for. The loosest tolerance should be 1, no
    constraint at all; with another a warning states what costs are compared with.

    Parameters
    ----------
    path : FairnessPath
        Of `fairness_path`, with at least two tolerances.
    extra_cost : float, default=0.05
        Part of the loosest tolerance's cost.

    Returns
    -------
    tolerance : float
        One of the path's tolerances; the loosest if no tighter one costs so little.
    """
    if isinstance(extra_cost, bool) or not isinstance(extra_cost, Real) or not extra_cost >= 0:
        raise ValueError(
            f"extra_cost={extra_cost!r} should be a number of at least 0: the part of the cost "
            "that fairness may add."
        )
    check_path(path, "fairness_path")
    costs, tolerances = path.table["cost"], path.table["tolerance"]
    if len(tolerances) < 2:
        raise ValueError(
            f"path has no tolerance but {tolerances[0]:g}, expected at least two: what a tolerance "
            "costs is read from a comparison with the loosest."
        )
    if tolerances[-1] < 1.0:
        warnings.warn(
            f"The loosest tolerance of the path is {tolerances[-1]:g}: costs are compared with "
            "that, not with clusters without a constraint (tolerance 1).",
            FairnessWarning,
            stacklevel=2,
        )
    return float(tolerances[np.argmax(costs <= (1.0 + extra_cost) * costs[-1])])


def check_path(path, source):
    """Raise an error for what is not a path of one kind.

    Parameters
    ----------
    path : object
    source : {"fairness_path", "clusters_path"}
        The function whose paths are expected.
    """
    if not isinstance(path, FairnessPath):
        raise TypeError(f"path is a {type(path).__name__}, expected a FairnessPath of {source}.")
    if not path.records:
        raise ValueError(f"path has no records, expected those of {source}.")
    found = "clusters_path" if "plain_cost" in path.records[0] else "fairness_path"
    if found != source:
        raise ValueError(f"path is one of {found}, expected one of {source}: {_WANTED[source]}.")
    tolerances = [record["tolerance"] for record in path.records]
    if source == "fairness_path" and (np.diff(tolerances) <= 0).any():
        raise ValueError(
            f"path has the tolerances {tolerances}, expected increasing ones: it is not one of "
            "fairness_path."
        )


def _record(model):
    separate = getattr(model, "attribute_counts_", None)
    tables = [model.counts_] if separate is None else list(separate.values())
    record = {
        "tolerance": float(model.tolerance),
        "n_clusters": int(model.n_clusters),
        "cost": model.inertia_,
        "lp_value": model.lp_value_,
        "violation": model.worst_violation_,
        "balance": min(map(balance_of_table, tables)),
        "relative_balance": min(map(relative_balance_of_table, tables)),
        "smallest_cluster": min(table.sum(axis=1).min() for table in tables).item(),
        "smallest_cell": min(table.min() for table in tables).item(),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
    }
    if separate is not None:
        record["attributes"] = {
            title: {
                "balance": balance_of_table(table),
                "relative_balance": relative_balance_of_table(table),
                "violation": model.attribute_violations_[title],
            }
            for title, table in separate.items()
        }
    return record


def _flat(record):
    """A record without its attributes, whose measures become values of their own."""
    flat = {name: value for name, value in record.items() if name != "attributes"}
    for title, measures in record.get("attributes", {}).items():
        flat |= {f"{measure}_{title}": value for measure, value in measures.items()}
    return flat


def _sorted_tolerances(tolerances):
    values = list(np.atleast_1d(np.asarray(tolerances, dtype=object)))
    for value in values:
        check_tolerance(value)
    if not values:
        raise ValueError("tolerances is empty: expected at least one number between 0 and 1.")
    return sorted({float(value) for value in values})


def _sorted_numbers(n_clusters):
    values = list(np.atleast_1d(np.asarray(n_clusters, dtype=object)))
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"n_clusters has {value!r}: expected whole numbers of at least 1.")
    if not values:
        raise ValueError("n_clusters is empty: expected at least one number of clusters.")
    return sorted({int(value) for value in values})
