"""Titles of the sensitive columns: `fit` keeps them, `predict` pairs columns by them.

As with the names of features in scikit-learn, titles count where all of them are text: then the
order of the columns means nothing. Arrays, lists and frames that are merely numbered go by
position, and so does a single column by itself (a Series), whose name is often an accident.
"""

import numpy as np

from fairanchor.groups._groups import SeparateColumns, columns_of
from fairanchor.rows._open import column_names, kind_of


def titles_at_fit(X, sensitive_features):
    """Titles of the sensitive columns as ``fit`` was given them, or None.

    Parameters
    ----------
    X : array-like, dataset or Dask collection
        Of datasets and Dask DataFrames, ``sensitive_features`` are names of columns.
    sensitive_features : array-like, names, or None

    Returns
    -------
    titles : list of str, or None
        None where they have none, or where two are equal.
    """
    kind = kind_of(X)
    if kind == "files" or (kind == "dask" and hasattr(X, "columns")):
        titles = column_names(sensitive_features) or None
    else:
        titles = _titles_of(sensitive_features)
    return None if titles is None or len(set(titles)) < len(titles) else titles


def store_titles(estimator, titles):
    """Set ``sensitive_names_in_``, or take away that of an earlier fit."""
    estimator.__dict__.pop("sensitive_names_in_", None)
    if titles is not None:
        estimator.sensitive_names_in_ = np.array(titles, dtype=object)


def in_fitted_order(estimator, sensitive_features):
    """Sensitive columns of new rows in the order of those of ``fit``.

    Parameters
    ----------
    estimator : object
        Fitted; with ``sensitive_names_in_`` if its columns had titles.
    sensitive_features : array-like of shape (n_rows,) or (n_rows, n_columns), or None

    Returns
    -------
    sensitive_features : array-like
        The same, unless the titles are in another order.
    """
    fitted = getattr(estimator, "sensitive_names_in_", None)
    given = None if fitted is None else _titles_of(sensitive_features)
    if given is None or given == fitted.tolist():
        return sensitive_features
    if sorted(given) != sorted(fitted):
        raise ValueError(_refusal(given, fitted.tolist()))
    columns = dict(columns_of(sensitive_features))
    return SeparateColumns(tuple(columns[title] for title in fitted), tuple(fitted))


def _titles_of(table):
    """Titles of the columns of a table in memory; None unless all are text."""
    if isinstance(table, SeparateColumns):
        titles = table.titles
    elif hasattr(table, "itercolumns"):  # pyarrow
        titles = table.schema.names
    elif hasattr(table, "collect") and not hasattr(table, "__len__"):  # lazy: refused elsewhere
        titles = None
    else:
        titles = getattr(table, "columns", None)
    if titles is None or not all(isinstance(title, str) for title in titles):
        return None
    return list(titles)


def _refusal(given, fitted):
    missing = [title for title in fitted if title not in given]
    more = [title for title in given if title not in fitted]
    twice = sorted({title for title in given if given.count(title) > 1})
    wrong = {"missing": missing, "not seen in fit": more, "given more than once": twice}
    listed = ", ".join(f"{what} {titles}" for what, titles in wrong.items() if titles)
    return (
        f"sensitive_features has the columns {given}, expected those of fit, {fitted}, in any "
        f"order: {listed}. Columns are paired by their titles; without titles, as an array, they "
        "are paired by position."
    )
