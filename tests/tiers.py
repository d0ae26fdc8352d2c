"""Which cases of a parametrised test are in the fast tier."""

import pytest


def first_is_fast(cases, n_fast=1):
    """The cases; all but the first ones are marked slow."""
    cases = list(cases)
    return cases[:n_fast] + [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases[n_fast:]
    ]
