"""The assignment engine as a function: any costs to labels that satisfy a constraint."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_array

from fairanchor._attributes import Attributes
from fairanchor._constraint import check_request, constraint_of
from fairanchor._groups import check_groups
from fairanchor._scaling import power_of_two_scale
from fairanchor._shared_state import with_one_blas_thread
from fairanchor._sklearn_compat import check_weights
from fairanchor.assignment._engine import assign
from fairanchor.assignment._limit_rule import proportional_rule
from fairanchor.assignment._share_limits import check_tolerance
from fairanchor.assignment._sweep import KnownCosts
from fairanchor.clusterers._base import count_cells
from fairanchor.rows import MemoryRows


@dataclass(frozen=True)
class FairAssignment:
    """Labels of least cost under a constraint, and what proves it.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        Cluster of each row.
    groups : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of the tables.
    counts : ndarray of shape (n_clusters, n_groups)
        Rows in each cell (their weight, if there are weights).
    dual_variables : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the least ``costs[i, l] - dual_variables[l, r]`` at its label, ties
        excepted (and, with unequal weights, the few rows that had to be rounded).
    cost : float
        Sum of the rows' costs at their labels.
    lp_value : float
        Value of the linear program over fractional labels: no labels that satisfy the constraint
        cost less.
    worst_violation : float
        By how many rows (how much weight) the worst cell or cluster misses the constraint. For
        exact proportions and for a table, the distance of the worst cell, below one row.
    """

    labels: np.ndarray
    groups: np.ndarray
    counts: np.ndarray
    dual_variables: np.ndarray
    cost: float
    lp_value: float
    worst_violation: float

    @property
    def gap(self):
        """``cost - lp_value``: at most this is lost by labels that are whole.

        Negative only where labels gain by missing the constraint by a part of a row.
        """
        return self.cost - self.lp_value


@with_one_blas_thread
def fair_assign(
    costs,
    *,
    sensitive_features=None,
    fairness="population",
    tolerance=0.0,
    attributes="intersection",
    sample_weight=None,
    n_jobs=None,
):
    """Assign rows to clusters at the least cost, with fair clusters.

    Costs can be anything: squared distances, minus log-likelihoods of a mixture, dissimilarities
    of categories, outputs of a network. Among all labels whose clusters have the composition
    that is asked for, those with the least sum of costs are returned.

    Parameters
    ----------
    costs : array-like of shape (n_samples, n_clusters)
        Cost of each row in each cluster; finite.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
        Group of each row. None is one group: only sizes can be constrained then.
    fairness : "population", array of shape (n_clusters, n_groups), or FairnessTargets, \
default="population"
        What is asked for: every cluster mirrors the population, with sizes that are free; a table
        of sample counts; or bounds on shares and sizes (with separate attributes a list of them,
        one for each column).
    tolerance : float in [0, 1], default=0.0
        A group's share of a cluster is in ``[(1 - tolerance) s, s / (1 - tolerance)]``, where s
        is the share that ``fairness`` asks for. 1 asks for nothing.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several sensitive columns are one attribute, whose groups are the combinations, or
        each is an attribute that the clusters mirror by itself.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row. The constraint then holds up to the weights of a few rows.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.

    Returns
    -------
    assignment : FairAssignment
        Labels, counts, dual variables and certificates.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import fair_assign
    >>> costs = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [1.0, 0.0]])
    >>> result = fair_assign(costs, sensitive_features=["a", "a", "b", "b"])
    >>> result.labels
    array([1, 0, 1, 0], dtype=int32)
    >>> result.cost
    2.0
    """
    costs = check_array(costs, dtype=np.float64, order="C", input_name="costs")
    n_clusters = costs.shape[1]
    check_tolerance(tolerance)
    check_request(fairness, tolerance, None)
    if attributes not in ("intersection", "separate"):
        raise ValueError(f"attributes={attributes!r} should be 'intersection' or 'separate'.")
    if sensitive_features is None:
        sensitive_features = np.zeros(len(costs), dtype=np.int64)
    groups = check_groups(sensitive_features, len(costs))
    weights, unit = check_weights(sample_weight, costs), 1.0
    if weights is not None and np.ptp(weights) == 0.0:
        # Equal weights are counts in another unit, and counts can be met exactly.
        weights, unit = None, float(weights[0])
    # What is common to all clusters decides nothing, but takes digits from what does.
    least = costs.min(axis=1, keepdims=True)
    scale = power_of_two_scale(costs)
    rows = MemoryRows(
        (costs - least) * scale, groups.codes, groups.n_groups, weights=weights, n_jobs=n_jobs
    )
    columns = Attributes.of(sensitive_features, groups) if attributes == "separate" else None
    constraint = constraint_of(
        fairness, tolerance, columns, groups, rows, n_clusters, empty=True, unit=unit
    )
    found = assign(rows, KnownCosts(n_clusters), constraint)
    labels = found.labels(rows)
    counts = count_cells(labels, groups.codes, n_clusters, groups.n_groups, weights)
    missed = float(np.abs(counts - found.targets).max())
    if constraint.targets is None:
        rule = constraint.rule or proportional_rule(rows.group_sizes, n_clusters, 0.0)
        missed = max(rule.violations(counts))
    cost = float(rows.weights @ costs[np.arange(len(costs)), labels])
    common = float(rows.weights @ least[:, 0])
    return FairAssignment(
        labels=labels,
        groups=groups.public_names,
        counts=groups.to_public(counts) if unit == 1.0 else groups.to_public(counts) * unit,
        dual_variables=groups.to_public(-found.prices / scale),
        cost=cost * unit,
        lp_value=(found.lp_value / scale + common) * unit,
        worst_violation=missed * unit,
    )
