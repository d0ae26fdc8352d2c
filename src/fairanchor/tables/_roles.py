"""The role of each column of a table, and what to do with missing values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._wording import quoted

if TYPE_CHECKING:
    from fairanchor.tables._read import TableSource


CLUSTER = "cluster"


@dataclass(frozen=True)
class Roles:
    """Columns by their use; several sensitive columns mean their intersection."""

    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    id_column: str | None = None

    def __post_init__(self) -> None:
        if self.id_column in (*self.sensitive, *self.features):
            raise click.UsageError(
                f"--id {quoted(self.id_column)}: the column cannot be the id of a row and also a "
                "feature or a sensitive column."
            )
        if self.id_column == CLUSTER:
            raise click.UsageError(
                f"--id {quoted(CLUSTER)}: a column of the output has this name as well. Rename it "
                "in the input."
            )

    @property
    def needed(self) -> list[str]:
        """All columns to read, each once."""
        id_columns = () if self.id_column is None else (self.id_column,)
        return list(dict.fromkeys((*id_columns, *self.sensitive, *self.features)))

    @property
    def names(self) -> set[str]:
        """Columns whose values are names, not numbers: ``007`` is not 7."""
        return set(self.needed) - set(self.features)


@dataclass(frozen=True)
class MissingPolicy:
    """Missing values in sensitive columns and in features, by the choices of ``--missing``."""

    choices: frozenset[str]

    @classmethod
    def of(cls, choices: Iterable[str]) -> MissingPolicy:
        chosen = frozenset(choices)
        if "error" in chosen and len(chosen) > 1:
            other = min(chosen - {"error"})
            raise click.UsageError(f"--missing error and --missing {other} contradict each other.")
        return cls(chosen)

    @property
    def groups(self) -> Literal["error", "own_group"]:
        """The parameter ``missing_groups`` of an estimator."""
        return "own_group" if "own-group" in self.choices else "error"

    @property
    def impute(self) -> bool:
        """Whether missing features are replaced."""
        return "impute" in self.choices

    def complete_rows(self, table: pa.Table, roles: Roles) -> np.ndarray | None:
        """Which rows to keep, or None for all: rows are dropped where no other choice applies."""
        if "drop-rows" not in self.choices:
            return None
        columns = {*(() if self.groups == "own_group" else roles.sensitive)}
        columns |= {*(() if self.impute else roles.features)}
        incomplete = np.zeros(table.num_rows, dtype=bool)
        for name in columns:
            incomplete |= is_missing(table.column(name))
        return ~incomplete if incomplete.any() else None


def is_missing(column: pa.ChunkedArray) -> np.ndarray:
    """Null or NaN, row by row."""
    return pc.is_null(column, nan_is_null=True).to_numpy()


def choose_columns(
    source: TableSource,
    *,
    sensitive: Sequence[str],
    features: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    id_column: str | None = None,
) -> Roles:
    """Give every column its role.

    Names may be lists separated by commas. ``features`` are by default all columns except the
    sensitive ones, the id and ``exclude``; a sensitive column is a feature only if it is named
    there.
    """
    if features and exclude:
        raise click.UsageError("--features and --exclude are both given: use one of them.")
    columns = split_names(source, sensitive)
    if id_column is not None:
        require_columns(source, [id_column])
    if features:
        chosen = split_names(source, features)
    else:
        left_out = {*columns, *split_names(source, exclude or ()), id_column}
        chosen = [name for name in source.columns if name not in left_out]
    if not chosen:
        raise ValueError(
            f"{source.title} has no column left to cluster by: sensitive are "
            f"{_shortened(columns)}, all columns are {_shortened(source.columns)}."
        )
    return Roles(tuple(columns), tuple(chosen), id_column)


def split_names(source: TableSource, items: Sequence[str], advice: str = "") -> list[str]:
    """Column names from names and comma-separated lists, which must exist and differ.

    A name with a comma is taken whole if there is such a column, and so is the empty name.
    """
    names: list[str] = []
    for item in items:
        if item in source.columns:
            names.append(item)
            continue
        parts = [part for part in item.split(",") if part.strip()]
        names += [part if part in source.columns else part.strip() for part in parts]
    if items and not names:
        raise click.UsageError(f"{', '.join(map(quoted, items))} names no column.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise click.UsageError(f"The column {quoted(repeated[0])} is named more than once.")
    require_columns(source, names, advice)
    return names


def require_columns(source: TableSource, names: Iterable[str], advice: str = "") -> None:
    """Raise an error for a name that the table does not have, with the nearest one it has."""
    for name in names:
        if name not in source.columns:
            by_lower = {column.strip().lower(): column for column in source.columns}
            near = get_close_matches(name.strip().lower(), by_lower, n=1)
            raise ValueError(
                f"{source.title} has no column {quoted(name)}"
                f"{f'; did you mean {quoted(by_lower[near[0]])}?' if near else '.'} "
                f"Its columns are {_shortened(source.columns)}.{advice}"
            )


def _shortened(columns: Sequence[str], most: int = 20) -> str:
    listed = ", ".join(map(quoted, columns[:most]))
    return listed + (f" and {len(columns) - most} more" if len(columns) > most else "")
