"""Rows that are read from files or partitions: groups become codes after a survey of all rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairanchor._utils._sampling import split_by_code
from fairanchor._utils._scaling import largest_value, scale_of_largest
from fairanchor.groups._groups import Groups, encode_names, groups_of_counts, sorted_names
from fairanchor.rows._chunks import Chunk, ChunkedRows, DrawnRows, hashes_of, smallest_hashes
from fairanchor.rows._memory import MemoryRows
from fairanchor.rows._tables import UnitTable

#: Title of the first pass over rows that are not in memory.
SURVEY = "first look"


#: Rows in chunks, their groups (without codes), and what features were multiplied by.
OpenedRows = tuple[ChunkedRows, Groups, float]


class Survey(NamedTuple):
    """The groups of a chunk and the range of its numbers."""

    largest: float
    names: list
    sizes: np.ndarray
    first_rows: np.ndarray


@dataclass(frozen=True)
class RawRows:
    """Rows of a chunk: features, and the sensitive columns as a table of pyarrow."""

    X: np.ndarray
    columns: Any

    def __sizeof__(self) -> int:
        # A cluster weighs it against the work of moving the rows.
        return int(self.X.nbytes + self.columns.nbytes)

    @property
    def sensitive_features(self) -> Any:
        """As estimators take them: None without columns, one column without its name."""
        if self.columns.num_columns == 0:
            return None
        return self.columns if self.columns.num_columns > 1 else self.columns.column(0)

    def _encoded(self) -> tuple[np.ndarray, list]:
        """Codes and names of the groups; a single group without a column."""
        if self.columns.num_columns == 0:
            return np.zeros(len(self.X), dtype=np.int64), ["all"]
        return encode_names(self.columns, missing="own_group")

    def survey(self, start: int, sample: "RunningSample | None" = None) -> Survey:
        """Survey of these rows, of which ``start`` is the global number of the first."""
        codes, names = self._encoded()
        if sample is not None:
            sample.add(start, self.X, codes, names)
        sizes = np.bincount(codes, minlength=len(names))
        first = np.empty(len(names), dtype=np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last value written stays
        return Survey(largest_value(self.X), names, sizes, start + first)

    def coded(
        self,
        number: int,
        start: int,
        group_names: tuple,
        scale: float,
        n_jobs: int | None = 1,
        n_clusters: int = 0,
        unit: bool = False,
    ) -> Chunk:
        """The chunk with codes in the order of ``group_names`` and features times ``scale``.

        With ``unit`` rows have unit length.
        """
        codes, names = self._encoded()
        position = {name: code for code, name in enumerate(group_names)}
        codes = np.array([position[name] for name in names], dtype=np.int64)[codes]
        # Unit rows and multiples are those of doubles, as in memory.
        X = self.X if scale == 1.0 and not unit else self.X.astype(np.float64) * scale
        rows = MemoryRows(UnitTable(X) if unit else X, codes, len(group_names), n_jobs=n_jobs)
        return Chunk(number, start, rows, n_clusters)


class RunningSample:
    """Of each group, the rows whose numbers have the smallest hashes among those seen so far.

    ``rows_of_each(n_groups)`` is the number of rows of each of so many groups; it never increases.
    """

    def __init__(self, rows_of_each: Callable[[int], int]) -> None:
        self.rows_of_each = rows_of_each
        self.kept: dict[Any, tuple[np.ndarray, np.ndarray]] = {}
        self.limits: dict[Any, np.uint64] = {}

    def add(self, start: int, X: np.ndarray, codes: np.ndarray, names: list) -> None:
        """Take what belongs to the sample from consecutive rows."""
        numbers = np.arange(start, start + len(X))
        largest = np.uint64(2**64 - 1)
        limits = np.array([self.limits.get(name, largest) for name in names], dtype=np.uint64)
        places = np.flatnonzero(hashes_of(numbers) <= limits[codes])
        n_groups = len(self.kept.keys() | set(names))
        own = split_by_code(codes[places], len(names))
        for name, places_of_name in zip(names, own, strict=True):
            rows = places[places_of_name]
            kept: tuple = numbers[rows], X[rows]
            if name in self.kept:
                kept = tuple(map(np.concatenate, zip(self.kept[name], kept, strict=True)))
            self.kept[name] = self._smallest(name, kept, self.rows_of_each(n_groups))

    def _smallest(self, name: Any, kept: tuple, n_rows: int) -> tuple:
        numbers, X = kept
        hashes = hashes_of(numbers)
        if len(numbers) <= n_rows:
            return kept
        chosen = smallest_hashes(hashes, n_rows)
        self.limits[name] = hashes[chosen].max()
        return numbers[chosen], X[chosen]

    def drawn(self, groups: Groups, scale: float, n_jobs: int | None, unit: bool) -> DrawnRows:
        """The sample, as rows with the codes of the groups."""
        parts = [self.kept[name] for name in groups.names]
        numbers, X = map(np.concatenate, zip(*parts, strict=True))
        codes = np.repeat(np.arange(len(parts)), [len(own) for own, _ in parts])
        X = X.astype(np.float64) * scale
        X = UnitTable(X)[:] if unit else X
        rows = MemoryRows(X, codes, len(parts), n_jobs=n_jobs)
        return DrawnRows(numbers, rows).smallest(np.full(len(parts), self.rows_of_each(len(parts))))


def merge_surveys(
    of_chunks: Iterable[Survey], n_chunks: int, progress: Callable | None
) -> tuple[Groups, np.ndarray, float]:
    """Groups of all chunks, their sizes in each (canonical order), and a factor for features."""
    surveys = []
    first_rows: dict[Any, int] = {}
    for survey in of_chunks:
        surveys.append(survey)
        if progress is not None:
            progress(SURVEY, len(surveys), n_chunks)
        for name, row in zip(survey.names, survey.first_rows.tolist(), strict=True):
            first_rows[name] = min(row, first_rows.get(name, row))
    names = sorted_names(_of_one_type(list(first_rows)))
    place = {name: k for k, name in enumerate(names)}
    sizes = np.zeros((len(surveys), len(names)), dtype=np.int64)
    for row, survey in zip(sizes, surveys, strict=True):
        row[[place[name] for name in survey.names]] = survey.sizes
    groups = groups_of_counts(
        names, sizes.sum(axis=0), np.array([first_rows[name] for name in names])
    )
    order = np.argsort(groups.public_order)
    scale = scale_of_largest(max(survey.largest for survey in surveys))
    return groups, np.ascontiguousarray(sizes[:, order]), scale


def _of_one_type(names: list) -> list:
    """Names of groups by column as if all chunks were one column; text among numbers is an error.

    Whole numbers are integers in a chunk that has missing values beside them, elsewhere floats.
    """
    if not isinstance(names[0], tuple):
        return [name for (name,) in _of_one_type([(name,) for name in names])]
    columns = []
    for values in zip(*names, strict=True):
        first = {type(value): value for value in values if value is not None}
        if set(first) == {int, float}:
            are_whole = all(value is None or float(value).is_integer() for value in values)
            type_ = int if are_whole and None in values else float
            values = tuple(None if value is None else type_(value) for value in values)
        elif len(first) > 1:
            listed = " and ".join(f"{value!r} ({type_.__name__})" for type_, value in first.items())
            raise ValueError(
                f"sensitive_features has groups of different types in different rows: {listed}. "
                "Give all rows of a column one type."
            )
        columns.append(values)
    return list(zip(*columns, strict=True))
