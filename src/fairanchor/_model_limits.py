"""Limits and separate attributes in model files."""

import numpy as np

from fairanchor._attributes import Attributes
from fairanchor._fairness_rule import is_limits
from fairanchor._fairness_targets import FairnessTargets, named_columns
from fairanchor.tables._plain import from_plain, to_plain

KIND = "FairnessTargets"


def limits_to_plain(fairness):
    """`FairnessTargets`, or a list of them, as dicts of plain values; anything else as it is."""
    if not is_limits(fairness):
        return fairness
    if isinstance(fairness, (list, tuple)):
        return [limits_to_plain(own) for own in fairness]
    parameters = fairness.get_params(deep=False)
    return {KIND: {name: _plain_values(value) for name, value in parameters.items()}}


def limits_from_plain(plain):
    """Inverse of `limits_to_plain`."""
    if isinstance(plain, list) and plain and all(isinstance(own, dict) for own in plain):
        return [limits_from_plain(own) for own in plain]
    if not isinstance(plain, dict):
        return plain
    if list(plain) != [KIND]:
        raise ValueError(f"its fairness is of the kinds {sorted(map(str, plain))[:5]}")
    return FairnessTargets(**plain[KIND])


def separate_to_plain(estimator):
    """What the manifest says of separate attributes; None if there are none."""
    attributes = getattr(estimator, "_attributes", None)
    if attributes is None:
        return None
    return {
        "titles": [to_plain(title) for title in attributes.titles],
        "violations": [float(value) for value in estimator.attribute_violations_.values()],
        "priced": bool(estimator._attribute_prices),
    }


def separate_arrays(estimator):
    """Tables of all separate attributes, side by side."""
    if getattr(estimator, "_attributes", None) is None:
        return {}
    counts = np.hstack(list(estimator.attribute_counts_.values()))
    prices = estimator._attribute_prices
    return {
        "model.attribute_counts": counts,
        "model.attribute_prices": np.hstack(prices) if prices else np.zeros(counts.shape),
    }


def restore_separate(estimator, separate, arrays):
    """Set what `fit` would have set; ``groups_`` must be there."""
    estimator._attributes, estimator._attribute_prices = None, []
    if separate is None:
        return
    titles = [from_plain(title) for title in separate["titles"]]
    attributes = Attributes.of_names(titles, estimator.groups_)
    places = np.cumsum([len(own) for own in attributes.names])[:-1]
    counts = np.hsplit(arrays["model.attribute_counts"], places)
    if separate["priced"]:
        prices = np.hsplit(arrays["model.attribute_prices"], places)
        estimator._attribute_prices = [np.ascontiguousarray(own) for own in prices]
    estimator._attributes = attributes
    estimator.attribute_groups_ = dict(zip(titles, attributes.names, strict=True))
    counts = [np.ascontiguousarray(own) for own in counts]
    estimator.attribute_counts_ = dict(zip(titles, counts, strict=True))
    estimator.attribute_violations_ = dict(zip(titles, separate["violations"], strict=True))


def _plain_values(given):
    """A number, a list, or a dict from the groups' names to numbers or lists."""
    if given is None or np.ndim(given) == 0 and not isinstance(given, dict):
        return given
    names, values = named_columns(given)
    if names is None:
        return values.tolist()
    return dict(zip(names, np.moveaxis(values, -1, 0).tolist(), strict=True))
