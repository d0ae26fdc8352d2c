"""Data to try fair clustering on: generators, and loaders of public tables kept on disk.

Everything here returns a scikit-learn ``Bunch`` with ``data`` (float64, as published:
not standardised), ``target``, ``sensitive_features``, ``feature_names``, ``n_clusters``
and ``DESCR``. The sensitive column is never among the features.
"""

from fairanchor.datasets._blobs import make_fair_blobs
from fairanchor.datasets._local import (
    load_bank_marketing,
    load_credit_card,
    load_kdd_census_income,
    load_law_school,
)
from fairanchor.datasets._zafar import make_zafar

__all__ = [
    "load_bank_marketing",
    "load_credit_card",
    "load_kdd_census_income",
    "load_law_school",
    "make_fair_blobs",
    "make_zafar",
]
