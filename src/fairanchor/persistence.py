"""Model files: what a fitted estimator needs to label new rows, in one small file.

A file is a NumPy ``.npz`` archive: one ``.npy`` member per array, and the member ``model.json``
with everything else (format version, class, parameters, group names, preprocessing). The comment of
the archive is the SHA-256 of all bytes before it. Reading runs no code and trusts nothing: sizes
are checked before anything is decompressed, and every array before the compiled kernels, which
trust theirs, see it. ``labels_`` and ``clusterer_``, which grow with the training rows, are not
stored.
"""

import errno
import hashlib
import io
import json
import math
import os
import re
import warnings
import zipfile
from numbers import Integral
from operator import attrgetter
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairanchor import __version__
from fairanchor._utils._files import is_device, replacing
from fairanchor._utils._shared_state import one_blas_thread
from fairanchor.anchors import FDAS
from fairanchor.cluster import FairKMeans
from fairanchor.cluster._anchor_clustering import AnchorFairClustering
from fairanchor.cluster._fair_lloyd import CenterCosts
from fairanchor.cluster._registry import CLUSTERERS
from fairanchor.constraints._constraint import is_bounds
from fairanchor.constraints._fairness_targets import FairnessTargets, named_columns
from fairanchor.graph import (
    AnchorGraphProblem,
    LocalCosts,
    LocalGraph,
    ReconstructionGraph,
    SoftLabels,
)
from fairanchor.groups._attributes import Attributes
from fairanchor.rows._journal import DAMAGE
from fairanchor.rows._sensitive_names import store_titles
from fairanchor.tables._plain import from_plain, to_plain

# Raised when an older version could not read the file, or would misread it.
FORMAT, FORMAT_VERSION = "fairanchor-model", 3
MANIFEST, CHECKSUM_LENGTH = "model.json", 64
# Of an array in C order: floats, integers or booleans, in up to two dimensions.
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(<f8|<i8|<i4|\|b1)', 'fortran_order': False, "
    rb"'shape': \((\d{1,15}(?:,|, \d{1,15}))\), \} *\n",
    re.DOTALL,
)
# Bytes of a file, of its manifest, and of all that it decompresses to: whatever its size is, in
# multiples of it, and in any case.
LARGEST_FILE, LARGEST_MANIFEST = 2**30, 2**23
ALWAYS_DECOMPRESSED, LARGEST_RATIO, LARGEST_DECOMPRESSED = 2**26, 100, 2**31
# The reconstruction graph builds a table of anchors x anchors.
MOST_ANCHORS = 10_000
# Rows are scaled to values below, whose squares are finite.
LARGEST_POINT = 2e60

ESTIMATORS = {"AnchorFairClustering": AnchorFairClustering, "FairKMeans": FairKMeans}
SCORERS = {"centers": CenterCosts, "local": LocalCosts, "reconstruction": SoftLabels}

# What is stored, by attribute of the estimator: types of values; shapes and kinds of type of
# arrays. Letters are numbers of clusters, groups, features, anchors, groups of all separate
# attributes, iterations.
COMMON = {
    "counts_": "cg if",
    "targets_": "cg f",
    "assignment_prices_": "cg f",
    "_allowed": "cg b",
    "_group_shares": "g f",
    "_length": float,
    "balance_": float,
    "worst_violation_": float,
    "inertia_": float,
    "assignment_gap_": float,
    "n_iter_": int,
    "n_clusters_found_": int,
    "converged_": bool,
}
OF_ANCHORS = COMMON | {
    "anchor_labels_": "m i",
    "anchor_masses_": "m f",
    "anchor_indices_": "m i",
    "cluster_centers_": "cd f",
}
FITTED = {
    "centers": COMMON | {"_scorer.centers": "cd f", "cost_path_": "t f", "lp_value_": float},
    "local": OF_ANCHORS
    | {"_scorer.anchors": "md f", "_scorer.n_neighbors": int, "_scorer.least_alpha": float},
    "reconstruction": OF_ANCHORS
    | {
        "_scorer.problem.anchors": "md f",
        "_scorer.problem.alpha": float,
        "_scorer.multipliers": "cg f",
        "_scorer.allowed_cells": "cg b",
        "mass_error_": float,
        "duality_gap_": float,
        "history_": list,
    },
}
# Of separate attributes, side by side.
SEPARATE = {"attribute_counts": "ca if", "attribute_prices": "ca f"}
OPTIONAL = {"anchor_indices_", "attribute_prices"}
POINTS = {"_scorer.centers", "_scorer.anchors", "_scorer.problem.anchors"}
POSITIVE = {"_length", "_scorer.n_neighbors", "_scorer.least_alpha", "_scorer.problem.alpha"}
NOT_NEGATIVE = {"counts_", "targets_", "_group_shares", "anchor_masses_", "anchor_indices_"}


