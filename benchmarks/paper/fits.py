"""One fit: its estimator, what is measured on it, and a process that can be ended at a time limit.

A finished fit is one line of ``results/fits.csv``, so that an interrupted run continues.
"""

import csv
import multiprocessing
import resource
import time
import warnings
from dataclasses import asdict, astuple, dataclass, fields
from functools import partial

import numpy as np

from data import load, scores
from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairnessFirstClustering,
    FairSpectralClustering,
    LocalGraph,
    OneStageFairSpectralClustering,
    ReconstructionGraph,
    VariationalFairClustering,
)
from fairanchor.cluster._on_anchors import CLUSTERERS
from fairanchor.graph import ADMMSolver

# The faithful block without a grid: the paper's largest number of anchors, and an alpha inside.
FAITHFUL_PER_GROUP, FAITHFUL_ALPHA = 20, 1.0
WARM_UP_ROWS = 300
# Loading a table, compiling kernels and starting a process do not count.
PREPARATION_SECONDS = 900.0
# Peak bytes per pair of rows of the dense eigenproblem, measured at 4,000 and 10,000 rows.
DENSE_BYTES_PER_PAIR = 42
# Distances between the rows of the smallest group and all others.
FAIRLET_BYTES_PER_PAIR = 8
MEMORY_LIMIT = 12e9


@dataclass(frozen=True)
class Fit:
    """What identifies a fit. Zeros and empty strings are the defaults of the block.

    Our block with an ``alpha`` has the paper's graph, solved exactly.
    ``rows`` is the size of a sample that the seed draws; 0 is the whole table.
    """

    dataset: str
    method: str
    where: str  # "alone" or "framework"
    block: str  # "ours" or "faithful"
    variant: str = ""
    scaling: str = "z"
    rows: int = 0
    per_group: int = 0
    alpha: float = 0.0
    seed: int = 0


KEYS = tuple(field.name for field in fields(Fit))
MEASURED = (
    "status", "acc", "nmi", "balance", "mnce", "relative_balance", "cost", "seconds", "peak_mb",
    "n_anchors", "n_iter", "converged", "mass_error", "infeasible_by", "worst_violation", "note",
)  # fmt: skip


class Store:
    """Finished fits, in a CSV file with one line each."""

    def __init__(self, path):
        self.path = path
        self.results = {}
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                for line in csv.DictReader(file):
                    fit = Fit(**{f.name: f.type(line[f.name]) for f in fields(Fit)})
                    self.results[fit] = {k: _value(k, line[k]) for k in MEASURED if line[k] != ""}

    def add(self, fit, result):
        self.results[fit] = result
        is_new = not self.path.exists()
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow((*KEYS, *MEASURED))
            writer.writerow(self._line(fit, result))

    def write(self):
        """Write the whole file, ordered, so that two runs give comparable files."""
        lines = [self._line(fit, self.results[fit]) for fit in sorted(self.results, key=astuple)]
        with self.path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([(*KEYS, *MEASURED), *lines])

    @staticmethod
    def _line(fit, result):
        shown = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in result.items()}
        return [*asdict(fit).values(), *(shown.get(name, "") for name in MEASURED)]

    def done(self, **wanted):
        """Finished fits with these keys, and their results."""
        return {
            fit: result
            for fit, result in self.results.items()
            if result["status"] == "done"
            and all(getattr(fit, name) == value for name, value in wanted.items())
        }


def _value(name, text):
    return text if name in ("status", "note") else float(text)


class PaperGraph(ReconstructionGraph):
    """The paper's graph with options of its solver, for variants of the faithful block."""

    def __init__(self, alpha=1.0, options=None):
        super().__init__(alpha=alpha, solver="admm")
        self.options = options

    def make_solver(self):
        return ADMMSolver(**({"max_iter": self.max_iter, "tol": self.tol} | self.options))


def paper_anchors(**options):
    return {"anchors": FDAS(quotas="paper", weights="uniform", **options)}


