"""Checks of the constraint of a fit: by how many rows each cluster violates it, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from fairanchor.constraints._bounds import ROUNDING_ERROR, ShareBounds
from fairanchor.constraints._constraint import is_bounds
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.plotting._composition import Composition
from fairanchor.plotting._names import display_name, quoted_name

SHARES = {
    "population": "its share of all rows",
    "anchors": "its share of the anchors of the cluster",
    "anchors_sized": "its share of the anchors of the cluster, fitted to the sizes in the data",
}


@dataclass(frozen=True)
class ConstraintCheck:
    """Counts of one attribute (None: of the groups of the run) and the bounds on them.

    ``counts`` and ``targets``, which replace bounds on shares where they are given, are in rows or
    weight; columns are in the order of ``groups``.
    """

    attribute: Any
    groups: list[Any]
    counts: np.ndarray
    bounds: ShareBounds
    targets: np.ndarray | None = None

    @property
    def violations(self) -> np.ndarray:
        """Rows, or weight, by which each cell violates its bounds."""
        if self.targets is not None:
            excess = np.abs(self.counts - self.targets)
            rounding = ROUNDING_ERROR * max(1.0, float(self.counts.sum(axis=1).max()))
            return np.where(excess > rounding, excess, 0.0)
        return self.bounds.excess(self.counts)[0]

    @property
    def size_violations(self) -> np.ndarray:
        """Rows, or weight, by which the size of each cluster violates its bounds."""
        return self.bounds.excess(self.counts)[1]

    @property
    def worst(self) -> float:
        """The largest violation."""
        return max(float(self.violations.max()), float(self.size_violations.max()))

    @property
    def composition(self) -> Composition:
        """The same counts with numbers for the clusters."""
        return Composition(self.counts, list(range(len(self.counts))), self.groups)

    def groups_to_show(self, at_most: int) -> np.ndarray:
        """Numbers of the groups nearest to, or farthest beyond, their bounds."""
        shares = self.composition.shares
        slack = np.minimum(shares - self.bounds.lower, self.bounds.upper - shares)
        return np.sort(np.argsort(slack.min(axis=0), kind="stable")[:at_most])

    @property
    def is_same_for_all(self) -> bool:
        """Whether all clusters have the same bounds on shares."""
        lower, upper = self.bounds.lower, self.bounds.upper
        return bool((lower == lower[0]).all() and (upper == upper[0]).all())

    def share_text(self, l: int, r: int) -> str:
        """Bounds of a cell in words."""
        low, high = self.bounds.lower[l, r], self.bounds.upper[l, r]
        if high - low < 5e-5:
            return f"{low:.2%}"
        if low <= 0.0:
            return "any" if high >= 1.0 else f"at most {high:.2%}"
        return f"at least {low:.2%}" if high >= 1.0 else f"{low:.2%} to {high:.2%}"

    def size_text(self, l: int) -> str:
        """Bounds on the size of a cluster in words; empty if there are none."""
        texts = []
        if self.bounds.least[l] not in (0.0, 1.0):  # every cluster has a row in any case
            texts.append(f"at least {self.bounds.least[l]:,.8g}")
        if np.isfinite(self.bounds.greatest[l]):
            texts.append(f"at most {self.bounds.greatest[l]:,.8g}")
        return ", ".join(texts)


def checks_of_estimator(estimator: Any) -> list[ConstraintCheck] | None:
    """One check for each attribute of a fitted estimator; None for the population's shares."""
    bounds = getattr(estimator, "_public_bounds", None)
    if bounds is not None:
        pairs = zip(_tables_of(estimator), bounds, strict=True)
        return [ConstraintCheck(*table, own) for table, own in pairs]
    fairness = getattr(estimator, "fairness", "population")
    if isinstance(fairness, str) and fairness == "population":
        return None
    counts, targets = estimator.counts_, estimator.targets_
    sizes = targets.sum(axis=1, keepdims=True)
    shares = targets / np.where(sizes > 0, sizes, 1.0)
    of_shares = ShareBounds.of_shares(shares, shares, len(counts))
    return [ConstraintCheck(None, list(estimator.groups_), counts, of_shares, targets)]


def _tables_of(estimator: Any) -> list[tuple[Any, list[Any], np.ndarray]]:
    """Name, groups and counts of each attribute."""
    tables = getattr(estimator, "attribute_counts_", None)
    if tables is None:
        return [(None, list(estimator.groups_), estimator.counts_)]
    groups = estimator.attribute_groups_
    return [(name, list(groups[name]), table) for name, table in tables.items()]


