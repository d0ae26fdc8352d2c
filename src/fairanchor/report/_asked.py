"""Constraints other than the population's shares, and by how much labels miss them."""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from fairanchor.constraints._bounds import ROUNDING_ERROR
from fairanchor.constraints._constraint import is_bounds
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._attributes import Attributes
from fairanchor.plotting._names import display_name
from fairanchor.report._parts import count_text, named


@dataclass(frozen=True)
class Asked:
    """What was asked of the groups of one attribute.

    Attributes
    ----------
    title : object or None
        Of the attribute; None if the groups of the run are the only one.
    groups : list
        Names of its groups.
    counts : ndarray of shape (n_clusters, n_groups)
        Rows, or weight, of each cell.
    lower, upper : ndarray of shape (n_clusters, n_groups)
        Least and greatest share of each cluster.
    least, greatest : ndarray of shape (n_clusters,)
        Sizes of the clusters; no bounds are 0 and infinity.
    missed : ndarray of shape (n_clusters, n_groups)
        Rows, or weight, by which each cell is outside its bounds.
    """

    title: object
    groups: list
    counts: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    least: np.ndarray
    greatest: np.ndarray
    missed: np.ndarray

    @classmethod
    def of_limits(cls, title, groups, counts, limits):
        """Of bounds on shares and sizes, with columns in the order of the groups."""
        sizes = counts.sum(axis=1, keepdims=True)
        beyond = np.maximum(limits.lower * sizes - counts, counts - limits.upper * sizes)
        beyond[beyond <= ROUNDING_ERROR * max(1.0, float(sizes.max()))] = 0.0
        return cls(title, list(groups), counts, limits.lower, limits.upper, limits.least,
                   limits.greatest, beyond)  # fmt: skip

    @classmethod
    def of_targets(cls, groups, counts, targets):
        """Of a table of rows, or weight."""
        sizes = targets.sum(axis=1)
        shares = targets / np.where(sizes > 0, sizes, 1.0)[:, None]
        missed = np.abs(counts - targets)
        missed[missed <= ROUNDING_ERROR * max(1.0, float(sizes.max()))] = 0.0
        no_bound = np.zeros(len(counts)), np.full(len(counts), np.inf)
        return cls(None, list(groups), counts, shares, shares, *no_bound, missed)

    @property
    def worst(self):
        """Rows, or weight, by which the worst cell or size misses its bounds."""
        return max(float(self.missed.max()), float(self.size_missed.max()))

    @property
    def size_missed(self):
        sizes = self.counts.sum(axis=1)
        return np.maximum(np.maximum(self.least - sizes, sizes - self.greatest), 0.0)

    @property
    def is_same_for_all(self):
        """Whether the same shares are asked of all clusters."""
        return bool((self.lower == self.lower[0]).all() and (self.upper == self.upper[0]).all())

    def range_text(self, l, r):
        """Bounds of a cell, as text."""
        low, high = self.lower[l, r], self.upper[l, r]
        if high - low < 5e-5:
            return f"{low:.2%}"
        if low <= 0.0:
            return "any" if high >= 1.0 else f"at most {high:.2%}"
        return f"at least {low:.2%}" if high >= 1.0 else f"{low:.2%} to {high:.2%}"

    def size_text(self, l):
        """Bounds on the size of a cluster, as text; empty if there are none."""
        # Every cluster has a row in any case.
        texts = []
        if self.least[l] not in (0.0, 1.0):
            texts.append(f"at least {_size_text(self.least[l])}")
        if np.isfinite(self.greatest[l]):
            texts.append(f"at most {_size_text(self.greatest[l])}")
        return ", ".join(texts)


def _size_text(size):
    """A number of rows with all digits; a weight with those that say something."""
    return count_text(size) if size == round(size) else f"{size:,.4g}"


def asked_of(estimator):
    """Constraint of a fitted estimator; None if that is the population's shares.

    Returns
    -------
    asked : list of Asked, or None
        One for each attribute.
    """
    limits = getattr(estimator, "_asked_limits", None)
    if limits is not None:
        pairs = zip(_tables_of(estimator), limits, strict=True)
        return [Asked.of_limits(*table, own) for table, own in pairs]
    fairness = getattr(estimator, "fairness", "population")
    if isinstance(fairness, str) and fairness == "population":
        return None
    return [Asked.of_targets(estimator.groups_, estimator.counts_, estimator.targets_)]


def _tables_of(estimator):
    """Title, names of groups and counts of each attribute."""
    tables = getattr(estimator, "attribute_counts_", None)
    if tables is None:
        return [(None, estimator.groups_, estimator.counts_)]
    names = estimator.attribute_groups_
    if isinstance(tables, dict):
        return [(title, names[title], table) for title, table in tables.items()]
    titles = range(len(tables)) if len(tables) > 1 else [None]
    return list(zip(titles, names, tables, strict=True))


