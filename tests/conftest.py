"""Settings and fixtures of the whole suite: hypothesis profiles, and the public tables."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.preprocessing import StandardScaler

from fairanchor import datasets
from fairanchor.groups._groups import check_groups

# Examples per property: few for the fast tier, many for `make test-all`, which sets the variable.
settings.register_profile("dev", max_examples=8, deadline=None)
settings.register_profile("ci", max_examples=60, deadline=None)
settings.load_profile(os.environ.get("FAIRANCHOR_HYPOTHESIS", "dev"))


@dataclass(frozen=True)
class RealData:
    """A public table, ready to be clustered.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features), float64
        Standardised columns.
    sensitive_features, target : ndarray of shape (n_rows,)
        As published.
    codes : ndarray of shape (n_rows,), int64
        Canonical group codes, largest group first.
    group_sizes : ndarray of shape (n_groups,), int64
        Number of rows of each code.
    n_clusters : int
        Number of classes in ``target``.
    """

    X: np.ndarray
    sensitive_features: np.ndarray
    target: np.ndarray
    codes: np.ndarray
    group_sizes: np.ndarray
    n_clusters: int


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the public tables: FAIRANCHOR_DATA, or shared/data beside the repository."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FAIRANCHOR_DATA", default))
    if not folder.is_dir():
        pytest.skip(
            "the public tables are not here: set FAIRANCHOR_DATA to a folder with "
            "law_school.parquet, credit_card.parquet, bank_marketing.parquet and "
            "kdd_census_income.parquet"
        )
    return folder


@pytest.fixture(scope="session")
def law_school(data_dir):
    """18,692 rows, 10 features, 2 groups, 2 clusters."""
    return _standardised(datasets.load_law_school(data_dir))


@pytest.fixture(scope="session")
def credit_card(data_dir):
    """29,537 rows, 22 features, 2 groups, 5 clusters."""
    return _standardised(datasets.load_credit_card(data_dir))


@pytest.fixture(scope="session")
def bank_marketing(data_dir):
    """41,108 rows, 10 features, 3 groups, 2 clusters."""
    return _standardised(datasets.load_bank_marketing(data_dir))


@pytest.fixture(scope="session")
def kdd_census(data_dir):
    """299,285 rows, 7 features, 5 groups (race), 2 clusters."""
    return _standardised(datasets.load_kdd_census_income(data_dir, sensitive="race"))


def _standardised(bunch):
    groups = check_groups(bunch.sensitive_features, len(bunch.data))
    return RealData(
        X=StandardScaler().fit_transform(bunch.data),
        sensitive_features=bunch.sensitive_features,
        target=bunch.target,
        codes=groups.codes,
        group_sizes=groups.sizes,
        n_clusters=bunch.n_clusters,
    )
