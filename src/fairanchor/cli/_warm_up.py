"""``fairanchor warm-up``: compile all kernels now, so that no fit has to wait for them."""

import time
import warnings
from typing import Any

import click

from fairanchor.cli._common import shared
from fairanchor.cli._terminal import Run, messages_hidden, print_result, printable


@click.command(
    "warm-up",
    short_help="Compile the numerical kernels.",
    epilog="Example: fairanchor warm-up",
)
@shared("quiet")
def warm_up(quiet: bool) -> None:
    """Compile all numerical kernels, and keep them on disk.

    fairanchor compiles its kernels when it uses them for the first time on a machine, which can
    take longer than the fit. Run this command when you build a container image, and on every
    machine of a Dask cluster: it runs small fits of all methods, in one to two minutes. If all
    kernels are on disk already, it takes a few seconds.

    Numba keeps compiled code in the directory that the environment variable NUMBA_CACHE_DIR names,
    else in the directory of the package. Processes that cannot write to that directory do not use
    it, and code that was compiled for one type of processor does not serve another.
    """
    _check_environment()
    run = Run(quiet)
    start = time.perf_counter()
    with run.step("import", "Importing"):
        from fairanchor._kernels import COMPILATIONS
        from fairanchor._kernels._compilation import cache_directories
        from fairanchor.cli._small_fits import SMALL_FITS

    for title, fit in SMALL_FITS.items():
        before, began = COMPILATIONS.count, time.perf_counter()
        # Warnings about these few rows concern nobody, and the lines below are the announcement.
        with run.step(title, title), warnings.catch_warnings(), messages_hidden():
            warnings.simplefilter("ignore")
            fit()
        seconds = time.perf_counter() - began
        run.say(f"{title}: {_in_words(COMPILATIONS.count - before)} in {seconds:.1f} s")
    if not quiet:
        compiled, seconds = _in_words(COMPILATIONS.count), time.perf_counter() - start
        places = [f"  {printable(place)}" for place in cache_directories()]
        print_result(f"{compiled} in {seconds:.1f} s; compiled kernels are in", *places)


def _check_environment() -> None:
    """Raise an error where compiled kernels would serve no other process."""
    import numba

    from fairanchor._kernels import NUMBA_CACHE

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


def _in_words(n_compiled: int) -> str:
    if n_compiled == 0:
        return "nothing to compile"
    return f"{n_compiled} {'kernel' if n_compiled == 1 else 'kernels'} compiled"
