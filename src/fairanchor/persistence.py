"""Model files: what a fitted estimator needs to label new rows, in one small file.

A file is an archive of `fairanchor._utils._archive`: arrays, and a JSON document with everything
else (version of the format, class, parameters, names of groups, preprocessing). Reading runs no
code, and every value is checked against `FITTED` before the compiled kernels, which trust their
arguments, see it. ``labels_``, ``clusterer_`` and ``history_``, which grow with the training rows
or the iterations, are not stored.
"""

import math
import os
import warnings
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

import fairanchor
from fairanchor._utils._archive import LARGEST_FILE, ArchiveError, pack, require, unpack
from fairanchor._utils._files import is_device, replacing
from fairanchor._utils._shared_state import users_stacklevel
from fairanchor._utils._typing import Path as PathName
from fairanchor.constraints._constraint import is_bounds
from fairanchor.constraints._fairness_targets import FairnessTargets, named_columns
from fairanchor.groups._groups import Attributes
from fairanchor.tables._plain import from_plain, to_plain

# Increased when an older version could not read the file, or would misread it.
FORMAT, FORMAT_VERSION = "fairanchor-model", 6
# Public classes of this package that a file may name: estimators, and parameters of these.
ESTIMATORS = ("AnchorFairClustering", "FairKMeans", "SociallyFairKMeans")
NO_PARAMETERS = ("AnchorFairClustering", "SociallyFairKMeans", "FairnessWarning")
PARAMETER_CLASSES = tuple(
    name for name in fairanchor.__all__ if name[0].isupper() and name not in NO_PARAMETERS
)
# What a file does not hold: the text in its place begins so, and a fit raises an error about it.
NOT_STORED = "not stored in the model file: "
# The reconstruction graph builds a table of anchors x anchors.
MOST_ANCHORS = 10_000
ANY = (-np.finfo(float).max, np.finfo(float).max)
NOT_NEGATIVE, POSITIVE = (0.0, ANY[1]), (5e-324, 2.0**1000)
# Rows are scaled so that squares of their values are finite.
POINT = (-2e60, 2e60)


NUMBERS = {"f": np.float64, "i": np.int64, "b": np.bool_}


class Field(NamedTuple):
    """An array of a model file; a number is an array without axes.

    Letters stand for numbers of clusters, groups, features, anchors, separate attributes, groups of
    all of these, and iterations. ``kinds`` are NumPy's kinds of data types. Numbers are within
    ``bounds``, by default finite; without axes they may be any.
    """

    axes: str
    kinds: str = "f"
    bounds: tuple[float, float] = ANY
    optional: bool = False


# What is stored, by attribute of the estimator: of all, of those with targets, of the framework.
COMMON = {
    "counts_": Field("cg", "if", NOT_NEGATIVE),
    "_group_shares": Field("g", "f", NOT_NEGATIVE),
    "_length": Field("", "f", (1e-160, 1e160)),
    "_price_unit": Field("", "f", POSITIVE),
    "balance_": Field(""),
    "inertia_": Field(""),
    "n_iter_": Field("", "i"),
    "n_clusters_found_": Field("", "i"),
    "converged_": Field("", "b"),
}
OF_TARGETS = COMMON | {
    "targets_": Field("cg", "f", NOT_NEGATIVE),
    "assignment_prices_": Field("cg"),
    "_allowed": Field("cg", "b"),
    "worst_violation_": Field(""),
    "assignment_gap_": Field(""),
}
OF_CENTERS = {"_costs.centers": Field("cd", "f", POINT), "cost_path_": Field("t")}
OF_ANCHORS = OF_TARGETS | {
    "anchor_labels_": Field("m", "i", NOT_NEGATIVE),
    "anchor_masses_": Field("m", "f", NOT_NEGATIVE),
    "anchor_indices_": Field("m", "i", NOT_NEGATIVE, optional=True),
    "cluster_centers_": Field("cd"),
}
#: By the class of the estimator, or that of its costs, whose own parts are those of ``_costs``.
FITTED = {
    "CenterCosts": OF_TARGETS | OF_CENTERS | {"lp_value_": Field("")},
    "SociallyFairKMeans": COMMON
    | OF_CENTERS
    | {
        "group_costs_": Field("g", "f", NOT_NEGATIVE),
        "group_weights_": Field("g", "f", NOT_NEGATIVE),
        "social_cost_": Field(""),
        "center_gap_": Field(""),
    },
    "LocalCosts": OF_ANCHORS
    | {
        "_costs.anchors": Field("md", "f", POINT),
        "_costs.n_neighbors": Field("", "i", (1, 2**31 - 1)),
        "_costs.least_alpha": Field("", "f", POSITIVE),
    },
    "SoftLabels": OF_ANCHORS
    | {
        "_costs.problem.anchors": Field("md", "f", POINT),
        "_costs.problem.alpha": Field("", "f", POSITIVE),
        "_costs.multipliers": Field("cg"),
        "_costs.allowed_cells": Field("cg", "b"),
        "mass_error_": Field(""),
        "duality_gap_": Field(""),
    },
}
# Of separate attributes, side by side; a price of minus infinity excludes a cell.
SEPARATE = {
    "attribute_counts": Field("ca", "if"),
    "attribute_violations": Field("k", "f"),
    "attribute_prices": Field("ca", "f", (-np.inf, ANY[1]), optional=True),
}


