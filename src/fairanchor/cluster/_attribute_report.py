"""What estimators say of the limits that were asked for, attribute by attribute."""

import warnings
from dataclasses import dataclass

import numpy as np

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.constraints._bounds import ShareBounds
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._attributes import Attributes
from fairanchor.groups._groups import encode_names


@dataclass(frozen=True)
class AttributeReport:
    """By how much labels miss what was asked for.

    Attributes
    ----------
    attributes : Attributes or None
        None if the combinations of all columns are one attribute.
    tables : list of ndarray of shape (n_clusters, n_groups)
        Rows in each cell, for each attribute.
    violations : list of float
        In rows.
    prices : list of ndarray of shape (n_clusters, n_groups)
        Of each attribute; none if there is only one.
    """

    attributes: Attributes | None
    tables: list
    violations: list
    prices: list

    @classmethod
    def of(cls, rule, attributes, counts, prices):
        """Of the counts of all rows, by a rule.

        Parameters
        ----------
        rule : BoundRule
        attributes : Attributes or None
        counts : ndarray of shape (n_clusters, n_groups)
            Groups in canonical order.
        prices : list of ndarray
            Of each attribute; none if there is only one.
        """
        tables = rule.margins(counts)
        if rule.joint is None and attributes is not None:
            # A single column, whose sorted names are in another order than the codes.
            order = np.argsort(attributes.joint[:, 0])
            tables = [np.ascontiguousarray(table[:, order]) for table in tables]
        return cls(attributes, tables, rule.violations(counts), prices)

    def store(self, estimator, unit=1.0, price_unit=1.0):
        """Set the attributes of an estimator that tell of it."""
        estimator.worst_violation_ = max(self.violations) * unit
        estimator._attributes = self.attributes
        estimator._attribute_prices = [prices / price_unit for prices in self.prices]
        if self.attributes is None:
            for name in ("attribute_groups_", "attribute_counts_", "attribute_violations_"):
                estimator.__dict__.pop(name, None)
            return
        titles = self.attributes.titles
        scaled = self.tables if unit == 1.0 else [unit * table for table in self.tables]
        estimator.attribute_groups_ = dict(zip(titles, self.attributes.names, strict=True))
        estimator.attribute_counts_ = dict(zip(titles, scaled, strict=True))
        missed = [violation * unit for violation in self.violations]
        estimator.attribute_violations_ = dict(zip(titles, missed, strict=True))

    def warn_if_missed(self):
        """Say so where the worst limit is missed by a row or more."""
        if max(self.violations) < 1.0:
            return
        by_attribute = ""
        if self.attributes is not None:
            pairs = zip(self.attributes.titles, self.violations, strict=True)
            by_attribute = f" ({', '.join(f'{title!r}: {v:.3g}' for title, v in pairs)})"
        warnings.warn(
            f"Not all bounds could be met in whole rows: the worst cell misses its bound by "
            f"{max(self.violations):.3g} rows{by_attribute}, which is the least that was found. "
            "Several attributes, or bounds that differ between clusters, can leave rows over.",
            FairnessWarning,
            stacklevel=users_stacklevel(),
        )


def public_limits(rule, groups, unit=1.0):
    """Limits of each attribute as users know them: groups in sorted order, sizes in their unit.

    Returns
    -------
    limits : list of ShareBounds, or None
        None if there is no rule, hence no limit.
    """
    if rule is None:
        return None
    # Codes of separate attributes are in sorted order already.
    ordered = groups.to_public if rule.joint is None else np.asarray
    return [
        ShareBounds(ordered(own.lower), ordered(own.upper), own.least * unit, own.greatest * unit)
        for own in rule.bounds
    ]


def unseen_combinations(estimator, sensitive_features):
    """Prices of combinations that ``fit`` has not seen of groups that it has.

    Returns
    -------
    extra : dict
        From the name of a combination to its prices, an array of shape (n_clusters,).
    """
    attributes = getattr(estimator, "_attributes", None)
    parts = getattr(estimator, "_attribute_prices", [])
    if not parts or sensitive_features is None:
        return {}
    known = set(estimator.groups_.tolist())
    extra = {}
    for name in encode_names(sensitive_features, missing="own_group")[1]:
        codes = None if name in known else attributes.codes_of(name)
        if codes is not None:
            extra[name] = sum(own[:, r] for own, r in zip(parts, codes, strict=True))
    return extra


def unseen_values(estimator, unknown):
    """Which parts of unknown combinations of separate attributes ``fit`` has not seen.

    Parameters
    ----------
    estimator : object
        Fitted.
    unknown : dict
        Number of rows of each unknown combination.

    Returns
    -------
    by_column : dict, or None
        From the title of a column to the rows of each value that is new in it. None if there are
        no separate attributes, or combinations are not made of them.
    """
    attributes = getattr(estimator, "_attributes", None)
    titles = [] if attributes is None else attributes.titles
    if len(titles) < 2 or any(
        not isinstance(name, tuple) or len(name) != len(titles) for name in unknown
    ):
        return None
    by_column = {}
    for combination, count in unknown.items():
        for title, own, value in zip(titles, attributes.names, combination, strict=True):
            if value not in own.tolist():
                counts = by_column.setdefault(title, {})
                counts[value] = counts.get(value, 0) + count
    return by_column or None
