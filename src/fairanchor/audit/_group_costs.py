"""Who pays for fairness: costs of each group with and without the constraint."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.preprocessing import normalize

from fairanchor._utils._records import RecordTable
from fairanchor._utils._sklearn_compat import check_weights
from fairanchor._utils._typing import Labels, Table, Weights
from fairanchor.cluster import FairKMeans
from fairanchor.cluster._base import check_rows
from fairanchor.constraints._constraint import is_bounds
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._groups import count_cells, encode_names
from fairanchor.plotting._composition import check_rows_of_fit
from fairanchor.rows._sums import label_sums


@dataclass(frozen=True)
class GroupCosts(RecordTable):
    """Costs of each group with and without the constraint.

    Attributes
    ----------
    records : list of dict
        One per group, then one with the name "all rows": ``group``, ``rows`` (or weight),
        ``plain_cost`` and ``fair_cost`` (mean squared distance of the group's rows to the mean of
        their cluster), ``ratio`` of the two, ``changed`` (share of its rows that are in another
        cluster), and ``largest_loss``: by how much the cost of the worst row rises.
    plain : str
        The clustering that is compared with.
    plain_labels : ndarray of shape (n_samples,)
        Its labels, with the numbers of the clusters of the fair ones that they match best.
    """

    plain: str
    plain_labels: np.ndarray = field(repr=False)


def cost_by_group(
    estimator: Any,
    X: Table,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    plain_labels: Labels | None = None,
) -> GroupCosts:
    """What fairness costs each group: who pays.

    The cost of a row (of unit length with ``metric="cosine"``) is its squared distance to the mean
    of its cluster. It is compared with the same estimator without a constraint on groups
    (``tolerance=1``, same seed; bounds on the sizes of clusters stay), whose clusters are matched
    with the fair ones by the assignment that keeps most rows. Clusterers without a parameter
    ``tolerance`` are compared with ``FairKMeans(tolerance=1)``. The cost is that of one more fit.

    Parameters
    ----------
    estimator : fitted estimator
        An estimator of this library, with ``labels_``.
    X : array-like of shape (n_samples, n_features)
        The rows that it was fitted on.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Their groups; None if it was fitted without groups.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights; means and shares are then weighted.
    plain_labels : array-like of shape (n_samples,), default=None
        Labels to compare with, instead of a fit.

    Returns
    -------
    costs : GroupCosts
        A record for each group, and one for all rows.

    Examples
    --------
    >>> from fairanchor import FairKMeans, cost_by_group
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(500, variant="original", random_state=0)
    >>> groups = data.sensitive_features
    >>> model = FairKMeans(2, random_state=0).fit(data.data, sensitive_features=groups)
    >>> costs = cost_by_group(model, data.data, sensitive_features=groups)
    >>> [(record["group"], round(record["ratio"], 2)) for record in costs.records]
    [(0, 1.07), (1, 1.17), ('all rows', 1.12)]
    """
    X = check_rows(clone(estimator), X)
    check_rows_of_fit(estimator, len(X))
    labels = np.asarray(estimator.labels_)
    weights = check_weights(sample_weight, X)
    names: list[Any] = []
    codes = np.zeros(len(X), dtype=np.int64)
    if sensitive_features is not None:
        codes, names = encode_names(sensitive_features, len(X), missing="own_group")
    described = "the given labels"
    if plain_labels is None:
        plain = unconstrained(estimator)
        with warnings.catch_warnings():
            # What a warning states about groups was stated by the fit, and is not asked for here.
            warnings.simplefilter("ignore", FairnessWarning)
            plain.fit(X, sensitive_features=sensitive_features, sample_weight=weights)
        plain_labels = plain.labels_
        described = f"{type(plain).__name__} with tolerance 1: no constraint on groups"
    plain_labels = match_labels(labels, np.unique(plain_labels, return_inverse=True)[1])
    weights = np.ones(len(X)) if weights is None else weights
    rows = measured_rows(estimator, X)
    pairs = [_costs(rows, clusters, weights) for clusters in (plain_labels, labels)]
    members = [codes == r for r in range(len(names))] + [np.ones(len(X), dtype=bool)]
    records = [
        _record(name, rows, weights, plain_labels != labels, *pairs)
        for name, rows in zip([*names, "all rows"], members, strict=True)
        if weights[rows].sum() > 0
    ]
    return GroupCosts(records, described, plain_labels)


def measured_rows(estimator: Any, X: np.ndarray) -> np.ndarray:
    """The rows whose distances the estimator measures: of unit length for cosine distances."""
    return normalize(X) if getattr(estimator, "_has_unit_rows", False) else X


def unconstrained(estimator: Any) -> Any:
    """The same estimator without a constraint on groups, bounds on sizes aside."""
    parameters = estimator.get_params(deep=False)
    if "tolerance" not in parameters:
        seed = parameters.get("random_state")
        return FairKMeans(len(estimator.counts_), tolerance=1.0, random_state=seed)
    fairness = parameters.get("fairness", "population")
    each = list(fairness) if isinstance(fairness, (list, tuple)) else [fairness]
    if is_bounds(fairness) and any(t.min_size is not None or t.max_size is not None for t in each):
        sizes = [
            FairnessTargets(tolerance=1.0, min_size=t.min_size, max_size=t.max_size) for t in each
        ]
        return clone(estimator).set_params(fairness=sizes if len(sizes) > 1 else sizes[0])
    return clone(estimator).set_params(tolerance=1.0, fairness="population")


def match_labels(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Other labels with the numbers of the clusters with which they share most rows."""
    n_clusters, n_others = int(labels.max()) + 1, int(others.max()) + 1
    overlap = count_cells(labels, others, n_clusters, n_others)
    ours, theirs = linear_sum_assignment(overlap, maximize=True)
    numbers = np.full(n_others, -1)
    numbers[theirs] = ours
    unmatched = np.flatnonzero(numbers < 0)
    numbers[unmatched] = n_clusters + np.arange(len(unmatched))
    return numbers[others]


def _costs(X: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Squared distance of each row to the mean of its cluster."""
    codes = np.unique(labels, return_inverse=True)[1]
    sums, totals = label_sums(X, weights, codes.astype(np.int32), int(codes.max()) + 1)
    centers = sums / np.where(totals > 0, totals, 1.0)[:, None]
    return ((X - centers[codes]) ** 2).sum(axis=1)


def _record(
    name: Any,
    rows: np.ndarray,
    weights: np.ndarray,
    changed: np.ndarray,
    plain: np.ndarray,
    fair: np.ndarray,
) -> dict[str, Any]:
    of_group = weights[rows]
    means = [float(np.average(costs[rows], weights=of_group)) for costs in (plain, fair)]
    ratio = means[1] / means[0] if means[0] > 0 else (1.0 if means[1] == 0 else np.inf)
    return {
        "group": name,
        "rows": float(of_group.sum()) if (of_group != 1.0).any() else len(of_group),
        "plain_cost": means[0],
        "fair_cost": means[1],
        "ratio": ratio,
        "changed": float(np.average(changed[rows], weights=of_group)),
        "largest_loss": float((fair - plain)[rows].max()),
    }
