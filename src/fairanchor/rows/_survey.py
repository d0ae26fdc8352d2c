"""A first look at rows that are elsewhere: their groups, how many, and the range of numbers."""

from dataclasses import dataclass

import numpy as np

from fairanchor._utils._scaling import largest_value
from fairanchor.groups._groups import encode_names, groups_of_counts, sorted_names
from fairanchor.rows._stream import as_table


@dataclass(frozen=True)
class Survey:
    """What a chunk is like.

    Attributes
    ----------
    largest : float
        Largest absolute value of a feature.
    names : list
        Of its groups.
    sizes, first_rows : ndarray of shape (n_groups,)
        Number of rows of each group, and the number of its first row.
    """

    largest: float
    names: list
    sizes: np.ndarray
    first_rows: np.ndarray


def survey_rows(X, columns, start):
    """Survey of the rows from number ``start`` on.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    columns : list of pyarrow.ChunkedArray
        The sensitive columns; none means one group.
    start : int
    """
    codes, names = np.zeros(len(X), dtype=np.int64), ["all"]
    if columns:
        codes, names = encode_names(as_table(columns), missing="own_group")
    _, first = np.unique(codes, return_index=True)
    return Survey(largest_value(X), names, np.bincount(codes, minlength=len(names)), start + first)


def merge_surveys(surveys):
    """Groups of all chunks together.

    Returns
    -------
    groups : Groups
    sizes_of_chunks : ndarray of shape (n_chunks, n_groups)
        In canonical order.
    largest : float
    """
    first_rows = {}
    for survey in surveys:
        for name, row in zip(survey.names, survey.first_rows.tolist(), strict=True):
            first_rows[name] = min(row, first_rows.get(name, row))
    names = sorted_names(list(first_rows))
    place = {name: k for k, name in enumerate(names)}
    sizes = np.zeros((len(surveys), len(names)), dtype=np.int64)
    for own, survey in zip(sizes, surveys, strict=True):
        own[[place[name] for name in survey.names]] = survey.sizes
    firsts = np.array([first_rows[name] for name in names])
    groups = groups_of_counts(names, sizes.sum(axis=0), firsts)
    order = np.argsort(groups.public_order)
    largest = max(survey.largest for survey in surveys)
    return groups, np.ascontiguousarray(sizes[:, order]), largest