class ModelFileError(ValueError):
    """A file is not a model of this library, is damaged, or is of another version."""


class Unavailable(BaseEstimator):
    """Stands for a parameter that a model file describes but does not hold.

    Parameters
    ----------
    parameter : str
        Its name.
    description : str
        What it looked like.
    """

    def __init__(self, parameter="", description=""):
        self.parameter = parameter
        self.description = description

    def fit(self, X, y=None):
        """Raise an error with what to do, as a clusterer of anchors."""
        raise self._error()

    @property
    def cluster_centers_(self):
        """Raise an error with what to do, as the start of k-means."""
        raise self._error()

    def _error(self):
        return RuntimeError(
            f"The model was fitted with {self.parameter}={self.description}, which a model file "
            f"does not hold. To fit again, set it: set_params({self.parameter}=...)."
        )

    def _check(self):
        _require(_is_texts([self.parameter, self.description]), "description of a parameter")


PARAMETER_CLASSES = {
    class_.__name__: class_
    for class_ in (FairnessTargets, FDAS, LocalGraph, ReconstructionGraph, Unavailable)
} | {class_.__name__: class_ for class_ in CLUSTERERS.values()}


def save_model(estimator, path, *, preprocessing=None, force=False):
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator : AnchorFairClustering or FairKMeans
        Fitted.
    path : str or path-like
        The suffix ``.npz`` is usual, not required.
    preprocessing : fairanchor.tables.Preprocessing, default=None
        How a table's columns become the estimator's features and groups; by default what the
        estimator was loaded with, unless it was fitted again.
    force : bool, default=False
        Whether an existing file may be replaced.
    """
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(
            f"estimator is a {type(estimator).__name__}, expected one of {sorted(ESTIMATORS)}."
        )
    check_is_fitted(estimator)
    estimator._validate_params()
    # A loaded model that was fitted again has labels, and features of its own.
    if preprocessing is None and not hasattr(estimator, "labels_"):
        preprocessing = getattr(estimator, "preprocessing_", None)
    manifest, arrays = _contents_of(estimator, preprocessing)
    try:  # a file that could not be loaded must not be written
        _estimator_of(manifest, arrays)
        content = _packed(manifest, arrays)
    except ModelFileError as error:
        raise ValueError(f"The model cannot be saved: {error}.") from error
    with replacing(path, force=force) as file:
        file.write(content)


def load_model(path):
    """Read a fitted estimator from a file that ``save`` wrote.

    No code in the file is run. A file that is damaged or forged, or that another version of the
    format wrote, raises a `ModelFileError`, which is a ValueError.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator : AnchorFairClustering or FairKMeans
        Predictions are those of the saved estimator. It has no ``labels_`` and no ``clusterer_``;
        ``preprocessing_`` is None unless the command line wrote the file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    if is_device(path):
        raise ModelFileError(f"{path} is a device or a pipe, expected a file.")
    with path.open("rb") as file:
        try:
            manifest, arrays = _unpacked(file)
            estimator, fitted = _estimator_of(manifest, arrays)
            estimator._scorer = _scorer_of(manifest["scorer"], fitted)
        except DAMAGE as error:
            # A place that does not exist in the file is damage, a disk that fails is not.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            why = str(error)
            if not isinstance(error, ModelFileError):
                why = f"it is cut off or altered ({type(error).__name__}: {why.rstrip('.')})"
            raise ModelFileError(
                f"{path} is not a model file that can be loaded: {why}. If it was copied, copy it "
                "again; otherwise fit and save the model again."
            ) from error
    return estimator


