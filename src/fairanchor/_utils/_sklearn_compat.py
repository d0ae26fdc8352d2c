"""The only file that knows scikit-learn's private names."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight, validate_data

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "check_weights",
    "fit_context",
    "set_feature_names",
    "validate_data",
    "wants_frame",
    "without",
]

fit_context = _fit_context


def without(**removed: str) -> Callable:
    """Decorate ``__init__``: a parameter that no longer exists raises an error with the new way."""

    def decorate(init: Callable) -> Callable:
        @wraps(init)
        def checked(self: Any, *args: Any, **parameters: Any) -> None:
            for name in parameters:
                if name in removed:
                    raise TypeError(
                        f"{type(self).__name__} no longer has the parameter {name!r}: "
                        f"{removed[name]}"
                    )
            init(self, *args, **parameters)

        return checked

    return decorate


def wants_frame(estimator: Any) -> bool:
    """Whether ``set_output`` asks for data frames, which hold no sparse matrix."""
    return _get_output_config("transform", estimator)["dense"] != "default"


def set_feature_names(estimator: Any, names: list | None, n_features: int) -> None:
    """Set what ``validate_data`` sets, for rows that it does not see."""
    estimator.n_features_in_ = n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def check_weights(sample_weight: Any, X: Any) -> Any:
    """Non-negative float64 weights, not all zero; ``None`` stays ``None``."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight has {int((weights < 0).sum())} negative values, smallest "
            f"{weights.min()}: a weight is the number of rows that a row represents."
        )
    if not weights.sum() > 0:
        raise ValueError("sample_weight is zero for every row: there is nothing to cluster.")
    return weights
