"""The synthetic data that the fair-clustering literature calls Zafar, in both its forms.

In both, a row's group is drawn from the two class densities evaluated at a rotated image
of the row, so that groups are correlated with classes without being equal to them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit
from sklearn.utils import Bunch

from fairanchor._utils._typing import Seed
from fairanchor.datasets._checks import check_count, check_option
from fairanchor.datasets._random import spawn_generators

# Rows drawn at a time: 1,024 × 200 numbers stay in the cache until their group is known.
CHUNK_ROWS = 1024

_DESCR_200 = """Zafar, 200 features (synthetic)

Two classes of 100 independent two-dimensional Gaussian draws laid side by side. The group
of a row is drawn from the class densities at the cosine between the row and a rotation
pattern. As in Zheng, Zhu and He, "Fairness-aware Multi-view Clustering", SDM 2023.

target: 1 and -1, the class. sensitive_features: 0 and 1.
"""

_DESCR_ORIGINAL = """Zafar, original, 2 features (synthetic)

Two Gaussian classes in the plane. The group of a row is drawn from the class densities at
the row rotated by phi. As in Zafar, Valera, Gomez Rodriguez and Gummadi, "Fairness
Constraints: Mechanisms for Fair Classification", AISTATS 2017.

target: 1 and -1, the class. sensitive_features: 1 non-protected, 0 protected.
"""


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
    n_samples = check_count("n_samples", n_samples, minimum=2)
    check_option("variant", variant, _VARIANTS)
    if not np.isfinite(phi):
        raise ValueError(f"phi={phi} should be a finite angle in radians.")
    chosen = _VARIANTS[variant]

    order_generator, row_generator, group_generator = spawn_generators(random_state, 3)
    target = np.full(n_samples, -1, dtype=np.int64)
    target[: n_samples // 2] = 1
    if shuffle:
        order_generator.shuffle(target)
    data, log_odds = chosen.make_rows(target, phi, row_generator)
    drawn_as_positive = group_generator.random(n_samples) < expit(log_odds)
    likely, unlikely = chosen.group_of_class_1, 1 - chosen.group_of_class_1
    return Bunch(
        data=data,
        target=target,
        sensitive_features=np.where(drawn_as_positive, likely, unlikely),
        feature_names=list(chosen.feature_names),
        n_clusters=2,
        DESCR=chosen.description,
    )


# The 200-feature variant.

_MEANS_200 = {1: np.array([1.2, 0.2]), -1: np.array([-0.2, -0.2])}
_WRITTEN_COVARIANCES_200 = {
    1: np.array([[5.0, 3.0], [1.0, 5.0]]),
    -1: np.array([[5.0, 1.0], [1.0, 3.0]]),
}
_DENSITY_COVARIANCES_200 = {
    1: np.array([[5.0, 1.0], [1.0, 5.0]]),
    -1: np.array([[5.0, 1.0], [1.0, 3.0]]),
}
_PAIRS = 100


def _make_200_features(target, phi, generator):
    data = np.empty((len(target), 2 * _PAIRS))
    cosine = np.empty(len(target))
    pattern = np.tile([np.cos(phi), -np.sin(phi), np.sin(phi), np.cos(phi)], _PAIRS // 2)
    for start in range(0, len(target), CHUNK_ROWS):
        rows = data[start : start + CHUNK_ROWS]
        generator.standard_normal(out=rows)
        for label in (1, -1):
            of_label = target[start : start + CHUNK_ROWS] == label
            rows[of_label] = _color_pairs(
                rows[of_label], _MEANS_200[label], _WRITTEN_COVARIANCES_200[label]
            )
        # einsum sums row by row: the bits do not depend on the rows' place in a chunk.
        cosine[start : start + CHUNK_ROWS] = np.einsum("ij,j->i", rows, pattern) / (
            np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.linalg.norm(pattern)
        )
    image = np.column_stack([cosine, cosine])
    return data, _log_odds(image, _MEANS_200, _DENSITY_COVARIANCES_200)


def _color_pairs(white, mean, matrix):
    """Standard normal pairs (x1, y1, x2, y2, ...) to the mean and covariance of an SVD sampler.

    With ``matrix = U diag(s) Vt`` such a sampler draws ``white @ diag(sqrt(s)) @ Vt``, of
    covariance ``V diag(s) Vt``; this is ``matrix`` itself where ``matrix`` is a covariance.
    """
    _, singular, right = np.linalg.svd(matrix)
    factor = np.sqrt(singular)[:, None] * right
    # Signs of singular vectors are LAPACK's choice: fix them, or a seed means nothing.
    factor *= np.where(factor[:, :1] < 0, -1.0, 1.0)
    first, second = white[:, 0::2], white[:, 1::2]
    colored = np.empty_like(white)
    colored[:, 0::2] = first * factor[0, 0] + second * factor[1, 0] + mean[0]
    colored[:, 1::2] = first * factor[0, 1] + second * factor[1, 1] + mean[1]
    return colored


# The original variant.

_MEANS_2 = {1: np.array([2.0, 2.0]), -1: np.array([-2.0, -2.0])}
_COVARIANCES_2 = {1: np.array([[5.0, 1.0], [1.0, 5.0]]), -1: np.array([[10.0, 1.0], [1.0, 3.0]])}


def _make_original(target, phi, generator):
    data = generator.standard_normal((len(target), 2))
    for label in (1, -1):
        of_label = target == label
        data[of_label] = _color_pairs(data[of_label], _MEANS_2[label], _COVARIANCES_2[label])
    cos, sin = np.cos(phi), np.sin(phi)
    image = np.column_stack(
        [data[:, 0] * cos + data[:, 1] * sin, data[:, 1] * cos - data[:, 0] * sin]
    )
    return data, _log_odds(image, _MEANS_2, _COVARIANCES_2)


def _log_odds(points, means, covariances):
    """Log density of class 1 minus that of class -1 at two-dimensional points."""
    return _log_density(points, means[1], covariances[1]) - _log_density(
        points, means[-1], covariances[-1]
    )


def _log_density(points, mean, covariance):
    """Gaussian log density up to the constant that all classes share."""
    centred = points - mean
    precision = np.linalg.inv(covariance)
    distance = np.einsum("ij,jk,ik->i", centred, precision, centred)
    return -0.5 * (distance + np.log(np.linalg.det(covariance)))


@dataclass(frozen=True)
class _Variant:
    """How to draw rows, and the group that a row gets with probability f+ / (f+ + f-)."""

    make_rows: Callable
    feature_names: tuple
    group_of_class_1: int
    description: str


_VARIANTS = {
    "features200": _Variant(
        make_rows=_make_200_features,
        feature_names=tuple(f"{axis}{pair}" for pair in range(1, _PAIRS + 1) for axis in "xy"),
        group_of_class_1=0,
        description=_DESCR_200,
    ),
    "original": _Variant(
        make_rows=_make_original,
        feature_names=("x1", "x2"),
        group_of_class_1=1,
        description=_DESCR_ORIGINAL,
    ),
}