def paper_graph(alpha, **options):
    return {"graph": PaperGraph(alpha, options)}


def unweighted(method, anchors, sensitive_features, n_clusters, *, sample_weight, random_state):
    """Labels of anchors that all count alike."""
    model = CLUSTERERS[method]().set_params(n_clusters=n_clusters, random_state=random_state)
    return model.fit(anchors, sensitive_features=sensitive_features).labels_


# Published parameters of the faithful block where the library has other defaults.
PUBLISHED = {
    "fmsc": OneStageFairSpectralClustering(fairness_weight=1.0, n_neighbors=5),
}
# Parameters of the variants, given the fit and its alpha. "fdas" and "fac" of the paper's ablations
# are the faithful block itself.
VARIANTS = {
    "faithful": {
        "": lambda fit, alpha: {},
        # Tables 3 and 5.
        "random": lambda fit, alpha: paper_anchors(selection="random"),
        "das": lambda fit, alpha: paper_anchors(selection="das"),
        "ac": lambda fit, alpha: paper_graph(alpha, constrained=False),
        # What is printed where we chose otherwise, and where the paper leaves it open.
        "printed decay": lambda fit, alpha: paper_anchors(decay="printed"),
        "minimum of the table": lambda fit, alpha: paper_anchors(origin="table"),
        "printed stopping": lambda fit, alpha: paper_graph(alpha, stopping="printed"),
        "first penalty 1": lambda fit, alpha: paper_graph(alpha, rho=1.0),
        "feasible targets": lambda fit, alpha: {"fairness": "anchors"},
        "feasible targets, first penalty 1": lambda fit, alpha: (
            {"fairness": "anchors"} | paper_graph(alpha, rho=1.0)
        ),
        "feasible targets, exact": lambda fit, alpha: {
            "fairness": "anchors", "graph": ReconstructionGraph(alpha=alpha),
        },
    },
    "ours": {
        "": lambda fit, alpha: {},
        # Tables 3 and 5: rows as anchors, and labels without the constraint (and the transport).
        "random": lambda fit, alpha: {"anchors": "random"},
        "das": lambda fit, alpha: {"anchors": "das"},
        "fdas": lambda fit, alpha: {"anchors": "fdas"},
        "ac": lambda fit, alpha: {"assignment": "argmax"},
        # Further extensions of ours, taken back one by one.
        "reconstruction graph": lambda fit, alpha: {"graph": "reconstruction"},
        "anchors without masses": lambda fit, alpha: {
            "clusterer": partial(unweighted, fit.method)
        },
        "targets of the anchors": lambda fit, alpha: {"fairness": "anchors"},
        # Earlier defaults of the graph and of three clusterers.
        "nearest anchor": lambda fit, alpha: {"graph": LocalGraph(n_neighbors=1)},
        "weight 0.25": lambda fit, alpha: {
            "clusterer": VariationalFairClustering(fairness_weight=0.25)
        },
        "threshold 0.8": lambda fit, alpha: {
            "clusterer": FairnessFirstClustering(balance_threshold=0.8)
        },
        "weight 1, 5 neighbours": lambda fit, alpha: {"clusterer": PUBLISHED["fmsc"]},
    },
}  # fmt: skip


def estimator(fit, data):
    """The estimator of a fit."""
    if fit.where == "alone":
        if fit.variant == "dense":
            model = FairSpectralClustering(affinity="rbf", eigen_solver="dense")
        else:
            model = CLUSTERERS[fit.method]()
        return model.set_params(n_clusters=data.n_clusters, random_state=fit.seed)
    alpha = fit.alpha or FAITHFUL_ALPHA
    given = {"clusterer": fit.method, "random_state": fit.seed, "n_jobs": 1}
    per_group = fit.per_group
    if fit.block == "faithful":
        given["clusterer"] = PUBLISHED.get(fit.method, fit.method)
        given["graph"] = ReconstructionGraph(alpha=alpha, solver="admm")
        per_group = per_group or FAITHFUL_PER_GROUP
    elif fit.alpha:
        given["graph"] = ReconstructionGraph(alpha=alpha)
    if per_group:
        given["n_anchors"] = min(per_group * data.n_groups, len(data.X))
    given |= VARIANTS[fit.block][fit.variant](fit, alpha)
    make = AnchorFairClustering.as_in_paper if fit.block == "faithful" else AnchorFairClustering
    return make(data.n_clusters, **given)


