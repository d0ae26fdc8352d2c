"""All cells of a request: from the store if they are there, measured otherwise."""

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

from fairanchor.reproduction._data import load, shape_of
from fairanchor.reproduction._isolated import IsolatedRunner
from fairanchor.reproduction._measure import measure_cell
from fairanchor.reproduction._plan import estimated_seconds, first_cells, second_cells


@dataclass(frozen=True)
class Outcome:
    """Everything that tables and figures are made of.

    Attributes
    ----------
    shapes : dict from dataset to Shape
    results : dict from Cell to dict
    """

    shapes: dict
    results: dict


class Silent:
    """Progress that nobody watches; also the interface that others follow."""

    def begin(self, title, total):
        """So many cells are about to be measured."""

    def advance(self, cell, result):
        """One of them is."""

    def end(self):
        """All of them are."""


def shapes_of(request, settings):
    """Sizes and digests of the requested datasets; each is loaded once."""
    shapes = {}
    for name in request.datasets:
        shapes[name] = shape_of(load(name, settings.data_dir, settings.max_rows))
    return shapes


def run(request, settings, store, shapes, progress=None):
    """Measure what is missing and return all results.

    Parameters
    ----------
    request : Request
    settings : Settings
    store : CellStore
    shapes : dict from dataset to Shape
    progress : Silent or None

    Returns
    -------
    outcome : Outcome
    """
    progress = Silent() if progress is None else progress
    results = {}
    first = first_cells(request, shapes, settings)
    _measure_all("grids", first, settings, store, shapes, results, progress)
    second = second_cells(request, shapes, settings, results)
    _measure_all("choices", second, settings, store, shapes, results, progress)
    return Outcome(shapes, results)


def plan(request, settings, store, shapes):
    """Every cell that is known in advance, whether it is done, and its estimate.

    Cells that depend on the outcome of the grids are not known in advance; there are at most nine
    for every dataset and method.

    Returns
    -------
    lines : list of (Cell, bool, float or None)
        The cell, whether it is kept already, and its seconds on one core.
    """
    return [
        (
            cell,
            store.get(cell, shapes[cell.dataset]) is not None,
            estimated_seconds(cell, shapes[cell.dataset], settings),
        )
        for cell in first_cells(request, shapes, settings)
    ]


def _measure_all(title, cells, settings, store, shapes, results, progress):
    missing = []
    for cell in dict.fromkeys(cells):
        kept = store.get(cell, shapes[cell.dataset])
        if kept is None:
            missing.append(cell)
        else:
            results[cell] = kept

    def keep(cell, result):
        store.put(cell, shapes[cell.dataset], result)
        results[cell] = result
        progress.advance(cell, result)

    progress.begin(title, len(missing))
    _measure_together([cell for cell in missing if not cell.timed], settings, keep)
    _measure_timed([cell for cell in missing if cell.timed], settings, shapes, keep)
    progress.end()


def _measure_together(cells, settings, keep):
    """Cells whose time does not matter, several at once."""
    jobs = min(settings.jobs, len(cells))
    if jobs <= 1:
        for cell in cells:
            keep(cell, measure_cell(cell, settings))
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        futures = {pool.submit(measure_cell, cell, settings): cell for cell in cells}
        for future in as_completed(futures):
            keep(futures[future], future.result())
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A process of the run has died, most likely for want of memory. Finished cells are "
            "kept: run the same command again, with a smaller --jobs."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _measure_timed(cells, settings, shapes, keep):
    """Cells whose time matters, one after the other with nothing else running."""
    with IsolatedRunner(settings) as runner:
        for cell in cells:
            keep(cell, runner.run(cell, shapes[cell.dataset]))


def _one_thread():
    """Several processes share the cores: none of them may use all."""
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)
