"""Numba kernels: arrays in, arrays out, one block of rows per call, no Python objects.

No checks, no randomness, no threads: callers in the other folders see to these. A kernel that
writes into an argument says so.
"""

import os

#: Compiled kernels are kept on disk between runs, unless the installation is read-only
#: and ``FAIRANCHOR_NUMBA_CACHE=0`` says so.
NUMBA_CACHE = os.environ.get("FAIRANCHOR_NUMBA_CACHE", "1") != "0"

#: Fast-math flags for inner loops: sums may be taken in another order and products fused, so
#: that they fill vector registers. The order is fixed when the kernel is compiled, so results
#: do not depend on threads; infinities and NaN keep their meaning.
REASSOCIATE = {"reassoc", "contract", "nsz"}