def _require(condition, part):
    if not condition:
        raise ModelFileError(f"invalid {part}")


# The archive.


def _packed(manifest, arrays):
    """Bytes of the file; equal contents give equal bytes."""
    members = {MANIFEST: json.dumps(manifest, allow_nan=False, indent=1).encode("ascii")}
    for name, array in sorted(arrays.items()):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = bytes(CHECKSUM_LENGTH)
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # the same on every system
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    _check_sizes(archive.infolist(), len(content))
    return _with_checksum(content)


def _with_checksum(content):
    """The bytes of an archive with their checksum in the place of its comment."""
    content = content[:-CHECKSUM_LENGTH]
    return content + hashlib.sha256(content).hexdigest().encode("ascii")


def _unpacked(file):
    """Manifest and arrays; memory is allocated only for sizes that were checked."""
    size = os.fstat(file.fileno()).st_size
    _require(size <= LARGEST_FILE, f"size of {size:,} bytes")
    content = file.read(size)
    _require(content[:4] == b"PK\x03\x04", "first bytes")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        listed = archive.infolist()
        _check_sizes(listed, size)
        entries = {entry.filename: entry for entry in listed}
        _require(len(entries) == len(listed) and MANIFEST in entries, "list of members")
        manifest = json.loads(_read(archive, entries.pop(MANIFEST)))
        _check_version(manifest)
        if content != _with_checksum(content):
            raise ModelFileError("its contents do not match their checksum")
        expected = {f"{name}.npy" for name in FITTED[manifest["scorer"]] | SEPARATE}
        _require(set(entries) <= expected, f"list of members {sorted(entries)}")
        arrays = {name: _array_of(name, _read(archive, entry)) for name, entry in entries.items()}
    return manifest, {name.removesuffix(".npy"): array for name, array in arrays.items()}


def _check_sizes(listed, file_size):
    """Refuse an archive that would fill the memory, by the sizes that it declares."""
    total = sum(entry.file_size for entry in listed)
    text = sum(entry.file_size for entry in listed if entry.filename == MANIFEST)
    limit = min(ALWAYS_DECOMPRESSED + LARGEST_RATIO * file_size, LARGEST_DECOMPRESSED)
    _require(
        file_size <= LARGEST_FILE and total <= limit and text <= LARGEST_MANIFEST,
        f"size ({file_size:,} bytes, which decompress to {total:,}; at most {limit:,} are read)",
    )


def _read(archive, entry):
    """Bytes of a member, at most as many as it declares."""
    is_known = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    _require(is_known and not entry.flag_bits & 1, f"compression of {entry.filename!r}")
    with archive.open(entry) as member:
        content = member.read(entry.file_size)
    _require(len(content) == entry.file_size, f"size of {entry.filename!r}")
    return content


def _array_of(name, content):
    """What ``np.load`` would read, once the header agrees with the size; nothing is evaluated."""
    header = HEADER.match(content)
    _require(header is not None, f"header of {name!r}")
    dtype = np.dtype(header[1].decode("ascii"))
    shape = tuple(int(size) for size in header[2].split(b",") if size.strip())
    n_bytes = math.prod(shape) * dtype.itemsize
    _require(n_bytes == len(content) - header.end(), f"array {name!r} of shape {shape}")
    array = np.frombuffer(content, dtype, offset=header.end()).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def _check_version(manifest):
    is_ours = isinstance(manifest, dict) and manifest.get("format") == FORMAT
    _require(is_ours, f"{MANIFEST}: it does not say {FORMAT!r}")
    version = manifest.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise ModelFileError(
            f"it has version {str(version)[:20]} of the model format, from fairanchor "
            f"{str(manifest.get('fairanchor'))[:20]}; this is fairanchor {__version__}, "
            f"which reads version {FORMAT_VERSION}"
        )


# From an estimator to the contents of a file.