class ModelFileError(ValueError):
    """A file is not a model of this library, is damaged, or is of another version."""


def save_model(
    estimator: Any, path: PathName, *, preprocessing: Any = None, force: bool = False
) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator : AnchorFairClustering, FairKMeans or SociallyFairKMeans
        Fitted.
    path : str or path-like
        The suffix ``.npz`` is usual, not required.
    preprocessing : fairanchor.tables.Preprocessing, default=None
        How a table's columns become the estimator's features and groups; by default what the
        estimator was loaded with, unless it was fitted again.
    force : bool, default=False
        Whether an existing file may be replaced.
    """
    class_ = type(estimator)
    if class_.__name__ not in ESTIMATORS or getattr(fairanchor, class_.__name__) is not class_:
        raise TypeError(f"estimator is a {class_.__name__}, expected one of {list(ESTIMATORS)}.")
    check_is_fitted(estimator)
    _check_parameters(estimator)
    # A loaded model that was fitted again has labels, and features of its own.
    if preprocessing is None and not hasattr(estimator, "labels_"):
        preprocessing = getattr(estimator, "preprocessing_", None)
    document, arrays = _contents_of(estimator, preprocessing)
    try:  # a file that could not be loaded must not be written
        _estimator_of(document, arrays)
        content = pack(document, arrays)
    except ArchiveError as error:
        raise ValueError(f"The model cannot be saved: {error}.") from error
    with replacing(path, force=force) as file:
        file.write(content)


def load_model(path: PathName) -> Any:
    """Read a fitted estimator from a file that ``save`` wrote.

    No code in the file is run. A file that is damaged or forged, or that another version of the
    format wrote, raises a `ModelFileError`, which is a ValueError.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator : AnchorFairClustering, FairKMeans or SociallyFairKMeans
        Predictions are those of the saved estimator. It has no ``labels_``, ``clusterer_`` and
        ``history_``; ``preprocessing_`` is None unless the command line wrote the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairanchor import FairKMeans, load_model
    >>> X, group = [[0.0], [0.1], [5.0], [5.1]], ["a", "b", "a", "b"]
    >>> model = FairKMeans(2, random_state=0).fit(X, sensitive_features=group)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     model.save(Path(directory) / "model.npz")
    ...     again = load_model(Path(directory) / "model.npz")
    >>> bool((again.predict(X, sensitive_features=group) == model.labels_).all())
    True
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    if is_device(path):
        raise ModelFileError(f"{path} is a device or a pipe, expected a file.")
    with path.open("rb") as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, LARGEST_FILE + 1))
    try:
        document, arrays = unpack(content)
        estimator, costs = _estimator_of(document, arrays)
        estimator._restore_costs(costs)
    except Exception as error:  # whatever forged values lead to
        why = str(error).rstrip(".")
        if not isinstance(error, ArchiveError):
            why = f"invalid contents ({type(error).__name__}: {why})"
        raise ModelFileError(
            f"{path} is not a model file that can be loaded: {why}. If it was copied, copy it "
            "again; otherwise fit and save the model again."
        ) from error
    return estimator


