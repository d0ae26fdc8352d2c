"""Whether bounds on shares and sizes can be met, and what stands in the way if not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairanchor.constraints._bounds import CellConstraints, ShareBounds

# Rows, as part of all, by which bounds may be missed before they are called contradictory.
LEAST_SLACK = 1e-7
# Sums of shares this close to one, and of sizes to all rows, are equal.
SUM_ERROR = 1e-6


@dataclass(frozen=True)
class FeasibilityReport:
    """Whether bounds can be met, and if not what stands in the way.

    Attributes
    ----------
    feasible : bool
    message : str
        The same in words.
    table : ndarray of shape (n_clusters, n_groups)
        Rows (fractional) in the cells of an assignment that misses the bounds least; within
        them if feasible.
    attribute : int or None
        Number of the attribute, where a bound is missed most in that assignment.
    cluster : int or None
    group : object or None
        Name of the group; a cluster's size has none.
    bound : {"lower", "upper", "min_size", "max_size"} or None
    slack : float
        Rows (weight) by which that bound is missed.
    total_slack : float
        Least number of rows by which all bounds together are missed.
    """

    feasible: bool
    message: str
    table: np.ndarray
    attribute: int | None = None
    cluster: int | None = None
    group: object = None
    bound: str | None = None
    slack: float = 0.0
    total_slack: float = 0.0

    def raise_if_infeasible(self) -> None:
        """Raise a ``ValueError`` with the message, unless the bounds can be met."""
        if not self.feasible:
            raise ValueError(self.message)


def check_bounds(
    bounds: list[ShareBounds],
    group_sizes: Any,
    names: Any = None,
    joint: np.ndarray | None = None,
    columns: Any = None,
) -> FeasibilityReport:
    """`FeasibilityReport` of bounds for groups of these sizes.

    Parameters
    ----------
    bounds : list of ShareBounds
        One per attribute.
    group_sizes : ndarray of shape (n_joint,)
        Weight of each joint group.
    names : list of list, default=None
        Names of each attribute's groups; by default their codes.
    joint : ndarray of shape (n_joint, n_attributes), default=None
        Codes of the joint groups; by default one attribute, whose groups they are.
    columns : list, default=None
        What the attributes are called; by default their numbers.
    """
    group_sizes = np.asarray(group_sizes, dtype=np.float64)
    constraints = CellConstraints.of_bounds(bounds, joint)
    table, beyond = _least_slack(constraints, group_sizes)
    slack = np.abs(beyond)
    threshold = LEAST_SLACK * max(1.0, group_sizes.sum())
    rows = f"{_number(group_sizes.sum())} rows in {len(table)} clusters"
    if slack.max(initial=0.0) <= threshold:
        return FeasibilityReport(True, f"The bounds can be met: {rows}.", table)
    worst = int(np.argmax(slack))
    a, l, r = constraints.place[worst].tolist()
    is_upper = beyond[worst] > 0 if constraints.sign[worst] == 0 else constraints.sign[worst] > 0
    n_missed, total = int((slack > threshold).sum()), float(slack.sum())
    in_all = ""
    if n_missed > 1:
        in_all = f"; {n_missed} bounds are missed by {_number(total)} rows in all"
    if a < 0:
        bound, group = ("max_size" if is_upper else "min_size"), None
        size = (bounds[0].greatest if is_upper else bounds[0].least)[l]
        what = f"cluster {l} misses its {bound}={_number(size)}"
    else:
        bound, group = ("upper" if is_upper else "lower"), r if names is None else names[a][r]
        codes = np.arange(len(group_sizes)) if joint is None else joint[:, a]
        of = _of_attribute(a, bounds, columns)
        share, own = getattr(bounds[a], bound)[l, r], float(group_sizes[codes == r].sum())
        what = (
            f"group {group!r}{of}, with {_number(own)} rows or "
            f"{own / group_sizes.sum():.4g} of all, misses its "
            f"{bound} share {share:.4g} of cluster {l}"
        )
    reasons = _plain_reasons(bounds, float(group_sizes.sum()), columns)
    message = reasons + (
        f"No assignment of {rows} meets the bounds. In the one that misses them least, {what} by "
        f"{_number(slack[worst])} rows{in_all}. Loosen this bound, or others of the same group or "
        "cluster."
    )
    return FeasibilityReport(
        False, message, table, None if a < 0 else a, l, group, bound,
        round(float(slack[worst]), 9), round(total, 9),
    )  # fmt: skip


def _of_attribute(a: int, bounds: Any, columns: Any) -> str:
    return "" if len(bounds) == 1 else f" of attribute {a if columns is None else columns[a]!r}"


def _plain_reasons(bounds: Any, total: float, columns: Any) -> str:
    """Sentences on sums that cannot be right, if there are some.

    Shares of a cluster that cannot sum to one, or sizes that cannot sum to all rows, are what
    the user got wrong; the cell at which an assignment fails is only where that shows.
    """
    least = np.max([own.least for own in bounds], axis=0).sum()
    greatest = np.min([own.greatest for own in bounds], axis=0).sum()
    reasons = [
        f"{name} of all clusters sums to {_number(size)}, {relation} than {_number(total)} rows."
        for is_wrong, name, size, relation in (
            (least > total * (1.0 + SUM_ERROR), "min_size", least, "more"),
            (greatest < total * (1.0 - SUM_ERROR), "max_size", greatest, "less"),
        )
        if is_wrong
    ]
    for a, own in enumerate(bounds):
        if own.margin:
            reasons.append(
                f"group_errors={own.margin:g} keeps every cell{_of_attribute(a, bounds, columns)} "
                f"{_number(own.margin)} rows inside its bounds."
            )
        reasons += _reasons_of_shares(own, _of_attribute(a, bounds, columns))
    return "".join(f"{reason} " for reason in reasons)


def _reasons_of_shares(bounds: Any, of: Any) -> list[str]:
    lowest, highest = bounds.lower.sum(axis=1), bounds.upper.sum(axis=1)
    reasons = []
    for wrong, sums, name, relation in (
        (lowest > 1.0 + SUM_ERROR, lowest, "lower", "more"),
        (highest < 1.0 - SUM_ERROR, highest, "upper", "less"),
    ):
        if wrong.any():
            l = int(np.argmax(wrong))
            where = "every cluster" if wrong.all() and np.ptp(sums) < SUM_ERROR else f"cluster {l}"
            reasons.append(
                f"The {name} shares{of} in {where} sum to {sums[l]:.6g}, {relation} than 1: no "
                "row can be there."
            )
    return reasons


def _number(value: Any) -> str:
    """A number of rows, or a weight, with all digits of a whole number."""
    is_whole = 0.5 <= abs(value) < 2**53 and abs(value - round(value)) < 1e-6
    return f"{round(value):,}" if is_whole else f"{value:,.6g}"


def _least_slack(
    constraints: CellConstraints, group_sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Table that misses the bounds least in all, and by how much it is beyond each.

    Variables are the cells, and what is beyond a bound and (for equations) short of it.
    """
    n_clusters, n_groups = constraints.shape
    n_bounds, n_cells = constraints.n_bounds, n_clusters * n_groups
    equal = np.flatnonzero(constraints.is_equal)
    identity = sparse.eye_array(n_bounds, format="csc")
    beyond = sparse.hstack([constraints.matrix, -identity, identity[:, equal]], format="csr")
    n_slacks = n_bounds + len(equal)
    unequal = np.flatnonzero(~constraints.is_equal)
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups))
    whole = sparse.hstack([of_groups, sparse.csr_array((n_groups, n_slacks))])
    result = linprog(
        np.repeat([0.0, 1.0], [n_cells, n_slacks]),
        A_ub=beyond[unequal] if len(unequal) else None,
        b_ub=constraints.right[unequal] if len(unequal) else None,
        A_eq=sparse.vstack([whole, beyond[equal]]),
        b_eq=np.concatenate([group_sizes, constraints.right[equal]]),
        method="highs-ds",
    )
    if result.status != 0:
        raise RuntimeError(f"HiGHS could not check the bounds: {result.message}")
    excess = result.x[n_cells : n_cells + n_bounds].copy()
    excess[equal] -= result.x[n_cells + n_bounds :]
    return result.x[:n_cells].reshape(constraints.shape), excess
