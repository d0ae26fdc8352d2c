"""The assignment engine as a function: any costs to labels that satisfy a constraint."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from fairanchor._utils._scaling import largest_value, scale_of_largest
from fairanchor._utils._shared_state import with_one_blas_thread
from fairanchor._utils._sklearn_compat import check_weights
from fairanchor._utils._typing import Weights
from fairanchor.assignment._engine import assign
from fairanchor.constraints._bounds import check_tolerance, proportional_rule
from fairanchor.constraints._constraint import check_request, constraint_of
from fairanchor.groups._groups import Attributes, check_groups, count_cells
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

    labels: np.ndarray = field(repr=False)
    groups: np.ndarray
    counts: np.ndarray
    dual_variables: np.ndarray
    cost: float
    lp_value: float
    worst_violation: float

    @property
    def gap(self) -> float:
        """``cost - lp_value``: at most this is lost by labels that are whole.

        Negative only where labels gain by missing the constraint by a part of a row.
        """
        return self.cost - self.lp_value


@dataclass(frozen=True)
class _TableCosts:
    """Costs of rows in a table, from each row's least cost.

    What is common to all clusters decides nothing, but takes digits from what does.
    """

    table: np.ndarray
    scale: float = 1.0
    takes_long = False

    @property
    def n_clusters(self) -> int:
        return self.table.shape[1]

    def read(self, block: Any) -> np.ndarray:
        """Costs of a block's rows as they are."""
        numbers = block.X[:, 0].astype(np.int64)
        is_run = len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers)
        own = self.table[numbers[0] : numbers[-1] + 1] if is_run else self.table[numbers]
        return np.asarray(own, dtype=np.float64)

    def write(self, block: Any, out: np.ndarray) -> None:
        """Write the costs of a block."""
        own = self.read(block)
        np.subtract(own, own.min(axis=1, keepdims=True), out=out)
        out *= self.scale


def _survey(rows: Any, costs: Any) -> Any:
    """Largest absolute cost, largest difference in a row, and weighted sum of the least costs."""

    def look(block: Any) -> Any:
        own = costs.read(block)
        if not np.isfinite(own).all():
            i, l = np.argwhere(~np.isfinite(own))[0]
            what = "NaN" if np.isnan(own[i, l]) else "infinity"
            raise ValueError(
                f"costs contains {what} in row {block.start + i} and column {l}, expected "
                "finite numbers. A large cost keeps a row out of a cluster."
            )
        return largest_value(own), np.ptp(own, axis=1).max(), float(block.weights @ own.min(axis=1))

    largest, spread, common = zip(*rows.sweep(look), strict=True)
    return max(largest), max(spread), sum(common)


def _spooled(blocks: Any, path: Any) -> Any:
    """Blocks of consecutive rows as one memory-mapped array."""
    if not isinstance(blocks, Iterable):
        raise TypeError(
            f"costs is a function that returned {type(blocks).__name__}, expected an iterator over "
            "blocks of rows."
        )
    n_rows, n_clusters = 0, 0
    with path.open("wb") as file:
        for block in blocks:
            block = check_array(block, dtype=np.float64, order="C", ensure_all_finite=False)
            if n_clusters not in (0, block.shape[1]):
                raise ValueError(
                    f"costs returned a block with {block.shape[1]} columns after blocks with "
                    f"{n_clusters}, expected the same number in each: one column per cluster."
                )
            n_clusters = block.shape[1]
            n_rows += len(block)
            block.tofile(file)
    if n_rows == 0:
        raise ValueError("costs returned no block of rows, expected at least one.")
    return np.memmap(path, dtype=np.float64, mode="r", shape=(n_rows, n_clusters))