def _contents_of(estimator, preprocessing):
    """Manifest, of JSON types, and arrays."""
    kind = next(kind for kind, class_ in SCORERS.items() if type(estimator._scorer) is class_)
    fields = {name: type_ for name, type_ in FITTED[kind].items() if _has(estimator, name)}
    values = {
        name: to_plain(type_(attrgetter(name)(estimator)))
        for name, type_ in fields.items()
        if isinstance(type_, type)
    }
    arrays = {name: attrgetter(name)(estimator) for name in fields if name not in values}
    attributes, separate = estimator._attributes, None
    if attributes is not None:
        separate = {
            "titles": [to_plain(title) for title in attributes.titles],
            "violations": [float(missed) for missed in estimator.attribute_violations_.values()],
        }
        arrays["attribute_counts"] = np.hstack(list(estimator.attribute_counts_.values()))
        if estimator._attribute_prices:
            arrays["attribute_prices"] = np.hstack(estimator._attribute_prices)
    features = getattr(estimator, "feature_names_in_", None)
    titles = getattr(estimator, "sensitive_names_in_", None)
    if titles is None and preprocessing is not None:
        titles = preprocessing.sensitive
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fairanchor": __version__,
        "class": type(estimator).__name__,
        "parameters": _plain_parameters(estimator),
        "scorer": kind,
        "groups": [to_plain(name) for name in estimator.groups_],
        "feature_names_in": None if features is None else [str(name) for name in features],
        "sensitive_names_in": None if titles is None else [str(title) for title in titles],
        "attributes": separate,
        "values": values,
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
    }
    return manifest, {name: _portable(array) for name, array in arrays.items()}


def _has(estimator, name):
    return name not in OPTIONAL or hasattr(estimator, name)


def _portable(array):
    """In C order and little-endian."""
    array = np.ascontiguousarray(array)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _plain_parameters(estimator):
    plain = {}
    for name, value in estimator.get_params(deep=False).items():
        # Centres, labels and fitted estimators belong to the rows of the fit.
        if name == "init" and not isinstance(value, (str, Unavailable)):
            value = Unavailable(name, _described(value))
        try:
            plain[name] = _to_plain(value, name)
        except TypeError:
            if name != "clusterer":
                raise
            plain[name] = _to_plain(Unavailable(name, _described(value)))
    return plain


def _to_plain(value, name=None):
    """JSON of a parameter, whose objects are known by class; TypeError if it cannot be stored."""
    if name == "random_state" and not (value is None or isinstance(value, Integral)):
        warnings.warn(
            "random_state is a generator, which a model file does not hold: the loaded model "
            "has random_state=None. Predictions do not depend on it.",
            UserWarning,
            stacklevel=5,
        )
        return None
    if PARAMETER_CLASSES.get(type(value).__name__) is type(value):
        own = value.get_params(deep=False)
        if isinstance(value, FairnessTargets):
            own = {name: _without_frames(given) for name, given in own.items()}
        parameters = {name: _to_plain(given, name) for name, given in own.items()}
        return {"class": type(value).__name__, "parameters": parameters}
    if is_bounds(value):
        return [_to_plain(own) for own in value]
    return to_plain(np.asarray(value).tolist() if hasattr(value, "__array__") else value)


def _without_frames(given):
    """A number, a list, or a dict from names of groups to numbers or lists."""
    if given is None or (np.ndim(given) == 0 and not isinstance(given, dict)):
        return given
    names, values = named_columns(given)
    if names is None:
        return values.tolist()
    return dict(zip(names, np.moveaxis(values, -1, 0).tolist(), strict=True))


def _described(value):
    """What is told of a parameter; an address in memory would make two files differ."""
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        return f"an array of shape {np.shape(value)}"
    return getattr(value, "__name__", repr(value).split(" at 0x")[0])


# From the contents of a file to an estimator, with all checks.


