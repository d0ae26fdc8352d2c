"""Several sensitive columns, each by itself."""

from dataclasses import dataclass

import numpy as np

from fairanchor.groups._groups import SeparateColumns, columns_of, sorted_names


@dataclass(frozen=True)
class Attributes:
    """Several sensitive columns, each an attribute by itself, whose combinations are the groups.

    Attributes
    ----------
    titles : list
        Titles of the columns, or their numbers where they have none.
    names : list of ndarray, dtype object
        Sorted names of each attribute's groups.
    joint : ndarray of shape (n_groups, n_attributes)
        For each combination that occurs, in canonical order, its group in each attribute.
    """

    titles: list
    names: list
    joint: np.ndarray

    @classmethod
    def of(cls, sensitive_features, groups):
        """The columns of ``sensitive_features`` of which `groups` are the combinations."""
        n_columns = 1 if sensitive_features is None else len(columns_of(sensitive_features))
        return cls.of_names(column_titles(sensitive_features, n_columns), groups.names)

    @classmethod
    def of_names(cls, titles, names):
        """Of the names of combinations, which are tuples if there are several titles."""
        rows = [(name,) for name in names] if len(titles) == 1 else list(names)
        columns = list(zip(*rows, strict=True))
        own_names = [sorted_names(list(dict.fromkeys(values))) for values in columns]
        places = [{name: code for code, name in enumerate(own)} for own in own_names]
        if len(columns) != len(titles):
            raise ValueError(
                f"{len(titles)} columns, but names of groups have {len(columns)} parts."
            )
        pairs = zip(places, columns, strict=True)
        joint = [[place[value] for value in values] for place, values in pairs]
        listed = []
        for own in own_names:
            listed.append(np.empty(len(own), dtype=object))
            listed[-1][:] = own
        return cls(list(titles), listed, np.array(joint, dtype=np.int64).T)

    @property
    def joint_of_several(self):
        """``joint``, or None if there is one attribute only, whose groups are the groups."""
        return self.joint if self.joint.shape[1] > 1 else None

    def codes_of(self, name):
        """Group in each attribute of a combination, seen or not; None if one is unknown."""
        values = name if isinstance(name, tuple) and len(self.names) > 1 else (name,)
        if len(values) != len(self.names):
            return None
        codes = [_place_of(value, own) for value, own in zip(values, self.names, strict=True)]
        return None if None in codes else codes


def _place_of(value, names):
    listed = names.tolist()
    return listed.index(value) if value in listed else None


def column_titles(sensitive_features, n_columns):
    """Titles of the columns where they have some that differ as text, else numbers."""
    if isinstance(sensitive_features, SeparateColumns):
        names = sensitive_features.titles
    else:  # pyarrow's columns are values
        names = getattr(sensitive_features, "column_names", None)
        names = getattr(sensitive_features, "columns", None) if names is None else names
    names = list(range(n_columns)) if names is None else list(names)
    return names if len(set(map(str, names))) == n_columns else list(range(n_columns))
