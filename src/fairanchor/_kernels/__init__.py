"""Numba kernels: arrays in, arrays out, one block of rows per call, no Python objects.

No checks, no randomness, no threads: callers in the other directories provide these. A kernel that
writes into an argument says so.
"""

import os
from typing import Any

from numba.core import event

from fairanchor._kernels._compilation import KernelCompilations

#: Compiled kernels are kept on disk between runs, unless the installation is read-only
#: and ``FAIRANCHOR_NUMBA_CACHE=0`` says so.
NUMBA_CACHE = os.environ.get("FAIRANCHOR_NUMBA_CACHE", "1") != "0"

#: Fast-math flags for inner loops: sums may be taken in another order and products fused, so
#: that they fill vector registers. The order is fixed when the kernel is compiled, so results
#: do not depend on threads; infinities and NaN keep their meaning.
REASSOCIATE: set[str] = {"reassoc", "contract", "nsz"}

#: Compilations of kernels in this process, of which the first is announced.
COMPILATIONS = KernelCompilations(
    "compiling numerical kernels; this happens once per machine and takes about 10 seconds."
    if NUMBA_CACHE
    else "compiling numerical kernels; this takes about 10 seconds in every process, because "
    "FAIRANCHOR_NUMBA_CACHE=0 turns the cache off."
)
event.register("numba:compile", COMPILATIONS)

#: Options of kernels that are compiled in the first fit, which should not take long: no checks for
#: division by zero, no entry from C, and none from Python for those that only kernels call.
LEAN: dict[str, Any] = {
    "nogil": True,
    "cache": NUMBA_CACHE,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
INNER: dict[str, Any] = LEAN | {"no_cpython_wrapper": True}
