"""What each column of a table is for."""

from dataclasses import dataclass
from difflib import get_close_matches

from fairanchor.tables._wording import RequestError, quoted


@dataclass(frozen=True)
class Roles:
    """Columns by their use.

    Attributes
    ----------
    sensitive : tuple of str
        Several columns mean their intersection.
    features : tuple of str
        What distances are made of, in the table's order or in the order asked for.
    id_column : str or None
        Copied to the output.
    """

    sensitive: tuple
    features: tuple
    id_column: str | None = None

    @property
    def needed(self):
        """All columns to read, each once."""
        own = () if self.id_column is None else (self.id_column,)
        return list(dict.fromkeys((*own, *self.sensitive, *self.features)))

    @property
    def as_text(self):
        """Columns that are names, not numbers: ``007`` is not 7."""
        own = set() if self.id_column is None else {self.id_column}
        return (own | set(self.sensitive)) - set(self.features)


def choose_columns(source, *, sensitive, features=None, exclude=None, id_column=None):
    """Give every column its role.

    Parameters
    ----------
    source : TableSource
    sensitive : sequence of str
        Column names, or lists of names separated by commas.
    features : sequence of str, default=None
        Likewise; by default all columns but the sensitive ones, the id and ``exclude``. A
        sensitive column is a feature only if it is named here.
    exclude : sequence of str, default=None
        Columns that are no features. They must exist.
    id_column : str, default=None
        Column that identifies rows.

    Returns
    -------
    roles : Roles
    """
    if features and exclude:
        raise RequestError("--features and --exclude are both given: one says it all.")
    sensitive = split_names(source, sensitive)
    if not sensitive:
        raise RequestError(
            f"No sensitive column is named; {source.title} has {_shortened(source.columns)}."
        )
    if id_column is not None:
        require_columns(source, [id_column])
    if features:
        chosen = split_names(source, features)
    else:
        left_out = {*sensitive, *split_names(source, exclude or ()), id_column}
        chosen = [name for name in source.columns if name not in left_out]
    check_id(id_column, (*sensitive, *chosen))
    if not chosen:
        raise ValueError(
            f"{source.title} has no column left to cluster by: sensitive are "
            f"{_shortened(sensitive)}, all columns are {_shortened(source.columns)}."
        )
    return Roles(tuple(sensitive), tuple(chosen), id_column)


def split_names(source, given):
    """Column names out of names and comma-separated lists, each once; all must exist.

    A name that has a comma in it is taken whole if there is such a column, and so is the empty
    name, which the first column of many files has.
    """
    names = []
    for item in given:
        if item in source.columns:
            names.append(item)
            continue
        parts = [part for part in item.split(",") if part.strip()]
        names += [part if part in source.columns else part.strip() for part in parts]
    names = list(dict.fromkeys(names))
    require_columns(source, names)
    return names


def check_id(id_column, used):
    """Refuse an id that is also a feature or sensitive: its spelling is kept, numbers are not."""
    if id_column in used:
        raise RequestError(_id_is_used(id_column))


def _id_is_used(name):
    return (
        f"--id {quoted(name)}: the column cannot be the id of a row and also say something about "
        "it, as features and sensitive columns do."
    )


def require_columns(source, names, advice=""):
    """Refuse names that the table does not have, with the nearest one it has."""
    for name in names:
        if name not in source.columns:
            raise ValueError(
                f"{source.title} has no column {quoted(name)}{nearest(name, source.columns)} "
                f"Its columns are {_shortened(source.columns)}.{advice}"
            )


def nearest(name, columns):
    """End of a sentence about a column that is not there: which one may be meant."""
    by_lower = {column.strip().lower(): column for column in columns}
    near = get_close_matches(name.strip().lower(), by_lower, n=1)
    return f"; did you mean {quoted(by_lower[near[0]])}?" if near else "."


def _shortened(columns, most=20):
    listed = ", ".join(map(quoted, columns[:most]))
    return listed + (f" and {len(columns) - most} more" if len(columns) > most else "")
