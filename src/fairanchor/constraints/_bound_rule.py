"""What is asked of the clusters of a table.

Rows always carry the code of their *joint* group, whether the limits are on these groups
or on each sensitive column by itself: nothing but this rule has to know the difference.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairanchor.constraints._share_bounds import LimitRows, ShareLimits


@dataclass(frozen=True)
class LimitRule:
    """Limits on the shares of one or several attributes, and on the sizes of the clusters.

    Attributes
    ----------
    limits : tuple of ShareLimits
        One per attribute; limits on sizes are those of the first.
    joint : ndarray of shape (n_groups, n_attributes), or None
        Group in each attribute, of each group that rows have a code of. None if these groups
        are the only attribute.
    """

    limits: tuple
    joint: np.ndarray | None = None

    @property
    def n_clusters(self):
        return self.limits[0].n_clusters

    @cached_property
    def limit_rows(self):
        """The limits as rows of a matrix."""
        return LimitRows.of(list(self.limits), self.joint)

    def attribute_prices(self, multipliers):
        """Tables whose sum over a row's groups is its price; none for a single attribute."""
        if self.joint is None:
            return []
        of_sizes = self.limit_rows.constraints.size_prices(multipliers) / len(self.limits)
        tables = self.limit_rows.to_tables(multipliers, list(self.limits))[1:]
        return [table + of_sizes[:, None] for table in tables]

    def margins(self, table):
        """Tables of the attributes, from that of the rows' groups."""
        if self.joint is None:
            return [table]
        tables = []
        for a, own in enumerate(self.limits):
            margin = np.zeros(own.lower.shape, dtype=table.dtype)
            np.add.at(margin.T, self.joint[:, a], table.T)
            tables.append(margin)
        return tables

    def violations(self, table):
        """By how many rows each attribute's worst cell, or a size, misses its limit."""
        tables = self.margins(np.asarray(table))
        return [own.violation(one) for own, one in zip(self.limits, tables, strict=True)]


def proportional_rule(group_sizes, n_clusters, tolerance, *, min_size=0.0, joint=None):
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
        As in `LimitRule`.

    Returns
    -------
    rule : LimitRule
    """
    sizes = [group_sizes]
    if joint is not None:
        sizes = [np.bincount(codes, weights=group_sizes) for codes in joint.T]
    limits = tuple(
        ShareLimits.proportional(own, n_clusters, tolerance, least=min_size) for own in sizes
    )
    return LimitRule(limits, joint)
