"""Public tables: what their columns mean, where they are published, and how to read the files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_UCI = "https://archive.ics.uci.edu/static/public"


def _read_csv(contents: list[bytes]) -> pa.Table:
    return csv.read_csv(pa.BufferReader(contents[0]))


@dataclass(frozen=True)
class Source:
    """A public table.

    ``sensitive`` is a default that a user may replace. Rows are counted after the filter ``keep``,
    in all (``n_rows``) and by group (``group_sizes``; None if not published). ``members`` maps the
    table's files to their path inside the download at ``url``: names of nested archives, then of
    the file; an empty path means that the download is the file. ``read`` makes a table of their
    bytes. ``sha256`` is the checksum of the (single) file, where it is known.
    """

    name: str
    features: tuple[str, ...]
    target: str
    sensitive: str
    n_clusters: int
    group_sizes: Mapping[Any, int] | None
    n_rows: int
    description: str
    keep: Callable[[pa.Table], Any] | None = None
    url: str | None = None
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: Callable[[list[bytes]], pa.Table] = _read_csv
    sha256: str | None = None


def _read_law_school(contents: list[bytes]) -> pa.Table:
    """The ARFF file; its header is wrong about the values of ``tier``, so only names are read."""
    header, _, rows = contents[0].partition(b"@data")
    names = re.findall(r"@attribute (\S+)", header.decode())
    return csv.read_csv(pa.BufferReader(rows.lstrip()), csv.ReadOptions(column_names=names))


def _read_credit_card(contents: list[bytes]) -> pa.Table:
    """The repository's CSV numbers its columns: X1, X2, ..., Y."""
    table = _read_csv(contents)
    names = ("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0", *CREDIT_CARD.features[4:])
    numbered = {f"X{j}": name for j, name in enumerate(names[:-1], start=1)} | {"Y": names[-1]}
    return table.rename_columns([numbered.get(name, name) for name in table.column_names])


def _read_bank_marketing(contents: list[bytes]) -> pa.Table:
    options = csv.ParseOptions(delimiter=";")
    return csv.read_csv(pa.BufferReader(contents[0]), parse_options=options)


def _read_adult(contents: list[bytes]) -> pa.Table:
    names = [
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status",
        "occupation", "relationship", "race", "sex", "capital-gain", "capital-loss",
        "hours-per-week", "native-country", "income",
    ]  # fmt: skip
    # The test part opens with a remark and ends its classes with a full stop.
    text = b"\n".join([*contents, b""]).replace(b"|1x3 Cross validator", b"").replace(b".\n", b"\n")
    text = text.replace(b", ", b",")
    return csv.read_csv(pa.BufferReader(text), csv.ReadOptions(column_names=names))


# The address is a fixed state of the repository, so that the file cannot change.
LAW_SCHOOL = Source(
    name="law_school",
    features=(
        "decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fulltime", "fam_inc",
        "racetxt", "tier",
    ),
    target="pass_bar",
    sensitive="male",
    n_clusters=2,
    group_sizes={1: 10_550, 0: 8_142},
    n_rows=18_692,
    url="https://raw.githubusercontent.com/tailequy/fairness_dataset/"
    "d849a43d260dc10cdc9beb690d12ebe8a7fd57f0/Law%20school/law_dataset.arff",
    members={"law_dataset.arff": ()},
    read=_read_law_school,
    description="""Law School

LSAC National Longitudinal Bar Passage Study (L. F. Wightman, 1998), in the small cleaned
form published with T. Le Quy, A. Roy, V. Iosifidis, W. Zhang, E. Ntoutsi, "A survey on
datasets for fairness-aware machine learning", WIREs DMKD 2022. No licence is stated.

Features: decile1b, decile3 (grade deciles, years 1 and 3), lsat, ugpa (undergraduate
grades), zfygpa, zgpa (standardised first-year and cumulative grades), fulltime (1 full
time, 2 part time), fam_inc (income bracket 1-5), racetxt (1 white, 0 black), tier (1-6).
Sensitive: male (1, 0). Target: pass_bar (1, 0).
""",
)  # fmt: skip

