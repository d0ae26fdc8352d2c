"""Whether bounds on shares and sizes can be met, and what stands in the way if not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairanchor.constraints._bounds import CellConstraints, ShareBounds

# Rows, as part of all, by which bounds may be missed before they are called contradictory.
LEAST_SLACK = 1e-7


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
    names: list,
    joint: np.ndarray | None = None,
    columns: Any = None,
) -> FeasibilityReport:
    """`FeasibilityReport` of the bounds of each attribute, whose groups have these names.

    ``group_sizes`` are weights of the joint groups, ``joint`` is as in `BoundRule`; ``columns``
    are the names of several attributes.
    """
    group_sizes = np.asarray(group_sizes, dtype=np.float64)
    n_rows = group_sizes.sum()
    constraints = CellConstraints.of_bounds(bounds, joint)
    table, beyond = _least_slack(constraints, group_sizes)
    slack = np.abs(beyond)
    threshold = LEAST_SLACK * max(1.0, n_rows)
    rows = f"{_number(n_rows)} rows in {len(table)} clusters"
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
        bound, group = ("upper" if is_upper else "lower"), names[a][r]
        codes = np.arange(len(group_sizes)) if joint is None else joint[:, a]
        of = "" if joint is None else f" of attribute {columns[a]!r}"
        size = float(group_sizes[codes == r].sum())
        what = (
            f"group {group!r}{of}, with {_number(size)} rows or {size / n_rows:.4g} of all, misses "
            f"its {bound} share {getattr(bounds[a], bound)[l, r]:.4g} of cluster {l}"
        )
        if bounds[a].margin:
            what += f" and group_errors={bounds[a].margin:g}"
    message = (
        f"No assignment of {rows} meets the bounds. In the one that misses them least, {what} by "
        f"{_number(slack[worst])} rows{in_all}. Loosen this bound, or others of the same group or "
        "cluster."
    )
    return FeasibilityReport(
        False, message, table, None if a < 0 else a, l, group, bound,
        round(float(slack[worst]), 9), round(total, 9),
    )  # fmt: skip


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