def _estimator_of(manifest, arrays):
    """The estimator without its scorer, and all that is fitted by the name of the attribute."""
    class_, kind = ESTIMATORS[manifest["class"]], manifest["scorer"]
    _require(kind in SCORERS and (kind == "centers") == (class_ is FairKMeans), "scorer")
    parameters = {name: _from_plain(plain) for name, plain in manifest["parameters"].items()}
    names = set(class_().get_params(deep=False))
    _require(set(parameters) == names, f"list of parameters {sorted(parameters)}")
    estimator = class_(**parameters)
    estimator._validate_params()
    groups = [from_plain(plain) for plain in manifest["groups"]]
    parts = [part for name in groups for part in (name if isinstance(name, tuple) else [name])]
    are_names = all(part == part for part in parts)  # NaN is none
    _require(are_names and 0 < len(groups) == len(set(groups)), "list of groups")
    fields, sizes = FITTED[kind], {"g": len(groups)}
    attributes = _attributes_of(manifest["attributes"], groups)
    if attributes is not None:
        fields, sizes["a"] = fields | SEPARATE, sum(len(own) for own in attributes.names)
    values = {name: from_plain(plain) for name, plain in manifest["values"].items()}
    fitted = arrays | values
    _require(set(fields) - OPTIONAL <= set(fitted) <= set(fields), f"contents {sorted(fitted)}")
    for name, value in fitted.items():
        _check_field(name, value, fields[name], sizes)
    _require(estimator.n_clusters in (None, sizes["c"]), "parameter n_clusters")
    _check_together(fitted, sizes)
    _check_names(manifest, groups, sizes["d"])

    for name, value in fitted.items():
        if not name.startswith(("_scorer", "attribute_")):
            setattr(estimator, name, value)
    length = fitted["_length"]
    estimator._price_unit = 1.0 if kind == "reconstruction" else length**2
    [points] = [fitted[name] for name in POINTS if name in fitted]
    if kind == "centers":
        estimator.cluster_centers_ = points / length
    else:
        estimator.anchors_, estimator._n_features_out = points / length, len(points)
    if kind == "reconstruction":
        estimator.multipliers_ = fitted["_scorer.multipliers"] / length / length
    estimator.groups_, estimator.n_features_in_ = _object_array(groups), sizes["d"]
    if manifest["feature_names_in"] is not None:
        estimator.feature_names_in_ = _object_array(manifest["feature_names_in"])
    store_titles(estimator, manifest["sensitive_names_in"])
    _restore_attributes(estimator, attributes, manifest["attributes"], fitted)
    estimator._chunked = None
    estimator.preprocessing_ = _preprocessing_of(manifest["preprocessing"], sizes["d"])
    return estimator, fitted


def _scorer_of(kind, fitted):
    parts = {name.split(".")[-1]: own for name, own in fitted.items() if "_scorer." in name}
    if kind == "centers":
        return CenterCosts(parts["centers"])
    labels, n_clusters = fitted["anchor_labels_"], len(fitted["counts_"])
    if kind == "local":
        return LocalCosts(anchor_labels=labels, n_clusters=n_clusters, **parts)
    # One thread as in fit: the last bits of a product may depend on their number.
    with one_blas_thread():
        problem = AnchorGraphProblem(
            parts["anchors"], labels, n_clusters, parts["alpha"], announce=False
        )
    return SoftLabels(problem, parts["multipliers"], parts["allowed_cells"])


def _from_plain(plain):
    """Inverse of `_to_plain`."""
    if isinstance(plain, list):
        return [_from_plain(item) for item in plain]
    if not (isinstance(plain, dict) and "class" in plain):
        return from_plain(plain)
    class_ = PARAMETER_CLASSES[plain["class"]]
    made = class_(**{name: _from_plain(own) for name, own in plain["parameters"].items()})
    check = getattr(made, "_check_parameters", None) or getattr(made, "_check", None)
    (check or made._validate_params)()
    return made


def _attributes_of(separate, groups):
    """The sensitive columns one by one; None if their combinations are one attribute."""
    if separate is None:
        return None
    titles, violations = [from_plain(title) for title in separate["titles"]], separate["violations"]
    fits = 0 < len(titles) == len(set(titles)) == len(violations)
    _require(fits and all(type(missed) is float for missed in violations), "attributes")
    return Attributes.of_names(titles, groups)