CREDIT_CARD = Source(
    name="credit_card",
    features=(
        "LIMIT_BAL", "EDUCATION", "MARRIAGE", "AGE",
        *(f"PAY_{month}" for month in range(2, 7)),
        *(f"BILL_AMT{month}" for month in range(1, 7)),
        *(f"PAY_AMT{month}" for month in range(1, 7)),
        "default payment next month",
    ),
    target="PAY_0",
    sensitive="SEX",
    n_clusters=5,
    group_sizes={1: 11_646, 2: 17_891},
    n_rows=29_537,
    keep=lambda table: pc.less_equal(table["PAY_0"], 2),
    url=f"{_UCI}/350/data.csv",
    members={"credit_card.csv": ()},
    read=_read_credit_card,
    description="""Default of Credit Card Clients

Taiwan, 2005. UCI Machine Learning Repository, CC BY 4.0; I.-C. Yeh, C.-H. Lien, Expert
Systems with Applications 36(2), 2009. Rows with PAY_0 above 2 are left out, as by L. Zheng,
Y. Zhu, J. He, "Fairness-aware Multi-view Clustering", SDM 2023.

Sensitive: SEX (1 male, 2 female). Target: PAY_0, the latest repayment status (-2 to 2).
Features: all other columns but ID.
""",
)  # fmt: skip

BANK_MARKETING = Source(
    name="bank_marketing",
    features=(
        "age", "duration", "campaign", "pdays", "previous", "emp.var.rate", "cons.price.idx",
        "cons.conf.idx", "euribor3m", "nr.employed",
    ),
    target="y",
    sensitive="marital",
    n_clusters=2,
    group_sizes={"married": 24_928, "single": 11_568, "divorced": 4_612},
    n_rows=41_108,
    keep=lambda table: pc.not_equal(table["marital"], "unknown"),
    url=f"{_UCI}/222/bank+marketing.zip",
    members={
        "bank-additional-full.csv": (
            "bank-additional.zip",
            "bank-additional/bank-additional-full.csv",
        )
    },
    read=_read_bank_marketing,
    description="""Bank Marketing

The file bank-additional-full of "Bank Marketing", UCI Machine Learning Repository,
CC BY 4.0; S. Moro, P. Cortez, P. Rita, Decision Support Systems 62, 2014. Rows whose
marital status is unknown are left out.

Sensitive: marital. Target: y (yes, no). Features: the ten numeric columns.
""",
)  # fmt: skip

KDD_CENSUS_INCOME = Source(
    name="kdd_census_income",
    features=(
        "age", "wage per hour", "capital gains", "capital losses", "dividends from stocks",
        "num persons worked for employer", "weeks worked in year",
    ),
    target="income",
    sensitive="sex",
    n_clusters=2,
    group_sizes={"Female": 155_775, "Male": 143_510},
    n_rows=299_285,
    description="""Census-Income (KDD)

UCI Machine Learning Repository, CC BY 4.0; T. Lane, R. Kohavi, from the Current Population
Surveys of 1994 and 1995. Training and test part together, no row left out.

Sensitive: sex, or race (five groups). Target: income ("-50000", "50000+"). Features: seven
numeric columns.
""",
)  # fmt: skip

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
    group_sizes=None,
    n_rows=2_458_285,
    url=f"{_UCI}/116/us+census+data+1990.zip",
    members={"USCensus1990.data.txt": ("USCensus1990.data.txt",)},
    sha256="38e99f50855ddc03167b715b36519ef40b77295ae4e85dfef0c6429ac79ed799",
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
    n_rows=48_842,
    url=f"{_UCI}/2/adult.zip",
    members={"adult.data": ("adult.data",), "adult.test": ("adult.test",)},
    read=_read_adult,
    description="""Adult

UCI Machine Learning Repository, CC BY 4.0; B. Becker, R. Kohavi, 1996. Training and test
part together; missing values ("?") occur in text columns only.

Sensitive: sex. Target: income (<=50K, >50K). Features: the numeric columns but fnlwgt.
""",
)
