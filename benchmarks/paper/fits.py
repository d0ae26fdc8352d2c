"""Fits and what is measured on them: several at a time, or timed in a process of their own.

Every finished cell is a JSON file, so that an interrupted run continues where it stopped.
"""

import hashlib
import json
import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import fairanchor
from cells import DENSE, first_cells, second_cells
from data import load
from fairanchor import (
    AnchorFairClustering,
    FairSpectralClustering,
    ReconstructionGraph,
    metrics,
)
from fairanchor.cluster._on_anchors import CLUSTERERS
from fairanchor.graph import SoftLabels

# The faithful block without a grid: the paper's largest grid point, the middle of its alphas.
FAITHFUL_PER_GROUP = 20
FAITHFUL_ALPHA = 1.0
WARM_UP_ROWS = 300
# The parent waits for a warm-up and a pilot that the limit does not count.
PREPARATION_SECONDS = 900.0
PILOT_ROWS = 500
PILOT_SECONDS = 4.0
# Below so many rows a pilot would cost more than the fit.
LARGE_ROWS = 8_000
# Peak bytes per pair of rows, measured at 4,000 and 10,000 rows (672 MB and 4.2 GB).
DENSE_BYTES_PER_PAIR = 42
# One distance for every pair of a row of the smallest group and one of another group.
FAIRLET_BYTES_PER_PAIR = 8


@dataclass(frozen=True)
class Outcome:
    """Shapes by dataset, and results by cell."""

    shapes: dict
    results: dict


def run(request, settings, folder, shapes, *, recompute=False, progress):
    """Measure the cells that are missing in the folder, and return all results.

    ``progress(title, n_cells)`` is a context manager that gives a function to call with every
    finished cell and its result.
    """
    results = {}

    def measure(title, cells):
        missing = []
        for cell in dict.fromkeys(cells):
            result = None if recompute else kept_result(folder, cell, shapes, settings)
            if result is not None:
                results[cell] = result
            elif cell not in results:
                missing.append(cell)
        with progress(title, len(missing)) as advance:
            for cell, result in measured(missing, settings, shapes):
                keep_result(folder, cell, shapes, settings, result)
                results[cell] = result
                advance(cell, result)

    measure("grids", first_cells(request, shapes, settings))
    measure("choices", second_cells(request, shapes, settings, results))
    return Outcome(shapes, results)


def kept_result(folder, cell, shapes, settings):
    """The result of a cell that an earlier run has measured, or None."""
    path = cell_path(folder, cell, shapes, settings)
    return json.loads(path.read_text())["result"] if path.exists() else None


def keep_result(folder, cell, shapes, settings, result):
    path = cell_path(folder, cell, shapes, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"cell": asdict(cell), "result": result}, indent=1) + "\n")
    partial.replace(path)


def cell_path(folder, cell, shapes, settings):
    """The file of a cell; other data, settings or code give another name."""
    content = [asdict(cell), shapes[cell.dataset].digest, settings.seed, source_digest()]
    if cell.timed:
        content += [settings.time_limit, settings.patience, settings.memory_limit]
    name = hashlib.blake2b(json.dumps(content).encode(), digest_size=10).hexdigest()
    return Path(folder) / f"{cell.dataset}-{cell.method}-{cell.block}-{name}.json"


@cache
def source_digest():
    """Digest of the code that a measurement can depend on; the data have their own."""
    package = Path(fairanchor.__file__).parent
    digest = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=8)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in ("cli", "datasets", "report"):
            digest.update(f"{name.as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def measured(cells, settings, shapes):
    """Pairs of cell and result: first those that share the cores, then the timed ones."""
    together = [cell for cell in cells if not cell.timed]
    jobs = min(settings.jobs, len(together))
    if jobs <= 1:
        yield from ((cell, measure_cell(cell, settings)) for cell in together)
    else:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, context, initializer=_one_thread)
        try:
            futures = {pool.submit(measure_cell, cell, settings): cell for cell in together}
            yield from ((futures[future], future.result()) for future in as_completed(futures))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    with IsolatedRunner(settings) as runner:
        for cell in cells:
            if cell.timed:
                yield cell, runner.run(cell, shapes[cell.dataset])


def _one_thread():
    """Several processes share the cores: none of them may use all."""
    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


# One fit in this process.


