"""Where the tables are published, and how their files are read.

What the columns of a table mean and how many rows there must be is a `Source`, as for the
loaders of Parquet files; a `Remote` adds the address and the reader.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairanchor.datasets._local import BANK_MARKETING, CREDIT_CARD, LAW_SCHOOL, Source

_UCI = "https://archive.ics.uci.edu/static/public"
CENSUS_ROWS = 2_458_285


@dataclass(frozen=True)
class Remote:
    """Where a table is published, and how its files are read.

    Attributes
    ----------
    source : Source
        Columns, row filter and counts.
    url : str
        What is downloaded.
    members : mapping from file name to tuple of str
        The files of the table and the way to each inside the download: names of nested
        archives, the last one being the file. Empty: the download is the file.
    local_names : tuple of str
        Other names under which a single local file is recognised.
    read : callable
        From the paths of the files to a dict of columns.
    published_rows : int
        Rows before the row filter.
    sha256 : str or None
        Of the (single) file, where it is known.
    """

    source: Source
    url: str
    members: dict
    read: Callable
    published_rows: int
    local_names: tuple = ()
    sha256: str | None = None


# Readers: from files to columns.


def read_parquet_columns(path):
    """All columns of a Parquet file."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _columns(names, lines):
    """Columns of lists of text, as numbers where every value is one."""
    values = list(zip(*lines, strict=True)) or [()] * len(names)
    return {name: _typed(np.array(column)) for name, column in zip(names, values, strict=True)}


def _typed(column):
    for dtype in (np.int64, np.float64):
        try:
            return column.astype(dtype)
        except ValueError:
            continue
    return column.astype(object)


def _read_csv(path, *, delimiter=","):
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
        names = next(lines, None)
        if names is None:
            raise ValueError(f"{path} is empty, expected a line of column names.")
        return _columns([name.strip() for name in names], [line for line in lines if line])


def _read_law_school(paths):
    """The ARFF file; its header names two values for ``tier``, which has six, so it is not used."""
    if paths[0].suffix == ".csv":
        return _read_csv(paths[0])
    with paths[0].open(encoding="utf-8") as file:
        names = []
        for line in file:
            words = line.split()
            if words and words[0].lower() == "@attribute":
                names.append(words[1])
            elif words and words[0].lower() == "@data":
                break
        table = _columns(names, [line for line in csv.reader(file) if line])
    return {name: _whole(values) for name, values in table.items()}


def _whole(values):
    """Codes written as 1.00 are codes: groups are compared with whole numbers."""
    if values.dtype.kind == "f" and np.array_equal(values, np.rint(values)):
        return values.astype(np.int64)
    return values


