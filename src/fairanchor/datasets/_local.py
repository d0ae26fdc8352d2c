"""Public tables kept on disk as Parquet files.

A `Source` says what a published table is: which columns mean what, which rows count, and
how many rows there must then be of each group. `bunch_from_table` is all that happens
between a table and a user, whoever read the table.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from fairanchor._utils._typing import Path as PathName


@dataclass(frozen=True)
class Source:
    """What is known about a published table.

    Attributes
    ----------
    name : str
        Stem of the file's name.
    features, target, sensitive : tuple of str, str, str
        Columns; ``features`` and ``sensitive`` are defaults that a user may replace.
    n_clusters : int
        As many as there are classes in ``target``.
    group_sizes : mapping
        Rows of each value of ``sensitive``, after the row filter.
    description : str
        Origin, licence and meaning of the columns.
    kept_rows : callable or None
        The row filter: from the values of ``filter_column`` to a mask.
    filter_column : str or None
        The column that ``kept_rows`` looks at.
    """

    name: str
    features: tuple
    target: str
    sensitive: str
    n_clusters: int
    group_sizes: Mapping
    description: str
    kept_rows: Callable | None = None
    filter_column: str | None = None


def load_law_school(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load the Law School table (18,692 rows, 10 features, 2 groups, 2 clusters).

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a folder that holds it as ``law_school.parquet``.
    features : sequence of str, default=None
        Numeric columns to cluster by. By default all but ``male`` and ``pass_bar``.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``male``. They are never features.

    Returns
    -------
    law_school : :class:`~sklearn.utils.Bunch`
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
    """Load the credit card clients (29,537 rows, 22 features, 2 groups, 5 clusters).

    Rows with ``PAY_0`` above 2 are left out: 463 of the 30,000 published ones.

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a folder that holds it as ``credit_card.parquet``.
    features : sequence of str, default=None
        Numeric columns to cluster by. By default all but ``ID``, ``SEX`` and ``PAY_0``.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``SEX``. They are never features.

    Returns
    -------
    credit_card : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, not standardised), ``target`` (``PAY_0``),
        ``sensitive_features``, ``feature_names``, ``n_clusters`` and ``DESCR``.
    """
    return _load(CREDIT_CARD, path, features, sensitive)


def load_bank_marketing(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load the bank marketing contacts (41,108 rows, 10 features, 3 groups, 2 clusters).

    Rows whose ``marital`` is "unknown" are left out: 80 of the 41,188 published ones.

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a folder that holds it as ``bank_marketing.parquet``.
    features : sequence of str, default=None
        Numeric columns to cluster by. By default all ten.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``marital``. They are never features.

    Returns
    -------
    bank_marketing : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, not standardised), ``target`` (``y``),
        ``sensitive_features``, ``feature_names``, ``n_clusters`` and ``DESCR``.
    """
    return _load(BANK_MARKETING, path, features, sensitive)


def load_kdd_census_income(
    path: PathName,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Bunch:
    """Load Census-Income (KDD) (299,285 rows, 7 features, 2 groups, 2 clusters).

    Parameters
    ----------
    path : str or path-like
        The Parquet file, or a folder that holds it as ``kdd_census_income.parquet``.
    features : sequence of str, default=None
        Numeric columns to cluster by. By default the seven amounts, without the sampling
        weight and the numeric codes of categories.
    sensitive : str or sequence of str, default=None
        Sensitive column or columns, by default ``sex``; ``race`` has five groups.

    Returns
    -------
    census : :class:`~sklearn.utils.Bunch`
        With ``data`` (float64, not standardised), ``target`` (``income``),
        ``sensitive_features``, ``feature_names``, ``n_clusters`` and ``DESCR``.
    """
    return _load(KDD_CENSUS_INCOME, path, features, sensitive)


def bunch_from_table(source, table, *, features=None, sensitive=None):
    """Filter, check and split a table of columns.

    Parameters
    ----------
    source : Source
    table : mapping from column name to ndarray of shape (n_rows,)
    features, sensitive : see `load_law_school`

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
    """
    features, sensitive = _chosen_columns(source, features, sensitive)
    if source.kept_rows is not None:
        kept = source.kept_rows(table[source.filter_column])
        table = {name: values[kept] for name, values in table.items()}
    _check_group_sizes(source, table[source.sensitive])
    groups = [_widened(table[name]) for name in sensitive]
    return Bunch(
        data=_numeric_matrix(source, table, features),
        target=_widened(table[source.target]),
        sensitive_features=groups[0] if len(groups) == 1 else _object_matrix(groups),
        feature_names=features,
        n_clusters=source.n_clusters,
        DESCR=source.description,
    )


def _load(source, path, features, sensitive):
    chosen_features, chosen_sensitive = _chosen_columns(source, features, sensitive)
    needed = [*chosen_features, *chosen_sensitive, source.target, source.sensitive]
    if source.filter_column is not None:
        needed.append(source.filter_column)
    table = _read_parquet(source, path, list(dict.fromkeys(needed)))
    return bunch_from_table(source, table, features=features, sensitive=sensitive)


def _chosen_columns(source, features, sensitive):
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
            f"nor the target column, got {sorted(withheld)}: clusters would be read off them."
        )
    return features, sensitive


