"""How to repeat a run: the call of an estimator as Python code."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# Longer arrays are described, not written out.
MOST_NUMBERS = 60


class _NoSource(Exception):
    """A value that cannot be written as code; the argument describes it."""


def python_of_estimator(estimator: Any, *, weighted: bool = False) -> str:
    """Python code that makes the estimator and fits it to ``X``, ``groups`` and ``weights``.

    A parameter that cannot be written as text is ``...`` with a comment.
    """
    parameters = {"n_clusters": estimator.n_clusters} | dict(_changed(estimator))
    lines = [*_imports(estimator), "", f"model = {type(estimator).__name__}("]
    for name, value in parameters.items():
        try:
            lines.append(f"    {name}={_source(value)},")
        except _NoSource as description:
            lines.append(f"    {name}=...,  # {description}")
    weights = ", sample_weight=weights" if weighted else ""
    return "\n".join([*lines, ")", f"model.fit(X, sensitive_features=groups{weights})"])


def _imports(estimator: Any) -> list[str]:
    """One line for each module from which the code needs a class, fairanchor first."""
    modules: dict[str, list[str]] = {}
    for name, module in sorted(_classes(estimator)):
        modules.setdefault(module, []).append(name)
    ordered = sorted(modules.items(), key=lambda item: (item[0] != "fairanchor", item[0]))
    return [f"from {module} import {', '.join(names)}" for module, names in ordered]


def _classes(value: Any) -> set[tuple[str, str]]:
    """Name and public module of the class of an estimator, and of all within its parameters."""
    if isinstance(value, (list, tuple)):
        return set().union(*map(_classes, value))
    if not isinstance(value, BaseEstimator):
        return set()
    itself = {(type(value).__name__, _public_module(type(value)))}
    return itself.union(*[_classes(parameter) for _, parameter in _changed(value)])


def _public_module(class_: type) -> str:
    """The outermost public module that has the class."""
    public = list(takewhile(lambda part: part[0] != "_", class_.__module__.split(".")))
    for k in range(1, len(public) + 1):
        name = ".".join(public[:k])
        if getattr(import_module(name), class_.__name__, None) is class_:
            return name
    return class_.__module__


def _changed(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Parameters that differ from their defaults."""
    defaults = type(estimator)().get_params(deep=False)
    for name, value in estimator.get_params(deep=False).items():
        if type(value) is not type(defaults[name]) or not np.all(value == defaults[name]):
            yield name, value


def _source(value: Any) -> str:
    """A value as code."""
    if isinstance(value, np.generic) or (
        isinstance(value, np.ndarray) and value.size <= MOST_NUMBERS
    ):
        value = value.tolist()
    if value is None or isinstance(value, (str, bool, int, float)):
        return repr(value)
    if isinstance(value, BaseEstimator):
        arguments = ", ".join(f"{name}={_source(part)}" for name, part in _changed(value))
        return f"{type(value).__name__}({arguments})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_source(k)}: {_source(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)) and len(value) <= MOST_NUMBERS:
        items = ", ".join(map(_source, value))
        return f"[{items}]" if isinstance(value, list) else f"tuple([{items}])"
    if hasattr(value, "shape"):
        raise _NoSource(f"an array of shape {value.shape}")
    if isinstance(value, (list, tuple)):
        raise _NoSource(f"a sequence of length {len(value)}")
    raise _NoSource(getattr(value, "__name__", type(value).__name__))
