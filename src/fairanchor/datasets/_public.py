"""Public tables from a local copy, or downloaded once and kept.

A download is kept as a Parquet file, with a checksum of each page, after it passed the checks of
its columns, number of rows and group sizes; these are repeated whenever a copy is read. The
publisher's checksum is known, and compared, for the file of the 1990 census only.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
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

from fairanchor._utils._files import replacing
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

_LOAD = """Load {title} from a Parquet file: {shape}.

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a directory that holds it as ``{source.name}.parquet``.
    features : sequence of str, default=None
        Numeric columns to cluster by; the default ones are in ``DESCR``.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``{source.sensitive}``. They are never features.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, not standardised), ``target`` (``{source.target}``),
        ``sensitive_features``, ``feature_names``, ``n_clusters`` and ``DESCR``, which has origin
        and licence, and states which rows are left out.
    """

_FETCH = """Fetch {title}: {shape}.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Directory under which downloads are kept, by default scikit-learn's; a local copy in it
        ({files}) is used instead of a download. Or the path of such a file.
    download_if_missing : bool, default=True
        Whether to download a table that is not there; otherwise an error is raised.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Whether ``data`` is a pandas DataFrame and ``target`` and ``sensitive_features`` are
        Series, rather than arrays.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        With ``data`` (not standardised), ``target`` (``{source.target}``),
        ``sensitive_features`` (``{source.sensitive}``), ``frame``, ``feature_names``,
        ``n_clusters`` and ``DESCR``, which has origin and licence, and states which rows are left
        out.

    Notes
    -----
    {checked} A download is kept as a Parquet file with checksums.
    """


def _loader(source: Source) -> Callable[..., Bunch]:
    """The public function that loads a table from a local copy."""

    def load(
        path: PathName,
        *,
        features: Sequence[str] | None = None,
        sensitive: str | Sequence[str] | None = None,
    ) -> Bunch:
        file = Path(path)
        file = file / f"{source.name}.parquet" if file.is_dir() else file
        if not file.exists():
            raise FileNotFoundError(
                f"There is no file {file}: path should be the Parquet file of {source.name}, or a "
                f"directory that holds it as {source.name}.parquet."
            )
        return make_bunch(source, _read_parquet(file), str(file), features, sensitive)

    return _published(load, "load", source, _LOAD)


def _fetcher(source: Source) -> Callable[..., Any]:
    """The public function that downloads a table once."""

    def fetch(
        *,
        data_home: PathName | None = None,
        download_if_missing: bool = True,
        return_X_y: bool = False,
        as_frame: bool = True,
    ) -> Any:
        return _fetch(source, data_home, download_if_missing, return_X_y, as_frame)

    return _published(fetch, "fetch", source, _FETCH)


def _published(function: Any, verb: str, source: Source, template: str) -> Any:
    """The function with the name and the docstring of its table."""
    n_groups = "2" if source.group_sizes is None else len(source.group_sizes)
    checked = "It is checked by its columns, rows and group counts."
    if source.sha256 is not None:
        checked = "The text file is checked by its SHA-256, a Parquet copy by columns and rows."
    function.__name__ = function.__qualname__ = f"{verb}_{source.name}"
    function.__module__ = __name__
    function.__doc__ = template.format(
        source=source,
        title=source.description.partition("\n")[0],
        shape=f"{source.n_rows:,} rows, {len(source.features)} features, {n_groups} groups, "
        f"{source.n_clusters} clusters",
        files=_expected(source),
        checked=checked,
    )
    return function


def _fetch(
    source: Source, data_home: Any, download_if_missing: bool, return_X_y: bool, as_frame: bool
) -> Any:
    if as_frame:
        _import_pandas()  # before a long download, not after it
    home = Path(get_data_home() if data_home is None else data_home)
    kept = home / "fairanchor" / f"{source.name}.parquet"
    members = [home / name for name in source.members or ()]
    files = [home, home / f"{source.name}.parquet", kept]
    file = next((file for file in files if file.is_file()), None)
    if file is not None and file.suffix == ".parquet":
        bunch = make_bunch(source, _read_parquet(file), str(file))
    elif file is not None or all(member.is_file() for member in members):
        paths = members if file is None else [file]
        bunch = make_bunch(source, _read_files(source, paths), str(paths[0]))
    elif download_if_missing:
        bunch = _download(source, home, kept)
    else:
        raise FileNotFoundError(
            f"There is no copy of {source.name} in {home}: expected {_expected(source)}. Download "
            f"it from {source.url}, or allow the download (download_if_missing=True)."
        )
    if as_frame:
        pandas = _import_pandas()
        bunch.data = pandas.DataFrame(bunch.data, columns=bunch.feature_names)
        bunch.target = pandas.Series(bunch.target, name=source.target)
        bunch.sensitive_features = pandas.Series(bunch.sensitive_features, name=source.sensitive)
        bunch.frame = pandas.concat([bunch.data, bunch.sensitive_features, bunch.target], axis=1)
    return (bunch.data, bunch.target) if return_X_y else bunch


def _expected(source: Source) -> str:
    return f"{' and '.join(source.members or ())} or {source.name}.parquet"


def _download(source: Source, home: Path, kept: Path) -> Bunch:
    """Download, unpack and check a table, and only then keep it."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            download = Path(fetch_file(source.url, folder=scratch, local_filename="download"))
        except (OSError, HTTPException) as error:
            raise OSError(
                f"{source.name} could not be downloaded from {source.url}: {error}. A copy that "
                f"you put into {home} is used instead (expected {_expected(source)})."
            ) from error
        try:
            members = (source.members or {}).values()
            paths = [_extract(download, path, scratch) if path else download for path in members]
        except (zipfile.BadZipFile, KeyError) as error:
            raise ValueError(
                f"The download from {source.url} is not the expected ZIP archive: {error}. Its "
                "publisher has changed it, or it is incomplete. Use a local copy, see data_home."
            ) from error
        table = _read_files(source, paths)
        bunch = make_bunch(source, table, str(source.url))
    kept.parent.mkdir(parents=True, exist_ok=True)
    with replacing(kept, force=True) as file:
        parquet.write_table(table, file, write_page_checksum=True)
    return bunch