_CREDIT_NAMES = (
    "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0",
    *(f"PAY_{month}" for month in range(2, 7)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)  # fmt: skip
# The repository's own CSV numbers the columns.
_CREDIT_RENAMED = {
    **{f"X{j}": name for j, name in enumerate(_CREDIT_NAMES, start=1)},
    "Y": "default payment next month",
    "default.payment.next.month": "default payment next month",
}


def _read_credit_card(paths):
    (path,) = paths
    if path.suffix in (".xls", ".xlsx"):
        table = _read_spreadsheet(path)
    else:
        table = _read_csv(path)
    return {_CREDIT_RENAMED.get(name, name): values for name, values in table.items()}


def _read_spreadsheet(path):
    """The published sheet, whose second line has the names."""
    try:
        frame = require_pandas().read_excel(path, header=1)
    except ImportError as error:
        raise ImportError(
            f"Reading {path.name} needs pandas and a reader of its format: pip install pandas xlrd "
            "openpyxl (or fetch the CSV form)"
        ) from error
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _read_bank_marketing(paths):
    return _read_csv(paths[0], delimiter=";")


def _read_census(paths):
    """2.5 million lines of small integers: one parse, in pyarrow where it is installed."""
    with paths[0].open() as file:
        names = file.readline().strip().split(",")
    try:
        from pyarrow import csv as arrow_csv
    except ImportError:
        values = np.loadtxt(paths[0], delimiter=",", skiprows=1, dtype=np.int32, ndmin=2)
        return {name: values[:, j] for j, name in enumerate(names)}
    table = arrow_csv.read_csv(paths[0])
    return {name: table[name].to_numpy() for name in table.column_names}


_ADULT_NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip


def _read_adult(paths):
    lines = []
    for path in paths:
        with path.open(newline="") as file:
            rows = csv.reader(file, skipinitialspace=True)
            # The test part opens with a remark and ends its classes with a full stop.
            lines += [
                [*row[:-1], row[-1].rstrip(".")] for row in rows if len(row) == len(_ADULT_NAMES)
            ]
    return _columns(_ADULT_NAMES, lines)


def require_pandas():
    """pandas, or an error that says how to do without."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas, which is not installed; install it with: pip install "
            "pandas (or pass as_frame=False)"
        ) from error
    return pandas


# The tables.

CENSUS_1990 = Source(
    name="census1990",
    features=(
        "dAge", "dAncstry1", "dAncstry2", "iAvail", "iCitizen", "iClass", "dDepart", "iDisabl1",
        "iDisabl2", "iEnglish", "iFeb55", "iFertil", "dHispanic", "dHour89", "dHours", "iImmigr",
        "dIncome1", "dIncome2", "dIncome3", "dIncome4", "dIncome5", "dIncome6", "dIncome7",
        "dIncome8", "dIndustry", "iKorean", "iLang1", "iLooking", "iMay75880", "iMeans",
        "iMilitary", "iMobility", "iMobillim", "dOccup", "iOthrserv", "iPerscare", "dPOB",
        "dPoverty", "dPwgt1", "iRagechld", "dRearning", "iRelat1", "iRelat2", "iRemplpar",
        "iRiders", "iRlabor", "iRownchld", "dRpincome", "iRPOB", "iRrelchld", "iRspouse",
        "iRvetserv", "iSchool", "iSept80", "iSubfam1", "iSubfam2", "iTmpabsnt", "dTravtime",
        "iVietnam", "dWeek89", "iWork89", "iWorklwk", "iWWII", "iYearsch", "iYearwrk", "dYrsserv",
    ),
    target="iMarital",
    sensitive="iSex",
    n_clusters=5,
    group_sizes={},
    description="""US Census Data (1990)

UCI Machine Learning Repository, CC BY 4.0; C. Meek, B. Thiesson, D. Heckerman. The
discretised file: small integer codes.

Sensitive: iSex (0 male, 1 female). Target: iMarital (0 married, 1 widowed, 2 divorced,
3 separated, 4 never married). Features: all other attributes but caseid.
""",
)  # fmt: skip

ADULT = Source(
    name="adult",
    features=("age", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    target="income",
    sensitive="sex",
    n_clusters=2,
    group_sizes={"Male": 32_650, "Female": 16_192},
    description="""Adult

UCI Machine Learning Repository, CC BY 4.0; B. Becker, R. Kohavi, 1996. Training and test
part together; missing values ("?") occur in text columns only.

Sensitive: sex. Target: income (<=50K, >50K). Features: the numeric columns but fnlwgt.
""",
)

# A fixed state of the repository, so that the file cannot change behind the address.
LAW_SCHOOL_REMOTE = Remote(
    source=LAW_SCHOOL,
    url="https://raw.githubusercontent.com/tailequy/fairness_dataset/"
    "d849a43d260dc10cdc9beb690d12ebe8a7fd57f0/Law%20school/law_dataset.arff",
    members={"law_dataset.arff": ()},
    local_names=("law_school.csv",),
    read=_read_law_school,
    published_rows=18_692,
)
CREDIT_CARD_REMOTE = Remote(
    source=CREDIT_CARD,
    url=f"{_UCI}/350/data.csv",
    members={"credit_card.csv": ()},
    local_names=("default of credit card clients.xls", "default of credit card clients.csv"),
    read=_read_credit_card,
    published_rows=30_000,
)
BANK_MARKETING_REMOTE = Remote(
    source=BANK_MARKETING,
    url=f"{_UCI}/222/bank+marketing.zip",
    members={
        "bank-additional-full.csv": (
            "bank-additional.zip",
            "bank-additional/bank-additional-full.csv",
        )
    },
    read=_read_bank_marketing,
    published_rows=41_188,
)
CENSUS_REMOTE = Remote(
    source=CENSUS_1990,
    url=f"{_UCI}/116/us+census+data+1990.zip",
    members={"USCensus1990.data.txt": ("USCensus1990.data.txt",)},
    read=_read_census,
    published_rows=CENSUS_ROWS,
    sha256="38e99f50855ddc03167b715b36519ef40b77295ae4e85dfef0c6429ac79ed799",
)
ADULT_REMOTE = Remote(
    source=ADULT,
    url=f"{_UCI}/2/adult.zip",
    members={"adult.data": ("adult.data",), "adult.test": ("adult.test",)},
    read=_read_adult,
    published_rows=48_842,
)
