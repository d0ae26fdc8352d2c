"""Data to try fair clustering on: generators, and public tables from disk or downloaded.

Every function returns a scikit-learn ``Bunch`` with ``data`` (float64, as published: not
standardised), ``target``, ``sensitive_features``, ``feature_names``, ``n_clusters`` and ``DESCR``.
The sensitive column is never among the features.
"""

from fairanchor.datasets._generators import make_census, make_fair_blobs, make_zafar
from fairanchor.datasets._public import (
    fetch_adult,
    fetch_bank_marketing,
    fetch_census1990,
    fetch_credit_card,
    fetch_law_school,
    load_bank_marketing,
    load_credit_card,
    load_kdd_census_income,
    load_law_school,
)

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
