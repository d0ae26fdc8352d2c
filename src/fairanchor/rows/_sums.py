"""Sums of rows by label, and distances of sparse rows."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from fairanchor._kernels import _centers as kernels

# Rows, or arrays in CSR format.
Rows = Any


def label_sums(
    X: Rows, weights: np.ndarray, labels: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the rows of each label, and their weights; a negative label leaves a row out."""
    if not sparse.issparse(X):
        sums, sizes = np.zeros((n_labels, X.shape[1])), np.zeros(n_labels)
        kernels.add_rows(X, weights, labels.astype(np.int64, copy=False), sums, sizes)
        return sums, sizes
    is_none = labels < 0
    if is_none.any():
        weights, labels = np.where(is_none, 0.0, weights), np.where(is_none, 0, labels)
    sums = shared_sums(X, np.arange(X.shape[0] + 1), labels, weights, n_labels)
    return sums, np.bincount(labels, weights=weights, minlength=n_labels)


def shared_sums(
    X: Rows, first: np.ndarray, labels: np.ndarray, weights: np.ndarray, n_labels: int
) -> np.ndarray:
    """Sums of rows that have shares ``first[i]:first[i + 1]`` in several labels."""
    if sparse.issparse(X):
        shares = sparse.csr_array((weights, labels, first), shape=(X.shape[0], n_labels))
        return (shares.T.tocsr() @ X).toarray()
    sums = np.zeros((n_labels, X.shape[1]))
    kernels.add_shares(X, first, labels.astype(np.int64, copy=False), weights, sums)
    return sums


def label_cost(X: Rows, weights: np.ndarray, labels: np.ndarray, centers: np.ndarray) -> float:
    """Weighted squared distance of the rows to the centre of their label."""
    if sparse.issparse(X):
        stored = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        away = (X.data - 2.0 * centers[labels[stored], X.indices]) * X.data
        squares = np.einsum("ij,ij->i", centers, centers)
        return float(weights[stored] @ away + weights @ squares[labels])
    away = X - centers[labels]
    return float(weights @ np.einsum("ij,ij->i", away, away))


def sparse_squared_distances(X: Rows, centers: np.ndarray, out: np.ndarray) -> None:
    """Write squared distances of sparse rows to centres, given as (n_features, n_centers)."""
    np.multiply(X @ centers, -2.0, out=out)
    out += row_norms(X, squared=True)[:, None]
    out += np.einsum("ij,ij->j", centers, centers)
    np.maximum(out, 0.0, out=out)
