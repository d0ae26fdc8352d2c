"""Whether the contents of a model file make sense together.

The kernels trust their arrays: an index out of range would be read out of bounds, and a number
that is not finite would come back as a label. Every check raises `ModelFileError` with what was
found and what was expected.
"""

import math

import numpy as np

from fairanchor._attributes import Attributes
from fairanchor._model_archive import FORMAT_VERSION, ModelFileError
from fairanchor.tables._plain import from_plain

# Tables of anchors × anchors are built from a model: beyond, they take more than 8 gigabytes.
MOST_ANCHORS = 32_768
# Likewise a table of typical supports × features × features.
LARGEST_STARTS = 2**30
SIZES = ("n_clusters", "n_anchors", "n_features")

# Letters stand for the sizes: clusters, groups, anchors, features, typical supports, groups of
# all separate attributes.
SHAPES = {
    "model.anchors": "md",
    "model.anchor_labels": "m",
    "model.multipliers": "cg",
    "model.allowed_cells": "cg",
    "model.prices": "cg",
    "model.centers": "cd",
    "model.shares": "g",
    "model.typical_supports": "sm",
    "model.attribute_prices": "ca",
    "model.attribute_counts": "ca",
    "counts_": "cg",
    "targets_": "cg",
    "anchor_indices_": "m",
    "anchors_": "md",
    "anchor_masses_": "m",
    "anchor_labels_": "m",
    "multipliers_": "cg",
    "assignment_prices_": "cg",
    "cluster_centers_": "cd",
}
KINDS = {
    "model.allowed_cells": "b",
    "model.typical_supports": "b",
    "model.anchor_labels": "i",
    "anchor_labels_": "i",
    "anchor_indices_": "i",
    "counts_": "if",
    "model.attribute_counts": "if",
}
NOT_NEGATIVE = ("model.shares", "counts_", "targets_", "anchor_indices_", "anchor_masses_")

# Attributes of the estimator by what they must be.
WHOLE_NUMBERS = ("n_iter_", "n_graph_rows_", "n_clusters_found_", "n_features_in_")
FINITE_NUMBERS = ("balance_", "worst_violation_", "inertia_")
NUMBERS = ("mass_error_", "duality_gap_", "assignment_gap_")
ATTRIBUTES = (*WHOLE_NUMBERS, *FINITE_NUMBERS, *NUMBERS, "converged_", "history_")


def require(condition, message):
    """Raise `ModelFileError` unless the condition holds."""
    if not condition:
        raise ModelFileError(message)


def check_version(manifest, own_version):
    """Refuse a file that another version of the program wrote, with both versions."""
    version = manifest.get("format_version")
    require(_is_whole(version, 1), f"its format_version is {version!r}, expected {FORMAT_VERSION}")
    if version != FORMAT_VERSION:
        raise NewerVersionError(
            f"has version {version} of the model format and was written by "
            f"{str(manifest.get('written_by'))[:60]}; this is fairanchor {own_version}, which "
            f"reads version {FORMAT_VERSION}. Use the version that wrote it, or fit again."
        )


class NewerVersionError(ModelFileError):
    """The file is in order, but another version of the program wrote it."""


def shapes_of(manifest):
    """Shapes of all arrays by name, from the sizes in the manifest.

    Parameters
    ----------
    manifest : dict

    Returns
    -------
    shapes : dict from name to tuple
    """
    for name in SIZES:
        size = manifest.get(name)
        require(_is_whole(size, 1), f"its {name} is {size!r}, expected a whole number from 1")
    for name in ("n_clusters", "n_anchors"):
        require(
            manifest[name] <= MOST_ANCHORS,
            f"its {name} is {manifest[name]:,}, at most {MOST_ANCHORS:,} are read",
        )
    groups, n_anchors = manifest.get("groups"), manifest["n_anchors"]
    require(isinstance(groups, list) and groups, "it names no groups")
    n_supports = manifest.get("n_supports")
    require(
        _is_whole(n_supports, 0) and n_supports in (0, 1, n_anchors),
        f"its n_supports is {n_supports!r}, expected 0, 1 or {n_anchors}",
    )
    sizes = {
        "c": manifest["n_clusters"],
        "g": len(groups),
        "m": n_anchors,
        "d": manifest["n_features"],
        "s": n_supports,
        "a": _n_attribute_groups(manifest.get("separate"), groups),
    }
    return {
        name: tuple(sizes[letter] for letter in letters)
        for name, letters in SHAPES.items()
        if all(sizes[letter] for letter in letters)
    }


def _n_attribute_groups(separate, groups):
    """Number of groups of all separate attributes together; none if there are none."""
    if separate is None:
        return 0
    require(isinstance(separate, dict), f"its separate attributes are {separate!r}")
    titles, missed = separate.get("titles"), separate.get("violations")
    require(isinstance(titles, list) and titles, "its separate attributes have no titles")
    fits = isinstance(missed, list) and len(missed) == len(titles)
    fits = fits and all(_is_number(value) and 0 <= value < math.inf for value in missed)
    require(fits, f"its separate attributes miss their limits by {missed!r}")
    require(isinstance(separate.get("priced"), bool), "its separate attributes have no prices")
    names = [from_plain(name) for name in groups]
    attributes = Attributes.of_names([from_plain(title) for title in titles], names)
    return sum(len(own) for own in attributes.names)


