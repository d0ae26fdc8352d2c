"""What shares the groups should have in the clusters, as the user states it."""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fairanchor.constraints._bounds import ShareBounds, check_tolerance, share_interval
from fairanchor.constraints._feasibility import FeasibilityReport, check_bounds

# Shares of a cluster may miss a sum of one by as much.
SUM_ERROR = 1e-6


class FairnessTargets(BaseEstimator):
    """Bounds on the share of each group in each cluster, and on the clusters' sizes.

    Without arguments, every cluster mirrors the data. The names of groups are compared with those
    of the data in `fit` and `check` only, so that one object can be used for many tables.

    Parameters
    ----------
    shares : dict, array-like or DataFrame, default=None
        Shares that the groups should have, summing to one: for all clusters alike, as
        ``{group: share}`` or an array in the sorted order of the names; or for each
        cluster, as ``{group: list of shares}`` or a table with a row per cluster and a column per
        group, columns by name if it is a DataFrame.
    lower, upper : float, dict, array-like or DataFrame, default=None
        Least and greatest shares, in the same forms; one number is for every group. Groups that a
        dict or a DataFrame does not name, and NaN, have no such bound.
    tolerance : float in [0, 1], default=None
        Shares may be in ``[(1 - tolerance) s, s / (1 - tolerance)]`` around the given shares s,
        or around those of the data if none are given. None is 0, or 1 if there are
        ``lower`` or ``upper`` bounds; if both are given, both hold.
    min_size, max_size : float or array-like of shape (n_clusters,), default=None
        Number of rows (weight) of each cluster (``size_min`` and ``size_max`` in
        k-means-constrained). They need no groups.
    group_errors : int, default=0
        Number of rows whose recorded group may be wrong. Every cell of a cluster of s rows has
        at least ``ceil(lower * s) + group_errors`` and at most ``floor(upper * s) -
        group_errors`` rows, so that the true shares are within ``lower`` and ``upper`` whichever
        rows are wrong (Duppala et al. 2025). It needs bounds that leave room: ``lower`` or
        ``upper``, or a tolerance above 0, whose bounds are those of the recorded shares. A
        share of 0 as lower bound or 1 as upper bound always holds and is not tightened.

    Examples
    --------
    >>> from fairanchor import FairnessTargets
    >>> targets = FairnessTargets(lower={"a": 0.4}, min_size=10)
    >>> targets
    FairnessTargets(lower={'a': 0.4}, min_size=10)
    >>> report = targets.check([30, 70], ["a", "b"], n_clusters=2)
    >>> report.feasible, report.group, report.slack
    (False, 'a', 10.0)
    """

    def __init__(
        self,
        *,
        shares: Any = None,
        lower: Any = None,
        upper: Any = None,
        tolerance: Any = None,
        min_size: Any = None,
        max_size: Any = None,
        group_errors: int = 0,
    ) -> None:
        self.shares = shares
        self.lower = lower
        self.upper = upper
        self.tolerance = tolerance
        self.min_size = min_size
        self.max_size = max_size
        self.group_errors = group_errors

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        own, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_is_same(value, theirs[name]) for name, value in own.items())

    __hash__ = None  # type: ignore[assignment]

    def resolve(self, groups: Any, n_clusters: int, *, group_sizes: Any = None) -> ShareBounds:
        """`ShareBounds` for the groups of a table, in their canonical order."""
        sizes = groups.sizes if group_sizes is None else np.asarray(group_sizes)
        bounds = self.bounds_for(groups.to_public(sizes), groups.public_names, n_clusters)
        lower, upper = groups.from_public(bounds.lower), groups.from_public(bounds.upper)
        return replace(bounds, lower=lower, upper=upper)

    def check(
        self, group_sizes: Any, group_names: Any = None, *, n_clusters: int
    ) -> FeasibilityReport:
        """Whether some assignment meets the bounds; if not, where it fails and by how much.

        A cluster without rows meets every share. `fit` wants a row in each cluster: state
        ``min_size=1`` to ask for that here as well.

        Parameters
        ----------
        group_sizes : array-like of shape (n_groups,)
            Rows (weight) of each group.
        group_names : array-like of shape (n_groups,), default=None
            Their names, in sorted order where arrays are given without names; by default
            0, 1, ...
        n_clusters : int
            Number of clusters.

        Returns
        -------
        report : FeasibilityReport
            The finding.
        """
        sizes = np.asarray(group_sizes, dtype=np.float64)
        names = list(range(len(sizes))) if group_names is None else list(group_names)
        if sizes.ndim != 1 or len(names) != len(sizes):
            raise ValueError(
                f"group_sizes has shape {sizes.shape} and there are {len(names)} group_names: "
                "expected one size for each name."
            )
        return check_bounds([self.bounds_for(sizes, names, n_clusters)], sizes, [names])

    def bounds_for(self, group_sizes: Any, group_names: Any, n_clusters: int) -> ShareBounds:
        """`ShareBounds` for groups of these sizes and names, in their order."""
        self._check_parameters()
        sizes, names = group_sizes, group_names
        shape = (n_clusters, len(names))
        bounded = self.lower is not None or self.upper is not None
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 1.0 if bounded and self.shares is None else 0.0
        shares = np.broadcast_to(np.asarray(sizes, dtype=np.float64) / np.sum(sizes), shape)
        if self.shares is not None:
            shares = _table(self.shares, "shares", names, n_clusters, missing=None)
            _check_sums(shares)
        lower, upper = share_interval(shares, tolerance)
        if self.lower is not None:
            given = _table(self.lower, "lower", names, n_clusters, missing=0.0)
            lower = np.maximum(lower, given)
        if self.upper is not None:
            given = _table(self.upper, "upper", names, n_clusters, missing=1.0)
            upper = np.minimum(upper, given)
        _check_crossed(lower, upper, names)
        least = _sizes(self.min_size, "min_size", n_clusters, 0.0)
        greatest = _sizes(self.max_size, "max_size", n_clusters, np.inf)
        if (least > greatest).any():
            l = int(np.argmax(least > greatest))
            raise ValueError(
                f"Cluster {l} has min_size={least[l]:g} > max_size={greatest[l]:g}: no number of "
                "rows is both."
            )
        # A record can only be wrong if there is another group.
        errors = float(self.group_errors) if len(names) > 1 else 0.0
        bounds = ShareBounds(np.minimum(lower, upper), upper, least, greatest, errors)
        if errors:
            _check_room(bounds, names)
        return bounds

    def _check_parameters(self) -> None:
        if self.tolerance is not None:
            check_tolerance(self.tolerance)
        for name in ("shares", "lower", "upper"):
            _check_shares(getattr(self, name), name)
        for name in ("min_size", "max_size"):
            given = getattr(self, name)
            if given is not None and not (np.asarray(given, dtype=np.float64) >= 0).all():
                raise ValueError(f"{name}={given!r} should be a number of rows, at least 0.")
        errors = self.group_errors
        if isinstance(errors, bool) or not isinstance(errors, Integral) or errors < 0:
            raise ValueError(f"group_errors={errors!r} should be a number of rows, at least 0.")


