"""Tables of numbers that rows may have: dense, sparse, or dense with rows of unit length."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

# Rows whose norms are computed at a time.
NORMS_AT_A_TIME = 2**14


class UnitTable:
    """The rows of a dense table divided by their norms, block by block: there is no copy of it.

    A row of zeros stays one.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    factors : ndarray of shape (n_rows,), default=None
        One over the norms, if they are known.
    """

    def __init__(self, X: np.ndarray, factors: np.ndarray | None = None) -> None:
        self.X = X
        if factors is None:
            norms = np.empty(len(X))
            for start in range(0, len(X), NORMS_AT_A_TIME):
                part = X[start : start + NORMS_AT_A_TIME].astype(np.float64)
                norms[start : start + len(part)] = np.sqrt(np.einsum("ij,ij->i", part, part))
            factors = _one_over(norms)
        self.factors = factors
        self.shape, self.dtype = X.shape, X.dtype
        self.nbytes = X.nbytes + self.factors.nbytes

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: Any) -> np.ndarray:
        X = self.X[index]
        out = np.empty(X.shape, dtype=self.dtype)
        # The product of float32 and float64 is rounded once.
        np.multiply(X, self.factors[index][..., None], out=out, casting="same_kind")
        return out


class ChosenRows:
    """Rows of a dense table by their numbers, gathered block by block: there is no copy of them."""

    def __init__(self, X: Any, numbers: np.ndarray) -> None:
        self.X, self.numbers = X, numbers
        self.shape, self.dtype = (len(numbers), X.shape[1]), X.dtype
        self.nbytes = numbers.nbytes

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(rows_at(self.X, self.numbers[index]))


def with_unit_rows(X: Any) -> Any:
    """The table with rows of unit length; a sparse one shares all but its numbers."""
    if not sparse.issparse(X):
        return UnitTable(X)
    squares = X.data.astype(np.float64) ** 2
    numbers = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    norms = np.sqrt(np.bincount(numbers, weights=squares, minlength=X.shape[0]))
    data = (X.data * _one_over(norms)[numbers]).astype(X.dtype)
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Consecutive rows of a table; views, where there are no new numbers."""
    if not sparse.issparse(X):
        return X[start:stop]
    entries = slice(X.indptr[start], X.indptr[stop])
    indptr = X.indptr[start : stop + 1] - X.indptr[start]
    return sparse.csr_array(
        (X.data[entries], X.indices[entries], indptr), shape=(len(indptr) - 1, X.shape[1])
    )


def part_of(X: Any, start: int, stop: int) -> Any:
    """`rows_between` as a table that is like this one."""
    if isinstance(X, UnitTable):
        return UnitTable(X.X[start:stop], X.factors[start:stop])
    return rows_between(X, start, stop)


def rows_at(X: Any, indices: np.ndarray) -> Any:
    """Rows by their numbers, contiguous."""
    return X.take(indices, axis=0) if isinstance(X, np.ndarray) else X[indices]


def stacked(tables: Sequence[Any]) -> Any:
    """All rows of several tables."""
    if sparse.issparse(tables[0]):
        return sparse.vstack(tables, format="csr")
    return np.concatenate(tables)


def check_finite(X: Any, columns: Sequence, where: str, row: int = 0) -> None:
    """Raise an error for NaN and infinity; ``row`` is the number of the first row."""
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad) > 0:
        place = tuple(bad[0])
        i, j = place if values is X else _place_of(X, *place)
        what = "a missing value (NaN)" if np.isnan(values[place]) else "infinity"
        raise ValueError(
            f"{where} has {what} in column {columns[j]!r}, row {row + i}. Distances need "
            "finite numbers: impute or drop them."
        )


def _place_of(X: Any, entry: int) -> tuple[int, int]:
    """Row and column of an entry that a sparse table stores."""
    return int(np.searchsorted(X.indptr, entry, side="right")) - 1, X.indices[entry]


def dense_rows(X: Any) -> np.ndarray:
    """A few rows as a float64 array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def numbers_per_row(X: Any) -> int:
    """How many numbers a row has on average; of a sparse one, those that are stored."""
    return -(-X.nnz // max(X.shape[0], 1)) if sparse.issparse(X) else X.shape[1]


def bytes_of(X: Any) -> int:
    """Bytes of a table."""
    parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    return sum(part.nbytes for part in parts)


def _one_over(norms: np.ndarray) -> np.ndarray:
    return np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0)
