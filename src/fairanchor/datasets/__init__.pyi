"""Types of the data sets."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, overload

from numpy.typing import ArrayLike

from fairanchor import _Seed

__all__ = [
    "fetch_adult",
    "fetch_bank_marketing",
    "fetch_census1990",
    "fetch_credit_card",
    "fetch_law_school",
    "load_bank_marketing",
    "load_credit_card",
    "load_kdd_census_income",
    "load_law_school",
    "make_census",
    "make_fair_blobs",
    "make_zafar",
]

_Path: TypeAlias = str | PathLike[str]

# A Bunch of scikit-learn, which has no types of its own; arrays, or objects of pandas.
class _Bunch(dict[str, Any]):
    data: Any
    target: Any
    sensitive_features: Any
    feature_names: list[str]
    n_clusters: int
    DESCR: str

@overload
def fetch_adult(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[True],
    as_frame: bool = True,
) -> tuple[Any, Any]: ...
@overload
def fetch_adult(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[False] = False,
    as_frame: bool = True,
) -> _Bunch: ...
@overload
def fetch_bank_marketing(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[True],
    as_frame: bool = True,
) -> tuple[Any, Any]: ...
@overload
def fetch_bank_marketing(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[False] = False,
    as_frame: bool = True,
) -> _Bunch: ...
@overload
def fetch_census1990(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[True],
    as_frame: bool = True,
) -> tuple[Any, Any]: ...
@overload
def fetch_census1990(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[False] = False,
    as_frame: bool = True,
) -> _Bunch: ...
@overload
def fetch_credit_card(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[True],
    as_frame: bool = True,
) -> tuple[Any, Any]: ...
@overload
def fetch_credit_card(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[False] = False,
    as_frame: bool = True,
) -> _Bunch: ...
@overload
def fetch_law_school(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[True],
    as_frame: bool = True,
) -> tuple[Any, Any]: ...
@overload
def fetch_law_school(
    *,
    data_home: _Path | None = None,
    download_if_missing: bool = True,
    return_X_y: Literal[False] = False,
    as_frame: bool = True,
) -> _Bunch: ...
def load_bank_marketing(
    path: _Path,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> _Bunch: ...
def load_credit_card(
    path: _Path,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> _Bunch: ...
def load_kdd_census_income(
    path: _Path,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> _Bunch: ...
def load_law_school(
    path: _Path,
    *,
    features: Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> _Bunch: ...
def make_census(
    n_samples: int = 2458285, *, n_features: int = 25, random_state: _Seed = None
) -> _Bunch: ...
def make_fair_blobs(
    n_samples: int = 1000,
    *,
    n_features: int = 2,
    centers: int | ArrayLike = 3,
    group_shares: ArrayLike | Mapping[Any, float] = (0.7, 0.3),
    skew: float = 0.6,
    cluster_std: float = 1.0,
    center_box: tuple[float, float] = (-10.0, 10.0),
    random_state: _Seed = None,
) -> _Bunch: ...
def make_zafar(
    n_samples: int = 100_000,
    *,
    variant: Literal["features200", "original"] = "features200",
    phi: float = ...,
    shuffle: bool = True,
    random_state: _Seed = None,
) -> _Bunch: ...
