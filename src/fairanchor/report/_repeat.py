"""How to repeat a run: the call of the estimator, and of the command line, as text."""

import shlex
from importlib import import_module
from itertools import takewhile

import numpy as np
from sklearn.base import BaseEstimator

# Longer arrays are described, not written out.
MOST_NUMBERS = 60


def python_of_estimator(estimator, *, weighted=False):
    """Python code that makes the estimator and fits it to rows called ``X``.

    Parameters
    ----------
    estimator : estimator
    weighted : bool, default=False
        Whether the rows have weights.

    Returns
    -------
    code : str
        What cannot be written as text is ``...`` with a comment.
    """
    weights = ", sample_weight=weights" if weighted else ""
    return "\n".join(
        [
            *_imports(estimator),
            "",
            *_call(estimator),
            f"model.fit(X, sensitive_features=groups{weights})",
        ]
    )


def python_of_table(estimator, source, loaded, options):
    """Python code from a table's file to the fitted estimator.

    Parameters
    ----------
    estimator : FairKMeans or AnchorFairClustering
    source : str
        The table's path.
    loaded : fairanchor.tables._load.LoadedTable
    options : dict
        ``delimiter``, ``null_values``, ``missing`` and ``min_group_size`` of the command line.

    Returns
    -------
    code : str
        Runs as it is, unless the table came from standard input.
    """
    preprocessing = loaded.preprocessing
    features, rule = preprocessing.inputs, preprocessing.groups
    sensitive = list(rule.columns)
    columns = list(dict.fromkeys([*sensitive, *features]))
    text = [name for name in sensitive if name not in features]
    impute = "impute" in options["missing"]
    per_row = "groups.per_row()"
    if estimator.attributes == "separate" and len(sensitive) > 1:
        per_row = "np.array(groups.per_row().tolist(), dtype=object)"
    lines = [
        *(["import numpy as np"] if per_row.startswith("np.") else []),
        *([] if loaded.kept is None else ["import pyarrow.compute as pc"]),
        *_imports(estimator),
        "from fairanchor.tables import Preprocessing, learn_groups, open_table",
        "",
        f"source = open_table({_arguments(source, options)})",
        f"table = source.read({columns!r}, text={text!r})",
        *_without_missing(loaded, sensitive, features, options),
        f"groups, rule = learn_groups(table, {sensitive!r}{_grouping(rule, options)})",
        f"preprocessing = Preprocessing.learn(table, {features!r}, rule, "
        f"scale={preprocessing.scaled}, impute={impute})",
        f"X = preprocessing.rows_of(table, impute={impute})",
        *_call(estimator),
        f"model.fit(X, sensitive_features={per_row})",
    ]
    return "\n".join(lines)


def shell_command(words):
    """One line for a shell; characters that cannot be seen are written as escapes."""
    return " ".join(map(_shell_word, words))


def _shell_word(word):
    if word.isprintable():
        return shlex.quote(word)
    escaped = (
        character if character.isprintable() and character not in "\\'" else _escape(character)
        for character in word
    )
    return f"$'{''.join(escaped)}'"


def _escape(character):
    if character in "\\'":
        return f"\\{character}"
    code = ord(character)
    return (
        f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"
    )


def _imports(estimator):
    """One line for every module from which the call needs a class."""
    modules = {}
    for name, module in sorted(_classes(estimator)):
        modules.setdefault(module, []).append(name)
    own_first = sorted(modules.items(), key=lambda item: (item[0] != "fairanchor", item[0]))
    return [f"from {module} import {', '.join(names)}" for module, names in own_first]


def _classes(value):
    """Name and public module of the class of an estimator, and of all within its parameters."""
    if isinstance(value, (list, tuple)):
        return set().union(*map(_classes, value))
    if not isinstance(value, BaseEstimator):
        return set()
    own = {(type(value).__name__, _public_module(type(value)))}
    return own.union(*[_classes(given) for _, given in _changed(value)])


def _public_module(class_):
    """The outermost module that has the class, without private parts in its name."""
    public = list(takewhile(lambda part: part[0] != "_", class_.__module__.split(".")))
    for k in range(1, len(public) + 1):
        name = ".".join(public[:k])
        if getattr(import_module(name), class_.__name__, None) is class_:
            return name
    return class_.__module__


def _changed(estimator):
    """Parameters that differ from their defaults."""
    defaults = type(estimator)().get_params(deep=False)
    for name, value in estimator.get_params(deep=False).items():
        if not _equal(value, defaults[name]):
            yield name, value


def _call(estimator):
    """Lines of the constructor's call."""
    given = dict(_changed(estimator))
    if "n_clusters" not in given:
        given = {"n_clusters": estimator.n_clusters} | given
    lines = [f"model = {type(estimator).__name__}("]
    for name, value in given.items():
        text = _source(value)
        comment = "" if text is not None else f"  # {_described(value)}"
        lines.append(f"    {name}={'...' if text is None else text},{comment}")
    return [*lines, ")"]


def _equal(value, other):
    return type(value) is type(other) and bool(np.all(value == other))


def _source(value):
    """A value as code; None where there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return repr(value)
    if isinstance(value, BaseEstimator):
        parts = {name: _source(given) for name, given in _changed(value)}
        if None in parts.values():
            return None
        return f"{type(value).__name__}({', '.join(f'{k}={v}' for k, v in parts.items())})"
    if isinstance(value, dict):
        parts = [(_source(key), _source(given)) for key, given in value.items()]
        if any(None in pair for pair in parts):
            return None
        return f"{{{', '.join(f'{key}: {given}' for key, given in parts)}}}"
    if isinstance(value, np.ndarray):
        return _source(value.tolist()) if value.size <= MOST_NUMBERS else None
    if isinstance(value, (list, tuple)) and len(value) <= MOST_NUMBERS:
        parts = list(map(_source, value))
        if None in parts:
            return None
        listed = ", ".join(parts)
        if isinstance(value, list):
            return f"[{listed}]"
        return f"({listed},)" if len(parts) == 1 else f"({listed})"
    return None


def _described(value):
    if hasattr(value, "shape"):
        return f"an array of shape {value.shape}"
    if isinstance(value, (list, tuple)):
        return f"a sequence of length {len(value)}"
    return getattr(value, "__name__", type(value).__name__)


def _arguments(source, options):
    arguments = [repr(source)]
    if options["delimiter"] is not None:
        delimiter = {"tab": "\t", "\\t": "\t"}.get(options["delimiter"], options["delimiter"])
        arguments.append(f"delimiter={delimiter!r}")
    if options["null_values"]:
        arguments.append(f"null_values={tuple(options['null_values'])!r}")
    return ", ".join(arguments)


def _grouping(rule, options):
    text = "" if rule.missing == "error" else f", missing={rule.missing!r}"
    size = options["min_group_size"]
    return text + (f", min_size={size}" if size else "")


def _without_missing(loaded, sensitive, features, options):
    if loaded.kept is None:
        return []
    # "drop-rows" is about the columns that nothing else was said about.
    columns = [] if "own-group" in options["missing"] else list(sensitive)
    columns += [] if "impute" in options["missing"] else list(features)
    return [
        f"for name in {list(dict.fromkeys(columns))!r}:",
        "    table = table.filter(pc.invert(pc.is_null(table[name], nan_is_null=True)))",
    ]
