"""Generated data: blobs, the two forms of Zafar, and a census-like table."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils import Bunch, check_array, check_random_state, check_scalar

from fairanchor._utils._typing import Seed
from fairanchor.assignment import largest_remainder

LARGEST = float(np.finfo(np.float64).max)

_BLOBS = """Fair blobs (synthetic)

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

    The composition of clusters that are found by distance alone differs from that of the data,
    by as much as ``skew`` says.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows. Clusters have the same size up to the number of groups.
    n_features : int, default=2
        Number of features; ignored if ``centers`` is an array.
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
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(skew, "skew", Real, min_val=0, max_val=1)
    check_scalar(cluster_std, "cluster_std", Real, min_val=0, max_val=LARGEST)
    names, shares = _check_shares(group_shares)
    center_generator, row_generator, order_generator = _spawn_generators(random_state, 3)
    if isinstance(centers, Integral):
        check_scalar(centers, "centers", Integral, min_val=1)
        check_scalar(n_features, "n_features", Integral, min_val=1)
        low, high = center_box
        if not low <= high:
            raise ValueError(f"center_box={center_box} should be (low, high) with low <= high.")
        middles = center_generator.uniform(low, high, size=(int(centers), n_features))
    else:
        middles = check_array(centers, dtype=np.float64, input_name="centers")

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
        DESCR=_BLOBS,
    )


def _check_shares(group_shares: Any) -> tuple[np.ndarray, np.ndarray]:
    """Names of the groups and shares that sum to 1."""
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


def _cell_counts(n_samples: int, n_clusters: int, shares: np.ndarray, skew: float) -> np.ndarray:
    """Rows of each cluster and group: group sizes exact, cluster sizes equal up to rounding."""
    sizes = largest_remainder(n_samples * shares, n_samples)
    # Clusters and groups both cut [0, 1] into intervals; their overlaps are the cells of
    # the table that keeps groups apart as far as the margins allow.
    cluster_ends = np.arange(1, n_clusters + 1) / n_clusters
    group_ends = np.cumsum(sizes) / n_samples
    ends = np.minimum.outer(cluster_ends, group_ends)
    starts = np.maximum.outer(cluster_ends - 1 / n_clusters, group_ends - sizes / n_samples)
    apart = np.maximum(ends - starts, 0.0)
    mirrored = np.outer(np.full(n_clusters, 1 / n_clusters), sizes / n_samples)
    expected = n_samples * (skew * apart + (1 - skew) * mirrored)
    return np.column_stack(
        [largest_remainder(expected[:, r], size) for r, size in enumerate(sizes)]
    )


# Zafar: a row's group is drawn from the two class densities evaluated at a rotated image of the
# row, so that groups are correlated with classes without being equal to them.

_ZAFAR = {
    "features200": """Zafar, 200 features (synthetic)

Two classes of 100 independent two-dimensional Gaussian draws laid side by side. The group
of a row is drawn from the class densities at the cosine between the row and a rotation
pattern. As in Zheng, Zhu and He, "Fairness-aware Multi-view Clustering", SDM 2023.

target: 1 and -1, the class. sensitive_features: 0 and 1.
""",
    "original": """Zafar, original, 2 features (synthetic)

Two Gaussian classes in the plane. The group of a row is drawn from the class densities at
the row rotated by phi. As in Zafar, Valera, Gomez Rodriguez and Gummadi, "Fairness
Constraints: Mechanisms for Fair Classification", AISTATS 2017.

target: 1 and -1, the class. sensitive_features: 1 non-protected, 0 protected.
""",
}
# By the number of pairs of features: means, and covariances of the sampler and of the densities, of
# the classes 1 and -1.
_MOMENTS: dict[int, Any] = {
    1: (
        [[2.0, 2.0], [-2.0, -2.0]],
        [[[5.0, 1.0], [1.0, 5.0]], [[10.0, 1.0], [1.0, 3.0]]],
        [[[5.0, 1.0], [1.0, 5.0]], [[10.0, 1.0], [1.0, 3.0]]],
    ),
    100: (
        [[1.2, 0.2], [-0.2, -0.2]],
        [[[5.0, 3.0], [1.0, 5.0]], [[5.0, 1.0], [1.0, 3.0]]],
        [[[5.0, 1.0], [1.0, 5.0]], [[5.0, 1.0], [1.0, 3.0]]],
    ),
}


