"""The transport of groups of one row: nothing to be searched for, all of them at once.

Thousands of groups are mostly such ones; a search for each would take longer than all the rest.
"""

import numpy as np

# A piece below this part of the row is a rounding error, and one above the rest is all of it.
CRUMB = 1e-9


def transport_single_rows(scores, totals, weights, resolutions, bits):
    """Label rows that are a group each.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
    totals : ndarray of shape (n_rows, n_clusters)
        How the row's weight is to be spread; a row that is spread goes to the cluster that it
        fits best of these.
    weights : ndarray of shape (n_rows,)
        Positive.
    resolutions : list of float
        Largest differences of scores that are told apart: that of most rows, then of all.
    bits : int
        Of a fixed-point score.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
    prices : ndarray of shape (n_rows, n_clusters)
        As dear as the row can bear where it has a share, and below all scores elsewhere.
    gaps : ndarray of shape (n_rows,)
    is_split : ndarray of shape (n_rows,), bool
        Whether the row was to be spread.
    """
    lowest = -(2.0**bits)
    relative = scores - scores.max(axis=1, keepdims=True)
    allowed = totals > CRUMB * weights[:, None]
    scale = np.full(len(scores), _scale(resolutions[-1], bits))
    labels = _labels(relative, allowed, scale, lowest)
    for resolution in reversed(resolutions[:-1]):
        finer = np.full(len(scores), _scale(resolution, bits))
        found = _labels(relative, allowed, finer, lowest)
        own = np.take_along_axis(relative, found[:, None], axis=1)[:, 0]
        # An outlier's own score would be cut off: it needs the coarser scale.
        enough = _fixed(own[:, None], finer, lowest)[:, 0] > lowest
        labels, scale = np.where(enough, found, labels), np.where(enough, finer, scale)
    return (
        labels,
        *_prices_and_gaps(scores, relative, totals, weights, labels, scale, lowest),
        (allowed.sum(axis=1) > 1),
    )


def _scale(resolution, bits):
    return 2.0 ** min(bits - np.ceil(np.log2(resolution)), 1023)


def _fixed(relative, scale, lowest):
    # Cut off before they are scaled: an outlier's could overflow.
    return np.rint(np.maximum(relative, lowest / scale[:, None]) * scale[:, None])


def _labels(relative, allowed, scale, lowest):
    return np.where(allowed, _fixed(relative, scale, lowest), -np.inf).argmax(axis=1)


def _prices_and_gaps(scores, relative, totals, weights, labels, scale, lowest):
    fixed = _fixed(relative, scale, lowest)
    rows = np.arange(len(labels))
    regrets = fixed[rows, labels][:, None] - fixed
    # As dear as the row can bear where it has a share; elsewhere below all scores.
    prices = np.where(totals > 0, regrets, 4 * lowest)
    prices[rows, labels] = 0.0
    prices /= scale[:, None]
    best = weights * (scores + prices).max(axis=1)
    own = weights * scores[rows, labels]
    return prices, np.maximum(0.0, best - (totals * prices).sum(axis=1) - own)
