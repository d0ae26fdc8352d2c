"""From what users ask for to the constraint that an assignment must satisfy.

A constraint is one of three: every cluster mirrors the population (neither ``targets`` nor
``rule``), a table of targets, or a rule with bounds on shares and sizes.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairanchor.constraints._bounds import (
    ROUNDING_ERROR,
    BoundRule,
    CellConstraints,
    ShareBounds,
    proportional_rule,
    share_interval,
)
from fairanchor.constraints._fairness_targets import FairnessTargets, named_columns
from fairanchor.constraints._feasibility import check_bounds
from fairanchor.groups import Attributes, Groups


@dataclass(frozen=True)
class Constraint:
    """What labels must satisfy; groups are in canonical order.

    Attributes
    ----------
    targets : ndarray of shape (n_clusters, n_groups), or None
        Weight of each cell.
    rule : BoundRule, or None
        Bounds on shares and sizes.
    """

    targets: np.ndarray | None = None
    rule: BoundRule | None = None

    @property
    def is_population(self) -> bool:
        """Whether clusters mirror the population exactly, with sizes that are free."""
        return self.targets is None and self.rule is None

    def cells(self, group_sizes: np.ndarray, n_clusters: int) -> CellConstraints:
        """The constraint as linear bounds on the table of clusters × groups."""
        if self.targets is not None:
            return CellConstraints.of_table(self.targets)
        if self.rule is not None:
            return self.rule.cells
        return proportional_rule(group_sizes, n_clusters, 0.0).cells

    def typical_sizes(self, total: float) -> np.ndarray | None:
        """Sizes in the middle of what is allowed, cluster by cluster; None if they are free."""
        if self.targets is not None:
            return np.asarray(self.targets.sum(axis=1))
        if self.rule is None:
            return None
        bounds = self.rule.bounds[0]
        return np.asarray(bounds.least + np.minimum(bounds.greatest, total)) / 2.0

    def allowed_cells(self, n_clusters: int, n_groups: int) -> np.ndarray:
        """Cells that may have rows: bool of shape (n_clusters, n_groups)."""
        allowed = np.ones((n_clusters, n_groups), dtype=bool)
        if self.targets is not None:
            allowed = (self.targets > 0) | (self.targets.sum(axis=0) == 0)
        elif self.rule is not None:
            for a, bounds in enumerate(self.rule.bounds):
                codes = np.arange(n_groups) if self.rule.joint is None else self.rule.joint[:, a]
                allowed &= bounds.upper[:, codes] > 0.0
        # A group without weight has a share of zero, and may be anywhere.
        return allowed | ~allowed.any(axis=0)


def check_request(
    fairness: Any,
    tolerance: float,
    min_cluster_size: float | None,
    names: Collection[str] = ("population",),
) -> None:
    """Raise an error for parameters that contradict each other; ``names`` are those of fairness."""
    if isinstance(fairness, str) and fairness not in names:
        raise ValueError(
            f"fairness={fairness!r} should be one of {sorted(names)}, a table of shape "
            "(n_clusters, n_groups), or FairnessTargets."
        )
    listed = list(fairness) if isinstance(fairness, (list, tuple)) else []
    if any(isinstance(each, (FairnessTargets, str)) for each in listed) and not is_bounds(fairness):
        raise ValueError(
            f"fairness={fairness!r} should hold FairnessTargets only, one for each column."
        )
    if is_bounds(fairness) and tolerance > 0.0:
        raise ValueError(
            f"tolerance={tolerance} is given and fairness is {fairness!r}: state the tolerance in "
            "FairnessTargets(tolerance=...)."
        )
    if min_cluster_size is None or (isinstance(fairness, str) and fairness == "population"):
        return
    remedy = (
        "State it in FairnessTargets(min_size=...)."
        if is_bounds(fairness)
        else ("The targets state the sizes of the clusters.")
    )
    raise ValueError(
        f"min_cluster_size={min_cluster_size} needs fairness='population', got "
        f"fairness={fairness!r}. {remedy}"
    )


def constraint_of(
    fairness: Any,
    tolerance: float,
    attributes: Attributes | None,
    groups: Groups,
    rows: Any,
    n_clusters: int,
    *,
    min_size: float | None = None,
    targets: np.ndarray | None = None,
    empty: bool = False,
    unit: float = 1.0,
) -> Constraint:
    """The constraint that the parameters of an estimator state.

    Parameters
    ----------
    fairness, tolerance, min_size
        Of the estimator, in the user's unit.
    attributes : Attributes or None
        None if the combinations of all sensitive columns are one attribute.
    groups : Groups
    rows : MemoryRows or ChunkedRows
    n_clusters : int
    targets : ndarray of shape (n_clusters, n_groups), default=None
        Table that a named fairness other than "population" means, in rows.
    empty : bool
        Whether clusters may be empty. By default they have at least one row, where rows are whole.
    unit : float
        What one row weighs in the user's unit.
    """
    empty = empty or rows.is_weighted
    joint = None if attributes is None else attributes.joint_of_several
    if is_bounds(fairness):
        return Constraint(
            rule=_rule_of(fairness, attributes, groups, rows, n_clusters, empty, unit)
        )
    if isinstance(fairness, str) and fairness == "population":
        if tolerance == 0.0 and joint is None and min_size is None:
            return Constraint()
        least = 0.0 if empty else 1.0
        if min_size is not None:
            if min_size * n_clusters > rows.total * unit:
                raise ValueError(
                    f"min_cluster_size={min_size} times n_clusters={n_clusters} should be <= the "
                    f"{rows.total * unit:g} samples there are."
                )
            least = max(least, min_size / unit)
        rule = proportional_rule(
            rows.group_sizes, n_clusters, tolerance, min_size=least, joint=joint
        )
        return Constraint(rule=rule)
    if joint is not None:
        raise ValueError(
            f"attributes='separate' with {joint.shape[1]} columns needs fairness='population' or a "
            f"list of FairnessTargets, one for each column; got fairness={fairness!r}, which is "
            "about their combinations."
        )
    if targets is None:
        targets = check_table(fairness, n_clusters, groups, rows.group_sizes * unit) / unit
    if tolerance == 0.0:
        return Constraint(targets=targets)
    return Constraint(rule=BoundRule((_around(targets, tolerance),)))


def check_table(table: Any, n_clusters: int, groups: Any, group_sizes: np.ndarray) -> np.ndarray:
    """A user's table of targets with the groups in canonical order.

    Its columns are matched by name if they have names, otherwise they are in the order of the
    sorted names; they must sum to the sizes of the groups, which are in canonical order.
    """
    names, table = named_columns(table)
    expected = (n_clusters, groups.n_groups)
    if names is not None and table.shape == expected:
        missing = [name for name in groups.public_names if name not in names]
        if missing:
            raise ValueError(
                f"fairness is a table with the columns {names[:20]}, expected the groups "
                f"{groups.public_names.tolist()[:20]}."
            )
        table = table[:, [names.index(name) for name in groups.public_names]]
    if table.shape != expected:
        raise ValueError(
            f"fairness is a table of shape {table.shape}, expected (n_clusters, n_groups)="
            f"{expected} with the groups in the order {groups.public_names.tolist()}."
        )
    table = groups.from_public(table)
    if not np.isfinite(table).all() or (table < 0).any():
        l, r = np.argwhere(~(table >= 0) | ~np.isfinite(table))[0]
        raise ValueError(
            f"The target of cluster {l} and group {groups.names[r]!r} is {table[l, r]}: "
            "expected a finite weight of at least 0."
        )
    columns = table.sum(axis=0)
    wrong = np.abs(columns - group_sizes) > 1e-6 * np.maximum(group_sizes, 1e-300)
    if wrong.any():
        r = int(np.argmax(wrong))
        raise ValueError(
            f"The targets of group {groups.names[r]!r} sum to {columns[r]:.6g} over the clusters, "
            f"expected the group's {group_sizes[r]:.6g} (rows, or their weight): every row is in "
            "exactly one cluster."
        )
    return table


def is_bounds(fairness: Any) -> bool:
    """Whether these are `FairnessTargets`, or a list of them."""
    if isinstance(fairness, FairnessTargets):
        return True
    listed = isinstance(fairness, (list, tuple)) and len(fairness) > 0
    return listed and all(isinstance(each, FairnessTargets) for each in fairness)


def asks_for_sizes(fairness: Any, min_cluster_size: float | None) -> bool:
    """Whether sizes of clusters are bounded, which needs no groups."""
    if min_cluster_size is not None:
        return True
    if not is_bounds(fairness):
        return not isinstance(fairness, str)  # a table of targets has sizes
    listed = fairness if isinstance(fairness, (list, tuple)) else [fairness]
    return any(each.min_size is not None or each.max_size is not None for each in listed)


def _rule_of(
    fairness: Any,
    attributes: Any,
    groups: Any,
    rows: Any,
    n_clusters: int,
    empty: bool,
    unit: float,
) -> BoundRule:
    each = list(fairness) if isinstance(fairness, (list, tuple)) else [fairness]
    joint = None if attributes is None else attributes.joint_of_several
    n_attributes = 1 if joint is None else joint.shape[1]
    if len(each) != n_attributes:
        raise ValueError(
            f"fairness has {len(each)} FairnessTargets, expected {n_attributes}: one for each "
            "attribute, which with attributes='separate' is each column."
        )
    if joint is None:
        bounds = each[0].resolve(groups, n_clusters, group_sizes=rows.group_sizes)
        bounds, names = [bounds], [groups.names]
    else:
        names = attributes.names
        sizes = [np.bincount(codes, weights=rows.group_sizes) for codes in joint.T]
        triples = zip(each, sizes, names, strict=True)
        bounds = [targets.bounds_for(size, name, n_clusters) for targets, size, name in triples]
    bounds = [_in_rows(one, rows, empty, unit) for one in bounds]
    if joint is not None:  # the sizes that all attributes together allow
        least = np.max([one.least for one in bounds], axis=0)
        greatest = np.min([one.greatest for one in bounds], axis=0)
        bounds[0] = replace(bounds[0], least=least, greatest=greatest)
    names = [list(one) for one in names]
    columns = None if joint is None else attributes.columns
    check_bounds(bounds, rows.group_sizes, names, joint, columns).raise_if_infeasible()
    return BoundRule(tuple(bounds), joint)


def _in_rows(bounds: ShareBounds, rows: Any, empty: bool, unit: float) -> ShareBounds:
    """Sizes in rows instead of the user's weights, whole numbers unless rows have weights."""
    least, greatest = bounds.least / unit, bounds.greatest / unit
    if rows.is_weighted:
        if bounds.margin:
            raise ValueError(
                f"group_errors={bounds.margin:g} counts rows, but sample_weight gives rows unequal "
                "weights: the certificate needs rows of equal weight."
            )
    else:
        least, greatest = np.ceil(least - ROUNDING_ERROR), np.floor(greatest + ROUNDING_ERROR)
        if not empty:
            least = np.maximum(least, np.minimum(1.0, greatest))
    return replace(bounds, least=least, greatest=greatest)


def _around(targets: np.ndarray, tolerance: float) -> ShareBounds:
    """Shares of a table's clusters up to a tolerance, sizes free; no rows where it has none."""
    sizes = targets.sum(axis=1)
    shares = np.divide(targets, sizes[:, None], out=np.zeros(targets.shape),
                       where=sizes[:, None] > 0)  # fmt: skip
    lower, upper = share_interval(shares, tolerance)
    greatest = np.where(sizes > 0, np.inf, 0.0)
    upper[sizes == 0] = 1.0
    return ShareBounds(lower, upper, np.zeros(len(sizes)), greatest)
