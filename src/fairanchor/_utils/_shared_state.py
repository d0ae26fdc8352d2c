"""Settings of the whole process that several fits in several threads need at the same time.

The number of BLAS threads and the filters of warnings belong to the process, not to a thread. A
context that saves and restores them is right for one thread only: of two that overlap, the second
saves what the first has set, and restores that for good. So threads hold a setting together: the
first sets it, the last restores what was there.
"""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, wraps
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from fairanchor.exceptions import FairnessWarning


def users_stacklevel() -> int:
    """The ``stacklevel`` of a warning that points to the first caller outside the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("fairanchor", "sklearn"):
            break
        frame, level = frame.f_back, level + 1
    return level


def warn_unfair(message: str) -> None:
    """Warn about fairness, at the line of the user."""
    warnings.warn(message, FairnessWarning, stacklevel=users_stacklevel())


def warn_unconverged(message: str) -> None:
    """Warn about convergence, at the line of the user."""
    warnings.warn(message, ConvergenceWarning, stacklevel=users_stacklevel())


class SharedContext:
    """A context that is entered by its first holder and left by its last, in any thread.

    ``make_context`` returns the context manager that changes the process.
    """

    def __init__(self, make_context: Callable[[], AbstractContextManager]) -> None:
        self._make_context = make_context
        self._undo: ExitStack | None = None
        self._holders: dict[object, int] = {}
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_other_threads)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the setting for the duration of a block."""
        holder = object()
        with self._lock:
            if self._undo is None:
                with ExitStack() as stack:
                    stack.enter_context(self._make_context())
                    self._undo = stack.pop_all()
            self._holders[holder] = threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                del self._holders[holder]
                if not self._holders and self._undo is not None:
                    undo, self._undo = self._undo, None
                    undo.close()

    def _forget_other_threads(self) -> None:
        """In a forked child only the forking thread continues.

        The next holder that leaves restores the setting: no library may be called here, while the
        process is being copied.
        """
        this = threading.get_ident()
        self._lock = threading.Lock()
        self._holders = {key: thread for key, thread in self._holders.items() if thread == this}


@cache
def _thread_pools() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, more than a sweep over a small table.
    return ThreadpoolController()


@contextmanager
def _ignoring(category: type[Warning], message: str = "") -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message, category)
        yield


one_blas_thread = SharedContext(lambda: _thread_pools().limit(limits=1, user_api="blas"))
#: Without warnings about the composition of clusters that are only an intermediate result.
fairness_warnings_ignored = SharedContext(lambda: _ignoring(FairnessWarning))
#: Without scikit-learn's warning that k-means found fewer clusters than it was asked for.
equal_centers_allowed = SharedContext(
    lambda: _ignoring(ConvergenceWarning, "Number of distinct clusters")
)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of BLAS and of OpenMP: the last bits of a sum depend on how many share it.

    OpenMP keeps its number for each thread of Python, so that no other fit can meddle with it.
    """
    with one_blas_thread(), _thread_pools().limit(limits=1, user_api="openmp"):
        yield


def with_one_blas_thread(method: Callable) -> Callable:
    """Run a method with one BLAS thread: idle ones would wait busily and take a core from ours."""

    @wraps(method)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with one_blas_thread():
            return method(*args, **kwargs)

    return limited
