"""Sums of rows by label."""

import numpy as np

from fairanchor._kernels import _centers as kernels


def label_sums(X, weights, labels, n_labels):
    """Sums of the rows of each label, and their weights; a negative label is none.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    weights, labels : ndarray of shape (n_rows,)
    n_labels : int

    Returns
    -------
    sums : ndarray of shape (n_labels, n_features)
    totals : ndarray of shape (n_labels,)
    """
    is_none = labels < 0
    if is_none.any():
        weights, labels = np.where(is_none, 0.0, weights), np.where(is_none, 0, labels)
    totals = np.bincount(labels, weights=weights, minlength=n_labels)
    return shared_sums(X, np.arange(len(X) + 1), labels, weights, n_labels), totals


def shared_sums(X, first, labels, weights, n_labels):
    """Sums of rows that have shares ``first[i]:first[i + 1]`` in several labels."""
    sums = np.zeros((n_labels, X.shape[1]))
    kernels.add_shares(X, first, labels.astype(np.int64, copy=False), weights, sums)
    return sums


def label_cost(X, weights, labels, centers):
    """Weighted squared distance of the rows to the centre of their label."""
    away = X - centers[labels]
    return float(weights @ np.einsum("ij,ij->i", away, away))