def checks_of_counts(
    counts: np.ndarray,
    group_names: Sequence[Any],
    targets: Any,
    attributes: Any = None,
    *,
    unassigned: np.ndarray | None = None,
) -> list[ConstraintCheck]:
    """Checks of a table of counts, one for each of the ``attributes`` if columns are separate.

    ``targets`` is a tolerance, `FairnessTargets`, or a list with one for each attribute; rows
    ``unassigned`` to a cluster belong to the population.
    """
    clusters = list(range(len(counts)))
    without = np.zeros(len(group_names)) if unassigned is None else unassigned
    everyone = Composition(np.vstack([counts, without]), [*clusters, None], list(group_names))
    tables = [(None, everyone)] if attributes is None else everyone.by_column(attributes)
    each = list(targets) if isinstance(targets, (list, tuple)) else [targets] * len(tables)
    if len(each) != len(tables):
        raise ValueError(
            f"targets has {len(each)} entries, expected {len(tables)}: one for each attribute."
        )
    checks = []
    for (name, part), target in zip(tables, each, strict=True):
        if isinstance(target, Real):
            target = FairnessTargets(tolerance=target)
        if not isinstance(target, FairnessTargets):
            raise TypeError(
                f"targets={target!r} should be a tolerance between 0 and 1, or FairnessTargets."
            )
        bounds = target.bounds_for(part.table.sum(axis=0), part.groups, len(counts))
        checks.append(ConstraintCheck(name, part.groups, part.table[:-1], bounds))
    return checks


def describe_estimator(estimator: Any) -> str:
    """The constraint of an estimator in one sentence."""
    fairness = getattr(estimator, "fairness", "population")
    if any(getattr(estimator, name, None) is not None for name in ("lower", "upper")):
        fairness = FairnessTargets()
    names = [name for name, _, _ in _tables_of(estimator) if name is not None]
    text = describe_constraint(fairness, getattr(estimator, "tolerance", 0.0), names)
    least = getattr(estimator, "min_cluster_size", None)
    if least is not None:
        text += f" A cluster has at least {least:g} rows."
    listed = fairness if isinstance(fairness, (list, tuple)) else [fairness]
    errors = max((t.group_errors for t in listed if isinstance(t, FairnessTargets)), default=0)
    if errors:
        text += f" The bounds hold even if the groups of up to {errors:,} rows are wrong."
    return text


def describe_constraint(fairness: Any, tolerance: float, attributes: Sequence[Any] = ()) -> str:
    """A constraint on these attributes in one sentence."""
    names = ", ".join(f"“{display_name(name, 60)}”" for name in attributes)
    separate = f" The constraint applies separately to {names}." if len(attributes) > 1 else ""
    if is_bounds(fairness):
        return f"Each group's share of a cluster, and its size, within given bounds.{separate}"
    if tolerance == 1.0:
        return "No constraint: a tolerance of 1 allows any share."
    shares = "its share in a given table"
    if isinstance(fairness, str):
        shares = SHARES.get(fairness, "its target in the paper")
    if tolerance == 0.0:
        return f"In every cluster each group's share equals {shares}.{separate}"
    return (
        f"In every cluster each group's share is within a tolerance of {tolerance:g} of {shares}: "
        f"at least {1 - tolerance:.4g} times and at most {1 / (1 - tolerance):.4g} times as large."
        f"{separate}"
    )


def describe_violation(checks: Sequence[ConstraintCheck], cluster_names: Sequence[Any]) -> str:
    """The cell, or the size, with the largest violation."""
    check = max(checks, key=lambda check: check.worst)
    violations, sizes = check.violations, check.counts.sum(axis=1)
    if check.worst == 0.0:
        return "Every group's share of every cluster is within its bounds."
    if check.size_violations.max() >= violations.max():
        l = int(check.size_violations.argmax())
        return (
            f"Worst violation: {quoted_name('cluster', cluster_names[l])} has a size of "
            f"{sizes[l]:,.8g}, expected {check.size_text(l) or 'at least 1'}."
        )
    l, r = map(int, np.unravel_index(violations.argmax(), violations.shape))
    share = check.counts[l, r] / sizes[l] if sizes[l] > 0 else 0.0
    return (
        f"Worst violation: {quoted_name('group', check.groups[r])} is {share:.2%} of "
        f"{quoted_name('cluster', cluster_names[l])}, expected {check.share_text(l, r)}: off by "
        f"{violations[l, r]:,.2f} rows."
    )