def _restore_attributes(estimator, attributes, separate, fitted):
    estimator._attributes, estimator._attribute_prices = attributes, []
    if attributes is None:
        return
    titles, places = attributes.titles, np.cumsum([len(own) for own in attributes.names])[:-1]
    tables = {
        name: [np.ascontiguousarray(own) for own in np.hsplit(fitted[name], places)]
        for name in SEPARATE
        if name in fitted
    }
    estimator._attribute_prices = tables.get("attribute_prices", [])
    estimator.attribute_groups_ = dict(zip(titles, attributes.names, strict=True))
    estimator.attribute_counts_ = dict(zip(titles, tables["attribute_counts"], strict=True))
    estimator.attribute_violations_ = dict(zip(titles, separate["violations"], strict=True))


def _check_field(name, value, expected, sizes):
    """Type, shape and values; sizes that are found are added to ``sizes``, by their letters."""
    if isinstance(expected, type):
        _require(type(value) is expected, f"{name} = {str(value)[:80]}")
        _require(name not in POSITIVE or 0 < value < 2.0**1000, f"{name} = {str(value)[:80]}")
        return
    letters, kinds = expected.split()
    fits = (
        isinstance(value, np.ndarray) and value.ndim == len(letters) and value.dtype.kind in kinds
    )
    _require(fits, f"array {name!r}")
    for letter, size in zip(letters, value.shape, strict=True):
        fits &= sizes.setdefault(letter, size) == size and (size > 0 or letter == "t")
    _require(fits, f"array {name!r} of shape {value.shape}")
    finite = np.isfinite(value)
    if name == "attribute_prices":  # minus infinity excludes a cell
        finite |= value == -np.inf
    _require(finite.all(), f"array {name!r}: numbers that are not finite")
    fits = name not in NOT_NEGATIVE or value.min() >= 0
    fits &= name not in POINTS or np.abs(value).max() <= LARGEST_POINT
    _require(fits, f"array {name!r}: numbers out of range")


def _check_together(fitted, sizes):
    length = fitted["_length"]
    _require(math.frexp(length)[0] == 0.5 and 1e-160 < length < 1e160, f"length {length}")
    _require(abs(fitted["_group_shares"].sum() - 1) < 1e-6, "sum of group shares")
    _require(fitted["_allowed"].any(axis=0).all(), "table of allowed cells")
    _require(fitted.get("_scorer.n_neighbors", 1) < 2**31, "number of neighbours")
    is_small = "_scorer.multipliers" not in fitted or sizes["m"] <= MOST_ANCHORS
    _require(is_small, f"number of anchors of a reconstruction graph: more than {MOST_ANCHORS:,}")
    _require(all(map(_is_record, fitted.get("history_", []))), "history")
    labels = fitted.get("anchor_labels_")
    if labels is not None:
        fits = labels.min() >= 0 and labels.max() < sizes["c"]
        _require(fits and len(np.unique(labels)) == sizes["c"], "array 'anchor_labels_'")


def _check_names(manifest, groups, n_features):
    """Names of features and of sensitive columns, where there are any."""
    names, titles = manifest["feature_names_in"], manifest["sensitive_names_in"]
    _require(names is None or (_is_texts(names) and len(names) == n_features), "names of features")
    n_parts = {len(name) for name in groups if isinstance(name, tuple)}
    fits = titles is None or (_is_texts(titles) and len(set(titles)) == len(titles) > 0)
    fits = fits and (titles is None or len(titles) == 1 or n_parts <= {len(titles)})
    _require(fits, "names of sensitive columns")


def _preprocessing_of(plain, n_features):
    """The command line's preprocessing; None if there is none."""
    if plain is None:
        return None
    from fairanchor.tables._preprocessing import Preprocessing

    preprocessing = Preprocessing.from_json(plain)
    _require(len(preprocessing.feature_names) == n_features, "preprocessing")
    return preprocessing


def _is_texts(values):
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_record(record):
    values = record.items() if isinstance(record, dict) else [(None, None)]
    return all(
        isinstance(key, str) and isinstance(value, (int, float, str)) for key, value in values
    )


def _object_array(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