def measure_cell(cell, settings, n_jobs=1):
    """Fit a cell and measure it; ``status`` is "done", or "refused" with a ``message``."""
    data = load(cell.dataset, settings.data_dir, settings.max_rows).sample(cell.rows)
    model = estimator(cell, data, settings.seed, n_jobs)
    result = {"status": "done", "rows": len(data.X)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(data.X, sensitive_features=data.groups)
        except ValueError as error:
            return result | {"status": "refused", "message": str(error)}
        result["seconds"] = time.perf_counter() - start
        result |= scores(model.labels_, data)
        if cell.where == "framework":
            result |= graph_facts(model)
        if cell.history:
            result["history"] = model.history_
        if cell.unconstrained:
            result["without_constraint"] = scores(unconstrained_labels(model, data), data)
    return result | {"warnings": sorted({f"{w.category.__name__}: {w.message}" for w in caught})}


def estimator(cell, data, seed, n_jobs):
    """The estimator of a cell."""
    if cell.where == "alone":
        if cell.method == DENSE:
            model = FairSpectralClustering(affinity="rbf", eigen_solver="dense")
        else:
            model = CLUSTERERS[cell.method]()
        return model.set_params(n_clusters=data.n_clusters, random_state=seed)
    given = {"clusterer": cell.method, "random_state": seed, "n_jobs": n_jobs}
    given |= {
        name: getattr(cell, name)
        for name in ("anchors", "fairness")
        if getattr(cell, name) is not None
    }
    per_group, make = cell.per_group, AnchorFairClustering
    if cell.block == "faithful":
        make = AnchorFairClustering.as_in_paper
        per_group = FAITHFUL_PER_GROUP if per_group is None else per_group
        given["graph"] = ReconstructionGraph(
            alpha=FAITHFUL_ALPHA if cell.alpha is None else cell.alpha,
            solver=cell.solver or "admm",
        )
        if given.get("anchors") == "fdas":
            del given["anchors"]  # the paper's own, without weights
        elif "anchors" in given:
            given["clusterer"] = partial(_unweighted, cell.method)
    if per_group is not None:
        given["n_anchors"] = min(per_group * data.n_groups, len(data.X))
    return make(data.n_clusters, **given)


def _unweighted(method, anchors, sensitive_features, n_clusters, *, sample_weight, random_state):
    """Labels of anchors that all count alike, as in the paper."""
    model = CLUSTERERS[method]().set_params(n_clusters=n_clusters, random_state=random_state)
    return model.fit(anchors, sensitive_features=sensitive_features).labels_


def scores(labels, data):
    """The paper's four measures, and some of ours."""
    groups = {"sensitive_features": data.groups}
    return {
        "acc": metrics.clustering_accuracy_score(data.target, labels),
        "nmi": metrics.nmi_score(data.target, labels),
        "balance": metrics.balance_score(labels, **groups),
        "mnce": metrics.mnce_score(labels, **groups),
        "relative_balance": metrics.relative_balance_score(labels, **groups),
        "cost": metrics.clustering_cost(data.X, labels) / len(labels),
        "clusters_found": len(np.unique(labels)),
        "dataset_balance": metrics.dataset_balance(data.groups),
    }


def graph_facts(model):
    """The targets, how near the labels came and, in the paper's graph, how near its soft mass."""
    group_sizes = model.counts_.sum(axis=0)
    facts = {
        "n_anchors": len(model.anchors_),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "target_balance": metrics.balance_of_table(model.targets_),
        # The largest difference between the rows that targets demand of a group and its size.
        "infeasible_by": float(np.abs(model.targets_.sum(axis=0) - group_sizes).max()),
        "worst_violation": float(model.worst_violation_),
    }
    if isinstance(model.graph, ReconstructionGraph):
        facts |= {"alpha": float(model.graph.alpha), "mass_error": float(model.mass_error_)}
    return facts


def unconstrained_labels(model, data):
    """Labels of the same anchors with all prices at zero: the ablation of the constraint."""
    rows, _ = model._new_rows(data.X, data.groups)
    scorer = model._costs
    if isinstance(scorer, SoftLabels):
        zero = np.zeros_like(scorer.multipliers)
        scorer = replace(scorer, multipliers=zero, allowed_cells=np.ones(zero.shape, dtype=bool))
    return rows.map_to_table(scorer.write, scorer.n_clusters).argmin(axis=1)


# Timed fits.


class IsolatedRunner:
    """Run cells in another process, which is killed at the time limit.

    The process serves many cells, since starting one costs seconds. It is replaced after it was
    killed or has run out of memory.
    """

    def __init__(self, settings):
        self.settings = settings
        self._process = None
        self._pipe = None

    def run(self, cell, shape):
        """The result of the cell, or a status that says why there is none.

        The status can be "time limit", "memory limit", "not run" (by an estimate) or "died".
        """
        needed = memory_estimate(cell, shape.group_sizes) / 2**30
        if needed > self.settings.memory_limit:
            limit = f"the limit is {self.settings.memory_limit:g} GB"
            return {"status": "not run", "message": f"needs about {needed:,.1f} GB, {limit}"}
        if self._process is None:
            self._start()
        try:
            self._pipe.send(cell)
            result = self._wait()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            result = {"status": "died", "message": f"the process ended with exit code {code}"}
        if result["status"] in ("died", "time limit", "memory limit"):
            self._stop()
        return result

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._stop()

    def _start(self):
        # Not fork: threads and locks of this process would be copied. Not a daemon: scikit-learn
        # would then use one thread.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.settings))
        self._process.start()
        theirs.close()

    def _stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None

    def _wait(self):
        if not self._pipe.poll(PREPARATION_SECONDS):
            message = f"still preparing after {PREPARATION_SECONDS:g} s"
            return {"status": "time limit", "message": message}
        message = self._pipe.recv()
        if message != "started":
            return message
        limit = self.settings.time_limit
        if not self._pipe.poll(limit):
            return {"status": "time limit", "message": f"killed after {limit:g} s"}
        return self._pipe.recv()


def memory_estimate(cell, group_sizes):
    """Bytes of a method alone, where they grow with pairs of rows; otherwise 0."""
    n_rows, smallest = sum(group_sizes), min(group_sizes)
    if cell.method == DENSE:
        return DENSE_BYTES_PER_PAIR * n_rows**2
    if cell.method == "fairlets" and cell.where == "alone":
        return FAIRLET_BYTES_PER_PAIR * smallest * (n_rows - smallest)
    return 0


def _serve(pipe, settings):
    """The process: cells in, "started" and a result out, until the parent closes the pipe."""
    _limit_memory(settings.memory_limit)
    while True:
        try:
            cell = pipe.recv()
            try:
                result = _timed(cell, settings, pipe)
            except MemoryError:
                message = f"needs more than {settings.memory_limit:g} GB"
                result = {"status": "memory limit", "message": message}
            pipe.send(result)
        except (EOFError, BrokenPipeError):
            return


def _timed(cell, settings, pipe):
    n_jobs = os.cpu_count() or 1
    data = load(cell.dataset, settings.data_dir, settings.max_rows)
    # Compile the kernels before the time counts.
    small = data.sample(min(WARM_UP_ROWS, max(len(data.X) // 4, 60)))
    _seconds_of(cell, small, settings.seed, n_jobs)
    if (cell.where == "alone" or cell.block == "faithful") and len(data.X) >= LARGE_ROWS:
        seconds = pilot_estimate(cell, data, settings.seed, n_jobs)
        if seconds > settings.patience:
            return {
                "status": "not run",
                "message": f"would take about {readable(seconds)} by a pilot on fewer rows, more "
                f"than {settings.patience:g} s (--patience)",
            }
    pipe.send("started")
    return measure_cell(cell, settings, n_jobs)


def pilot_estimate(cell, data, seed, n_jobs):
    """Seconds of a fit, extrapolated from fits of more and more rows with one thread.

    The exponent is fitted to the last three, and kept between 1 and 3. The framework is expected
    to share its work evenly among the threads, so that nothing is left out that might end in
    time; a method alone uses one.
    """
    sizes, times = [], []
    n_rows = PILOT_ROWS
    while n_rows <= len(data.X) // 2 and (len(times) < 3 or times[-1] < PILOT_SECONDS):
        sizes.append(n_rows)
        times.append(_seconds_of(cell, data.sample(n_rows), seed, n_jobs=1))
        n_rows *= 2
    slope = np.polyfit(np.log(sizes[-3:]), np.log(times[-3:]), 1)[0]
    one_thread = times[-1] * (len(data.X) / sizes[-1]) ** np.clip(slope, 1.0, 3.0)
    return float(one_thread / (n_jobs if cell.where == "framework" else 1))


def _seconds_of(cell, data, seed, n_jobs):
    """Processor time, which does not count what other processes take."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            estimator(cell, data, seed, n_jobs).fit(data.X, sensitive_features=data.groups)
        except ValueError:
            return 1e-3  # the real fit will say why
        return max(time.process_time() - start, 1e-3)


def readable(seconds):
    """A duration in a suitable unit."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _limit_memory(gigabytes):
    """Limit what the process may allocate from now on, where the system can."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, FileNotFoundError):
        return
    limit = pages * resource.getpagesize() + int(gigabytes * 2**30)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
