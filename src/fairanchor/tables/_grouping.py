"""Sensitive columns to groups: names and codes, without a loop over the rows."""

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.exceptions import FairnessWarning
from fairanchor.tables._plain import from_plain, to_plain
from fairanchor.tables._wording import counted, quoted

OTHER = "other"
MANY_GROUPS = 50
TOO_MANY_GROUPS = 1000
# Distinct combinations that are counted in a table instead of sorted.
SMALL_PRODUCT = 1_000_000


@dataclass(frozen=True)
class Grouping:
    """Group of each row.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,), int64
    names : list
        ``names[code]``; tuples when there are several columns, None where a value is missing.
    """

    codes: np.ndarray
    names: list

    @property
    def sizes(self):
        return np.bincount(self.codes, minlength=len(self.names))

    def per_row(self):
        """The name of each row's group, as an array of objects."""
        return object_array(self.names)[self.codes]

    def codes_among(self, names):
        """Codes of the rows in another order of the same names."""
        position = {name: code for code, name in enumerate(names)}
        return np.array([position[name] for name in self.names], dtype=np.int64)[self.codes]


@dataclass(frozen=True)
class GroupRule:
    """How groups are read off a table: what `learn_groups` decided, for new rows.

    Attributes
    ----------
    columns : tuple of str
    missing : {"error", "own_group"}
    merged : tuple
        Names of small groups that are counted as the group "other".
    """

    columns: tuple
    missing: str = "error"
    merged: tuple = ()

    def groups_of(self, table, known):
        """Groups of new rows, called as ``known`` calls them.

        A CSV file has no types, so that a name is known if it is spelled like a known one. A
        name that is not known stays as it is.
        """
        grouping = encode_groups(table, self.columns, missing=self.missing)
        spelled = {spelling(name): OTHER for name in self.merged}
        spelled |= {spelling(name): name for name in known}
        names = [spelled.get(spelling(name), name) for name in grouping.names]
        return _with_names(grouping.codes, names)

    def to_json(self):
        """A structure of JSON types."""
        return {
            "columns": list(self.columns),
            "missing": self.missing,
            "merged": [to_plain(name) for name in self.merged],
        }

    @classmethod
    def from_json(cls, plain):
        """Inverse of `to_json`."""
        merged = tuple(from_plain(name) for name in plain["merged"])
        return cls(tuple(plain["columns"]), plain["missing"], merged)


def learn_groups(table, columns, *, missing="error", min_size=0):
    """Groups of a table's rows, small ones merged, and the rule to repeat it.

    Parameters
    ----------
    table : pyarrow.Table
    columns : sequence of str
        Several columns mean their intersection.
    missing : {"error", "own_group"}
    min_size : int
        Groups with fewer rows become one, called "other".

    Returns
    -------
    grouping : Grouping
    rule : GroupRule
    """
    grouping = encode_groups(table, columns, missing=missing)
    merged = ()
    if min_size > 1:
        grouping, merged = _merge_small(grouping, min_size, columns)
    _check_number(grouping, columns)
    return grouping, GroupRule(tuple(columns), missing, merged)


def encode_groups(table, columns, *, missing="error"):
    """Groups by the values of columns, as they are."""
    encoded = [_encode_column(table.column(name), name, missing) for name in columns]
    if len(encoded) == 1:
        return Grouping(*encoded[0])
    codes, names = np.zeros(table.num_rows, dtype=np.int64), [()]
    for own_codes, own_names in encoded:
        # Compact after every column: the product of all numbers of values may overflow.
        joint = codes * len(own_names) + own_codes
        present, codes = _compact(joint, len(names) * len(own_names))
        pairs = [divmod(pair, len(own_names)) for pair in present.tolist()]
        names = [(*names[earlier], own_names[own]) for earlier, own in pairs]
    return Grouping(codes, names)


def spelling(name):
    """How a name looks in a text file: 1 and 1.0 and "1" are spelled alike."""
    if isinstance(name, tuple):
        return tuple(spelling(part) for part in name)
    if isinstance(name, bool) or (isinstance(name, str) and name.lower() in ("true", "false")):
        return str(name).lower()
    if isinstance(name, float) and name.is_integer():
        return str(int(name))
    return None if name is None else str(name)