def make_zafar(
    n_samples: int = 100_000,
    *,
    variant: Literal["features200", "original"] = "features200",
    phi: float = np.pi / 4,
    shuffle: bool = True,
    random_state: Seed = None,
) -> Bunch:
    """Generate one of the two synthetic data sets known as Zafar.

    Parameters
    ----------
    n_samples : int, default=100_000
        Number of rows, half of them (rounded down) of class 1.
    variant : {"features200", "original"}, default="features200"
        "features200" has 200 features; it is the one whose numbers agree with the tables
        of the anchor-framework paper. Well separated: k-means finds the classes. At the
        default ``phi`` about 59 % of the rows are in one group (balance 0.69).

        "original" has 2 features, as published first. The classes overlap (no classifier
        exceeds an accuracy of 0.876); about 54 % of the rows are in group 1.
    phi : float, default=pi/4
        Angle of the rotation, in radians. In the original variant a smaller one makes
        groups and classes more correlated.
    shuffle : bool, default=True
        Whether the classes are mixed; if not, class 1 comes first.
    random_state : int, RandomState instance or None, default=None
        An int makes the data reproducible.

    Returns
    -------
    zafar : :class:`~sklearn.utils.Bunch`
        With ``data`` of shape (n_samples, 200 or 2), ``target`` (1 and -1),
        ``sensitive_features`` (0 and 1), ``feature_names``, ``n_clusters`` (2) and ``DESCR``.

    Notes
    -----
    In the 200-feature variant the literature writes the covariance of class 1 as the matrix
    ``[[5, 3], [1, 5]]``, which is not symmetric. Its sampler then effectively draws with the
    symmetric polar factor ``(S.T @ S)**(1/2)``, while its density reads the lower triangle
    only. Both are reproduced here, because the group shares depend on them.

    Examples
    --------
    >>> from fairanchor.datasets import make_zafar
    >>> zafar = make_zafar(1000, random_state=0)
    >>> zafar.data.shape
    (1000, 200)
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=2)
    check_scalar(phi, "phi", Real, min_val=-LARGEST, max_val=LARGEST)
    if variant not in _ZAFAR:
        raise ValueError(f"variant={variant!r} should be one of {list(_ZAFAR)}.")
    order_generator, row_generator, group_generator = _spawn_generators(random_state, 3)
    target = np.full(n_samples, -1, dtype=np.int64)
    target[: n_samples // 2] = 1
    if shuffle:
        order_generator.shuffle(target)
    names = ["x1", "x2"]
    if variant == "features200":
        names = [f"{axis}{pair}" for pair in range(1, 101) for axis in "xy"]
    data = row_generator.standard_normal((n_samples, len(names)))
    log_odds = _color_and_log_odds(data, target, phi)
    like_class_1 = group_generator.random(n_samples) < expit(log_odds)
    return Bunch(
        data=data,
        target=target,
        sensitive_features=(like_class_1 == (variant == "original")).astype(np.int64),
        feature_names=names,
        n_clusters=2,
        DESCR=_ZAFAR[variant],
    )


def _color_and_log_odds(rows: np.ndarray, target: np.ndarray, phi: float) -> np.ndarray:
    """Give standard normal rows, in place, their classes' moments; log odds of class 1's group.

    With ``matrix = U diag(s) Vt`` an SVD sampler draws ``white @ diag(sqrt(s)) @ Vt``, of
    covariance ``V diag(s) Vt``; this is ``matrix`` itself where ``matrix`` is a covariance.
    """
    n_pairs = rows.shape[1] // 2
    means, matrices, covariances = _MOMENTS[n_pairs]
    for label, mean, matrix in zip((1, -1), means, matrices, strict=True):
        _, singular, right = np.linalg.svd(np.array(matrix))
        factor = np.sqrt(singular)[:, None] * right
        # Signs of singular vectors are LAPACK's choice: fix them, so that seeds repeat.
        factor *= np.where(factor[:, :1] < 0, -1.0, 1.0)
        white = rows[target == label]
        first, second = white[:, 0::2], white[:, 1::2]
        colored = np.empty_like(white)
        for axis in (0, 1):
            colored[:, axis::2] = first * factor[0, axis] + second * factor[1, axis] + mean[axis]
        rows[target == label] = colored
    cos, sin = np.cos(phi), np.sin(phi)
    if n_pairs == 1:
        x, y = rows.T
        image = np.column_stack([x * cos + y * sin, y * cos - x * sin])
    else:
        pattern = np.tile([cos, -sin, sin, cos], n_pairs // 2)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.linalg.norm(pattern)
        # einsum sums row by row: the bits do not depend on the other rows.
        image = np.repeat((np.einsum("ij,j->i", rows, pattern) / norms)[:, None], 2, axis=1)
    densities = []
    for mean, covariance in zip(means, covariances, strict=True):
        centred = image - mean
        distance = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(covariance), centred)
        densities.append(-0.5 * (distance + np.log(np.linalg.det(covariance))))
    return densities[0] - densities[1]


# The census-like table.

_N_SITUATIONS = 14
_N_CLASSES = 5
# Numbers of codes of a column, as often as in the 1990 census.
_CODES = (2, 2, 2, 3, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 10, 13)

_CENSUS = """Census-like table (synthetic)