def _read_parquet(source, path, columns):
    """The named columns of the source's file, as a dict of NumPy arrays."""
    from pyarrow import parquet

    path = Path(path)
    file = path / f"{source.name}.parquet" if path.is_dir() else path
    if not file.exists():
        raise FileNotFoundError(
            f"There is no file {file}: path should be the Parquet file of {source.name}, or a "
            f"folder that holds it as {source.name}.parquet."
        )
    present = parquet.read_schema(file).names
    missing = [name for name in columns if name not in present]
    if missing:
        raise ValueError(f"{file} has no column {missing}, it has {present}.")
    table = parquet.read_table(file, columns=columns)
    return {name: table[name].to_numpy() for name in columns}


def _check_group_sizes(source, values):
    found = dict(Counter(values.tolist()))
    if found != dict(source.group_sizes):
        raise ValueError(
            f"{source.name} should have {sum(source.group_sizes.values())} rows after the row "
            f"filter, with groups {dict(source.group_sizes)} in {source.sensitive!r}; got "
            f"{len(values)} rows with {found}: this is another table, or a part of it."
        )


def _numeric_matrix(source, table, features):
    text = [name for name in features if table[name].dtype.kind not in "iufb"]
    if text:
        raise ValueError(f"The columns {text} of {source.name} are not numeric.")
    data = np.empty((len(table[features[0]]), len(features)))
    for j, name in enumerate(features):
        data[:, j] = table[name]
    if not np.isfinite(data).all():
        incomplete = [name for j, name in enumerate(features) if not np.isfinite(data[:, j]).all()]
        raise ValueError(f"The columns {incomplete} of {source.name} have missing values.")
    return data


def _widened(values):
    """Files store small integers in few bits, in which a user's arithmetic would overflow."""
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


def _object_matrix(columns):
    """Columns of different types side by side, every value as it was."""
    return np.stack([column.astype(object) for column in columns], axis=1)


LAW_SCHOOL = Source(
    name="law_school",
    features=(
        "decile1b",
        "decile3",
        "lsat",
        "ugpa",
        "zfygpa",
        "zgpa",
        "fulltime",
        "fam_inc",
        "racetxt",
        "tier",
    ),
    target="pass_bar",
    sensitive="male",
    n_clusters=2,
    group_sizes={1: 10_550, 0: 8_142},
    description="""Law School

LSAC National Longitudinal Bar Passage Study (L. F. Wightman, 1998), in the small cleaned
form published with T. Le Quy, A. Roy, V. Iosifidis, W. Zhang, E. Ntoutsi, "A survey on
datasets for fairness-aware machine learning", WIREs DMKD 2022. No licence is stated.

Features: decile1b, decile3 (grade deciles, years 1 and 3), lsat, ugpa (undergraduate
grades), zfygpa, zgpa (standardised first-year and cumulative grades), fulltime (1 full
time, 2 part time), fam_inc (income bracket 1-5), racetxt (1 white, 0 black), tier (1-6).
Sensitive: male (1, 0). Target: pass_bar (1, 0).
""",
)

CREDIT_CARD = Source(
    name="credit_card",
    features=(
        "LIMIT_BAL",
        "EDUCATION",
        "MARRIAGE",
        "AGE",
        *(f"PAY_{month}" for month in range(2, 7)),
        *(f"BILL_AMT{month}" for month in range(1, 7)),
        *(f"PAY_AMT{month}" for month in range(1, 7)),
        "default payment next month",
    ),
    target="PAY_0",
    sensitive="SEX",
    n_clusters=5,
    group_sizes={1: 11_646, 2: 17_891},
    filter_column="PAY_0",
    kept_rows=lambda status: status <= 2,
    description="""Default of Credit Card Clients

Taiwan, 2005. UCI Machine Learning Repository, CC BY 4.0; I.-C. Yeh, C.-H. Lien, Expert
Systems with Applications 36(2), 2009. Rows with PAY_0 above 2 are left out, as by L. Zheng,
Y. Zhu, J. He, "Fairness-aware Multi-view Clustering", SDM 2023.

Sensitive: SEX (1 male, 2 female). Target: PAY_0, the latest repayment status (-2 to 2).
Features: all other columns but ID.
""",
)

BANK_MARKETING = Source(
    name="bank_marketing",
    features=(
        "age",
        "duration",
        "campaign",
        "pdays",
        "previous",
        "emp.var.rate",
        "cons.price.idx",
        "cons.conf.idx",
        "euribor3m",
        "nr.employed",
    ),
    target="y",
    sensitive="marital",
    n_clusters=2,
    group_sizes={"married": 24_928, "single": 11_568, "divorced": 4_612},
    filter_column="marital",
    kept_rows=lambda marital: marital != "unknown",
    description="""Bank Marketing

The file bank-additional-full of "Bank Marketing", UCI Machine Learning Repository,
CC BY 4.0; S. Moro, P. Cortez, P. Rita, Decision Support Systems 62, 2014. Rows whose
marital status is unknown are left out.

Sensitive: marital. Target: y (yes, no). Features: the ten numeric columns.
""",
)

KDD_CENSUS_INCOME = Source(
    name="kdd_census_income",
    features=(
        "age",
        "wage per hour",
        "capital gains",
        "capital losses",
        "dividends from stocks",
        "num persons worked for employer",
        "weeks worked in year",
    ),
    target="income",
    sensitive="sex",
    n_clusters=2,
    group_sizes={"Female": 155_775, "Male": 143_510},
    description="""Census-Income (KDD)

UCI Machine Learning Repository, CC BY 4.0; T. Lane, R. Kohavi, from the Current Population
Surveys of 1994 and 1995. Training and test part together, no row left out.

Sensitive: sex, or race (five groups). Target: income ("-50000", "50000+"). Features: seven
numeric columns.
""",
)
