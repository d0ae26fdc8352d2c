"""Module 2 of the paper: any clusterer on the anchors, and what must hold of its answer.

Whatever the clusterer is, it sees the anchors that stand for a real share of their
group, with their masses as weights. What comes back is brought to exactly n_clusters
clusters of at least the minimum size, never silently.
"""

import inspect
import warnings

import numpy as np
from sklearn.base import clone

from fairanchor.clusterers._fair_kmeans import FairKMeans
from fairanchor.exceptions import FairnessWarning

# An anchor with less than this part of its group's average mass does not vote.
LIGHT_SHARE = 0.1


def cluster_anchors(clusterer, anchors, n_clusters, *, weighted, min_size, seed):
    """Label the anchors.

    Parameters
    ----------
    clusterer : estimator or callable
        An estimator with ``fit`` and ``labels_`` (it is cloned), or a callable
        ``f(anchors, sensitive_features, n_clusters, *, sample_weight, random_state)``.
    anchors : Anchors
    n_clusters : int
    weighted : bool
        Whether masses are handed on, and light anchors left out.
    min_size : float
        Least mass of a cluster.
    seed : int

    Returns
    -------
    labels : ndarray of shape (n_anchors,)
        Every one of ``0..n_clusters-1`` occurs.
    fitted : estimator or None
        The fitted clone.
    """
    n_anchors = len(anchors.points)
    if n_clusters == 1:
        return np.zeros(n_anchors, dtype=np.int64), None
    if n_clusters == n_anchors:
        return np.arange(n_anchors), None
    votes = _voting_anchors(anchors, n_clusters) if weighted else np.arange(n_anchors)
    weights = np.maximum(anchors.masses[votes], 1e-12) if weighted else None
    points, codes = anchors.points[votes], anchors.group_codes[votes]
    answer, fitted = _run(clusterer, points, codes, n_clusters, weights, seed)
    labels = np.full(n_anchors, -1, dtype=np.int64)
    labels[votes] = _check_labels(answer, len(votes), n_clusters, clusterer)
    labels = _inherit(labels, anchors.points)
    labels = _split_to(labels, anchors, n_clusters, clusterer)
    return enforce_min_size(labels, anchors, n_clusters, min_size), fitted


def minimum_size(setting, rows, n_clusters, unit):
    """Least weight of a cluster; "auto" keeps about twenty rows of the smallest group in it.

    A number is in units of which a row weighs ``unit``.
    """
    total = rows.group_sizes.sum()
    if not isinstance(setting, str):
        if setting * n_clusters > total * unit:
            raise ValueError(
                f"min_cluster_size={setting} times n_clusters={n_clusters} should be <= the "
                f"{total * unit:g} samples there are."
            )
        return setting / unit
    one_row = rows.weights[rows.weights > 0].mean() if rows.is_weighted else 1.0
    smallest = rows.group_sizes[rows.group_sizes > 0].min()
    wanted = max(20.0 * one_row * total / smallest, 0.005 * total)
    return min(wanted, total / (2 * n_clusters))


def warn_if_small(counts, min_size):
    """Say so when a cluster ended empty, or below the minimum size, all the same."""
    sizes = counts.sum(axis=1)
    n_empty = int(np.count_nonzero(sizes == 0))
    if n_empty:
        warnings.warn(
            f"{n_empty} of {len(sizes)} clusters have no samples, the first is cluster "
            f"{int(np.argmin(sizes))}: their targets, the weight of single rows, or the argmax "
            "left them none.",
            FairnessWarning,
            stacklevel=4,
        )
    elif sizes.min() < np.floor(min_size):
        warnings.warn(
            f"Cluster {int(np.argmin(sizes))} has {sizes.min():g} samples, fewer than the minimum "
            f"of {min_size:.6g}: its target, the weight of single rows, or the argmax allowed no "
            "other.",
            FairnessWarning,
            stacklevel=4,
        )


def _voting_anchors(anchors, n_clusters):
    sizes = np.bincount(anchors.group_codes)
    totals = np.bincount(anchors.group_codes, weights=anchors.masses)
    average = (totals / np.maximum(sizes, 1))[anchors.group_codes]
    heavy = anchors.masses >= LIGHT_SHARE * average
    if heavy.sum() < n_clusters:
        return np.arange(len(heavy))
    return np.flatnonzero(heavy)


def _run(clusterer, points, codes, n_clusters, weights, seed):
    if not hasattr(clusterer, "fit"):
        answer = clusterer(points, codes, n_clusters, sample_weight=weights, random_state=seed)
        return answer, None
    fitted = clone(clusterer)
    own = fitted.get_params(deep=False)
    settings = {"n_clusters": n_clusters} if "n_clusters" in own else {}
    if "random_state" in own and own["random_state"] is None:
        settings["random_state"] = seed
    fitted.set_params(**settings)
    takes = inspect.signature(fitted.fit).parameters
    offered = {"sensitive_features": codes, "sample_weight": weights}
    fit = fitted._fit_anchors if type(fitted).fit is FairKMeans.fit else fitted.fit
    fit(points, **{name: value for name, value in offered.items() if name in takes})
    if hasattr(fitted, "labels_"):
        return fitted.labels_, fitted
    if hasattr(fitted, "predict"):
        return fitted.predict(points), fitted
    raise TypeError(
        f"{_name_of(clusterer)} has neither labels_ nor predict after fit: there is nothing to "
        "take the clusters of the anchors from."
    )


