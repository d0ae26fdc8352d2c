"""The published tables, downloaded once and kept, or read from a local copy.

Checksums: of the 1990 census the publisher's file is known by its SHA-256. For the others no
checksum is published that we could vouch for, so a new download is checked by its columns, its
number of rows and its group counts; the checksum of the file that passed is written beside it
and compared whenever the cached file is read again.
"""

import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sklearn.datasets import fetch_file, get_data_home

from fairanchor._utils._files import replacing, write_bytes
from fairanchor._utils._typing import Path as PathName
from fairanchor.datasets._local import bunch_from_table
from fairanchor.datasets._remotes import (
    ADULT_REMOTE,
    BANK_MARKETING_REMOTE,
    CENSUS_REMOTE,
    CREDIT_CARD_REMOTE,
    LAW_SCHOOL_REMOTE,
    read_parquet_columns,
    require_pandas,
)


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
        A local copy (the file, or a folder that holds it as ``law_dataset.arff`` or
        ``law_school.parquet``), or the folder under which downloads are kept, by default
        scikit-learn's.
    download_if_missing : bool, default=True
        Whether a table that is not there is downloaded; otherwise it is an error.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Whether ``data`` is a DataFrame and ``target`` and ``sensitive_features`` are Series
        of pandas, rather than arrays.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        With ``data`` (not standardised), ``target``, ``sensitive_features``, ``frame``,
        ``feature_names``, ``n_clusters`` and ``DESCR``.

    Notes
    -----
    No checksum of the publisher is known: the download is checked by its columns, rows and group
    counts, and its checksum is recorded beside it for later reads.
    """
    return _fetch(LAW_SCHOOL_REMOTE, data_home, download_if_missing, return_X_y, as_frame)


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
    data_home : str or path-like, default=None
        A local copy (the file, or a folder that holds it as ``credit_card.csv``,
        ``default of credit card clients.xls`` or ``credit_card.parquet``), or the folder under
        which downloads are kept, by default scikit-learn's.
    download_if_missing, return_X_y, as_frame
        See `fetch_law_school`.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`.

    Notes
    -----
    Checked as `fetch_law_school` is: no checksum of the publisher is known.
    """
    return _fetch(CREDIT_CARD_REMOTE, data_home, download_if_missing, return_X_y, as_frame)


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
    data_home : str or path-like, default=None
        A local copy (the file, or a folder that holds it as ``bank-additional-full.csv`` or
        ``bank_marketing.parquet``), or the folder under which downloads are kept, by default
        scikit-learn's.
    download_if_missing, return_X_y, as_frame
        See `fetch_law_school`.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`.

    Notes
    -----
    Checked as `fetch_law_school` is: no checksum of the publisher is known.
    """
    return _fetch(BANK_MARKETING_REMOTE, data_home, download_if_missing, return_X_y, as_frame)


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
    data_home : str or path-like, default=None
        A local copy (the file, or a folder that holds it as ``USCensus1990.data.txt`` or
        ``census1990.parquet``), or the folder under which downloads are kept, by default
        scikit-learn's.
    download_if_missing, return_X_y, as_frame
        See `fetch_law_school`.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`; ``data`` takes 1.3 GB.

    Notes
    -----
    The text file is checked by its SHA-256, a Parquet copy by its columns and rows.
    """
    return _fetch(CENSUS_REMOTE, data_home, download_if_missing, return_X_y, as_frame)


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
    data_home : str or path-like, default=None
        A folder that holds a local copy (``adult.data`` and ``adult.test``, or
        ``adult.parquet``), or the folder under which downloads are kept, by default
        scikit-learn's.
    download_if_missing, return_X_y, as_frame
        See `fetch_law_school`.

    Returns
    -------
    table : :class:`~sklearn.utils.Bunch`
        As `fetch_law_school`.

    Notes
    -----
    Checked as `fetch_law_school` is: no checksum of the publisher is known.
    """
    return _fetch(ADULT_REMOTE, data_home, download_if_missing, return_X_y, as_frame)


# From a name to a checked table.


def _fetch(remote, data_home, download_if_missing, return_X_y, as_frame):
    pandas = require_pandas() if as_frame else None  # before a long download, not after it
    home = Path(get_data_home() if data_home is None else data_home)
    paths = _local_copy(remote, home)
    if paths is not None:
        bunch = _checked_bunch(remote, paths)
    elif download_if_missing:
        bunch = _downloaded(remote, home)
    else:
        raise FileNotFoundError(_not_found(remote, home))
    if as_frame:
        _as_frame(bunch, remote.source, pandas)
    return (bunch.data, bunch.target) if return_X_y else bunch


def _local_copy(remote, home):
    """Paths of a copy that is there, or None."""
    if home.is_file():
        return [home]
    for folder in (home, _cache(remote, home)):
        paths = [folder / name for name in remote.members]
        if all(path.is_file() for path in paths):
            return [_same_as_recorded(path) for path in paths]
        for name in (f"{remote.source.name}.parquet", *remote.local_names):
            if (folder / name).is_file():
                return [folder / name]
    return None


