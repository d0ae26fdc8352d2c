"""Announce that kernels are compiled: without a word, the first fit on a machine seems to hang.

Numba reports every compilation, and nothing where it loads compiled code from its cache. Functions
of users and of other libraries are not announced.
"""

import logging
import sys

from numba.core import event
from numba.core.dispatcher import Dispatcher

PACKAGE = __name__.partition(".")[0]
logger = logging.getLogger(PACKAGE)


class KernelCompilations(event.Listener):
    """Counts the compilations of this package's kernels, and announces the first one.

    Numba holds its compiler lock during the calls, so threads take turns.

    Parameters
    ----------
    message : str
        The announcement.
    """

    def __init__(self, message):
        self.message = message
        self.count = 0

    def on_start(self, compilation):
        """Count a kernel that Numba is about to compile."""
        if _is_ours(compilation.data["dispatcher"].py_func.__module__):
            self.count += 1
            if self.count == 1:
                announce(self.message)

    def on_end(self, compilation):
        """Nothing: a compilation was counted when it began."""


def announce(message):
    """Log a message at level INFO; on standard error, if the user has not configured logging.

    Where any handler would receive it, Python's usual rules apply. Without one Python drops it, and
    it is printed instead, unless the level of the package's logger is above INFO.
    """
    if logger.hasHandlers():
        logger.info(message)
        return
    disabled = logger.disabled or logger.manager.disable >= logging.INFO
    if disabled or logger.level > logging.INFO:
        return
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, message, (), None)
    if logger.filter(record):
        handler = logging.StreamHandler()  # standard error as it is now
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        handler.handle(record)


def cache_directories():
    """Where Numba keeps the compiled kernels of all modules that are imported."""
    modules = [module for name, module in sys.modules.copy().items() if _is_ours(name)]
    kernels = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    ]
    return sorted({kernel.stats.cache_path for kernel in kernels} - {None})


def _is_ours(module):
    return str(module).partition(".")[0] == PACKAGE
