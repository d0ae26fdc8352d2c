"""Bounds on the shares of the groups in the clusters and on the clusters' sizes.

`ShareBounds` are the bounds of one attribute, a `BoundRule` those of all attributes. Rows always
carry the code of their *joint* group, whether the bounds are on these groups or on each sensitive
column by itself: nothing but the rule has to know the difference. `CellConstraints` are the same
bounds as a linear system on the table of clusters x joint groups, which the engine takes.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from fairanchor._kernels._dual import Bounds
from fairanchor._utils._cached import cached_property

# Shares this close are one, and a count this close to a bound meets it.
SAME_SHARE = 1e-12
ROUNDING_ERROR = 1e-9


@dataclass(frozen=True)
class ShareBounds:
    """Bounds on shares and sizes of the clusters, for one attribute.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_clusters, n_groups)
        Group r has at least ``lower[l, r]`` and at most ``upper[l, r]`` of cluster l.
    least, greatest : ndarray of shape (n_clusters,)
        Sizes of the clusters; no bounds are 0 and infinity.
    margin : float, default=0.0
        Rows by which every cell stays inside its bounds on shares.
    """

    lower: np.ndarray
    upper: np.ndarray
    least: np.ndarray
    greatest: np.ndarray
    margin: float = 0.0

    @classmethod
    def of_shares(
        cls, lower: Any, upper: Any, n_clusters: int, *, least: Any = 0.0, greatest: Any = np.inf
    ) -> Self:
        """From shares per group, or per cluster and group, and sizes for all or each cluster."""
        shape = (n_clusters, np.shape(lower)[-1])
        return cls(
            np.broadcast_to(np.asarray(lower, dtype=np.float64), shape),
            np.broadcast_to(np.asarray(upper, dtype=np.float64), shape),
            np.broadcast_to(np.asarray(least, dtype=np.float64), n_clusters),
            np.broadcast_to(np.asarray(greatest, dtype=np.float64), n_clusters),
        )

    @classmethod
    def proportional(
        cls,
        group_sizes: np.ndarray,
        n_clusters: int,
        tolerance: float,
        *,
        least: Any = 0.0,
        greatest: Any = np.inf,
    ) -> Self:
        """Shares in ``[(1 - tolerance) pi_r, pi_r / (1 - tolerance)]``, pi_r those of the data."""
        check_tolerance(tolerance)
        shares = np.asarray(group_sizes, dtype=np.float64) / np.sum(group_sizes)
        lower, upper = share_interval(shares, tolerance)
        return cls.of_shares(lower, upper, n_clusters, least=least, greatest=greatest)

    @property
    def n_clusters(self) -> int:
        return len(self.least)

    @property
    def is_equal(self) -> np.ndarray:
        """Cells whose share is fixed."""
        return self.upper - self.lower <= SAME_SHARE

    def in_whole_rows(self) -> Self:
        """The same bounds with sizes that are whole numbers."""
        return replace(
            self,
            least=np.ceil(self.least - ROUNDING_ERROR),
            greatest=np.floor(self.greatest + ROUNDING_ERROR),
        )

    def cell_bounds(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest rows of each cell in clusters of these sizes, margins included."""
        lowest, highest = self.lower * sizes[:, None], self.upper * sizes[:, None]
        if self.margin:  # not where any share is allowed, nor in an empty cluster
            has_rows = sizes[:, None] > 0
            lowest = lowest + self.margin * (has_rows & (self.lower > 0.0))
            highest = highest - self.margin * (has_rows & (self.upper < 1.0))
        return lowest, highest

    def violation(self, counts: np.ndarray) -> float:
        """By how many rows (or how much weight) the worst cell or cluster misses its bounds."""
        counts = np.asarray(counts, dtype=np.float64)
        sizes = counts.sum(axis=1)
        lowest, highest = self.cell_bounds(sizes)
        beyond = np.maximum(lowest - counts, counts - highest)
        beyond_size = np.maximum(self.least - sizes, sizes - self.greatest)
        worst = max(float(beyond.max(initial=0.0)), float(beyond_size.max(initial=0.0)))
        return worst if worst > ROUNDING_ERROR * max(1.0, sizes.max()) else 0.0