def _cache(remote, home):
    return home / "fairanchor" / remote.source.name


def _not_found(remote, home):
    return (
        f"There is no copy of {remote.source.name} in {home}: expected {_expected(remote)}. "
        f"Download it from {remote.url}, or allow the download (download_if_missing=True)."
    )


def _expected(remote):
    names = [" and ".join(remote.members), f"{remote.source.name}.parquet", *remote.local_names]
    return " or ".join(names)


def _downloaded(remote, home):
    """Download, unpack, check and only then keep."""
    folder = _cache(remote, home)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        download = _download(remote, home, scratch)
        unpacked = [
            _unpack(download, way, Path(scratch) / name) for name, way in remote.members.items()
        ]
        bunch = _checked_bunch(remote, unpacked)
        for path in unpacked:
            target = folder / path.name
            checksum = f"{_sha256(path)}\n".encode()
            write_bytes(target.with_name(target.name + ".sha256"), checksum, force=True)
            _keep(path, target)
    return bunch


def _download(remote, home, scratch):
    """The publisher's file; an error says what was wanted from where, and the way around."""
    try:
        return Path(fetch_file(remote.url, folder=scratch, local_filename="download"))
    except (OSError, HTTPException) as error:
        raise OSError(
            f"{remote.source.name} could not be downloaded from {remote.url}: {error}. It is kept "
            f"under {_cache(remote, home)}; a copy that you put there, or in {home}, is used "
            f"instead (expected {_expected(remote)})."
        ) from error


def _keep(path, target):
    """Copy a checked file to its place, readable by whom the umask allows."""
    with path.open("rb") as file, replacing(target, force=True) as kept:
        shutil.copyfileobj(file, kept, 1 << 20)


def _unpack(download, way, target):
    """The file at the end of a way through nested archives."""
    if not way:
        os.replace(download, target)
        return target
    with ExitStack() as opened, target.open("wb") as file:
        stream = opened.enter_context(download.open("rb"))
        for name in way:
            member = opened.enter_context(_member(opened, stream, name))
            # A nested archive must be seekable; the file itself can be larger than memory.
            stream = member if name == way[-1] else io.BytesIO(member.read())
        while block := stream.read(1 << 20):
            file.write(block)
    return target


def _member(opened, stream, name):
    """An open member of an open archive; both are closed with ``opened``."""
    try:
        archive = opened.enter_context(zipfile.ZipFile(stream))
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"The download is not a ZIP archive that holds {name!r}: its publisher has changed it, "
            "or it is incomplete. Use a local copy, see data_home."
        ) from error
    if name not in archive.namelist():
        raise ValueError(
            f"The download has no member {name!r}, it has {archive.namelist()}: its publisher "
            "has changed it. Use a local copy, see data_home."
        )
    return archive.open(name)


def _same_as_recorded(path):
    """Refuse a cached file that has changed since it passed the checks."""
    record = path.with_name(path.name + ".sha256")
    if record.is_file():
        recorded, found = record.read_text().strip(), _sha256(path)
        if recorded != found:
            raise ValueError(
                f"{path} has SHA-256 {found}, {record.name} says {recorded}: the file has changed "
                "since it was downloaded. Remove both and fetch again."
            )
    return path


def _checked_bunch(remote, paths):
    """The Bunch of the files, refused unless they are the published ones."""
    table = _checked_table(remote, paths)
    source = remote.source
    if not source.group_sizes:  # counts are not published: what the checks let through counts
        source = replace(source, group_sizes=Counter(table[source.sensitive].tolist()))
    return bunch_from_table(source, table)


def _checked_table(remote, paths):
    parquet = paths[0].suffix == ".parquet"
    if remote.sha256 is not None and not parquet:
        found = _sha256(paths[0])
        if found != remote.sha256:
            raise ValueError(
                f"{paths[0]} has SHA-256 {found}, expected {remote.sha256}: this is not "
                f"{remote.source.name} as published, or a part of it."
            )
    table = read_parquet_columns(paths[0]) if parquet else remote.read(paths)
    source = remote.source
    needed = {*source.features, source.target, source.sensitive}
    missing = sorted(needed - set(table))
    if missing:
        raise ValueError(f"{paths[0]} has no column {missing}, it has {list(table)}.")
    rows = len(table[source.target])
    # A copy may have had the row filter applied already.
    filtered = sum(source.group_sizes.values()) or remote.published_rows
    if rows not in (remote.published_rows, filtered):
        raise ValueError(
            f"{paths[0]} has {rows:,} rows, {source.name} has {remote.published_rows:,} as "
            f"published: this is another table, or a part of it."
        )
    return table


def _as_frame(bunch, source, pandas):
    bunch.data = pandas.DataFrame(bunch.data, columns=bunch.feature_names)
    bunch.target = pandas.Series(bunch.target, name=source.target)
    bunch.sensitive_features = pandas.Series(bunch.sensitive_features, name=source.sensitive)
    bunch.frame = pandas.concat([bunch.data, bunch.sensitive_features, bunch.target], axis=1)


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