# From an estimator to the contents of a file.


def _contents_of(estimator: Any, preprocessing: Any) -> tuple[dict, dict[str, np.ndarray]]:
    """Document, of JSON types, and arrays."""
    costs = type(estimator._costs).__name__
    arrays = {
        name: np.asarray(attrgetter(name)(estimator), None if field.axes else NUMBERS[field.kinds])
        for name, field in _fields_of(type(estimator).__name__, costs).items()
        if not field.optional or hasattr(estimator, name)
    }
    attributes = estimator._attributes
    if attributes is not None:
        arrays["attribute_counts"] = np.hstack(list(estimator.attribute_counts_.values()))
        violations = list(estimator.attribute_violations_.values())
        arrays["attribute_violations"] = np.array(violations, dtype=float)
        if estimator._attribute_prices:
            arrays["attribute_prices"] = np.hstack(estimator._attribute_prices)
    features = getattr(estimator, "feature_names_in_", None)
    sensitive = getattr(estimator, "sensitive_names_in_", None)
    if sensitive is None and preprocessing is not None:
        sensitive = preprocessing.sensitive or None
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fairanchor": fairanchor.__version__,
        "class": type(estimator).__name__,
        "parameters": _plain_parameters(estimator),
        "costs": costs,
        "groups": [to_plain(name) for name in estimator.groups_],
        "feature_names_in": None if features is None else list(map(str, features)),
        "sensitive_names_in": None if sensitive is None else list(map(str, sensitive)),
        "attributes": attributes and [to_plain(name) for name in attributes.columns],
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
    }
    return document, arrays


def _plain_parameters(estimator: Any) -> dict[str, Any]:
    plain = {}
    for name, value in estimator.get_params(deep=False).items():
        # Centres, labels and fitted estimators belong to the rows of the fit.
        if name == "init" and not isinstance(value, str):
            value = NOT_STORED + _description(value)
        try:
            plain[name] = _plain_parameter(value, name)
        except TypeError:
            if name != "clusterer":
                raise
            plain[name] = NOT_STORED + _description(value)
    return plain


def _check_parameters(estimator: Any) -> None:
    """Raise an error for invalid parameters, those aside that are not stored."""
    parameters = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if not (name in ("init", "clusterer") and str(value).startswith(NOT_STORED))
    }
    type(estimator)(**parameters)._validate_params()


def _plain_parameter(value: Any, name: str | None = None) -> Any:
    """JSON of a parameter, whose objects are known by class; TypeError if it cannot be stored."""
    if name == "random_state" and not (value is None or isinstance(value, Integral)):
        warnings.warn(
            "random_state is a generator, which a model file does not hold: the loaded model "
            "has random_state=None. Predictions do not depend on it.",
            UserWarning,
            stacklevel=users_stacklevel(),
        )
        return None
    class_ = type(value).__name__
    if class_ in PARAMETER_CLASSES and getattr(fairanchor, class_) is type(value):
        parameters = value.get_params(deep=False)
        if isinstance(value, FairnessTargets):
            parameters = {name: _without_frames(part) for name, part in parameters.items()}
        plain = {name: _plain_parameter(part, name) for name, part in parameters.items()}
        return {"class": class_, "parameters": plain}
    if is_bounds(value):
        return [_plain_parameter(part) for part in value]
    return to_plain(np.asarray(value).tolist() if hasattr(value, "__array__") else value)


def _without_frames(value: Any) -> Any:
    """A number, a list, or a dict from names of groups to numbers or lists."""
    if value is None or (np.ndim(value) == 0 and not isinstance(value, dict)):
        return value
    names, numbers = named_columns(value)
    if names is None:
        return numbers.tolist()
    return dict(zip(names, np.moveaxis(numbers, -1, 0).tolist(), strict=True))