def asked_of_counts(counts, group_names, targets, titles=None):
    """Constraint that targets put on the counts of given labels.

    Parameters
    ----------
    counts : ndarray of shape (n_clusters, n_groups)
    group_names : list
        Sorted; tuples if there are several columns.
    targets : FairnessTargets, tolerance, or list of these
        A list has one for each of the titles.
    titles : list, default=None
        Of the columns, if each is an attribute by itself; None if their combinations are one.

    Returns
    -------
    asked : list of Asked
    """
    attributes = [(None, list(group_names), counts)]
    if titles is not None:
        parts = Attributes.of_names(titles, group_names)
        attributes = [
            (title, list(names), _margin(counts, codes, len(names)))
            for title, names, codes in zip(titles, parts.names, parts.joint.T, strict=True)
        ]
    each = list(targets) if isinstance(targets, (list, tuple)) else [targets] * len(attributes)
    if len(each) != len(attributes):
        raise ValueError(
            f"targets has {len(each)} entries, expected {len(attributes)}: one for each attribute."
        )
    asked = []
    for (title, names, table), own in zip(attributes, each, strict=True):
        wanted = FairnessTargets.proportional(own) if isinstance(own, Real) else own
        if not isinstance(wanted, FairnessTargets):
            raise TypeError(
                f"targets={own!r} should be a tolerance between 0 and 1, or FairnessTargets."
            )
        limits = wanted.bounds_for(table.sum(axis=0), names, len(table))
        asked.append(Asked.of_limits(title, names, table, limits))
    return asked


def _margin(counts, codes, n_groups):
    table = np.zeros((len(counts), n_groups), dtype=counts.dtype)
    np.add.at(table.T, codes, counts.T)
    return table


def request_of(estimator):
    """The constraint of an estimator in one sentence."""
    fairness = getattr(estimator, "fairness", "population")
    tolerance = getattr(estimator, "tolerance", 0.0)
    if any(getattr(estimator, name, None) is not None for name in ("lower", "upper")):
        fairness = FairnessTargets()
    titles = [title for title, _, _ in _tables_of(estimator) if title is not None]
    request = request_in_words(fairness, tolerance, titles)
    least = getattr(estimator, "min_cluster_size", None)
    return request if least is None else f"{request} A cluster has at least {least:g} rows."


def request_in_words(fairness, tolerance, titles=()):
    """A fairness and a tolerance, for columns with these names, in one sentence."""
    named_titles = ", ".join(f"“{display_name(title, 60)}”" for title in titles)
    by_itself = f" It holds for {named_titles}, each by itself." if len(titles) > 1 else ""
    if is_bounds(fairness):
        return f"The constraint: the given bounds on shares and sizes.{by_itself}"
    if tolerance == 1.0:
        return "The constraint: none, since a tolerance of 1 allows any share."
    shares = _shares_in_words(fairness)
    if tolerance == 0.0:
        return f"The constraint: {shares}, exactly.{by_itself}"
    return (
        f"The constraint: {shares} up to a tolerance of {tolerance:g}, at least "
        f"{1 - tolerance:.4g} times and at most {1 / (1 - tolerance):.4g} times each.{by_itself}"
    )


def _shares_in_words(fairness):
    if not isinstance(fairness, str):
        return "the shares of a given table"
    known = {
        "population": "the population's shares in every cluster",
        "anchors": "the shares of the clustered anchors",
        "anchors_sized": "the shares of the clustered anchors, fitted to the sizes in the data",
    }
    return known.get(fairness, "the targets of the paper")


def worst_sentence(asked, cluster_names):
    """The cell, or the size, that misses its bounds by most."""
    own = max(asked, key=lambda one: one.worst)
    if own.worst == 0.0:
        return "Every group's share of every cluster is within its bounds."
    if own.size_missed.max() >= own.missed.max():
        l = int(own.size_missed.argmax())
        return (
            f"Worst violation: {named('cluster', cluster_names[l])} has a size of "
            f"{_size_text(own.counts[l].sum())}, expected {own.size_text(l) or 'at least 1'}."
        )
    l, r = np.unravel_index(own.missed.argmax(), own.missed.shape)
    size = own.counts[l].sum()
    share = own.counts[l, r] / size if size > 0 else 0.0
    return (
        f"Worst violation: {named('group', own.groups[r])} is {share:.2%} of "
        f"{named('cluster', cluster_names[l])}, expected {own.range_text(l, r)}: off by "
        f"{own.missed[l, r]:,.2f} rows."
    )
