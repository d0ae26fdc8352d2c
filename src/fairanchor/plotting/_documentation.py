"""Parts of documentation that several figures share, written once."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

SHARED = {
    "{clustering}": """\
clustering : fitted estimator or array-like of shape (n_samples,)
    An estimator of this library, or labels made by any tool.
sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
    Group of each row: needed with labels. With an estimator, other groups than those that it
    was fitted with can be given; by default it brings its own.
sample_weight : array-like of shape (n_samples,), default=None
    Weight of each row, with ``sensitive_features``.""",
    "{rows}": """\
X : array-like of shape (n_samples, n_features)
    Rows.
labels : fitted estimator or array-like of shape (n_samples,)
    Labels, in ``0..n_clusters-1``, or an estimator fitted on these rows.""",
    "{cluster_names}": """\
cluster_names : sequence of length n_clusters, default=None
    By default the clusters' numbers.""",
    "{bound}": """\
bound : float, default=None
    Largest balance that any clustering of the rows can have.""",
    "{axes}": """\
ax : matplotlib Axes, default=None
    Where to draw; by default new axes.

Returns
-------
ax : matplotlib Axes
    Where it was drawn.""",
}


def completed(function: Documented) -> Documented:
    """The function itself, with the shared parts in its documentation in place of their names."""
    # Without docstrings (python -OO) there is nothing to complete.
    if function.__doc__:
        text = inspect.cleandoc(function.__doc__)
        for name, shared in SHARED.items():
            text = text.replace(name, shared)
        function.__doc__ = text
    return function
