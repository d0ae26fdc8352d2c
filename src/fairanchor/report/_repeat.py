"""How to repeat a run: the call of an estimator as Python code."""

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# Longer sequences, and objects that are no estimators, are written as an ellipsis.
MOST_NUMBERS = 60


def python_of_estimator(estimator: Any, *, weighted: bool = False) -> str:
    """Python code that makes the estimator and fits it to ``X``, ``groups`` and ``weights``."""
    modules: dict[str, set[str]] = {}
    call = _source(estimator, modules)
    ordered = sorted(modules.items(), key=lambda item: (item[0] != "fairanchor", item[0]))
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in ordered]
    weights = ", sample_weight=weights" if weighted else ""
    fit = f"model.fit(X, sensitive_features=groups{weights})"
    return "\n".join([*imports, "", f"model = {call}", fit])


def _source(value: Any, modules: dict[str, set[str]]) -> str:
    """A value as code; the classes that it needs are added to ``modules``."""
    if isinstance(value, (np.generic, np.ndarray)) and value.size <= MOST_NUMBERS:
        value = value.tolist()
    if value is None or isinstance(value, (str, bool, int, float)):
        return repr(value)
    if isinstance(value, BaseEstimator):
        class_ = type(value)
        parts = class_.__module__.split("._")[0].split(".")
        packages = [".".join(parts[: k + 1]) for k in range(len(parts))]
        exports = [p for p in packages if hasattr(import_module(p), class_.__name__)]
        modules.setdefault([*exports, class_.__module__][0], set()).add(class_.__name__)
        defaults = class_().get_params(deep=False)
        arguments = [
            f"{name}={_source(part, modules)}"
            for name, part in value.get_params(deep=False).items()
            if type(part) is not type(defaults[name]) or not np.all(part == defaults[name])
        ]
        return f"{class_.__name__}({', '.join(arguments)})"
    if isinstance(value, dict):
        items = [f"{_source(k, modules)}: {_source(v, modules)}" for k, v in value.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)) and len(value) <= MOST_NUMBERS:
        listed = f"[{', '.join(_source(item, modules) for item in value)}]"
        return listed if isinstance(value, list) else f"tuple({listed})"
    return "..."
