"""Least and greatest shares of the groups in the clusters, and sizes of the clusters."""

from dataclasses import dataclass, replace

import numpy as np

from fairanchor.constraints._bound_matrix import CellConstraints, Entries

# Shares this close are one, and a count this close to a limit meets it.
SAME_SHARE = 1e-12
ROUNDING_ERROR = 1e-9


@dataclass(frozen=True)
class ShareLimits:
    """What is asked of the clusters, for one attribute.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_clusters, n_groups)
        Group r has at least ``lower[l, r]`` and at most ``upper[l, r]`` of cluster l.
    least, greatest : ndarray of shape (n_clusters,)
        Sizes of the clusters; no limits are 0 and infinity.
    """

    lower: np.ndarray
    upper: np.ndarray
    least: np.ndarray
    greatest: np.ndarray

    @classmethod
    def of_shares(cls, lower, upper, n_clusters, *, least=0.0, greatest=np.inf):
        """From shares per group, or per cluster and group, and sizes for all or each cluster."""
        shape = (n_clusters, np.shape(lower)[-1])
        return cls(
            np.broadcast_to(np.asarray(lower, dtype=np.float64), shape),
            np.broadcast_to(np.asarray(upper, dtype=np.float64), shape),
            np.broadcast_to(np.asarray(least, dtype=np.float64), n_clusters),
            np.broadcast_to(np.asarray(greatest, dtype=np.float64), n_clusters),
        )

    @classmethod
    def proportional(cls, group_sizes, n_clusters, tolerance, *, least=0.0, greatest=np.inf):
        """Shares in ``[(1 - tolerance) pi_r, pi_r / (1 - tolerance)]``, pi_r those of the data."""
        check_tolerance(tolerance)
        shares = np.asarray(group_sizes, dtype=np.float64) / np.sum(group_sizes)
        upper = np.ones(len(shares))
        if tolerance < 1.0:
            upper = np.minimum(shares / (1.0 - tolerance), 1.0)
        lower = (1.0 - tolerance) * shares
        return cls.of_shares(lower, upper, n_clusters, least=least, greatest=greatest)

    @property
    def n_clusters(self):
        return len(self.least)

    @property
    def is_equal(self):
        """Cells whose share is fixed."""
        return self.upper - self.lower <= SAME_SHARE

    def in_whole_rows(self):
        """The same limits with sizes that are whole numbers."""
        return replace(
            self,
            least=np.ceil(self.least - ROUNDING_ERROR),
            greatest=np.floor(self.greatest + ROUNDING_ERROR),
        )

    def violation(self, counts):
        """By how many rows (or how much weight) the worst cell or cluster misses its limits."""
        counts = np.asarray(counts, dtype=np.float64)
        sizes = counts.sum(axis=1)
        beyond = np.maximum(
            self.lower * sizes[:, None] - counts, counts - self.upper * sizes[:, None]
        )
        beyond_size = np.maximum(self.least - sizes, sizes - self.greatest)
        worst = max(float(beyond.max(initial=0.0)), float(beyond_size.max(initial=0.0)))
        return worst if worst > ROUNDING_ERROR * max(1.0, sizes.max()) else 0.0


def check_tolerance(tolerance):
    """Refuse what is not a number in [0, 1]."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, np.number)):
        raise TypeError(f"tolerance={tolerance!r} should be a number between 0 and 1.")
    if not 0.0 <= tolerance <= 1.0:
        raise ValueError(
            f"tolerance={tolerance!r} should be between 0 (every cluster mirrors the data) and "
            "1 (no limit): a group's share of a cluster may be (1 - tolerance) times its share "
            "of the data."
        )


@dataclass(frozen=True)
class LimitRows:
    """The rows of `CellConstraints` that come from limits on shares and sizes.

    Attributes
    ----------
    constraints : CellConstraints
    place : ndarray of shape (n_limits, 3)
        Attribute (-1 for a size), cluster and group of each.
    sign : ndarray of shape (n_limits,)
        1 for a greatest value, -1 for a least one, 0 for both at once.
    """

    constraints: CellConstraints
    place: np.ndarray
    sign: np.ndarray

    @classmethod
    def of(cls, limits, joint=None):
        """Limits of several attributes on the table of clusters × joint groups.

        Parameters
        ----------
        limits : list of ShareLimits
            One per attribute; the sizes are those of the first.
        joint : ndarray of shape (n_joint, n_attributes), default=None
            Codes of the joint groups; by default one attribute, whose groups they are.
        """
        if joint is None:
            joint = np.arange(limits[0].lower.shape[1])[:, None]
        kinds = [*_size_kinds(limits[0])]
        for a, own in enumerate(limits):
            kinds += _share_kinds(own, a)
        sign = np.concatenate([np.full(len(kind.clusters), kind.sign) for kind in kinds])
        direction = np.where(sign < 0, -1.0, 1.0)
        place = np.concatenate([kind.place for kind in kinds])
        values = np.concatenate([kind.values for kind in kinds])
        is_size = place[:, 0] < 0
        numbers = np.arange(len(sign))
        # A size by itself, or minus a share of it.
        of_sizes = Entries(numbers, place[:, 1], direction * np.where(is_size, 1.0, -values))
        of_cells = _cells_of(place, direction, joint)
        right = np.where(is_size, direction * values, 0.0)
        shape = (limits[0].n_clusters, len(joint))
        constraints = CellConstraints(of_cells, of_sizes, right, sign == 0, shape)
        return cls(constraints, place, sign)

    def to_tables(self, multipliers, limits):
        """Net multipliers as tables: of the sizes, then of each attribute."""
        net = np.where(self.sign == 0, 1, self.sign) * multipliers
        tables = [
            np.zeros((limits[0].n_clusters, 1)),
            *(np.zeros(own.lower.shape) for own in limits),
        ]
        for a, table in enumerate(tables, start=-1):
            own = self.place[:, 0] == a
            np.add.at(table, (self.place[own, 1], self.place[own, 2]), net[own])
        return tables


@dataclass(frozen=True)
class _Kind:
    """Limits of the same kind: attribute (-1 for sizes), sign, where and how much."""

    attribute: int
    sign: int
    clusters: np.ndarray
    groups: np.ndarray
    values: np.ndarray

    @property
    def place(self):
        attributes = np.full(len(self.clusters), self.attribute)
        return np.column_stack([attributes, self.clusters, self.groups])


def _share_kinds(limits, attribute):
    equal = limits.is_equal
    # A single group is all of every cluster.
    is_trivial = (limits.lower.shape[1] == 1) & (limits.lower == 1.0) & (limits.upper == 1.0)
    kinds = (
        (equal & ~is_trivial, 0, limits.upper),
        (~equal & (limits.upper < 1.0), 1, limits.upper),
        (~equal & (limits.lower > 0.0), -1, limits.lower),
    )
    for chosen, sign, shares in kinds:
        clusters, groups = np.nonzero(chosen)
        yield _Kind(attribute, sign, clusters, groups, shares[clusters, groups])


def _size_kinds(limits):
    equal = limits.least == limits.greatest
    kinds = (
        (equal, 0, limits.greatest),
        (~equal & np.isfinite(limits.greatest), 1, limits.greatest),
        (~equal & (limits.least > 0.0), -1, limits.least),
    )
    for chosen, sign, sizes in kinds:
        clusters = np.flatnonzero(chosen)
        yield _Kind(-1, sign, clusters, np.zeros_like(clusters), sizes[clusters])


def _cells_of(place, direction, joint):
    """Entries of the joint groups that limits on shares are about."""
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
    rows = np.concatenate(rows)
    return Entries(rows, np.concatenate(columns), direction[rows])
