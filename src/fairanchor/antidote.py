"""Antidote data: synthetic rows that make an unmodified clusterer fairer."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils import check_array, check_random_state, check_scalar

from fairanchor._utils._records import columns_of_records
from fairanchor._utils._sampling import clone_with_seed
from fairanchor._utils._typing import Seed, Table
from fairanchor.groups._groups import check_groups, count_cells
from fairanchor.metrics import clustering_cost, relative_balance_of_table

__all__ = ["AntidoteResult", "antidote_rows"]

# Share of the rows that are added unless their number is given, and points of the curve.
SHARE, STEPS = 0.05, 10
# Places on the line through two rows, of which 0 and 1 are these rows.
LINE = (-0.5, 1.5)


@dataclass(frozen=True)
class AntidoteResult:
    """Synthetic rows, and what they achieve.

    Attributes
    ----------
    rows : ndarray of shape (n_added, n_features)
        The synthetic rows; fewer than ``n_rows``, or none, if more did not help.
    model : estimator
        The clusterer, fitted to the rows of X followed by the synthetic rows.
    labels : ndarray of shape (n_samples,)
        Its labels of the rows of X.
    records : list of dict
        One per point of the curve, the first without synthetic rows: ``n_rows`` of them, the
        ``relative_balance`` of X, and the k-means ``cost`` of X relative to no synthetic rows.
    """

    rows: np.ndarray = field(repr=False)
    model: Any
    labels: np.ndarray = field(repr=False)
    records: list[dict[str, Any]]

    @property
    def curve(self) -> dict[str, np.ndarray]:
        """Columns of the records by name: dict of ndarray."""
        return columns_of_records(self.records)


def antidote_rows(
    X: Table,
    sensitive_features: Table,
    clusterer: Any = None,
    n_rows: int | None = None,
    *,
    n_evaluations: int = 200,
    random_state: Seed = None,
) -> AntidoteResult:
    """Find a few synthetic rows with which an unmodified clusterer is fairer on the given ones.

    With C(X ∪ V) the labels of the clusterer on the rows of X and the synthetic rows V ::

        maximise over V   relative_balance_score(C(X ∪ V) on X,  groups of X)
        subject to        |V| <= n_rows,  as many clusters of X as without V

    The model itself remains, for instance, plain k-means, and needs no group to label new rows.
    The rows of V are weights that move its centres.

    V grows in ten steps. Each step tries places for its rows, on lines through two random rows or
    near the best place so far, refits the clusterer for each, and keeps the best place if it
    is an improvement; otherwise the next step has its rows as well. The clusterer is a black box.

    *Not guaranteed*: any improvement (it is usually small), the best rows, or the balance of new
    rows. `FairKMeans` has exact counts. The cost is that of ``n_evaluations`` fits.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row; several columns mean their intersection.
    clusterer : estimator, default=None
        With ``fit`` and ``labels_``; None is scikit-learn's ``KMeans()``. It is cloned; without a
        ``random_state`` all fits get the same one.
    n_rows : int, default=None
        Largest number of synthetic rows; None is a twentieth of the rows of X.
    n_evaluations : int, default=200
        Number of fits.
    random_state : int, RandomState instance or None, default=None
        Determines the places that are tried.

    Returns
    -------
    result : AntidoteResult
        The rows, the fitted clusterer, and the curve over the number of rows.

    References
    ----------
    .. [1] A. Chhabra, A. Singla, P. Mohapatra, "Fair clustering using antidote data", Algorithmic
       Fairness through the Lens of Causality and Robustness, PMLR 171, 2022.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from fairanchor import antidote_rows
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(400, variant="original", random_state=0)
    >>> result = antidote_rows(data.data, data.sensitive_features, KMeans(3, n_init=1), 40,
    ...                        n_evaluations=40, random_state=0)
    >>> before, after = result.curve["relative_balance"][[0, -1]]
    >>> bool(after >= before)
    True
    """
    X = check_array(X, dtype=np.float64)
    groups = check_groups(sensitive_features, len(X))
    n_rows = max(1, round(SHARE * len(X))) if n_rows is None else n_rows
    check_scalar(n_rows, "n_rows", Integral, min_val=1)
    check_scalar(n_evaluations, "n_evaluations", Integral, min_val=1)
    rng = check_random_state(random_state)
    clusterer = KMeans() if clusterer is None else clusterer
    if isinstance(clusterer, type) or not hasattr(clusterer, "get_params"):
        raise TypeError(f"clusterer={clusterer!r} should be an instance of an estimator with fit.")
    search = _Search(clone_with_seed(clusterer, rng), X, groups)

    best = start = search.fit(X[:0])
    if start.labels.min() < 0:
        raise ValueError(
            f"{type(start.model).__name__} labels {np.sum(start.labels < 0)} of {len(X)} rows as "
            "noise, expected a cluster for each row: without one it has no balance."
        )
    allowed = np.linspace(0, n_rows, min(STEPS, n_rows, n_evaluations) + 1).astype(int)[1:]
    tries = np.diff(np.linspace(0, n_evaluations, len(allowed) + 1).astype(int))
    fits = [start]
    for most, n_tries in zip(allowed, tries, strict=True):
        # With the rows that earlier steps had no use for.
        place, found, size = None, best, most - len(best.rows)
        for attempt in range(n_tries):
            # The second half of the tries stays near the best place, nearer and nearer.
            candidate = search.place(rng)
            if place is not None and 2 * attempt >= n_tries:
                candidate = search.place_near(place, 1 - attempt / n_tries, rng)
            fit = search.fit(np.vstack([best.rows, np.tile(candidate, (size, 1))]))
            if fit.score > found.score:
                place, found = candidate, fit
        best = found
        fits.append(best)
    plain_cost = clustering_cost(X, start.labels)
    records = [
        {
            "n_rows": len(fit.rows),
            "relative_balance": fit.score[1],
            "cost": clustering_cost(X, fit.labels) / plain_cost if plain_cost > 0 else 1.0,
        }
        for fit in fits
    ]
    return AntidoteResult(best.rows, best.model, best.labels, records)


@dataclass(frozen=True)
class _Fit:
    """A fit to the rows of X and synthetic ones; a larger score is better."""

    rows: np.ndarray
    model: Any
    labels: np.ndarray
    score: tuple


class _Search:
    """Fits and places of a search."""

    def __init__(self, clusterer: Any, X: np.ndarray, groups: Any) -> None:
        self.clusterer, self.X, self.groups = clusterer, X, groups
        self.n_clusters: int | None = None

    def fit(self, rows: np.ndarray) -> _Fit:
        model = clone(self.clusterer).fit(np.vstack([self.X, rows]))
        labels = np.asarray(model.labels_)[: len(self.X)]
        codes = np.unique(labels, return_inverse=True)[1]
        table = count_cells(codes, self.groups.codes, codes.max() + 1, self.groups.n_groups)
        if self.n_clusters is None:
            self.n_clusters = len(table)
        # Synthetic rows that take a cluster for themselves are no solution.
        complete = len(table) >= self.n_clusters and labels.min() >= 0
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        ratio = np.minimum(table, expected) / np.maximum(table, expected)
        # The mean of all cells guides the search where the worst cell stays as it is.
        return _Fit(rows, model, labels, (complete, relative_balance_of_table(table), ratio.mean()))

    def place(self, rng: Any) -> np.ndarray:
        """A place on the line through two rows."""
        first, second = self.X[rng.choice(len(self.X), 2)]
        return first + rng.uniform(*LINE) * (second - first)

    def place_near(self, place: np.ndarray, radius: float, rng: Any) -> np.ndarray:
        """A step from a place in the direction of two rows, by at most ``radius`` of their gap."""
        first, second = self.X[rng.choice(len(self.X), 2)]
        return place + radius * rng.uniform(-1, 1) * (second - first)
