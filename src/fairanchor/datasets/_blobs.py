"""Small blobs whose groups are spread unevenly over the clusters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch, check_array

from fairanchor._utils._typing import Seed
from fairanchor.datasets._checks import check_count
from fairanchor.datasets._random import spawn_generators

_DESCR = """Fair blobs (synthetic)

Isotropic Gaussian clusters of equal size, whose groups lean towards different clusters.

target: the cluster, 0, 1, ... sensitive_features: the group.
"""


def make_fair_blobs(
    n_samples: int = 1000,
    *,
    n_features: int = 2,
    centers: int | ArrayLike = 3,
    group_shares: ArrayLike | Mapping[Any, float] = (0.7, 0.3),
    skew: float = 0.6,
    cluster_std: float = 1.0,
    center_box: tuple[float, float] = (-10.0, 10.0),
    random_state: Seed = None,
) -> Bunch:
    """Generate blobs in which the groups are unevenly spread over the clusters.

    Clustering the blobs by distance alone gives clusters whose composition differs from
    that of the data, by as much as ``skew`` says.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows. Clusters have the same size up to the number of groups.
    n_features : int, default=2
        Number of features; that of ``centers`` where those are given.
    centers : int or array-like of shape (n_clusters, n_features), default=3
        The clusters' centres, or how many to draw uniformly from ``center_box``.
    group_shares : sequence or mapping, default=(0.7, 0.3)
        Share of each group, in any unit: they are divided by their sum. Groups are named
        0, 1, ..., or by the keys of a mapping. Group sizes are the largest-remainder
        rounding of the shares: exact, not drawn.
    skew : float in [0, 1], default=0.6
        0: every cluster mirrors the data. 1: groups are kept apart as far as equal
        cluster sizes allow. Between them, shares are interpolated linearly.
    cluster_std : float, default=1.0
        Standard deviation of the clusters.
    center_box : pair of floats, default=(-10.0, 10.0)
        Range of every coordinate of a drawn centre.
    random_state : int, RandomState instance or None, default=None
        An int makes the data reproducible.

    Returns
    -------
    blobs : :class:`~sklearn.utils.Bunch`
        With ``data``, ``target``, ``sensitive_features``, ``feature_names``, ``centers``,
        ``n_clusters`` and ``DESCR``.

    Examples
    --------
    >>> from fairanchor.datasets import make_fair_blobs
    >>> from fairanchor.metrics import contingency_table
    >>> blobs = make_fair_blobs(900, group_shares={"a": 2, "b": 1}, skew=0.5, random_state=0)
    >>> contingency_table(blobs.target, sensitive_features=blobs.sensitive_features)
    array([[250,  50],
           [250,  50],
           [100, 200]])
    """
    n_samples = check_count("n_samples", n_samples, minimum=1)
    _check_real("skew", skew, 0.0, 1.0)
    _check_real("cluster_std", cluster_std, 0.0, np.inf)
    names, shares = _check_shares(group_shares)
    center_generator, row_generator, order_generator = spawn_generators(random_state, 3)
    middles = _check_centers(centers, n_features, center_box, center_generator)

    counts = _cell_counts(n_samples, len(middles), shares, skew)
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    order_generator.shuffle(cells)
    target, group = np.divmod(cells, len(shares))
    noise = row_generator.standard_normal((n_samples, middles.shape[1]))
    return Bunch(
        data=middles[target] + cluster_std * noise,
        target=target,
        sensitive_features=names[group],
        feature_names=[f"x{j}" for j in range(1, middles.shape[1] + 1)],
        centers=middles,
        n_clusters=len(middles),
        DESCR=_DESCR,
    )


def _cell_counts(n_samples, n_clusters, shares, skew):
    """Rows of each cluster and group: group sizes exact, cluster sizes equal up to rounding."""
    sizes = _largest_remainder(n_samples * shares, n_samples)
    # Clusters and groups both cut [0, 1] into intervals; their overlaps are the cells of
    # the table that keeps groups apart as far as the margins allow.
    cluster_ends = np.arange(1, n_clusters + 1) / n_clusters
    group_ends = np.cumsum(sizes) / n_samples
    ends = np.minimum.outer(cluster_ends, group_ends)
    starts = np.maximum.outer(cluster_ends - 1 / n_clusters, group_ends - sizes / n_samples)
    apart = np.maximum(ends - starts, 0.0)
    mirrored = np.outer(np.full(n_clusters, 1 / n_clusters), sizes / n_samples)
    wanted = n_samples * (skew * apart + (1 - skew) * mirrored)
    return np.column_stack([_largest_remainder(wanted[:, r], size) for r, size in enumerate(sizes)])


def _largest_remainder(wanted, total):
    """Integers that sum to ``total``, each the floor or the ceiling of what is wanted."""
    counts = np.floor(wanted).astype(np.int64)
    order = np.argsort(counts - wanted, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def _check_shares(group_shares):
    """Names of the groups, as they were given, and shares that sum to 1."""
    if not isinstance(group_shares, Mapping):
        group_shares = dict(enumerate(group_shares))
    shares = np.array(list(group_shares.values()), dtype=np.float64)
    if len(shares) == 0 or not (np.isfinite(shares) & (shares > 0)).all():
        raise ValueError(
            f"group_shares={group_shares} should be one positive number per group: "
            "a group with a share of zero has no rows."
        )
    if all(isinstance(name, int) for name in group_shares):
        return np.array(list(group_shares)), shares / shares.sum()
    names = np.empty(len(shares), dtype=object)
    for code, name in enumerate(group_shares):
        names[code] = name
    return names, shares / shares.sum()


def _check_centers(centers, n_features, center_box, generator):
    if not np.isscalar(centers):
        return check_array(centers, dtype=np.float64, input_name="centers")
    shape = (
        check_count("centers", centers, minimum=1),
        check_count("n_features", n_features, minimum=1),
    )
    low, high = center_box
    if not low <= high:
        raise ValueError(f"center_box={center_box} should be (low, high) with low <= high.")
    return generator.uniform(low, high, size=shape)


def _check_real(name, value, low, high):
    if not low <= value <= high or not np.isfinite(value):
        raise ValueError(f"{name}={value} should be a finite number in [{low}, {high}].")
