"""Data to try fair clustering on: generators, and public tables from disk or downloaded.

Everything here returns a scikit-learn ``Bunch`` with ``data`` (float64, as published:
not standardised; from ``fetch_*`` a DataFrame), ``target``, ``sensitive_features``,
``feature_names``, ``n_clusters`` and ``DESCR``. The sensitive column is never among the
features.
"""

from fairanchor.datasets._blobs import make_fair_blobs
from fairanchor.datasets._census import make_census
from fairanchor.datasets._fetch import (
    fetch_adult,
    fetch_bank_marketing,
    fetch_census1990,
    fetch_credit_card,
    fetch_law_school,
)
from fairanchor.datasets._local import (
    load_bank_marketing,
    load_credit_card,
    load_kdd_census_income,
    load_law_school,
)
from fairanchor.datasets._zafar import make_zafar

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
