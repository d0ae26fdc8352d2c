"""Compiling kernels is announced once per process, on standard error unless users configure it."""

import os
import subprocess
import sys

import pytest

ANNOUNCEMENT = "fairanchor: compiling numerical kernels; this happens once per machine and takes"
# A clusterer with few kernels, which compile in seconds.
FIT = """
import numpy as np
from fairanchor import OneStageFairSpectralClustering

def fit(seed=0):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    model = OneStageFairSpectralClustering(2, random_state=0)
    model.fit(X, sensitive_features=np.arange(60) % 2)
"""


def run(code, cache, **environment):
    """Run code in a process of its own; its standard output and standard error."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | environment
    command = [sys.executable, "-W", "ignore", "-c", FIT + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory):
    """A cache with the kernels of `fit`."""
    cache = tmp_path_factory.mktemp("warm")
    run("fit()", cache)
    return cache


@pytest.mark.slow
def test_compilation_is_announced_once_with_an_empty_cache(tmp_path):
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(fit, range(4)))
fit()
"""
    out, err = run(code, tmp_path / "threads")
    assert out == ""
    assert err.startswith(ANNOUNCEMENT)
    assert len(err.splitlines()) == 1
    assert run(code, tmp_path / "threads") == ("", "")


OWN_FUNCTION = """
from numba import njit

@njit
def own(x):
    return x + 1

own(1)
fit()
own(1.0)
"""


@pytest.mark.slow
def test_functions_of_users_are_not_announced(warm_cache):
    assert run(OWN_FUNCTION, warm_cache) == ("", "")
    lookalike = OWN_FUNCTION.replace("@njit", "").replace(
        "own(1)\n", "own.__module__ = 'fairanchors.kernels'; own = njit(own)\nown(1)\n"
    )
    assert run(lookalike, warm_cache) == ("", "")


# What users do before the first fit, and what is then on standard output and standard error.
CONFIGURED = {
    "silenced": ("logging.getLogger('fairanchor').setLevel(logging.WARNING)", "", ""),
    "all silenced": ("logging.disable(logging.INFO)", "", ""),
    "filtered": ("logging.getLogger('fairanchor').addFilter(lambda record: False)", "", ""),
    "warnings only": ("logging.basicConfig()", "", ""),
    "all messages": (
        "logging.basicConfig(level=logging.INFO, stream=sys.stdout)", "INFO:fairanchor:compil", "",
    ),
    "own handler": (
        "logger = logging.getLogger('fairanchor'); logger.setLevel(logging.INFO); "
        "logger.addHandler(logging.StreamHandler(sys.stdout))", "compiling", "",
    ),
    "another's handler": (
        "logging.getLogger('other').addHandler(logging.StreamHandler(sys.stdout))",
        "", ANNOUNCEMENT,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CONFIGURED)
def test_standard_logging_decides_where_it_is_configured(case, tmp_path):
    configure, *expected = CONFIGURED[case]
    found = run(f"import logging, sys; {configure}\nfit()", tmp_path)
    for text, beginning in zip(found, expected, strict=True):
        assert text.startswith(beginning)
        assert len(text.splitlines()) == bool(beginning)


@pytest.mark.slow
def test_without_a_cache_every_process_announces(warm_cache):
    for _ in range(2):
        _, err = run("fit()", warm_cache, FAIRANCHOR_NUMBA_CACHE="0")
        assert "in every process, because FAIRANCHOR_NUMBA_CACHE=0" in err
        assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_interpreted_kernels_announce_nothing(tmp_path):
    assert run("fit()", tmp_path, NUMBA_DISABLE_JIT="1") == ("", "")
