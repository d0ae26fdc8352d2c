"""How to repeat a run: the call of the estimator, and of the command line, as text."""

import shlex

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
        What cannot be written as text stands as ``...`` with a comment.
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
    estimator : AnchorFairClustering
    source : str
        The table's path.
    loaded : fairanchor.tables._load.LoadedTable
    options : dict
        ``delimiter``, ``null_values``, ``missing`` and ``min_group_size`` of the command line.

    Returns
    -------
    code : str
        Runs as it is, but for a table that came from standard input.
    """
    preprocessing = loaded.preprocessing
    features, rule = preprocessing.inputs, preprocessing.groups
    sensitive = list(rule.columns)
    columns = list(dict.fromkeys([*sensitive, *features]))
    text = [name for name in sensitive if name not in features]
    impute = "impute" in options["missing"]
    lines = [
        *_imports(estimator),
        "from fairanchor.tables import Preprocessing, learn_groups, open_table",
        *_missing_imports(loaded),
        "",
        f"source = open_table({_arguments(source, options)})",
        f"table = source.read({columns!r}, text={text!r})",
        *_without_missing(loaded, sensitive, features, options),
        f"groups, rule = learn_groups(table, {sensitive!r}{_grouping(rule, options)})",
        f"preprocessing = Preprocessing.learn(table, {features!r}, rule, "
        f"scale={preprocessing.scaled}, impute={impute})",
        f"X = preprocessing.rows_of(table, impute={impute})",
        *_call(estimator),
        "model.fit(X, sensitive_features=groups.per_row())",
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
    """One line for every class whose name the call has."""
    classes = {type(estimator)} | {
        type(value)
        for value in estimator.get_params(deep=False).values()
        if isinstance(value, BaseEstimator)
    }
    own = sorted(c.__name__ for c in classes if c.__module__.startswith("fairanchor."))
    others = sorted(
        f"from {c.__module__} import {c.__name__}"
        for c in classes
        if not c.__module__.startswith("fairanchor.")
    )
    return [f"from fairanchor import {', '.join(own)}", *others]


def _call(estimator):
    """Lines of the constructor's call with every parameter that is not at its default."""
    defaults = type(estimator)().get_params(deep=False)
    lines = [f"model = {type(estimator).__name__}("]
    for name, value in estimator.get_params(deep=False).items():
        if name == "n_clusters" or not _equal(value, defaults[name]):
            text, comment = _value(value)
            lines.append(f"    {name}={text},{comment}")
    return [*lines, ")"]


def _equal(value, other):
    return type(value) is type(other) and bool(np.all(value == other))


def _value(value):
    """A value as code, and a comment where there is no code for it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int, float, BaseEstimator)):
        return " ".join(repr(value).split()), ""
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.size <= MOST_NUMBERS:
            return repr(array.tolist()), ""
        return "...", f"  # an array of shape {array.shape}"
    described = getattr(value, "__name__", type(value).__name__)
    return "...", f"  # {described}"


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


def _missing_imports(loaded):
    if loaded.kept is None:
        return []
    return [
        "from fairanchor.tables import Roles",
        "from fairanchor.tables._missing import MissingPolicy",
    ]


def _without_missing(loaded, sensitive, features, options):
    if loaded.kept is None:
        return []
    return [
        f"roles = Roles({tuple(sensitive)!r}, {tuple(features)!r})",
        f"complete = MissingPolicy.of({list(options['missing'])!r}).complete_rows(table, roles)",
        "table = table.filter(complete)",
    ]
