"""Several sensitive columns, each by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairanchor.groups._columns import attribute_names, columns_of
from fairanchor.groups._groups import Groups, sorted_names


@dataclass(frozen=True)
class Attributes:
    """Several sensitive columns, each an attribute by itself, whose combinations are the groups.

    Attributes
    ----------
    columns : list
        Names of the columns, or their numbers where they have none.
    names : list of ndarray, dtype object
        Sorted names of each attribute's groups.
    joint : ndarray of shape (n_groups, n_attributes)
        For each combination that occurs, in canonical order, its group in each attribute.
    """

    columns: list
    names: list[np.ndarray]
    joint: np.ndarray

    @classmethod
    def of(cls, sensitive_features: Any, groups: Groups) -> "Attributes":
        """The columns of ``sensitive_features`` of which `groups` are the combinations."""
        n_columns = 1 if sensitive_features is None else len(columns_of(sensitive_features))
        return cls.of_names(attribute_names(sensitive_features, n_columns), groups.names)

    @classmethod
    def of_names(cls, columns: Sequence, names: Any) -> "Attributes":
        """From the names of combinations, which are tuples if there are several columns."""
        parts = list(zip(*names, strict=True)) if len(columns) > 1 else [tuple(names)]
        if len(parts) != len(columns):
            raise ValueError(
                f"{len(columns)} columns, but names of groups have {len(parts)} parts."
            )
        listed, joint = [], []
        for values in parts:
            distinct = sorted_names(list(dict.fromkeys(values)))
            place = {name: code for code, name in enumerate(distinct)}
            joint.append([place[value] for value in values])
            listed.append(np.empty(len(distinct), dtype=object))
            listed[-1][:] = distinct
        return cls(list(columns), listed, np.array(joint, dtype=np.int64).T)

    @property
    def joint_of_several(self) -> np.ndarray | None:
        """``joint``, or None if there is one attribute only, whose groups are the groups."""
        return self.joint if self.joint.shape[1] > 1 else None

    def codes_of(self, name: Any) -> list[int] | None:
        """Group in each attribute of a combination, seen or not; None if one is unknown."""
        values = name if isinstance(name, tuple) and len(self.names) > 1 else (name,)
        if len(values) != len(self.names):
            return None
        codes = []
        for value, names in zip(values, map(np.ndarray.tolist, self.names), strict=True):
            if value not in names:
                return None
            codes.append(names.index(value))
        return codes
