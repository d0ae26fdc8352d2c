"""Fits in a process of their own, which is killed at a time limit and held to a memory limit.

The process serves many cells, since starting one costs seconds; it is replaced after it was
killed or has run out of memory. Kernels are compiled in a warm-up, and only then the time counts.
"""

import importlib
import multiprocessing
import os
import time
import warnings

import numpy as np

from fairanchor.reproduction._data import load
from fairanchor.reproduction._measure import estimator, measure_cell, warm_up
from fairanchor.reproduction._methods import memory_estimate

# The parent waits for a warm-up and a pilot that the limit does not count.
PREPARATION_SECONDS = 900.0
PILOT_ROWS = 500
PILOT_SECONDS = 4.0
# Below so many rows a pilot would cost more than the run.
LARGE_ROWS = 8_000


class IsolatedRunner:
    """Run cells in another process, under the limits of the settings."""

    def __init__(self, settings):
        self.settings = settings
        self._process = None
        self._pipe = None

    def run(self, cell, shape):
        """Result of the cell, as `measure_cell`, or a status that says why there is none.

        Parameters
        ----------
        cell : Cell
        shape : Shape
            Of the cell's dataset.

        Returns
        -------
        result : dict
            ``status`` can also be "time limit", "memory limit", "not run" (by an estimate) or
            "died".
        """
        refused = over_memory(cell, shape, self.settings)
        if refused is not None:
            return refused
        if self._process is None:
            self._start()
        try:
            self._pipe.send(cell)
            result = self._wait(cell)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            message = f"the process ended with exit code {self._process.exitcode}"
            self.stop()
            return {"status": "died", "message": message, "rows": shape.n_rows}
        if result["status"] == "memory limit":
            self.stop()
        return result

    def stop(self):
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def _start(self):
        # Not fork: threads and locks of this process would be copied. Not a daemon: scikit-learn
        # would then use one thread.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.settings))
        self._process.start()
        theirs.close()

    def _wait(self, cell):
        if not self._pipe.poll(PREPARATION_SECONDS):
            self.stop()
            return {
                "status": "time limit",
                "message": f"still preparing after {PREPARATION_SECONDS:g} s",
            }
        message = self._pipe.recv()
        if message != "started":
            return message
        limit = self.settings.time_limit
        if not self._pipe.poll(limit):
            self.stop()
            return {
                "status": "time limit",
                "seconds": limit,
                "message": f"killed after {limit:g} s",
            }
        return self._pipe.recv()


def over_memory(cell, shape, settings):
    """The result of a cell that would not fit in memory by its own arithmetic, or None."""
    if cell.where != "alone":
        return None
    needed = memory_estimate(cell.method, shape.group_sizes) / 2**30
    if needed <= settings.memory_limit:
        return None
    return {
        "status": "not run",
        "message": f"needs about {needed:,.1f} GB, the limit is {settings.memory_limit:g} GB",
        "estimated_gb": needed,
        "rows": shape.n_rows,
    }


def _serve(pipe, settings):
    """The process: cells in, "started" and a result out, until nobody asks any more."""
    # The limit is for the work: libraries are loaded before it counts.
    importlib.import_module("fairanchor._anchor_clustering")
    _limit_memory(settings.memory_limit)
    while True:
        try:
            cell = pipe.recv()
            pipe.send(_within_memory(cell, settings, pipe))
        except (EOFError, BrokenPipeError):
            return


def _within_memory(cell, settings, pipe):
    try:
        return _served(cell, settings, pipe)
    except MemoryError:
        message = f"needs more than {settings.memory_limit:g} GB"
        return {"status": "memory limit", "message": message}


def _served(cell, settings, pipe):
    n_jobs = os.cpu_count() or 1
    warm_up(cell, settings, n_jobs)
    if may_take_hours(cell):
        seconds = pilot_estimate(cell, settings, n_jobs)
        if seconds is not None and seconds > settings.patience:
            return {
                "status": "not run",
                "message": f"would take about {readable(seconds)} by a pilot on fewer rows, more "
                f"than {_what_is_waited_for(settings)}",
                "estimated_seconds": seconds,
            }
    pipe.send("started")
    return measure_cell(cell, settings, n_jobs)


def _what_is_waited_for(settings):
    if settings.patience < settings.time_limit:
        return f"the {settings.patience:g} s that were waited for (--patience)"
    return f"the limit of {settings.time_limit:g} s"


def may_take_hours(cell):
    """Whether it is worth a pilot: a method alone, or the paper's solver."""
    return cell.where == "alone" or cell.block == "faithful"


def pilot_estimate(cell, settings, n_jobs=1):
    """Seconds that a fit would take, from fits on ever more rows with one thread.

    The exponent is fitted to the last three, and kept between 1 and 3. The framework is expected
    to share its work evenly among ``n_jobs`` threads, so that nothing is left out that might end
    in time; a method alone uses one.

    Returns
    -------
    seconds : float or None
        None for a dataset so small that the run itself is a pilot.
    """
    data = load(cell.dataset, settings.data_dir, settings.max_rows)
    if len(data.X) < LARGE_ROWS:
        return None
    sizes, times = [], []
    n_rows = PILOT_ROWS
    while n_rows <= len(data.X) // 2 and (len(times) < 3 or times[-1] < PILOT_SECONDS):
        sizes.append(n_rows)
        times.append(_seconds_of(cell, data.sample(n_rows), settings.seed))
        n_rows *= 2
    slope = np.polyfit(np.log(sizes[-3:]), np.log(times[-3:]), 1)[0]
    one_thread = times[-1] * (len(data.X) / sizes[-1]) ** np.clip(slope, 1.0, 3.0)
    return float(one_thread / (n_jobs if cell.where == "framework" else 1))


def _seconds_of(cell, data, seed):
    """Processor time, which does not count what other processes take."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            model = estimator(cell, data, seed, n_jobs=1)
            model.fit(data.X, sensitive_features=data.groups)
        except ValueError:
            return 1e-3  # the real fit will say why
        return max(time.process_time() - start, 1e-3)


def readable(seconds):
    """A duration in the unit that people would use."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _limit_memory(gigabytes):
    """Limit what the process may allocate from now on, where the system can."""
    try:
        import resource
    except ImportError:
        warnings.warn(
            "This system cannot limit the memory of a process: only estimates heed --memory-limit.",
            stacklevel=2,
        )
        return
    held = 0
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as file:
            held = int(file.read().split()[0]) * resource.getpagesize()
    limit = held + int(gigabytes * 2**30)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