Rows are people, columns small integer codes. Every person is in one of a few situations
of life (child, student, employed, ...), which decides how likely the codes are, and many
people are alike in every column. It replaces the US Census of 1990 (UCI dataset 116)
where that file is not available: the same number of rows, numbers of codes and share of
equal pairs, but nothing of it is real.

target: a class of marital status, 0..4. sensitive_features: sex, 0 or 1.
"""


def make_census(
    n_samples: int = 2_458_285, *, n_features: int = 25, random_state: Seed = None
) -> Bunch:
    """Generate a table that resembles the 1990 census: integer codes, many equal rows.

    Parameters
    ----------
    n_samples : int, default=2458285
        Number of rows.
    n_features : int, default=25
        Number of columns.
    random_state : int, RandomState instance or None, default=None
        An int makes the data reproducible. Rows do not depend on how many follow them.

    Returns
    -------
    census : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, integer codes from 0), ``target``, ``sensitive_features``,
        ``feature_names``, ``n_clusters`` and ``DESCR``.

    Examples
    --------
    >>> from fairanchor.datasets import make_census
    >>> census = make_census(1000, random_state=0)
    >>> census.data.shape, int(census.data.max()) <= 12
    ((1000, 25), True)
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(n_features, "n_features", Integral, min_val=1)
    table_generator, *generators = _spawn_generators(random_state, 4 + n_features)
    situation_generator, sex_generator, class_generator = generators[:3]
    shares = table_generator.dirichlet(np.full(_N_SITUATIONS, 3.0))
    situations = _draw(situation_generator, np.zeros(n_samples, dtype=np.int64), shares[None])
    women = table_generator.beta(20, 20, size=_N_SITUATIONS)
    sex = _draw(sex_generator, situations, np.column_stack([1 - women, women]))
    classes = table_generator.dirichlet(np.full(_N_CLASSES, 0.3), size=_N_SITUATIONS)
    # Few codes apply to a child, many to the employed.
    openness = 10.0 ** table_generator.permutation(np.linspace(-0.9, 0.5, _N_SITUATIONS))
    data = np.empty((n_samples, n_features))
    for j, generator in enumerate(generators[3:]):
        n_codes = _CODES[table_generator.integers(len(_CODES))]
        spreads = openness * 10.0 ** table_generator.uniform(-1.4, -0.6)
        chances = [table_generator.dirichlet(np.full(n_codes, s)) for s in spreads]
        data[:, j] = _draw(generator, situations, np.array(chances))
    return Bunch(
        data=data,
        target=_draw(class_generator, situations, classes),
        sensitive_features=sex,
        feature_names=[f"code{j}" for j in range(n_features)],
        n_clusters=_N_CLASSES,
        DESCR=_CENSUS,
    )


def _draw(
    generator: np.random.Generator, situations: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """One code per row, drawn with the chances of the row's situation."""
    edges = np.cumsum(chances, axis=1)
    edges[:, -1] = 1.0
    # All situations' edges on one line, each a unit apart: one search serves all rows.
    edges += np.arange(len(chances))[:, None]
    places = situations + generator.random(len(situations))
    codes = np.searchsorted(edges.ravel(), places, side="right") - situations * chances.shape[1]
    return np.minimum(codes, chances.shape[1] - 1)


def _spawn_generators(random_state: Seed, count: int) -> list[np.random.Generator]:
    """Independent generators, one per purpose: no draw shifts those of another purpose."""
    # A fixed dtype: the default integer, and with it the stream, differs between platforms.
    entropy = check_random_state(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(entropy.tolist()).spawn(count)
