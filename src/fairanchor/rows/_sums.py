"""Sums of rows by label."""

import numpy as np

from fairanchor._kernels import _centers as kernels


def label_sums(
    X: np.ndarray, weights: np.ndarray, labels: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the rows of each label, and their weights; a negative label leaves a row out."""
    is_none = labels < 0
    if is_none.any():
        weights, labels = np.where(is_none, 0.0, weights), np.where(is_none, 0, labels)
    totals = np.bincount(labels, weights=weights, minlength=n_labels)
    return shared_sums(X, np.arange(len(X) + 1), labels, weights, n_labels), totals


def shared_sums(
    X: np.ndarray, first: np.ndarray, labels: np.ndarray, weights: np.ndarray, n_labels: int
) -> np.ndarray:
    """Sums of rows that have shares ``first[i]:first[i + 1]`` in several labels."""
    sums = np.zeros((n_labels, X.shape[1]))
    kernels.add_shares(X, first, labels.astype(np.int64, copy=False), weights, sums)
    return sums


def label_cost(
    X: np.ndarray, weights: np.ndarray, labels: np.ndarray, centers: np.ndarray
) -> float:
    """Weighted squared distance of the rows to the centre of their label."""
    away = X - centers[labels]
    return float(weights @ np.einsum("ij,ij->i", away, away))
