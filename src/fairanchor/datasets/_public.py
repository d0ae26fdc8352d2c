"""Public tables from a local copy, or downloaded once and kept.

scikit-learn's `fetch_file` downloads what the publisher has, once. Columns, number of rows and
group sizes are checked whenever a copy is read; the publisher's checksum is known, and compared,
for the file of the 1990 census only.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from sklearn.datasets import fetch_file, get_data_home
from sklearn.utils import Bunch

from fairanchor._utils._typing import Path as PathName
from fairanchor.datasets._sources import (
    ADULT,
    BANK_MARKETING,
    CENSUS_1990,
    CREDIT_CARD,
    KDD_CENSUS_INCOME,
    LAW_SCHOOL,
    Source,
)

RETURNS = """Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, not standardised), ``target`` (``{source.target}``),
        ``sensitive_features`` (by default ``{source.sensitive}``), ``feature_names``,
        ``n_clusters`` and ``DESCR``, which has origin and licence, and states which rows are left
        out.

    Notes
    -----
    The {checked} of every copy are checked.
    """
_LOAD = """Load {title} from a Parquet file: {shape}.

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a directory that holds it as ``{source.name}.parquet``.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``{source.sensitive}``. They are never features.

    {returns}"""

_FETCH = """Fetch {title}: {shape}.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Directory under which downloads are kept, by default scikit-learn's; a local copy in it
        ({files}) is used instead of a download.
    download_if_missing : bool, default=True
        Whether to download a table that is not there; otherwise an error is raised.

    {returns}"""


def _loader(source: Source) -> Callable[..., Bunch]:
    """The public function that loads a table from a local copy."""

    def load(path: PathName, *, sensitive: str | Sequence[str] | None = None) -> Bunch:
        file = Path(path)
        file = file / f"{source.name}.parquet" if file.is_dir() else file
        if not file.exists():
            raise FileNotFoundError(
                f"There is no file {file}: path should be the Parquet file of {source.name}, or a "
                f"directory that holds it as {source.name}.parquet."
            )
        return make_bunch(source, _read_parquet(file), str(file), sensitive)

    return _published(load, "load", source, _LOAD)


def _fetcher(source: Source) -> Callable[..., Bunch]:
    """The public function that downloads a table once."""

    def fetch(*, data_home: PathName | None = None, download_if_missing: bool = True) -> Bunch:
        home = Path(get_data_home() if data_home is None else data_home)
        return _local_copy(source, home) or _download(source, home, download_if_missing)

    return _published(fetch, "fetch", source, _FETCH)


def _published(function: Any, verb: str, source: Source, template: str) -> Any:
    """The function with the name and the docstring of its table."""
    n_groups = "2" if source.group_sizes is None else len(source.group_sizes)
    function.__name__ = function.__qualname__ = f"{verb}_{source.name}"
    function.__module__ = __name__
    checked = "columns and rows" if source.group_sizes is None else "columns, rows and groups"
    function.__doc__ = template.format(
        returns=RETURNS.format(source=source, checked=checked),
        source=source,
        title=source.description.partition("\n")[0],
        shape=f"{source.n_rows:,} rows, {len(source.features)} features, {n_groups} groups, "
        f"{source.n_clusters} clusters",
        files=_expected(source),
    )
    return function


def _expected(source: Source) -> str:
    return f"{' and '.join(source.members)} or {source.name}.parquet"


def _local_copy(source: Source, home: Path) -> Bunch | None:
    """The table from a Parquet file or the publisher's files, if there are any."""
    file = home / f"{source.name}.parquet"
    if file.is_file():
        return make_bunch(source, _read_parquet(file), str(file))
    paths = [home / name for name in source.members]
    if not all(path.is_file() for path in paths):
        return None
    return _bunch_of_files(source, [path.read_bytes() for path in paths], str(paths[0]))