def memory_needed(fit, data):
    """Bytes of a method alone, where they grow with pairs of rows; otherwise 0."""
    if fit.where == "alone" and fit.variant == "dense":
        return DENSE_BYTES_PER_PAIR * len(data.X) ** 2
    if fit.where == "alone" and fit.method == "fairlets":
        smallest = np.unique(data.groups, return_counts=True)[1].min()
        return FAIRLET_BYTES_PER_PAIR * smallest * (len(data.X) - smallest)
    return 0


def measure(fit, data):
    """Fit, and measure. Seconds are processor time of one thread: other processes do not count."""
    needed = memory_needed(fit, data)
    if needed > MEMORY_LIMIT:
        return {"status": "memory", "note": f"needs about {needed / 1e9:,.0f} GB of memory"}, []
    model = estimator(fit, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            model.fit(data.X, sensitive_features=data.groups)
        except ValueError as error:
            return {"status": "error", "note": " ".join(str(error).split())}, []
        seconds = time.process_time() - start
    result = {"status": "done", "seconds": seconds, **scores(model.labels_, data)}
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    if fit.where == "alone":
        return result, []
    result["n_anchors"] = len(model.anchors_)
    seen = len(getattr(model.clusterer_, "labels_", model.anchors_))
    if seen < len(model.anchors_):  # light anchors follow the nearest one
        result["note"] = f"{seen} of {len(model.anchors_)} anchors were clustered"
    result["worst_violation"] = model.worst_violation_
    if isinstance(model.graph, ReconstructionGraph):
        group_sizes = model.counts_.sum(axis=0)
        result |= {
            "n_iter": model.n_iter_,
            "converged": int(model.converged_),
            "mass_error": model.mass_error_,
            # By how many rows the targets of a group differ from its size.
            "infeasible_by": np.abs(model.targets_.sum(axis=0) - group_sizes).max(),
        }
    return result, getattr(model, "history_", [])


# Processes.


def _serve(pipe, folder):
    """Fits in, "started" and a result out, until the parent closes the pipe."""
    warm = set()
    while True:
        try:
            fit = pipe.recv()
            rows = fit.rows if fit.dataset == "census" else 0
            data = load(fit.dataset, folder, fit.scaling, rows).sample(fit.rows, fit.seed)
            kind = (fit.method, fit.where, fit.block, fit.variant, data.n_groups)
            if kind not in warm:  # compile the kernels before the time counts
                measure(fit, data.sample(WARM_UP_ROWS))
                warm.add(kind)
            pipe.send("started")
            pipe.send(measure(fit, data))
        except (EOFError, BrokenPipeError):
            return


class Worker:
    """A process that serves fits one after the other, and is ended at the time limit."""

    def __init__(self, folder, limit):
        self.folder, self.limit = folder, limit
        self._process = self._pipe = None

    def run(self, fit):
        if self._process is None:
            # Not fork: threads and locks of this process would be copied.
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self.folder), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send(fit)
            if self._pipe.poll(PREPARATION_SECONDS) and self._pipe.recv() == "started":
                if self._pipe.poll(self.limit):
                    return self._pipe.recv()
                result = {"status": "time", "note": f"over {self.limit:g} s"}
            else:
                result = {"status": "died", "note": f"not ready after {PREPARATION_SECONDS:g} s"}
        except (EOFError, BrokenPipeError, ConnectionResetError):
            result = {"status": "died", "note": "the process ended"}
        self.close()
        return result, []

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None