# What the user gives, as tables.


def named_columns(given: Any) -> tuple[list | None, np.ndarray]:
    """Names and values of a dict, Series or table with named columns; else None and the array."""
    if isinstance(given, dict):
        return list(given), np.array(list(given.values()), dtype=np.float64).T
    if hasattr(given, "column_names"):  # pyarrow
        columns = [np.asarray(given[name]) for name in given.column_names]
        return list(given.column_names), np.column_stack(columns).astype(np.float64)
    if hasattr(given, "columns"):
        return list(given.columns), np.asarray(given.to_numpy(), dtype=np.float64)
    if hasattr(given, "index") and hasattr(given, "to_numpy"):  # a Series of pandas
        return list(given.index), np.asarray(given.to_numpy(), dtype=np.float64)
    return None, np.asarray(given, dtype=np.float64)


def _check_shares(given: Any, parameter: str) -> None:
    if given is None:
        return
    try:
        _, values = named_columns(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{parameter}={given!r} should hold numbers: {error}.") from None
    if values.ndim not in ((1, 2) if parameter == "shares" else (0, 1, 2)) or values.size == 0:
        raise ValueError(
            f"{parameter} has shape {values.shape}, expected (n_groups,) or (n_clusters, n_groups)."
        )
    wrong = values[~((values >= 0) & (values <= 1))]
    wrong = wrong if parameter == "shares" else wrong[~np.isnan(wrong)]
    if len(wrong):
        raise ValueError(
            f"{parameter} holds {wrong[0]:g}: expected shares of a cluster, between 0 and 1."
        )


def _table(given: Any, parameter: str, names: Any, n_clusters: int, *, missing: Any) -> np.ndarray:
    """A row per cluster and a column per name; ``missing=None`` requires all names."""
    given_names, values = named_columns(given)
    if values.ndim == 0:
        return np.full((n_clusters, len(names)), float(values))
    if values.ndim == 2 and len(values) != n_clusters:
        raise ValueError(
            f"{parameter} has {len(values)} rows, but there are {n_clusters} clusters: expected a "
            "row for each, or one share per group for all of them."
        )
    if given_names is None:
        if values.shape[-1] != len(names):
            raise ValueError(
                f"{parameter} has {values.shape[-1]} shares, but there are {len(names)} groups: "
                f"{list(names)[:20]}."
            )
    else:
        values = _in_order_of_names(given_names, values, parameter, names, missing)
    values = np.broadcast_to(values, (n_clusters, len(names)))
    return np.where(np.isnan(values), missing if missing is not None else np.nan, values)


def _in_order_of_names(
    given_names: Any, values: np.ndarray, parameter: str, names: Any, missing: Any
) -> np.ndarray:
    unknown = [name for name in given_names if name not in list(names)]
    if unknown:
        raise ValueError(
            f"{parameter} names the groups {unknown[:20]}, which are not in the data: "
            f"{list(names)[:20]}."
        )
    if len(set(given_names)) < len(given_names):
        raise ValueError(f"{parameter} names a group twice: {given_names[:20]}.")
    absent = [name for name in names if name not in given_names]
    if absent and missing is None:
        raise ValueError(
            f"{parameter} has no share for the groups {absent[:20]}: the shares of a cluster sum "
            "to one."
        )
    ordered = np.full((*values.shape[:-1], len(names)), np.nan)
    for name, column in zip(given_names, np.moveaxis(values, -1, 0), strict=True):
        ordered[..., list(names).index(name)] = column
    return ordered


def _check_sums(shares: np.ndarray) -> None:
    sums = shares.sum(axis=1)
    wrong = np.abs(sums - 1.0) > SUM_ERROR
    if wrong.any():
        l = int(np.argmax(wrong))
        raise ValueError(
            f"The shares of cluster {l} sum to {sums[l]:.6g}, expected 1: every row of a cluster "
            "is in exactly one group."
        )


def _check_crossed(lower: np.ndarray, upper: np.ndarray, names: Any) -> None:
    crossed = lower > upper + 1e-12
    if crossed.any():
        l, r = np.argwhere(crossed)[0]
        raise ValueError(
            f"Group {names[r]!r} must have at least {lower[l, r]:g} and at most {upper[l, r]:g} of "
            f"cluster {l}: they contradict each other by {lower[l, r] - upper[l, r]:g}."
        )


def _check_room(bounds: ShareBounds, names: Any) -> None:
    """Raise an error for bounds that meet: they leave no room for a wrong record."""
    fixed = bounds.is_equal
    if fixed.any():
        l, r = np.argwhere(fixed)[0]
        raise ValueError(
            f"group_errors={bounds.margin:g} needs room for wrong records, but group {names[r]!r} "
            f"must have exactly {bounds.lower[l, r]:.4g} of cluster {l}: give lower and upper, or "
            "a tolerance above 0."
        )


def _sizes(given: Any, parameter: str, n_clusters: int, default: float) -> np.ndarray:
    if given is None:
        return np.full(n_clusters, default)
    values = np.asarray(given, dtype=np.float64)
    if values.ndim > 0 and values.shape != (n_clusters,):
        raise ValueError(
            f"{parameter} has shape {values.shape}, expected a number or ({n_clusters},): one size "
            "per cluster."
        )
    return np.broadcast_to(values, n_clusters).copy()


def _is_same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    names_a, values_a = named_columns(a)
    names_b, values_b = named_columns(b)
    same_shape = values_a.shape == values_b.shape
    return names_a == names_b and same_shape and np.array_equal(values_a, values_b, equal_nan=True)