def _download(source: Source, home: Path, download_if_missing: bool) -> Bunch:
    """The table from the publisher's download, which is kept if it passes the checks."""
    url, folder = str(source.url), home / "fairanchor" / source.name
    file = folder / url.rpartition("/")[2]
    if not (download_if_missing or file.is_file()):
        raise FileNotFoundError(
            f"There is no copy of {source.name} in {home}: expected {_expected(source)}. Download "
            f"it from {url}, or allow the download (download_if_missing=True)."
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fetch_file(url, folder=folder, local_filename=file.name)
    except (OSError, HTTPException) as error:
        raise OSError(
            f"{source.name} could not be downloaded from {url}: {error}. A copy that you put into "
            f"{home} is used instead (expected {_expected(source)})."
        ) from error
    try:
        contents = [_extract(file.read_bytes(), path) for path in source.members.values()]
        return _bunch_of_files(source, contents, url)
    except (ValueError, zipfile.BadZipFile, KeyError) as error:
        file.unlink()
        raise ValueError(
            f"The download from {url} is not the expected file: {error} Its publisher has changed "
            "it, or it is incomplete. Use a local copy, see data_home."
        ) from error


def _extract(content: bytes, path: Sequence[str]) -> bytes:
    """A file from nested archives."""
    for name in path:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(name)
    return content


def _bunch_of_files(source: Source, contents: list[bytes], origin: str) -> Bunch:
    """Read the publisher's files; one with another checksum than the published raises an error."""
    sha256 = hashlib.sha256(contents[0]).hexdigest()
    if source.sha256 not in (None, sha256):
        raise ValueError(
            f"{origin} has SHA-256 {sha256}, expected {source.sha256}: this is not {source.name} "
            "as published, or a part of it."
        )
    try:
        table = source.read(contents)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{origin} is not {source.name} as published: {error}.") from error
    return make_bunch(source, table, origin)


def _read_parquet(file: Path) -> pa.Table:
    try:
        return parquet.read_table(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{file} could not be read: {error}.") from error


def make_bunch(source: Source, table: pa.Table, origin: str, sensitive: Any = None) -> Bunch:
    """Filter, check and split a table; ``origin`` names it in errors."""
    sensitive = source.sensitive if sensitive is None else sensitive
    sensitive = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    if not sensitive:
        raise ValueError("sensitive is empty: name at least one column.")
    features = [name for name in source.features if name not in sensitive]
    needed = {*features, *sensitive, source.target, source.sensitive}
    if missing := sorted(needed - set(table.column_names)):
        raise ValueError(f"{origin} has no column {missing}, it has {table.column_names}.")
    if source.keep is not None:
        table = table.filter(source.keep(table))
    counts = table[source.sensitive].value_counts().to_pylist()
    sizes = {pair["values"]: pair["counts"] for pair in counts} if source.group_sizes else None
    if table.num_rows != source.n_rows or sizes != source.group_sizes:
        raise ValueError(
            f"{source.name} should have {source.n_rows:,} rows after the row filter, with groups "
            f"{source.group_sizes} in {source.sensitive!r}; {origin} has {table.num_rows:,} rows "
            f"with {sizes}: this is another table, or a part of it."
        )
    groups = [_integers(table[name].to_numpy()) for name in sensitive]
    if len(groups) > 1:
        groups = [np.stack([column.astype(object) for column in groups], axis=1)]
    return Bunch(
        data=np.column_stack([_numeric(source, n, table[n].to_numpy()) for n in features]),
        target=_integers(table[source.target].to_numpy()),
        sensitive_features=groups[0],
        feature_names=features,
        n_clusters=source.n_clusters,
        DESCR=source.description,
    )


def _numeric(source: Source, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iufb" or not np.isfinite(values).all():
        raise ValueError(f"The column {name!r} of {source.name} has text or missing values.")
    return values.astype(np.float64)


def _integers(values: np.ndarray) -> np.ndarray:
    """Codes as int64: small integers would overflow in a user's arithmetic, 1.00 is a code too."""
    is_code = values.dtype.kind in "iu"
    is_code |= values.dtype.kind == "f" and np.array_equal(values, np.rint(values))
    return values.astype(np.int64) if is_code else values


load_law_school = _loader(LAW_SCHOOL)
load_credit_card = _loader(CREDIT_CARD)
load_bank_marketing = _loader(BANK_MARKETING)
load_kdd_census_income = _loader(KDD_CENSUS_INCOME)
fetch_law_school = _fetcher(LAW_SCHOOL)
fetch_credit_card = _fetcher(CREDIT_CARD)
fetch_bank_marketing = _fetcher(BANK_MARKETING)
fetch_census1990 = _fetcher(CENSUS_1990)
fetch_adult = _fetcher(ADULT)
