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
from collections.abc import Sequence
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


def load_law_school(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load the Law School table from a Parquet file.

    18,692 rows, 10 features, 2 groups, 2 clusters.

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a directory that holds it as ``law_school.parquet``.
    features : sequence of str, default=None
        Numeric columns to cluster by. By default all but ``male`` and ``pass_bar``.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``male``. They are never features.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, not standardised), ``target`` (``pass_bar``),
        ``sensitive_features``, ``feature_names``, ``n_clusters`` and ``DESCR``.
    """
    return _load(LAW_SCHOOL, path, features, sensitive)


def load_credit_card(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load the credit card clients from a Parquet file.

    29,537 rows, 22 features, 2 groups, 5 clusters. Rows with ``PAY_0`` above 2 are left out: 463
    of the 30,000 published ones.

    Parameters
    ----------
    path, features, sensitive
        See `load_law_school`; the file is ``credit_card.parquet``. By default all columns but
        ``ID``, ``SEX`` and ``PAY_0`` are features, and ``SEX`` is sensitive.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `load_law_school`; the target is ``PAY_0``.
    """
    return _load(CREDIT_CARD, path, features, sensitive)


def load_bank_marketing(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load the bank marketing contacts from a Parquet file.

    41,108 rows, 10 features, 3 groups, 2 clusters. Rows whose ``marital`` is "unknown" are left
    out: 80 of the 41,188 published ones.

    Parameters
    ----------
    path, features, sensitive
        See `load_law_school`; the file is ``bank_marketing.parquet``. By default all ten numeric
        columns are features, and ``marital`` is sensitive.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `load_law_school`; the target is ``y``.
    """
    return _load(BANK_MARKETING, path, features, sensitive)


def load_kdd_census_income(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load Census-Income (KDD) from a Parquet file.

    299,285 rows, 7 features, 2 groups, 2 clusters.

    Parameters
    ----------
    path, features, sensitive
        See `load_law_school`; the file is ``kdd_census_income.parquet``. By default the seven
        amounts are features, without the sampling weight and the numeric codes of categories, and
        ``sex`` is sensitive; ``race`` has five groups.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `load_law_school`; the target is ``income``.
    """
    return _load(KDD_CENSUS_INCOME, path, features, sensitive)


def fetch_law_school(
    *,
    data_home: PathName | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Fetch the Law School table (18,692 rows, 10 features, 2 groups, 2 clusters).

    Published with T. Le Quy et al., "A survey on datasets for fairness-aware machine
    learning", WIREs DMKD 2022 (the file ``law_dataset.arff``). No licence is stated.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Directory under which downloads are kept, by default scikit-learn's; a local copy in it
        (``law_dataset.arff`` or ``law_school.parquet``) is used instead of a download. Or the
        path of such a file.
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
        With ``data`` (not standardised), ``target``, ``sensitive_features``, ``frame``,
        ``feature_names``, ``n_clusters`` and ``DESCR``.

    Notes
    -----
    No checksum of the publisher is known: a download is checked by its columns, rows and group
    counts, and kept as a Parquet file with checksums.
    """
    return _fetch(LAW_SCHOOL, data_home, download_if_missing, return_X_y, as_frame)


def fetch_credit_card(
    *,
    data_home: PathName | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Fetch the credit card clients (29,537 rows, 22 features, 2 groups, 5 clusters).

    UCI Machine Learning Repository, dataset 350, CC BY 4.0. Rows with ``PAY_0`` above 2 are
    left out: 463 of the 30,000 published ones.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        See `fetch_law_school`; a local copy is ``credit_card.csv`` or ``credit_card.parquet``.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`, with the same checks.
    """
    return _fetch(CREDIT_CARD, data_home, download_if_missing, return_X_y, as_frame)


def fetch_bank_marketing(
    *,
    data_home: PathName | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Fetch the bank marketing contacts (41,108 rows, 10 features, 3 groups, 2 clusters).

    UCI Machine Learning Repository, dataset 222, the file ``bank-additional-full.csv``,
    CC BY 4.0. Rows whose ``marital`` is "unknown" are left out: 80 of the 41,188 published
    ones.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        See `fetch_law_school`; a local copy is ``bank-additional-full.csv`` or
        ``bank_marketing.parquet``.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`, with the same checks.
    """
    return _fetch(BANK_MARKETING, data_home, download_if_missing, return_X_y, as_frame)


def fetch_census1990(
    *,
    data_home: PathName | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Fetch the US Census of 1990 (2,458,285 rows, 66 features, 2 groups, 5 clusters).

    UCI Machine Learning Repository, dataset 116, the discretised file
    ``USCensus1990.data.txt`` (361 MB), CC BY 4.0. Groups are ``iSex``; the target, marital status
    (``iMarital``), is the class that the literature most likely means; all other attributes
    are features.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        See `fetch_law_school`; a local copy is ``USCensus1990.data.txt`` or
        ``census1990.parquet``.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`; ``data`` takes 1.3 GB.

    Notes
    -----
    The text file is checked by its SHA-256, a Parquet copy by its columns and rows.
    """
    return _fetch(CENSUS_1990, data_home, download_if_missing, return_X_y, as_frame)


def fetch_adult(
    *,
    data_home: PathName | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Fetch Adult (48,842 rows, 5 features, 2 groups, 2 clusters).

    UCI Machine Learning Repository, dataset 2, training and test part together, CC BY 4.0.
    Features are the numeric columns without ``fnlwgt``, which is a sampling weight.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        See `fetch_law_school`; a local copy is ``adult.data`` and ``adult.test``, or
        ``adult.parquet``.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`, with the same checks.
    """
    return _fetch(ADULT, data_home, download_if_missing, return_X_y, as_frame)


def _load(source: Source, path: PathName, features: Any, sensitive: Any) -> Bunch:
    file = Path(path)
    file = file / f"{source.name}.parquet" if file.is_dir() else file
    if not file.exists():
        raise FileNotFoundError(
            f"There is no file {file}: path should be the Parquet file of {source.name}, or a "
            f"directory that holds it as {source.name}.parquet."
        )
    return make_bunch(source, _read_parquet(file), str(file), features, sensitive)


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