@with_one_blas_thread
def fair_assign(
    costs: Any,
    *,
    sensitive_features: Any = None,
    fairness: Any = "population",
    tolerance: Any = 0.0,
    attributes: str = "intersection",
    sample_weight: Weights = None,
    n_jobs: int | None = None,
) -> FairAssignment:
    """Assign rows to clusters at the least cost, with fair clusters.

    Costs can be anything: squared distances, minus log-likelihoods of a mixture, dissimilarities
    of categories, outputs of a network. Minimises, over labels::

        sum_i w_i costs[i, label_i]
        subject to  |N[l, r] - pi_r N_l| < 1   for every cluster l and group r
        (or a table of counts, or bounds on the shares N[l, r] / N_l and the sizes N_l)

    where N[l, r] is the number of rows of group r in cluster l, N_l the size of the cluster and
    pi_r the group's share of the data.

    *Guaranteed*, for rows without unequal weights and a constraint that is the same for all
    clusters: it is met up to less than one row per cell, and the labels are optimal for their
    counts. With ``attributes="separate"`` no bound on the violation is guaranteed beforehand.

    *Cost*: a few passes over the costs, and work on the rows near a tie between clusters.

    Parameters
    ----------
    costs : array-like of shape (n_samples, n_clusters), or callable
        Cost of each row in each cluster; finite. A memory-mapped array stays on disk. A function
        without arguments that returns an iterator over blocks of consecutive rows is called once,
        and the blocks are kept in a temporary file.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
        Group of each row. None is one group: only sizes can be constrained then.
    fairness : "population", array of shape (n_clusters, n_groups), or FairnessTargets, \
default="population"
        The constraint: every cluster mirrors the population, with sizes that are free; a table
        of sample counts; or bounds on shares and sizes (with separate attributes a list of them,
        one for each column).
    tolerance : float in [0, 1], default=0.0
        A group's share of a cluster is in ``[(1 - tolerance) s, s / (1 - tolerance)]``, where s
        is the share that ``fairness`` states. 0 requires these shares, 1 sets no bound.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several sensitive columns are one attribute, whose groups are the combinations, or
        each column is constrained separately.
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
    check_tolerance(tolerance)
    check_request(fairness, tolerance, None)
    if attributes not in ("intersection", "separate"):
        raise ValueError(f"attributes={attributes!r} should be 'intersection' or 'separate'.")
    if callable(costs):
        with TemporaryDirectory(prefix="fairanchor-") as folder:
            costs = _spooled(costs(), Path(folder) / "costs")
            try:
                return _assigned(costs, sensitive_features, fairness, tolerance, attributes,
                                 sample_weight, n_jobs)  # fmt: skip
            finally:
                del costs  # before the file, which some systems keep while it is mapped
    if isinstance(costs, Iterator):
        raise TypeError(
            f"costs is a {type(costs).__name__}, expected an array, or a function that returns an "
            "iterator over blocks of rows: pass the function, not what it returns."
        )
    if not isinstance(costs, np.memmap):
        costs = check_array(
            costs, dtype=[np.float64, np.float32], ensure_all_finite=False, input_name="costs"
        )
    return _assigned(costs, sensitive_features, fairness, tolerance, attributes, sample_weight,
                     n_jobs)  # fmt: skip


def _assigned(
    costs: Any,
    sensitive_features: Any,
    fairness: Any,
    tolerance: Any,
    attributes: str,
    sample_weight: Any,
    n_jobs: Any,
) -> FairAssignment:
    """`fair_assign` of a table that need not be in memory."""
    if costs.ndim != 2 or min(costs.shape) == 0:
        raise ValueError(
            f"costs has shape {costs.shape}, expected (n_samples, n_clusters) with at least one of "
            "each."
        )
    n_clusters = costs.shape[1]
    if sensitive_features is None:
        sensitive_features = np.zeros(len(costs), dtype=np.int64)
    groups = check_groups(sensitive_features, len(costs))
    weights: np.ndarray | None = check_weights(sample_weight, costs)
    unit = 1.0
    if weights is not None and np.ptp(weights) == 0.0:
        # Equal weights are counts in another unit, and counts can be met exactly.
        unit, weights = float(weights[0]), None
    # The features of a row are its number, by which its costs are found.
    numbers = np.arange(len(costs), dtype=np.float64)[:, None]
    rows = MemoryRows(numbers, groups.codes, groups.n_groups, weights=weights, n_jobs=n_jobs)
    known = _TableCosts(costs)
    largest, spread, common = _survey(rows, known)
    scale = scale_of_largest(largest)
    known = _TableCosts(costs, scale)
    columns = Attributes.of(sensitive_features, groups) if attributes == "separate" else None
    constraint = constraint_of(
        fairness, tolerance, columns, groups, rows, n_clusters, empty=True, unit=unit
    )
    found = assign(rows, known, constraint)
    labels = found.labels(rows)
    counts = count_cells(labels, groups.codes, n_clusters, groups.n_groups, weights)
    missed = float(np.abs(counts - found.targets).max())
    if constraint.targets is None:
        rule = constraint.rule or proportional_rule(rows.group_sizes, n_clusters, 0.0)
        missed = max(rule.violations(counts))
    cost = float(rows.weights @ costs[np.arange(len(costs)), labels])
    # Rows to which all clusters are equal leave nothing but rounding errors.
    prices, above = (
        (-found.prices / scale, max(found.lp_value, 0.0) / scale)
        if spread > 0
        else (np.zeros(found.prices.shape), 0.0)
    )
    return FairAssignment(
        labels=labels,
        groups=groups.public_names,
        counts=groups.to_public(counts) if unit == 1.0 else groups.to_public(counts) * unit,
        dual_variables=groups.to_public(prices),
        cost=cost * unit,
        # Costs from each row's least one are not negative.
        lp_value=(above + common) * unit,
        worst_violation=missed * unit,
    )
