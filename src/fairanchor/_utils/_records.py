"""Results that are tables: records by name, columns, and HTML for notebooks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RecordTable:
    """A table as a list of records with the same names.

    Attributes
    ----------
    records : list of dict
        One per line, for instance for ``pandas.DataFrame(records)``.
    """

    records: list[dict[str, Any]]

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns of the records by name: dict of ndarray."""
        return columns_of_records(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def _repr_html_(self) -> str:
        columns = self.table
        return html_table(columns, zip(*columns.values(), strict=True))


def columns_of_records(records: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Columns by name; of numbers where all values are."""
    columns = {}
    for name in records[0] if records else ():
        columns[name] = np.empty(len(records), dtype=object)
        columns[name][:] = [record[name] for record in records]
        if all(isinstance(value, (int, float, np.number)) for value in columns[name]):
            columns[name] = np.array(columns[name].tolist())
    return columns


def html_table(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """An HTML table; numbers are rounded, and everything is escaped."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(v)}</td>' for v in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        return ", ".join(map(_cell, value))
    return escape(str(value))


def json_value(value: Any) -> Any:
    """NumPy's arrays and numbers and names of groups as JSON has them; null for NaN."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