def _encode_column(column, title, missing):
    encoded = _flat(column)
    if pa.types.is_nested(encoded.type):
        raise ValueError(
            f"The column {quoted(title)} has values of type {encoded.type}, expected names or "
            "numbers that say which group a row belongs to."
        )
    if pa.types.is_null(encoded.type):  # the dictionary of which would have an entry
        encoded = encoded.cast(pa.string())
    if pa.types.is_floating(encoded.type):
        encoded = pc.if_else(pc.is_nan(encoded), pa.scalar(None, encoded.type), encoded)
    encoded = encoded.dictionary_encode()
    names = _as_integers(encoded.dictionary.to_pylist())
    codes = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
    if encoded.null_count:
        if missing == "error":
            first = int(np.argmax(codes == len(names)))
            raise ValueError(
                f"The sensitive column {quoted(title)} has "
                f"{counted(encoded.null_count, 'missing value')} in {counted(len(codes), 'row')}, "
                f"first in row {first}: a row without a group cannot be counted for one. Use "
                "--missing own-group to make them a group of their own, or --missing drop-rows to "
                "leave these rows out."
            )
        names = [*names, None]
    return codes.astype(np.int64), names


def _flat(column):
    """One array of plain values: chunks joined, dictionaries decoded."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as_integers(names):
    """Texts that are all whole numbers in their usual spelling, as numbers."""
    if not names or not all(isinstance(name, str) and _is_integer(name) for name in names):
        return names
    return [int(name) for name in names]


def _is_integer(text):
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text


def _compact(codes, n_codes):
    """The codes that occur, and every row's position among them."""
    if n_codes > SMALL_PRODUCT:
        present, compact = np.unique(codes, return_inverse=True)
        return present, compact.reshape(-1)
    present = np.flatnonzero(np.bincount(codes, minlength=n_codes))
    position = np.zeros(n_codes, dtype=np.int64)
    position[present] = np.arange(len(present))
    return present, position[codes]


def _with_names(codes, names):
    """A grouping in which equal names have one code."""
    distinct = list(dict.fromkeys(names))
    position = {name: code for code, name in enumerate(distinct)}
    return Grouping(np.array([position[name] for name in names])[codes], distinct)


def _merge_small(grouping, min_size, columns):
    small = [
        name
        for name, size in zip(grouping.names, grouping.sizes, strict=True)
        if size < min_size and name != OTHER
    ]
    if len(small) + (OTHER in grouping.names) < 2:
        if small:
            warnings.warn(
                f"Only the group {quoted(small[0])} of {_title(columns)} has fewer than {min_size} "
                "rows: there is no other one to merge it with.",
                FairnessWarning,
                stacklevel=4,
            )
        return grouping, ()
    unwanted = set(small)
    names = [OTHER if name in unwanted else name for name in grouping.names]
    merged = _with_names(grouping.codes, names)
    size = merged.sizes[merged.names.index(OTHER)]
    title = _title(columns)
    verb = "is" if len(small) == 1 else "are"
    warnings.warn(
        f"{counted(len(small), 'group')} of {title} with fewer than {min_size} rows {verb} merged "
        f"into one, called {OTHER!r}, of {counted(size, 'row')}: it mirrors the population as a "
        "whole, its parts need not.",
        FairnessWarning,
        stacklevel=4,
    )
    return merged, tuple(small)


def _check_number(grouping, columns):
    n_groups, n_rows = len(grouping.names), len(grouping.codes)
    if n_groups == 1:
        warnings.warn(
            f"{_capital(_title(columns))} has one value only, {quoted(grouping.names[0])}: every "
            "clustering is proportional to a single group, so that fairness changes nothing.",
            FairnessWarning,
            stacklevel=4,
        )
    if n_groups <= MANY_GROUPS:
        return
    message = (
        f"{_capital(_title(columns))} has {n_groups:,} groups in {n_rows:,} rows, the smallest of "
        f"{counted(grouping.sizes.min(), 'row')}. Proportions of so many groups mean little: use "
        "--min-group-size to merge small ones, or put ranges of values (of an age, say) in place "
        "of values."
    )
    if n_groups > TOO_MANY_GROUPS:
        raise ValueError(f"{message} At most {TOO_MANY_GROUPS:,} are accepted.")
    warnings.warn(message, FairnessWarning, stacklevel=4)


def _title(columns):
    if len(columns) == 1:
        return f"the sensitive column {quoted(columns[0])}"
    return f"the intersection of {', '.join(map(quoted, columns))}"


def _capital(sentence):
    return sentence[0].upper() + sentence[1:]


def object_array(names):
    """One-dimensional array of any objects, tuples included."""
    array = np.empty(len(names), dtype=object)
    for position, name in enumerate(names):
        array[position] = name
    return array