def check_settings(manifest):
    """The scalars that decide how rows are labelled."""
    for name in ("alpha", "scale"):
        value = manifest.get(name)
        require(_is_number(value) and 0 < value < math.inf,
                f"its {name} is {value!r}, expected a positive number")  # fmt: skip
    require(
        math.frexp(manifest["scale"])[0] == 0.5,
        f"its scale is {manifest['scale']!r}, expected a power of two",
    )
    by_distance = manifest.get("by_distance")
    require(
        isinstance(by_distance, bool), f"its by_distance is {by_distance!r}, expected a boolean"
    )
    names = manifest.get("feature_names_in")
    fits = names is None or (_is_list_of_text(names) and len(names) == manifest["n_features"])
    require(fits, f"its feature_names_in are no {manifest['n_features']} texts")


def check_supports(manifest):
    """That the tables of starts, which are squares of the features, fit into memory."""
    n_entries = manifest["n_anchors"] * (manifest["n_features"] + 1) ** 2
    require(
        n_entries <= LARGEST_STARTS,
        f"its {manifest['n_anchors']:,} typical supports of {manifest['n_features']:,} features "
        "would take more memory than any model does",
    )


def check_attributes(attributes, n_features):
    """The fitted attributes that are not arrays."""
    require(
        set(attributes) == set(ATTRIBUTES),
        f"its attributes are {sorted(attributes)}, expected {sorted(ATTRIBUTES)}",
    )
    for name in WHOLE_NUMBERS:
        require(_is_whole(attributes[name], 0), f"its {name} is no whole number")
    for name in (*FINITE_NUMBERS, *NUMBERS):
        value = attributes[name]
        fits = _is_number(value) and (name in NUMBERS or 0 <= value < math.inf)
        require(fits, f"its {name} is {value!r}, expected a number")
    require(isinstance(attributes["converged_"], bool), "its converged_ is no boolean")
    require(
        attributes["n_features_in_"] == n_features,
        f"its n_features_in_ is {attributes['n_features_in_']}, expected {n_features}",
    )
    history = attributes["history_"]
    require(
        isinstance(history, list) and all(map(_is_record, history)),
        "its history_ is no list of records",
    )


def check_group_names(names):
    """Every group has a name of its own."""
    try:
        n_names = len(set(names))
    except TypeError as error:
        raise ModelFileError(f"a group has a name that names nothing: {error}") from None
    require(n_names == len(names), f"it has {len(names)} groups, but {n_names} different names")


def check_sensitive_names(titles, groups):
    """Titles of the sensitive columns, if there are any: one for each part of a group's name."""
    if titles is None:
        return
    fits = _is_list_of_text(titles) and len(set(titles)) == len(titles) > 0
    require(fits, f"its sensitive_names_in are {str(titles)[:80]}, expected different texts")
    parts = {len(name) for name in groups if isinstance(name, tuple)}
    require(
        len(titles) == 1 or parts <= {len(titles)},
        f"it has {len(titles)} sensitive columns, but names of groups have {sorted(parts)} parts",
    )


def check_arrays(arrays, n_clusters):
    """Kinds and values of the arrays; their shapes are already right."""
    for name, array in arrays.items():
        kinds = KINDS.get(name, "f")
        require(array.dtype.kind in kinds, f"its array {name!r} has type {array.dtype}")
        require(np.isfinite(array).all(), f"its array {name!r} holds a number that is not finite")
    for name in NOT_NEGATIVE:
        require(arrays[name].min() >= 0, f"its array {name!r} holds a negative number")
    for name in ("model.anchor_labels", "anchor_labels_"):
        labels = arrays[name]
        require(
            labels.min() >= 0 and labels.max() < n_clusters,
            f"its array {name!r} goes from {labels.min()} to {labels.max()}, expected 0 to "
            f"{n_clusters - 1}",
        )
    _check_cells(arrays)
    supports = arrays.get("model.typical_supports")
    require(supports is None or supports.any(axis=1).all(), "a typical support is empty")


def _check_cells(arrays):
    """Every group needs an anchor that its rows may use, and a share of the rows."""
    allowed, labels = arrays["model.allowed_cells"], arrays["model.anchor_labels"]
    require(allowed[labels].any(axis=0).all(), "a group of it may use no anchor")
    total = arrays["model.shares"].sum()
    require(abs(total - 1.0) < 1e-6, f"the shares of its groups add up to {total:.6g}, not to 1")


def check_preprocessing(preprocessing, n_features):
    """That columns become as many features as the model has, by finite numbers."""
    from fairanchor.tables._preprocessing import NumericColumn

    for column in preprocessing.columns:
        name = column.name
        require(isinstance(name, str), f"a column of it is called {name!r}, which is no text")
        check = _check_numeric if isinstance(column, NumericColumn) else _check_categorical
        check(column)
    n_outputs = len(preprocessing.feature_names)
    require(
        n_outputs == n_features,
        f"its columns become {n_outputs} features, but the model has {n_features}",
    )
    rule = preprocessing.groups
    require(_is_list_of_text(list(rule.columns)) and rule.columns, "it names no sensitive columns")
    known = ("error", "own_group")
    require(rule.missing in known, f"its rule for missing groups is {rule.missing!r}")
    check_group_names(rule.merged)


def _check_numeric(column):
    numbers = (column.center, column.scale, column.fill)
    require(
        all(_is_number(number) and math.isfinite(number) for number in numbers)
        and column.scale > 0,
        f"its column {column.name!r} is scaled by {numbers}, expected finite numbers",
    )


def _check_categorical(column):
    categories = column.categories
    fits = _is_list_of_text(list(categories)) and len(set(categories)) == len(categories) > 0
    require(fits, f"its column {column.name!r} has categories that are not different texts")
    require(
        column.fill in categories,
        f"its column {column.name!r} is filled with {column.fill!r}, which is no category of it",
    )


def _is_whole(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list_of_text(values):
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_record(record):
    return isinstance(record, dict) and all(
        isinstance(key, str) and (value is None or isinstance(value, (int, float, str)))
        for key, value in record.items()
    )