def _check_labels(answer, n_points, n_clusters, clusterer):
    name = _name_of(clusterer)
    labels = np.asarray(answer)
    if labels.shape != (n_points,):
        raise ValueError(
            f"{name} returned labels of shape {labels.shape} for {n_points} anchors, expected "
            f"({n_points},): one label per anchor."
        )
    if not np.issubdtype(labels.dtype, np.number) or not np.all(np.isfinite(labels)):
        raise ValueError(
            f"{name} returned labels that are not finite numbers: {labels[:10].tolist()}."
        )
    if np.any(labels != np.floor(labels)):
        raise ValueError(
            f"{name} returned labels that are not whole numbers: {labels[:10].tolist()}."
        )
    noise = labels == -1
    if noise.all():
        raise ValueError(
            f"{name} called all {n_points} anchors noise (-1): there is no cluster to build on."
        )
    found, codes = np.unique(labels[~noise], return_inverse=True)
    if len(found) > n_clusters:
        raise ValueError(
            f"{name} returned {len(found)} clusters, expected n_clusters={n_clusters}: which of "
            "them to merge is not for us to guess."
        )
    if noise.any():
        warnings.warn(
            f"{name} called {int(noise.sum())} of {n_points} anchors noise (-1); they join the "
            "cluster of the nearest labelled anchor, since every row gets a cluster.",
            FairnessWarning,
            stacklevel=5,
        )
    compact = np.full(n_points, -1, dtype=np.int64)
    compact[~noise] = codes
    return compact


def _inherit(labels, points):
    """Anchors without a label take that of the nearest anchor that has one."""
    labels = labels.copy()
    known = np.flatnonzero(labels >= 0)
    for j in np.flatnonzero(labels < 0):
        distances = ((points[known] - points[j]) ** 2).sum(axis=1)
        labels[j] = labels[known[np.argmin(distances)]]
    return labels


def _split_to(labels, anchors, n_clusters, clusterer):
    """Split the largest clusters until there are ``n_clusters``."""
    n_found = int(labels.max()) + 1
    if n_found == n_clusters:
        return labels
    warnings.warn(
        f"{_name_of(clusterer)} returned {n_found} clusters of anchors, expected "
        f"n_clusters={n_clusters}: the largest are split.",
        FairnessWarning,
        stacklevel=4,
    )
    for new in range(n_found, n_clusters):
        # There are more anchors than clusters so far, so one of these has two anchors.
        labels = _split_largest(labels, anchors, new, min_size=0.0)
    return labels


def enforce_min_size(labels, anchors, n_clusters, min_size):
    """Dissolve clusters below the minimum mass and split the largest ones instead."""
    n_dissolved = 0
    masses = np.bincount(labels, weights=anchors.masses, minlength=n_clusters)
    while n_dissolved < n_clusters and masses.min() < min_size:
        small = int(np.argmin(masses))
        trial = np.where(labels == small, -1, labels)
        trial = _inherit(trial, anchors.points)
        trial = _split_largest(trial, anchors, small, min_size)
        new_masses = np.bincount(trial, weights=anchors.masses, minlength=n_clusters)
        if new_masses.min() <= masses.min():
            break  # no cluster can be split into two that are large enough
        labels, masses = trial, new_masses
        n_dissolved += 1
    if n_dissolved:
        warnings.warn(
            f"{n_dissolved} of {n_clusters} clusters stood for fewer than {min_size:.6g} samples "
            "and were dissolved, the largest ones split instead: the composition of so small a "
            "cluster means nothing. min_cluster_size sets the limit.",
            FairnessWarning,
            stacklevel=4,
        )
    return labels


def _split_largest(labels, anchors, new, min_size):
    """Give part of the heaviest cluster that can be split the label ``new``."""
    masses = np.bincount(labels, weights=anchors.masses, minlength=new + 1)
    n_anchors = np.bincount(labels, minlength=new + 1)
    heaviest = int(np.argmax(np.where(n_anchors > 1, masses, -1.0)))
    members = np.flatnonzero(labels == heaviest)
    labels = labels.copy()
    labels[members[_best_cut(anchors.points[members], anchors.masses[members], min_size)]] = new
    return labels


def _best_cut(points, masses, min_size):
    """Positions on one side of the cheapest cut across the main axis of weighted points.

    Both sides weigh at least ``min_size`` where the masses allow it; the cost is the weighted
    sum of squares within the two sides.
    """
    masses = np.maximum(masses, 1e-12 * max(masses.sum(), 1.0))
    center = np.average(points, axis=0, weights=masses)
    centred = points - center
    _, _, axes = np.linalg.svd(centred * np.sqrt(masses)[:, None], full_matrices=False)
    along = centred @ axes[0]
    order = np.argsort(along, kind="stable")
    weight = np.cumsum(masses[order])[:-1]
    moment = np.cumsum((masses[:, None] * centred)[order], axis=0)[:-1]
    # Squares between the sides; the moments of the two sides are opposite.
    between = (moment**2).sum(axis=1) * (1.0 / weight + 1.0 / (masses.sum() - weight))
    lighter = np.minimum(weight, masses.sum() - weight)
    allowed = lighter >= min(min_size, lighter.max())
    return order[: 1 + int(np.argmax(np.where(allowed, between, -np.inf)))]


def _name_of(clusterer):
    return type(clusterer).__name__ if hasattr(clusterer, "fit") else repr(clusterer)