def _extract(archive: Any, path: Sequence[str], directory: str) -> Path:
    """Extract a file from nested archives."""
    with zipfile.ZipFile(archive) as opened:
        if len(path) > 1:
            return _extract(io.BytesIO(opened.read(path[0])), path[1:], directory)
        return Path(opened.extract(path[0], directory))


def _read_files(source: Source, paths: list[Path]) -> pa.Table:
    """Read the publisher's files; one with another checksum than the published raises an error."""
    if source.sha256 is not None:
        with paths[0].open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != source.sha256:
            raise ValueError(
                f"{paths[0]} has SHA-256 {sha256}, expected {source.sha256}: this is not "
                f"{source.name} as published, or a part of it."
            )
    if source.read is None:
        raise ValueError(f"{paths[0]} is not a Parquet file.")
    try:
        return source.read(paths)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{paths[0]} is not {source.name} as published: {error}.") from error


def _read_parquet(file: Path) -> pa.Table:
    try:
        return parquet.read_table(file, page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(
            f"{file} could not be read: {error}. If it is damaged, remove it and fetch it again."
        ) from error


def make_bunch(
    source: Source, table: pa.Table, origin: str, features: Any = None, sensitive: Any = None
) -> Bunch:
    """Filter, check and split a table; ``origin`` names it in errors."""
    features, sensitive = _chosen_columns(source, features, sensitive)
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
        data=_numeric_matrix(source, table, features),
        target=_integers(table[source.target].to_numpy()),
        sensitive_features=groups[0],
        feature_names=features,
        n_clusters=source.n_clusters,
        DESCR=source.description,
    )


def _chosen_columns(source: Source, features: Any, sensitive: Any) -> tuple[list[str], list[str]]:
    sensitive = source.sensitive if sensitive is None else sensitive
    sensitive = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    if not sensitive:
        raise ValueError("sensitive is empty: name at least one column.")
    if features is None:
        return [name for name in source.features if name not in sensitive], sensitive
    features = [features] if isinstance(features, str) else list(features)
    withheld = set(features) & {*sensitive, source.target}
    if withheld or not features:
        raise ValueError(
            f"features={features} should name at least one column, and neither the sensitive "
            f"nor the target column, got {sorted(withheld)}: clusters would follow them."
        )
    return features, sensitive


def _numeric_matrix(source: Source, table: pa.Table, features: list[str]) -> np.ndarray:
    columns = {name: table[name].to_numpy() for name in features}
    if text := [name for name, values in columns.items() if values.dtype.kind not in "iufb"]:
        raise ValueError(f"The columns {text} of {source.name} are not numeric.")
    data = np.empty((table.num_rows, len(features)))
    for j, values in enumerate(columns.values()):
        data[:, j] = values
    if not np.isfinite(data).all():
        incomplete = [features[j] for j in np.flatnonzero(~np.isfinite(data).all(axis=0))]
        raise ValueError(f"The columns {incomplete} of {source.name} have missing values.")
    return data


def _integers(values: np.ndarray) -> np.ndarray:
    """Codes as int64: small integers would overflow in a user's arithmetic, 1.00 is a code too."""
    is_code = values.dtype.kind in "iu"
    is_code |= values.dtype.kind == "f" and np.array_equal(values, np.rint(values))
    return values.astype(np.int64) if is_code else values


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas, which is not installed: pip install pandas, or pass "
            "as_frame=False."
        ) from error
    return pandas


load_law_school = _loader(LAW_SCHOOL)
load_credit_card = _loader(CREDIT_CARD)
load_bank_marketing = _loader(BANK_MARKETING)
load_kdd_census_income = _loader(KDD_CENSUS_INCOME)
fetch_law_school = _fetcher(LAW_SCHOOL)
fetch_credit_card = _fetcher(CREDIT_CARD)
fetch_bank_marketing = _fetcher(BANK_MARKETING)
fetch_census1990 = _fetcher(CENSUS_1990)
fetch_adult = _fetcher(ADULT)
