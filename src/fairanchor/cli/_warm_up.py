"""``fairanchor warm-up``: compile all kernels now, so that no fit has to wait for them."""

import time
import warnings
from typing import Any

import click
import numba

from fairanchor._kernels import COMPILATIONS, NUMBA_CACHE
from fairanchor._kernels._compilation import cache_directories
from fairanchor.cli._common import print_result
from fairanchor.cli._small_fits import SMALL_FITS
from fairanchor.cli._terminal import Run, messages_hidden, printable
from fairanchor.tables._wording import counted


def run_warm_up(run: Run) -> None:
    """Run small fits of all methods, and print what was compiled."""
    _check_environment()
    start = time.perf_counter()
    for title, fit in SMALL_FITS.items():
        before, began = COMPILATIONS.count, time.perf_counter()
        # Warnings about these few rows concern nobody, and the lines below are the announcement.
        with run.step(title, title), warnings.catch_warnings(), messages_hidden():
            warnings.simplefilter("ignore")
            fit()
        seconds = time.perf_counter() - began
        run.say(f"{title}: {_compiled(COMPILATIONS.count - before)} in {seconds:.1f} s")
    if not run.quiet:
        compiled, seconds = _compiled(COMPILATIONS.count), time.perf_counter() - start
        places = [f"  {printable(place)}" for place in cache_directories()]
        print_result(f"{compiled} in {seconds:.1f} s; compiled kernels are in", *places)


def _check_environment() -> None:
    """Raise an error where compiled kernels would serve no other process."""
    config: Any = numba.config
    if config.DISABLE_JIT:
        raise click.ClickException(
            "NUMBA_DISABLE_JIT is set: kernels run as plain Python, and none is compiled."
        )
    if not NUMBA_CACHE:
        raise click.ClickException(
            "FAIRANCHOR_NUMBA_CACHE=0 is set: compiled kernels are not kept on disk, and every "
            "process compiles its own."
        )


def _compiled(n_kernels: int) -> str:
    return f"{counted(n_kernels, 'kernel')} compiled" if n_kernels else "nothing to compile"
