"""A census-like table: integer codes of people, most of whom somebody else equals."""

import numpy as np
from sklearn.utils import Bunch

from fairanchor._utils._typing import Seed
from fairanchor.datasets._checks import check_count
from fairanchor.datasets._random import spawn_generators

N_ROWS = 2_458_285
N_SITUATIONS = 14
N_CLASSES = 5
# Numbers of codes of a column, as often as in the 1990 census.
CODES = (2, 2, 2, 3, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 10, 13)

_DESCR = """Census-like table (synthetic)

Rows are people, columns small integer codes. Every person is in one of a few situations
of life (child, student, employed, ...), which decides how likely the codes are, and many
people are alike in every column. It stands in for the US Census of 1990 (UCI dataset 116)
where that file is not at hand: the same number of rows, numbers of codes and share of
equal pairs, but nothing of it is real.

target: a class of marital status, 0..4. sensitive_features: sex, 0 or 1.
"""


def make_census(
    n_samples: int = N_ROWS, *, n_features: int = 25, random_state: Seed = None
) -> Bunch:
    """Generate a table that looks to an algorithm like the 1990 census.

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
    n_samples = check_count("n_samples", n_samples, minimum=1)
    n_features = check_count("n_features", n_features, minimum=1)
    table_generator, *generators = spawn_generators(random_state, 4 + n_features)
    situation_generator, sex_generator, class_generator = generators[:3]
    shares = table_generator.dirichlet(np.full(N_SITUATIONS, 3.0))
    situations = _draw(situation_generator, np.zeros(n_samples, dtype=np.int64), shares[None])
    women = table_generator.beta(20, 20, size=N_SITUATIONS)
    sex = _draw(sex_generator, situations, np.column_stack([1 - women, women]))
    classes = table_generator.dirichlet(np.full(N_CLASSES, 0.3), size=N_SITUATIONS)
    # Few codes apply to a child, many to the employed.
    openness = 10.0 ** table_generator.permutation(np.linspace(-0.9, 0.5, N_SITUATIONS))
    data = np.empty((n_samples, n_features))
    for j, generator in enumerate(generators[3:]):
        n_codes = CODES[table_generator.integers(len(CODES))]
        spreads = openness * 10.0 ** table_generator.uniform(-1.4, -0.6)
        chances = [table_generator.dirichlet(np.full(n_codes, s)) for s in spreads]
        data[:, j] = _draw(generator, situations, np.array(chances))
    return Bunch(
        data=data,
        target=_draw(class_generator, situations, classes),
        sensitive_features=sex,
        feature_names=[f"code{j}" for j in range(n_features)],
        n_clusters=N_CLASSES,
        DESCR=_DESCR,
    )


def _draw(generator, situations, chances):
    """One code per row, drawn with the chances of the row's situation."""
    edges = np.cumsum(chances, axis=1)
    edges[:, -1] = 1.0
    # All situations' edges on one line, each a unit apart: one search serves all rows.
    edges += np.arange(len(chances))[:, None]
    places = situations + generator.random(len(situations))
    found = np.searchsorted(edges.ravel(), places, side="right")
    return np.minimum(found - situations * chances.shape[1], chances.shape[1] - 1)