def _description(value: Any) -> str:
    """Type or shape of a parameter; an address in memory would make two files differ."""
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        return f"an array of shape {np.shape(value)}"
    return getattr(value, "__name__", repr(value).split(" at 0x")[0])


# From the contents of a file to an estimator, with all checks.


def _estimator_of(document: Any, arrays: dict[str, np.ndarray]) -> tuple[Any, dict[str, Any]]:
    """The estimator without its costs, and the parts of these."""
    _check_version(document)
    name, costs = document["class"], document["costs"]
    is_known = name in ESTIMATORS and costs in FITTED and costs not in ESTIMATORS
    is_framework = name == "AnchorFairClustering"
    require(is_known and (costs != "CenterCosts") == is_framework, "class")
    estimator = getattr(fairanchor, name)()
    parameters = {name: _parameter(plain) for name, plain in document["parameters"].items()}
    is_complete = set(parameters) == set(estimator.get_params(deep=False))
    require(is_complete, f"list of parameters {sorted(parameters)}")
    _check_parameters(estimator.set_params(**parameters))

    groups = [from_plain(plain) for plain in document["groups"]]
    flat = [part for name in groups for part in (name if isinstance(name, tuple) else [name])]
    are_names = all(part == part for part in flat)  # NaN is none
    require(are_names and 0 < len(groups) == len(set(groups)), "list of groups")
    fields, sizes = _fields_of(name, costs), {"g": len(groups)}
    attributes = None
    if document["attributes"] is not None:
        columns = [from_plain(plain) for plain in document["attributes"]]
        require(0 < len(columns) == len(set(columns)), "attributes")
        attributes = Attributes.of_names(columns, groups)
        fields = fields | SEPARATE
        sizes |= {"k": len(columns), "a": sum(map(len, attributes.names))}
    needed = {name for name, field in fields.items() if not field.optional}
    require(needed <= set(arrays) <= set(fields), f"contents {sorted(arrays)}")
    for name, array in arrays.items():
        _check_field(name, array, fields[name], sizes)
    fitted = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    require(estimator.n_clusters in (None, sizes["c"]), "parameter n_clusters")
    _check_together(fitted, sizes)
    _check_names(document, groups, sizes["d"])

    for name, value in fitted.items():
        if not name.startswith(("_costs", "attribute_")):
            setattr(estimator, name, value)
    estimator.groups_, estimator.n_features_in_ = _object_array(groups), sizes["d"]
    for attribute in ("feature_names_in", "sensitive_names_in"):
        if document[attribute] is not None:
            setattr(estimator, f"{attribute}_", _object_array(document[attribute]))
    _restore_attributes(estimator, attributes, fitted)
    estimator._chunked = None
    estimator.preprocessing_ = _preprocessing_of(document["preprocessing"], groups, sizes["d"])
    parts = {name.split(".")[-1]: part for name, part in fitted.items() if "_costs." in name}
    return estimator, parts


def _fields_of(name: str, costs: str) -> dict[str, Field]:
    """What is stored of an estimator of this class with such costs."""
    return FITTED[name if name in FITTED else costs]


def _check_version(document: Any) -> None:
    is_model = isinstance(document, dict) and document.get("format") == FORMAT
    require(is_model, f"document: its format is not {FORMAT!r}")
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise ArchiveError(
            f"it has version {str(version)[:20]} of the model format, from fairanchor "
            f"{str(document.get('fairanchor'))[:20]}; this is fairanchor "
            f"{fairanchor.__version__}, which reads version {FORMAT_VERSION}"
        )


def _parameter(plain: Any) -> Any:
    """Inverse of `_plain_parameter`."""
    if isinstance(plain, list):
        return [_parameter(item) for item in plain]
    if not (isinstance(plain, dict) and "class" in plain):
        return from_plain(plain)
    parameters = {name: _parameter(part) for name, part in plain["parameters"].items()}
    name = plain["class"]
    require(name in PARAMETER_CLASSES, f"class {str(name)[:80]}")
    made = getattr(fairanchor, name)(**parameters)
    check = getattr(made, "_check_parameters", None) or getattr(made, "_check", None)
    (check or made._validate_params)()
    return made