def share_interval(shares: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest shares: ``(1 - tolerance) shares`` and ``shares / (1 - tolerance)``."""
    upper = np.ones(shares.shape)
    if tolerance < 1.0:
        upper = np.minimum(shares / (1.0 - tolerance), 1.0)
    return (1.0 - tolerance) * shares, upper


def check_tolerance(tolerance: Any) -> None:
    """Raise an error for a tolerance that is not a number in [0, 1]."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, np.number)):
        raise TypeError(f"tolerance={tolerance!r} should be a number between 0 and 1.")
    if not 0.0 <= tolerance <= 1.0:
        raise ValueError(
            f"tolerance={tolerance!r} should be between 0 (every cluster mirrors the data) and "
            "1 (no bound): a group's share of a cluster may be (1 - tolerance) times its share "
            "of the data."
        )


class Entries(NamedTuple):
    """Entries of a matrix that are not zero: its rows are bounds, its columns places.

    Plain arrays: where a program has a few dozen bounds, and there are many programs, sparse
    matrices would take longer to make than to use.
    """

    bounds: np.ndarray
    places: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class CellConstraints:
    """Linear bounds on the table N of clusters × groups, and on its row sums, the sizes.

    A bound on a share is one on a cell and on a size. Written as one on the cells only it
    would have an entry for each group, which is slow where there are many.

    Attributes
    ----------
    of_cells, of_sizes : Entries
        Coefficients of the cells, in row-major order, and of the sizes.
    right : ndarray of shape (n_bounds,)
    is_equal : ndarray of bool of shape (n_bounds,)
        The sum is equal to ``right`` there, at most ``right`` elsewhere.
    shape : tuple
        (n_clusters, n_groups).
    """

    of_cells: Entries
    of_sizes: Entries
    right: np.ndarray
    is_equal: np.ndarray
    shape: tuple

    @classmethod
    def of_table(cls, table: np.ndarray) -> Self:
        """Every cell as in a table."""
        table = np.asarray(table, dtype=np.float64)
        cells, nothing = np.arange(table.size), np.empty(0, dtype=np.int64)
        of_cells = Entries(cells, cells, np.ones(table.size))
        is_equal = np.ones(table.size, dtype=np.bool_)
        of_sizes = Entries(nothing, nothing, np.empty(0))
        return cls(of_cells, of_sizes, table.ravel(), is_equal, table.shape)

    @property
    def n_bounds(self) -> int:
        return len(self.right)

    @cached_property
    def for_kernels(self) -> Bounds:
        """The same as plain arrays."""
        return Bounds(*self.of_cells, *self.of_sizes, self.right, self.is_equal)

    def typical_weight(self, cells: np.ndarray) -> np.ndarray:
        """For every bound the weight that it is about, if groups weigh so much in a cluster."""
        n_clusters, n_groups = self.shape
        weights = np.zeros(self.n_bounds)
        bounds, places, values = self.of_cells
        np.add.at(weights, bounds, np.abs(values) * cells[places % n_groups])
        is_size = np.ones(self.n_bounds, dtype=np.bool_)
        is_size[bounds] = False
        return np.where(is_size, cells.sum(), weights)

    @property
    def matrix(self) -> Any:
        """Coefficients when sizes are written as sums of cells, as a sparse matrix."""
        n_clusters, n_groups = self.shape
        sums = sparse.kron(sparse.eye_array(n_clusters), np.ones((1, n_groups)), format="csr")
        of_cells = self._sparse(self.of_cells, n_clusters * n_groups)
        return of_cells + self._sparse(self.of_sizes, n_clusters) @ sums

    def _sparse(self, entries: Entries, n_places: int) -> Any:
        bounds, places, values = entries
        return sparse.csr_array((values, (bounds, places)), shape=(self.n_bounds, n_places))

    def size_prices(self, multipliers: np.ndarray) -> np.ndarray:
        """What bounds add to the prices of all cells of a cluster."""
        return _summed(self.of_sizes, multipliers, self.shape[0])

    def prices(self, multipliers: np.ndarray) -> np.ndarray:
        """Prices of the cells."""
        n_clusters, n_groups = self.shape
        of_cells = _summed(self.of_cells, multipliers, n_clusters * n_groups)
        of_sizes = _summed(self.of_sizes, multipliers, n_clusters)
        return of_cells.reshape(self.shape) + of_sizes[:, None]

    def left(self, table: np.ndarray) -> np.ndarray:
        """What a table leaves of each bound; negative beyond it."""
        taken = np.zeros(self.n_bounds)
        for (bounds, places, values), amounts in (
            (self.of_cells, table.ravel()),
            (self.of_sizes, table.sum(axis=1)),
        ):
            taken += np.bincount(bounds, weights=values * amounts[places], minlength=len(taken))
        return self.right - taken

    def excess(self, table: np.ndarray) -> float:
        """By how much the worst bound is missed."""
        beyond = -self.left(table)
        return float(np.where(self.is_equal, np.abs(beyond), beyond).max(initial=0.0))


def _summed(entries: Entries, multipliers: np.ndarray, n_places: int) -> np.ndarray:
    bounds, places, values = entries
    return np.bincount(places, weights=values * multipliers[bounds], minlength=n_places)


@dataclass(frozen=True)
class BoundRows:
    """The rows of `CellConstraints` that come from bounds on shares and sizes.

    Attributes
    ----------
    constraints : CellConstraints
    place : ndarray of shape (n_bounds, 3)
        Attribute (-1 for a size), cluster and group of each.
    sign : ndarray of shape (n_bounds,)
        1 for a greatest value, -1 for a least one, 0 for both at once.
    """

    constraints: CellConstraints
    place: np.ndarray
    sign: np.ndarray

    @classmethod
    def of(cls, bounds: list[ShareBounds], joint: np.ndarray | None = None) -> Self:
        """Bounds of several attributes on the table of clusters × joint groups.

        Parameters
        ----------
        bounds : list of ShareBounds
            One per attribute; the sizes are those of the first.
        joint : ndarray of shape (n_joint, n_attributes), default=None
            Codes of the joint groups; by default one attribute, whose groups they are.
        """
        if joint is None:
            joint = np.arange(bounds[0].lower.shape[1])[:, None]
        kinds = [*_size_kinds(bounds[0])]
        for a, of_attribute in enumerate(bounds):
            kinds += _share_kinds(of_attribute, a)
        place = np.concatenate([kind.place for kind in kinds])
        sign = np.concatenate([np.full(len(kind.values), kind.sign) for kind in kinds])
        values = np.concatenate([kind.values for kind in kinds])
        direction, is_size = np.where(sign < 0, -1.0, 1.0), place[:, 0] < 0
        # A size by itself, or minus a share of it.
        of_sizes = Entries(
            np.arange(len(sign)), place[:, 1], direction * np.where(is_size, 1.0, -values)
        )
        margins = np.array([own.margin for own in bounds])
        right = np.where(is_size, direction * values, -margins[place[:, 0]])
        shape = (bounds[0].n_clusters, len(joint))
        constraints = CellConstraints(
            _cells_of(place, direction, joint), of_sizes, right, sign == 0, shape
        )
        return cls(constraints, place, sign)

    def to_tables(self, multipliers: np.ndarray, bounds: list[ShareBounds]) -> list[np.ndarray]:
        """Net multipliers as tables: of the sizes, then of each attribute."""
        net = np.where(self.sign == 0, 1, self.sign) * multipliers
        tables = [
            np.zeros((bounds[0].n_clusters, 1)),
            *(np.zeros(own.lower.shape) for own in bounds),
        ]
        for a, table in enumerate(tables, start=-1):
            own = self.place[:, 0] == a
            np.add.at(table, (self.place[own, 1], self.place[own, 2]), net[own])
        return tables


class _Kind(NamedTuple):
    """Bounds of the same kind: attribute (-1 for sizes), cluster and group of each; how much."""

    place: np.ndarray
    sign: int
    values: np.ndarray


def _share_kinds(bounds: ShareBounds, attribute: int) -> list[_Kind]:
    # A single group is all of every cluster.
    is_trivial = (bounds.lower.shape[1] == 1) & (bounds.lower == 1.0) & (bounds.upper == 1.0)
    is_free = ~bounds.is_equal
    return _kinds(
        attribute, bounds.lower, bounds.upper, bounds.is_equal & ~is_trivial,
        is_free & (bounds.upper < 1.0), is_free & (bounds.lower > 0.0),
    )  # fmt: skip


def _size_kinds(bounds: ShareBounds) -> list[_Kind]:
    least, greatest = bounds.least[:, None], bounds.greatest[:, None]
    is_free = least != greatest
    return _kinds(
        -1, least, greatest, ~is_free, is_free & np.isfinite(greatest), is_free & (least > 0.0)
    )


def _kinds(
    attribute: int,
    lower: np.ndarray,
    upper: np.ndarray,
    is_equal: np.ndarray,
    has_upper: np.ndarray,
    has_lower: np.ndarray,
) -> list[_Kind]:
    kinds = []
    for chosen, sign, values in (
        (is_equal, 0, upper),
        (has_upper, 1, upper),
        (has_lower, -1, lower),
    ):
        clusters, groups = np.nonzero(chosen)
        place = np.column_stack([np.full(len(clusters), attribute), clusters, groups])
        kinds.append(_Kind(place, sign, values[chosen]))
    return kinds


def _cells_of(place: np.ndarray, direction: np.ndarray, joint: np.ndarray) -> Entries:
    """Entries of the joint groups that bounds on shares are about."""
    rows, columns = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for a in range(joint.shape[1]):
        own = np.flatnonzero(place[:, 0] == a)
        order = np.argsort(joint[:, a], kind="stable")
        codes, groups = joint[order, a], place[own, 2]
        first = np.searchsorted(codes, groups)
        counts = np.searchsorted(codes, groups, side="right") - first
        before = np.cumsum(counts) - counts
        members = order[np.arange(counts.sum()) + np.repeat(first - before, counts)]
        rows.append(np.repeat(own, counts))
        columns.append(np.repeat(place[own, 1], counts) * len(joint) + members)
    numbers = np.concatenate(rows)
    return Entries(numbers, np.concatenate(columns), direction[numbers])


@dataclass(frozen=True)
class BoundRule:
    """Bounds on the shares of one or several attributes, and on the sizes of the clusters.

    Attributes
    ----------
    bounds : tuple of ShareBounds
        One per attribute; bounds on sizes are those of the first.
    joint : ndarray of shape (n_groups, n_attributes), or None
        Group in each attribute, of each group that rows have a code of. None if these groups
        are the only attribute.
    """

    bounds: tuple
    joint: np.ndarray | None = None

    @property
    def n_clusters(self) -> int:
        return self.bounds[0].n_clusters

    @cached_property
    def bound_rows(self) -> BoundRows:
        """The bounds as rows of a matrix."""
        return BoundRows.of(list(self.bounds), self.joint)

    def attribute_prices(self, multipliers: np.ndarray) -> list[np.ndarray]:
        """Tables whose sum over a row's groups is its price; none for a single attribute."""
        if self.joint is None:
            return []
        of_sizes = self.bound_rows.constraints.size_prices(multipliers) / len(self.bounds)
        tables = self.bound_rows.to_tables(multipliers, list(self.bounds))[1:]
        return [table + of_sizes[:, None] for table in tables]

    def margins(self, table: np.ndarray) -> list[np.ndarray]:
        """Tables of the attributes, from that of the rows' groups."""
        if self.joint is None:
            return [table]
        tables = []
        for a, own in enumerate(self.bounds):
            margin = np.zeros(own.lower.shape, dtype=table.dtype)
            np.add.at(margin.T, self.joint[:, a], table.T)
            tables.append(margin)
        return tables

    def violations(self, table: np.ndarray) -> list[float]:
        """By how many rows each attribute's worst cell, or a size, misses its bound."""
        tables = self.margins(np.asarray(table))
        return [own.violation(one) for own, one in zip(self.bounds, tables, strict=True)]


def proportional_rule(
    group_sizes: np.ndarray,
    n_clusters: int,
    tolerance: float,
    *,
    min_size: float = 0.0,
    joint: np.ndarray | None = None,
) -> BoundRule:
    """Every cluster mirrors the data up to a tolerance, in each attribute.

    Parameters
    ----------
    group_sizes : ndarray of shape (n_groups,)
        Weight of the groups that rows have a code of.
    n_clusters : int
    tolerance : float in [0, 1]
    min_size : float
        Least weight of a cluster.
    joint : ndarray of shape (n_groups, n_attributes), default=None
        As in `BoundRule`.

    Returns
    -------
    rule : BoundRule
    """
    sizes = [group_sizes]
    if joint is not None:
        sizes = [np.bincount(codes, weights=group_sizes) for codes in joint.T]
    bounds = tuple(
        ShareBounds.proportional(own, n_clusters, tolerance, least=min_size) for own in sizes
    )
    return BoundRule(bounds, joint)
