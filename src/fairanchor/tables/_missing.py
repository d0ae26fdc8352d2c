"""What to do with missing values: never anything that was not asked for."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._wording import RequestError

CHOICES = ("error", "own-group", "impute", "drop-rows")


@dataclass(frozen=True)
class MissingPolicy:
    """Decisions for sensitive columns and for features.

    Attributes
    ----------
    groups : {"error", "own_group", "drop"}
    features : {"error", "impute", "drop"}
    """

    groups: str = "error"
    features: str = "error"

    @classmethod
    def of(cls, choices):
        """Policy of the choices made on the command line.

        ``own-group`` is about sensitive columns and ``impute`` about features; ``drop-rows`` is
        about those of the two that nothing else was said about.
        """
        chosen = set(choices)
        if "error" in chosen and len(chosen) > 1:
            others = sorted(chosen - {"error"})
            raise RequestError(f"--missing error and --missing {others[0]} contradict each other.")
        rest = "drop" if "drop-rows" in chosen else "error"
        return cls(
            groups="own_group" if "own-group" in chosen else rest,
            features="impute" if "impute" in chosen else rest,
        )

    def complete_rows(self, table, roles):
        """Which rows to keep, or None for all of them."""
        columns = set(roles.sensitive) if self.groups == "drop" else set()
        columns |= set(roles.features) if self.features == "drop" else set()
        incomplete = np.zeros(table.num_rows, dtype=bool)
        for name in sorted(columns):
            incomplete |= is_missing(table.column(name))
        return ~incomplete if incomplete.any() else None


def is_missing(column):
    """Null or NaN, row by row, as an array of booleans."""
    if column.null_count == 0 and not pa.types.is_floating(column.type):
        return np.zeros(len(column), dtype=bool)
    missing = pc.is_null(column, nan_is_null=True)
    return missing.to_numpy() if isinstance(missing, pa.ChunkedArray) else np.asarray(missing)
