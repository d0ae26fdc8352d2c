"""Bounds on the shares of the groups in the clusters and on the clusters' sizes.

`ShareBounds` are the bounds of one attribute, a `BoundRule` those of all attributes. Rows always
carry the code of their *joint* group, whether the bounds are on these groups or on each sensitive
column by itself: nothing but the rule has to know the difference. `CellConstraints` are the same
bounds as a linear system on the table of clusters x joint groups, which the engine takes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

    @property
    def n_clusters(self) -> int:
        return len(self.least)

    @property
    def is_equal(self) -> np.ndarray:
        """Cells whose share is fixed."""
        return self.upper - self.lower <= SAME_SHARE

    def cell_bounds(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest rows of each cell in clusters of these sizes, margins included."""
        lowest, highest = self.lower * sizes[:, None], self.upper * sizes[:, None]
        if self.margin:  # not where any share is allowed, nor in an empty cluster
            has_rows = sizes[:, None] > 0
            lowest = lowest + self.margin * (has_rows & (self.lower > 0.0))
            highest = highest - self.margin * (has_rows & (self.upper < 1.0))
        return lowest, highest

    def excess(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how many rows (or how much weight) each cell and each cluster misses its bounds."""
        counts = np.asarray(counts, dtype=np.float64)
        sizes = counts.sum(axis=1)
        lowest, highest = self.cell_bounds(sizes)
        beyond = np.maximum(lowest - counts, counts - highest)
        beyond_size = np.maximum(self.least - sizes, sizes - self.greatest)
        rounding = ROUNDING_ERROR * max(1.0, sizes.max())
        cells, clusters = (np.where(x > rounding, x, 0.0) for x in (beyond, beyond_size))
        return cells, clusters

    def violation(self, counts: np.ndarray) -> float:
        """The largest of these."""
        return max(float(part.max(initial=0.0)) for part in self.excess(counts))


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
    sign : ndarray of shape (n_bounds,)
        The sum is equal to ``right`` where it is 0, elsewhere at most ``right``; 1 is for a
        greatest value, -1 for a least one, whose coefficients have the opposite sign.
    place : ndarray of shape (n_bounds, 3)
        Attribute (-1 for a size), cluster and group of each.
    shape : tuple
        (n_clusters, n_groups).
    """

    of_cells: Entries
    of_sizes: Entries
    right: np.ndarray
    sign: np.ndarray
    place: np.ndarray
    shape: tuple

    @classmethod
    def of_table(cls, table: np.ndarray) -> Self:
        """Every cell as in a table."""
        table = np.asarray(table, dtype=np.float64)
        cells, nothing = np.arange(table.size), np.empty(0, dtype=np.int64)
        return cls(
            Entries(cells, cells, np.ones(table.size)),
            Entries(nothing, nothing, np.empty(0)),
            table.ravel(),
            np.zeros(table.size, dtype=np.int64),
            np.column_stack([0 * cells, *np.divmod(cells, table.shape[1])]),
            table.shape,
        )

    @classmethod
    def of_bounds(cls, bounds: Sequence[ShareBounds], joint: np.ndarray | None = None) -> Self:
        """Bounds of several attributes on the table of clusters × joint groups.

        Parameters
        ----------
        bounds : sequence of ShareBounds
            One per attribute; the sizes are those of the first.
        joint : ndarray of shape (n_joint, n_attributes), default=None
            Codes of the joint groups; by default one attribute, whose groups they are.
        """
        if joint is None:
            joint = np.arange(bounds[0].lower.shape[1])[:, None]
        least, greatest = bounds[0].least[:, None], bounds[0].greatest[:, None]
        parts = list(_kinds(-1, least, greatest, least == greatest, np.inf))
        for a, one in enumerate(bounds):
            # A single group is all of every cluster.
            is_trivial = (one.lower.shape[1] == 1) & (one.lower == 1.0) & (one.upper == 1.0)
            upper = np.where(is_trivial, 1.0, one.upper)
            lower = np.where(is_trivial, 0.0, one.lower)
            parts += _kinds(a, lower, upper, one.is_equal & ~is_trivial, 1.0)
        place, sign, values = map(np.concatenate, zip(*parts, strict=True))
        direction, is_size = np.where(sign < 0, -1.0, 1.0), place[:, 0] < 0
        # A size by itself, or minus a share of it.
        of_sizes = direction * np.where(is_size, 1.0, -values)
        margins = np.array([one.margin for one in bounds])
        return cls(
            _cells_of(place, direction, joint),
            Entries(np.arange(len(sign)), place[:, 1], of_sizes),
            np.where(is_size, direction * values, -margins[place[:, 0]]),
            sign,
            place,
            (bounds[0].n_clusters, len(joint)),
        )

    @property
    def n_bounds(self) -> int:
        return len(self.right)

    @property
    def is_equal(self) -> np.ndarray:
        """Bounds that are equations."""
        return self.sign == 0

    @cached_property
    def for_kernels(self) -> Bounds:
        """The same as plain arrays."""
        return Bounds(*self.of_cells, *self.of_sizes, self.right, self.is_equal)

    def typical_weight(self, cells: np.ndarray) -> np.ndarray:
        """For every bound the weight that it is about, if groups weigh so much in a cluster."""
        bounds, places, values = self.of_cells
        weights = np.abs(values) * cells[places % self.shape[1]]
        of_cells = np.bincount(bounds, weights=weights, minlength=self.n_bounds)
        return np.where(self.place[:, 0] < 0, cells.sum(), of_cells)

    @property
    def matrix(self) -> Any:
        """Coefficients when sizes are written as sums of cells, as a sparse matrix."""
        n_clusters, n_groups = self.shape
        sums = sparse.kron(sparse.eye_array(n_clusters), np.ones((1, n_groups)), format="csr")
        of_cells, of_sizes = (
            sparse.csr_array((values, (bounds, places)), shape=(self.n_bounds, n_places))
            for (bounds, places, values), n_places in (
                (self.of_cells, n_clusters * n_groups),
                (self.of_sizes, n_clusters),
            )
        )
        return of_cells + of_sizes @ sums

    def prices(self, multipliers: np.ndarray) -> np.ndarray:
        """Prices of the cells."""
        of_cells, of_sizes = (
            np.bincount(places, weights=values * multipliers[bounds], minlength=n_places)
            for (bounds, places, values), n_places in (
                (self.of_cells, math.prod(self.shape)),
                (self.of_sizes, self.shape[0]),
            )
        )
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


def _kinds(
    attribute: int, lower: np.ndarray, upper: np.ndarray, is_equal: np.ndarray, no_upper: float
) -> Iterator[tuple]:
    """Places, signs and values of equations, of upper and of lower bounds."""
    for chosen, sign, values in (
        (is_equal, 0, upper),
        (~is_equal & (upper < no_upper), 1, upper),
        (~is_equal & (lower > 0.0), -1, lower),
    ):
        clusters, groups = np.nonzero(chosen)
        place = np.column_stack([np.full(len(clusters), attribute), clusters, groups])
        yield place, np.full(len(clusters), sign), values[chosen]


def _cells_of(place: np.ndarray, direction: np.ndarray, joint: np.ndarray) -> Entries:
    """Entries of the joint groups that bounds on shares are about."""
    rows, columns = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for a, codes in enumerate(joint.T):
        of_attribute = np.flatnonzero(place[:, 0] == a)
        members = sparse.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))))
        members = members[place[of_attribute, 2]]
        counts = np.diff(members.indptr)
        rows.append(np.repeat(of_attribute, counts))
        columns.append(np.repeat(place[of_attribute, 1], counts) * len(joint) + members.indices)
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

    @cached_property
    def cells(self) -> CellConstraints:
        """The bounds as a linear system."""
        return CellConstraints.of_bounds(self.bounds, self.joint)

    def attribute_prices(self, multipliers: np.ndarray) -> list[np.ndarray]:
        """Tables whose sum over a row's groups is its price; none for a single attribute."""
        if self.joint is None:
            return []
        cells, n_clusters = self.cells, self.bounds[0].n_clusters
        bounds, places, values = cells.of_sizes
        of_sizes = np.bincount(places, weights=values * multipliers[bounds], minlength=n_clusters)
        net = np.where(cells.sign == 0, 1, cells.sign) * multipliers
        tables = []
        for a, one in enumerate(self.bounds):
            table = np.tile(of_sizes[:, None] / len(self.bounds), (1, one.lower.shape[1]))
            of_attribute = cells.place[:, 0] == a
            _, clusters, groups = cells.place[of_attribute].T
            np.add.at(table, (clusters, groups), net[of_attribute])
            tables.append(table)
        return tables

    def margins(self, table: np.ndarray) -> list[np.ndarray]:
        """Tables of the attributes, from that of the rows' groups."""
        if self.joint is None:
            return [table]
        tables = []
        for a, one in enumerate(self.bounds):
            margin = np.zeros(one.lower.shape, dtype=table.dtype)
            np.add.at(margin.T, self.joint[:, a], table.T)
            tables.append(margin)
        return tables

    def violations(self, table: np.ndarray) -> list[float]:
        """By how many rows each attribute's worst cell, or a size, misses its bound."""
        tables = self.margins(np.asarray(table))
        return [one.violation(own) for one, own in zip(self.bounds, tables, strict=True)]


def proportional_rule(
    group_sizes: np.ndarray,
    n_clusters: int,
    tolerance: float,
    *,
    min_size: float = 0.0,
    joint: np.ndarray | None = None,
) -> BoundRule:
    """Every cluster mirrors the data up to a tolerance, in each attribute.

    ``group_sizes`` are the weights of the groups that rows have a code of, ``joint`` is as in
    `BoundRule`.
    """
    sizes = [group_sizes]
    if joint is not None:
        sizes = [np.bincount(codes, weights=group_sizes) for codes in joint.T]
    intervals = [share_interval(one / one.sum(), tolerance) for one in sizes]
    return BoundRule(
        tuple(ShareBounds.of_shares(*one, n_clusters, least=min_size) for one in intervals), joint
    )