def _check_field(name: str, array: np.ndarray, field: Field, sizes: dict[str, int]) -> None:
    """Check type, shape and range; a size that is new is added to ``sizes`` by its letter."""
    is_valid = array.ndim == len(field.axes) and array.dtype.kind in field.kinds
    require(is_valid, f"array {name!r} of type {array.dtype}")
    for letter, size in zip(field.axes, array.shape, strict=True):
        is_valid = sizes.setdefault(letter, size) == size and (size > 0 or letter == "t")
        require(is_valid, f"array {name!r} of shape {array.shape}")
    least, greatest = field.bounds
    is_valid = bool(((array >= least) & (array <= greatest)).all())  # false for NaN
    is_free = field.axes == "" and field.bounds == ANY
    require(is_valid or is_free, f"array {name!r}: numbers are not finite or out of range")


def _check_together(fitted: dict[str, Any], sizes: dict[str, int]) -> None:
    length, unit = fitted["_length"], fitted["_price_unit"]
    require(math.frexp(length)[0] == 0.5 and unit in (1.0, length**2), f"length {length}")
    require(abs(fitted["_group_shares"].sum() - 1) < 1e-6, "sum of group shares")
    allowed = fitted.get("_allowed", np.ones((1, 1), dtype=bool))
    require(allowed.any(axis=0).all(), "table of allowed cells")
    is_small = "_costs.multipliers" not in fitted or sizes["m"] <= MOST_ANCHORS
    require(is_small, f"number of anchors of a reconstruction graph: more than {MOST_ANCHORS:,}")
    labels = fitted.get("anchor_labels_")
    if labels is not None:
        is_valid = labels.max() < sizes["c"] == len(np.unique(labels))
        require(is_valid, "array 'anchor_labels_'")


def _check_names(document: dict, groups: list, n_features: int) -> None:
    """Names of features and of sensitive columns, where there are any."""
    features, sensitive = document["feature_names_in"], document["sensitive_names_in"]
    is_valid = features is None or (_are_texts(features) and len(features) == n_features)
    require(is_valid, "names of features")
    if sensitive is not None:
        n_parts = {len(name) for name in groups if isinstance(name, tuple)}
        is_valid = _are_texts(sensitive) and len(set(sensitive)) == len(sensitive) > 0
        is_valid = is_valid and (len(sensitive) == 1 or n_parts <= {len(sensitive)})
        require(is_valid, "names of sensitive columns")


def _restore_attributes(estimator: Any, attributes: Any, fitted: dict) -> None:
    """Set what the estimator knows of the sensitive columns one by one, if it does."""
    estimator._attributes, estimator._attribute_prices = attributes, []
    if attributes is None:
        return
    ends = np.cumsum([len(names) for names in attributes.names])[:-1]
    tables = {
        name: [np.ascontiguousarray(table) for table in np.hsplit(fitted[name], ends)]
        for name in ("attribute_counts", "attribute_prices")
        if name in fitted
    }
    names, violations = attributes.columns, fitted["attribute_violations"].tolist()
    estimator._attribute_prices = tables.get("attribute_prices", [])
    estimator.attribute_groups_ = dict(zip(names, attributes.names, strict=True))
    estimator.attribute_counts_ = dict(zip(names, tables["attribute_counts"], strict=True))
    estimator.attribute_violations_ = dict(zip(names, violations, strict=True))


def _preprocessing_of(plain: Any, groups: list, n_features: int) -> Any:
    """The command line's preprocessing; None if there is none."""
    if plain is None:
        return None
    from fairanchor.tables._preprocessing import Preprocessing  # loads pyarrow

    preprocessing = Preprocessing.from_json(plain)
    is_valid = len(preprocessing.feature_names) == n_features
    # Only a single group has no column.
    require(is_valid and (len(groups) == 1 or len(preprocessing.sensitive) > 0), "preprocessing")
    return preprocessing


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _object_array(values: list) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
