"""The nearest anchor of each cluster or group.

For an anchor ``c + h`` of a part whose mean is c, the squared distance of a row x is
``|x - c|^2 + (|h|^2 + 2 c'h) - 2 x'h``. The first term is the same for all anchors of the part,
and the others are a matrix product in float32, several times faster than sums of squared
differences, whose error grows with the radius of the part only. Anchors that this leaves open are
compared by float64 distances, so the result does not depend on the product.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairanchor._kernels._nearest import nearest_by_scores, write_tile

# Of a table of products, so that it stays in a cache.
NUMBERS_AT_A_TIME = 2**17
UNIT_ROUNDOFF = 2.0**-24


@dataclass(frozen=True)
class NearestAnchors:
    """Finds the nearest anchor of each part. It can be sent to where the rows are.

    Attributes
    ----------
    order : ndarray of shape (n_anchors,)
        The anchors by part.
    points : ndarray of shape (n_anchors, n_features)
        In this order.
    first : ndarray of shape (n_parts + 1,)
        First anchor of each part, in this order.
    middle : ndarray of shape (n_features,)
        From where rows are measured.
    scale : float
        What they are multiplied by, a power of two: squares must stay in the range of float32.
    factor : ndarray of shape (n_anchors, n_features + 1), dtype float32
        What a row, and a 1, are multiplied by.
    slopes, offsets : ndarray of shape (n_parts,)
        Bounds on errors, as in `nearest_by_scores`.
    """

    order: np.ndarray
    points: np.ndarray
    first: np.ndarray
    middle: np.ndarray
    scale: float
    factor: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, parts: np.ndarray, n_parts: int) -> "NearestAnchors":
        """Of anchors and the parts that they belong to."""
        order = np.argsort(parts, kind="stable")
        H = np.ascontiguousarray(points[order], dtype=np.float64)
        first = np.searchsorted(parts[order], np.arange(n_parts + 1))
        middle = H.mean(axis=0)
        largest = np.abs(H - middle).max(initial=0.0)
        scale = float(2.0 ** -np.floor(np.log2(largest))) if largest > 0.0 else 1.0
        factor = np.zeros((len(H), H.shape[1] + 1))
        slopes, offsets = np.zeros(n_parts), np.zeros(n_parts)
        # Rounded are: both factors, every product, every sum.
        error = 2.0 * (H.shape[1] + 8) * UNIT_ROUNDOFF
        for l in range(n_parts):
            own = slice(first[l], first[l + 1])
            if first[l] == first[l + 1]:
                continue
            scaled = (H[own] - middle) * scale
            center = scaled.mean(axis=0)
            h = scaled - center
            factor[own, :-1], factor[own, -1] = -2.0 * h, (h**2).sum(axis=1) + 2.0 * h @ center
            slopes[l] = error * np.linalg.norm(factor[own, :-1], axis=1).max()
            offsets[l] = error * np.abs(factor[own, -1]).max()
        return cls(order, H, first, middle, scale, factor.astype(np.float32), slopes, offsets)

    def write(self, X: Any, places: np.ndarray, distances: np.ndarray, part: int = -1) -> None:
        """Write place (in ``order``) and squared distance of the nearest anchor of each part.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
        places, distances : ndarray of shape (n_rows, n_parts)
            Written. They have one column if there is one part, or one is given.
        part : int
            The only one that is looked at.
        """
        parts = slice(None) if part < 0 else slice(part, part + 1)
        edges = self.first if part < 0 else self.first[part : part + 2]
        anchors = slice(edges[0], edges[-1])
        factor, H = self.factor[anchors], self.points[anchors]
        n_rows = max(1, min(max(64, NUMBERS_AT_A_TIME // max(len(H), 1)), len(X)))
        tile, norms = np.ones((H.shape[1] + 1, n_rows), dtype=np.float32), np.empty(n_rows)
        scores = np.empty((len(H), n_rows), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), n_rows):
                rows = X[start : start + n_rows]
                write_tile(rows, self.middle, self.scale, tile, norms)
                np.matmul(factor, tile, out=scores)
                own = slice(start, start + len(rows))
                nearest_by_scores(
                    scores, rows, norms, H, edges - edges[0], self.slopes[parts],
                    self.offsets[parts], places[own], distances[own],
                )  # fmt: skip
        places += edges[0]

    def nearest(self, X: Any, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Each row's nearest anchor of one part (any, if it has none), and the squared distance."""
        is_empty = self.first[part] == self.first[part + 1]
        n_columns = len(self.slopes) if is_empty else 1
        places = np.empty((len(X), n_columns), dtype=np.int32)
        distances = np.empty((len(X), n_columns))
        self.write(X, places, distances, -1 if is_empty else part)
        rows, nearest = np.arange(len(X)), distances.argmin(axis=1)
        return self.order[places[rows, nearest]], distances[rows, nearest]
