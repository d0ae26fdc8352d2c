"""Random calls of `fair_assign` and `FairKMeans`, each checked against what is promised.

    python benchmarks/fuzz.py
    python benchmarks/fuzz.py --calls 100000 --seed 1 --seconds 900
    python benchmarks/fuzz.py --seed-of-call 1000042

Mostly small instances of every constraint, with costs and weights of all kinds. Oracles are
written out here or are those of SciPy; none shares code with the library. A failure is printed
with the seed of its call, which ``--seed-of-call`` repeats with every check, the rare ones as
well. Calls run in a process of their own, which is started anew where one crashes or hangs.
From Python, ``drawn(seed)`` has the arguments of a call.
"""

import argparse
import collections
import multiprocessing
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog
from sklearn.exceptions import ConvergenceWarning

from fairanchor import FairKMeans, FairnessTargets, FairnessWarning, fair_assign

# Calls of one seed are numbered from here.
CALLS_PER_SEED = 1_000_000
# Seconds of a call that are a failure, and after which it is given up.
SLOW, GIVEN_UP = 10.0, 15.0
# Where the oracles that take long are asked.
MOST_VARIABLES, MOST_ROWS_MATCHED = 400, 60
SHARE_OF_PROGRAMS, SHARE_OF_MATCHINGS, SHARE_OF_FITS = 0.1, 0.2, 0.08
ROUNDING_ERROR, UNIT_ROUNDOFF = 1e-9, float(np.finfo(float).eps)
# Of what costs differ by: errors of dual variables, and of a program's value.
ERROR_OF_PRICES, ERROR_OF_VALUE = 1e-7, 1e-6
# Of the warning that says so: such labels are not those of the assignment any more.
FILLED = "clusters were left without a row"
# Failures of a kind that are printed in full.
MOST_PRINTED = 8


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="ends earlier after these")
    parser.add_argument("--seed-of-call", type=int, nargs="+", help="repeat these calls only")
    options = parser.parse_args()
    if options.seed_of_call:
        seeds, every = options.seed_of_call, True
    else:
        first = options.seed * CALLS_PER_SEED
        seeds, every = range(first, first + min(options.calls, CALLS_PER_SEED)), False
    sys.exit(1 if run(seeds, options.seconds, every) else 0)


def run(seeds, seconds=np.inf, every=False):
    """Make the calls and print what is wrong; returns the number of failures."""
    worker, start, n_calls = Worker(), time.monotonic(), 0
    failures, asked, slowest = collections.Counter(), collections.Counter(), (0.0, None, "")
    for seed in seeds:
        if time.monotonic() - start > seconds:
            break
        outcome = worker.call(seed, every)
        n_calls += 1
        slowest = max(slowest, (outcome.seconds, seed, outcome.what), key=lambda each: each[0])
        asked.update(outcome.asked)
        for kind, text in outcome.failures:
            failures[kind] += 1
            if failures[kind] <= MOST_PRINTED or every:
                print(f"FAILS --seed-of-call {seed}: {kind}: {text}\n      {outcome.what}")
        if every and not outcome.failures:
            print(f"holds --seed-of-call {seed}\n      {outcome.what}")
        sys.stdout.flush()
    worker.end()
    seconds, seed, what = slowest
    print(f"{n_calls:,} calls in {time.monotonic() - start:.0f} s, failures: {failures.total()}")
    for kind, count in failures.most_common():
        print(f"  {count:6} {kind}")
    print("asked and found: " + ", ".join(f"{name} {n}" for name, n in sorted(asked.items())))
    print(f"slowest call: {seconds:.2f} s, --seed-of-call {seed}\n      {what}")
    return failures.total()


# Calls, in a process of their own.


@dataclass
class Outcome:
    """What became of a call.

    Attributes
    ----------
    what : str
        The call in words.
    seconds : float
    failures : list of (kind, text)
    asked : list of str
        Oracles that were asked, and results that are worth counting.
    """

    what: str = ""
    seconds: float = 0.0
    failures: list = field(default_factory=list)
    asked: list = field(default_factory=list)

    def require(self, holds, kind, text):
        if not holds:
            self.failures.append((kind, text))


class Worker:
    """A process that makes calls one after the other."""

    def __init__(self):
        self.process = None

    def call(self, seed, every):
        if self.process is None:
            self._start()
        self.pipe.send((seed, every))
        if self.pipe.poll(GIVEN_UP):
            try:
                return self.pipe.recv()
            except EOFError:
                self.process.join()
                kind, text = "crash", f"the process died, exit code {self.process.exitcode}"
        else:
            kind, text = "hangs", f"given up after {GIVEN_UP:g} s"
        self.end()
        return Outcome(drawn(seed).what, GIVEN_UP, [(kind, text)])

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_answer, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()  # kernels are compiled

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process = None


def _answer(pipe):
    for weights in (None, np.arange(1.0, 31.0)):
        groups, costs = np.arange(30) % 3, np.random.default_rng(0).normal(size=(30, 3))
        fair_assign(costs, sensitive_features=groups, sample_weight=weights)
        FairKMeans(2, tolerance=0.2, random_state=0).fit(
            costs, sensitive_features=groups, sample_weight=weights
        )
    pipe.send(True)
    while True:
        pipe.send(checked(*pipe.recv()))


def checked(seed, every=False):
    """`Outcome` of the call with this seed, with every check or with those that it draws."""
    case = drawn(seed)
    outcome, error = Outcome(case.what), None
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = case.call()
        except Exception as raised:  # whatever it is, it is told
            error = raised
    outcome.seconds = time.perf_counter() - start
    outcome.require(outcome.seconds <= SLOW, "slow", f"{outcome.seconds:.1f} s, limit {SLOW:g} s")
    fine = (FairnessWarning, ConvergenceWarning) if case.is_fit else FairnessWarning
    for each in warned:
        text = f"{each.category.__name__}: {each.message}"
        outcome.require(issubclass(each.category, fine), "warning", text)
    try:
        if error is not None:
            check_error(case, outcome, error)
        else:
            result.is_filled = any(FILLED in str(each.message) for each in warned)
            check_result(case, outcome, result, every)
    except Exception:
        outcome.failures.append(("fuzz.py itself", traceback.format_exc()))
    return outcome


# Instances.


@dataclass
class Bounds:
    """Shares of one attribute's groups: ``lower`` and ``upper`` by cluster and group."""

    codes: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass
class Case:
    """A call and what it asks for.

    Attributes
    ----------
    seed : int
    is_fit : bool
        Whether `FairKMeans` is called, with rows instead of costs.
    values : ndarray of shape (n_rows, n_clusters) or (n_rows, n_features)
    n_clusters : int
    codes : ndarray of shape (n_rows,)
        Group of each row in the order of the sorted names.
    arguments : dict
        All others of the call.
    bounds : list of Bounds
        One for each attribute; none where there is a table.
    table : ndarray of shape (n_clusters, n_groups), or None
    least, greatest : ndarray of shape (n_clusters,)
        Sizes, in the unit of the weights.
    title : str
        Kind of costs, weights and constraint.
    draws : ndarray of shape (2,)
        Decide on the checks that take long.
    """

    seed: int
    is_fit: bool
    values: np.ndarray
    n_clusters: int
    codes: np.ndarray
    arguments: dict
    bounds: list
    table: np.ndarray | None
    least: np.ndarray
    greatest: np.ndarray
    title: str
    draws: np.ndarray

    def call(self):
        """`Found` by the library."""
        if not self.is_fit:
            result = fair_assign(self.values, **self.arguments)
            return Found(
                result.labels, result.groups, result.counts, result.dual_variables, result.cost,
                result.lp_value, result.worst_violation, self.values, result.gap,
            )  # fmt: skip
        fit = {name: self.arguments[name] for name in ("sensitive_features", "sample_weight")}
        others = {name: value for name, value in self.arguments.items() if name not in fit}
        model = FairKMeans(self.n_clusters, random_state=0, **others).fit(self.values, **fit)
        offsets = self.values[:, None, :] - model.cluster_centers_
        return Found(
            model.labels_, model.groups_, model.counts_, model.assignment_prices_, model.inertia_,
            model.lp_value_, model.worst_violation_, (offsets**2).sum(axis=2),
        )  # fmt: skip

    @property
    def weights(self):
        given = self.arguments["sample_weight"]
        return np.ones(len(self.values)) if given is None else given

    @property
    def is_whole(self):
        """Whether rows count one each, or all the same."""
        return np.ptp(self.weights) == 0.0

    @property
    def is_proportional(self):
        """Whether every cluster mirrors one attribute exactly, with sizes that are free."""
        is_exact = self.arguments.get("tolerance", 0.0) == 0.0
        return is_exact and "fairness" not in self.arguments and len(self.bounds) == 1

    @property
    def is_around_table(self):
        return self.table is None and isinstance(self.arguments.get("fairness"), np.ndarray)

    @property
    def unit(self):
        """What a row weighs, where all weigh the same."""
        return float(self.weights[0]) if self.is_whole else 1.0

    @property
    def n_groups(self):
        return int(self.codes.max()) + 1

    @property
    def what(self):
        method = "FairKMeans" if self.is_fit else "fair_assign"
        return (
            f"{method}, {len(self.values)} rows, {self.n_clusters} clusters, {self.n_groups} "
            f"groups, {self.title}"
        )


@dataclass
class Found:
    """What the library found, and the costs that this is about."""

    labels: np.ndarray
    groups: np.ndarray
    counts: np.ndarray
    prices: np.ndarray
    cost: float
    lp_value: float
    worst_violation: float
    costs: np.ndarray
    gap: float | None = None
    is_filled: bool = False


def drawn(seed):
    """The `Case` of a seed."""
    rng = np.random.default_rng(seed)
    is_fit = rng.random() < SHARE_OF_FITS
    n_rows = round(np.exp(rng.uniform(0.0, np.log(300))))
    n_rows = int(rng.integers(300, 5_001)) if rng.random() < 0.03 else n_rows
    n_clusters = int(rng.integers(1, 13)) if rng.random() < 0.93 else int(rng.integers(13, 61))
    if is_fit:
        n_clusters = min(n_clusters, n_rows)
    columns = draw_columns(rng, n_rows)
    codes = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    sensitive, of_names = draw_names(rng, columns)
    weights, of_weights = draw_weights(rng, codes)
    if is_fit:
        values, of_values = draw_rows(rng, n_rows, codes)
    else:
        values, of_values = draw_costs(rng, n_rows, n_clusters, codes)
    asked = Asked(rng, columns, codes, weights, n_clusters)
    least, greatest = asked.sizes
    arguments = {"sensitive_features": sensitive, "sample_weight": weights, **asked.arguments}
    title = f"{of_values}, weights {of_weights}, {of_names}, {asked.title}"
    return Case(
        seed, is_fit, values, n_clusters, codes, arguments, asked.bounds, asked.table, least,
        greatest, title, rng.random(2),
    )  # fmt: skip


def draw_columns(rng, n_rows):
    """Codes of one to three sensitive columns."""
    n_columns = int(rng.integers(2, 4)) if rng.random() < 0.25 else 1
    columns = []
    for _ in range(n_columns):
        n_groups = int(rng.integers(1, 9 if n_columns == 1 else 5))
        if n_columns == 1 and rng.random() < 0.07:
            n_groups = int(rng.integers(9, 41))
        shares = rng.dirichlet(np.full(n_groups, rng.choice([0.3, 1.0, 20.0])))
        column = rng.choice(n_groups, n_rows, p=shares)
        if rng.random() < 0.15:  # groups of one row
            n_alone = min(int(rng.integers(1, 4)), n_rows)
            column[rng.choice(n_rows, n_alone, replace=False)] = n_groups + np.arange(n_alone)
        columns.append(np.unique(column, return_inverse=True)[1].reshape(-1))
    return np.column_stack(columns)


def draw_names(rng, columns):
    """What is passed as ``sensitive_features``: the order of the names is that of the codes."""
    if columns.shape[1] == 1:
        columns = columns[:, 0]
    if rng.random() < 0.5:
        return columns * 3 - 4, "names are numbers"
    return np.array([f"g{code:02}" for code in columns.ravel()]).reshape(columns.shape), "texts"


def draw_weights(rng, codes):
    n_rows = len(codes)
    title = str(rng.choice(
        ["none", "equal", "integer", "exponential", "zeros", "uneven"],
        p=[0.55, 0.1, 0.1, 0.1, 0.1, 0.05],
    ))  # fmt: skip
    if title == "none":
        return None, title
    if title == "equal":
        weights = np.full(n_rows, rng.choice([1.0, 0.1, 3.0, 1e-3, 7.3]))
    elif title == "integer":
        weights = rng.integers(1, 6, n_rows).astype(float)
    elif title == "uneven":
        weights = 10.0 ** rng.uniform(-6, 6, n_rows)
    else:
        weights = rng.exponential(size=n_rows)
    if title == "zeros":
        weights[rng.random(n_rows) < rng.choice([0.1, 0.9])] = 0.0
        if rng.random() < 0.3:  # a group without weight
            weights[codes == rng.integers(codes.max() + 1)] = 0.0
        weights[rng.integers(n_rows)] = 1.0
    return weights, title


def draw_costs(rng, n_rows, n_clusters, codes):
    shape = (n_rows, n_clusters)
    title = str(rng.choice([
        "normal", "uniform", "integers", "all equal", "outliers", "pareto", "constant columns",
        "negative", "distances", "by group", "equal rows", "offset rows", "one cheap",
    ]))  # fmt: skip
    costs = rng.normal(size=shape)
    if title == "uniform":
        costs = rng.uniform(size=shape)
    elif title == "integers":
        costs = rng.integers(0, rng.choice([2, 4, 20]), shape).astype(float)
    elif title == "all equal":
        costs = np.full(shape, rng.choice([0.0, 1.0, -3.7]))
    elif title == "outliers":
        is_far = rng.random(shape) < rng.choice([0.01, 0.2])
        costs = np.where(is_far, 10.0 ** rng.uniform(3, 12, shape), costs)
    elif title == "pareto":
        costs = rng.pareto(0.5, shape)
    elif title == "constant columns":
        is_constant = rng.random(n_clusters) < 0.6
        costs[:, is_constant] = rng.choice([0.0, 1.0, -1.0], n_clusters)[is_constant]
    elif title == "negative":
        costs = -rng.exponential(size=shape)
    elif title == "distances":
        X, centers = rng.normal(size=(n_rows, 2)), rng.normal(size=(n_clusters, 2))
        costs = ((X[:, None] - centers) ** 2).sum(axis=2)
    elif title == "by group":
        costs = 0.2 * costs + 3.0 * rng.normal(size=(codes.max() + 1, n_clusters))[codes]
    elif title == "equal rows":
        costs = costs[rng.integers(0, max(1, n_rows // 5), n_rows)]
    elif title == "offset rows":
        costs += 1e6 * rng.normal(size=(n_rows, 1))
    elif title == "one cheap":
        costs[:, rng.integers(n_clusters)] -= 10.0
    if rng.random() < 0.15:
        scale = float(rng.choice([1e-12, 1e12]))
        return costs * scale, f"costs {title} times {scale:g}"
    return costs, f"costs {title}"


def draw_rows(rng, n_rows, codes):
    n_features = int(rng.integers(1, 5))
    title = str(rng.choice(["blobs", "by group", "grid", "one point", "outliers"]))
    X = rng.normal(size=(n_rows, n_features))
    if title == "blobs":
        X += 5.0 * rng.normal(size=(6, n_features))[rng.integers(0, 6, n_rows)]
    elif title == "by group":
        X += 5.0 * rng.normal(size=(codes.max() + 1, n_features))[codes]
    elif title == "grid":
        X = np.round(X)
    elif title == "one point":
        X[:] = X[0]
    else:
        X[rng.random(n_rows) < 0.05] *= 1e6
    return X, f"rows {title}"


class Asked:
    """A constraint: arguments that ask for it, and what they mean.

    Attributes
    ----------
    arguments : dict
    bounds : list of Bounds
    table : ndarray of shape (n_clusters, n_groups), or None
    sizes : tuple of ndarray of shape (n_clusters,)
    title : str
    """

    def __init__(self, rng, columns, codes, weights, n_clusters):
        self.rng, self.n_clusters = rng, n_clusters
        self.weights = np.ones(len(codes)) if weights is None else weights
        self.unit = float(self.weights[0]) if np.ptp(self.weights) == 0.0 else None
        self.arguments, self.bounds, self.table = {}, [], None
        self.sizes = np.zeros(n_clusters), np.full(n_clusters, np.inf)
        separate = columns.shape[1] > 1 and rng.random() < 0.7
        self.attributes = list(columns.T) if separate else [codes]
        self.title = ""
        if separate:
            self.arguments["attributes"] = "separate"
            self.title = f"{len(self.attributes)} attributes, "
        kinds = ["population", "tolerance", "targets"]
        if not separate:
            kinds += ["whole table", "fractional table", "table and tolerance"]
        kind = str(rng.choice(kinds))
        self.title += kind
        if kind in ("population", "tolerance"):
            tolerance = 0.0
            if kind == "tolerance":
                tolerance = float(rng.choice([rng.uniform(), 0.01, 0.2, 0.5, 0.9, 1.0]))
                self.title += f" {tolerance:.3g}"
            self._around_population(tolerance)
        elif kind == "targets":
            each = [self._targets(own) for own in self.attributes]
            self.arguments["fairness"] = each if separate else each[0]
        else:
            self._of_table(codes, kind)

    def _shares(self, codes):
        sizes = np.bincount(codes, weights=self.weights)
        return sizes / sizes.sum()

    def _around_population(self, tolerance):
        if tolerance > 0.0 or self.rng.random() < 0.5:
            self.arguments["tolerance"] = tolerance
        for codes in self.attributes:
            shares = np.tile(self._shares(codes), (self.n_clusters, 1))
            self.bounds.append(Bounds(codes, *_around(shares, tolerance)))

    def _of_table(self, codes, kind):
        rng, shape = self.rng, (self.n_clusters, int(codes.max()) + 1)
        if kind == "fractional table" and rng.random() < 0.7:
            spread = rng.dirichlet(np.full(self.n_clusters, rng.choice([0.3, 3.0])), shape[1]).T
            if rng.random() < 0.3:
                spread = spread[:, :1]  # proportional
            table = spread * np.bincount(codes, weights=self.weights)
        else:  # of some labels
            labels = rng.choice(shape[0], len(codes), p=rng.dirichlet(np.ones(shape[0])))
            table = np.zeros(shape)
            np.add.at(table, (labels, codes), self.weights)
            if kind == "fractional table":  # most cells are whole
                table += _cycle(rng, table)
        self.arguments["fairness"] = table
        if kind != "table and tolerance":
            self.table = table
            return
        tolerance = float(rng.choice([rng.uniform(0.01, 1.0), 0.2, 1.0]))
        self.arguments["tolerance"] = tolerance
        self.title += f" {tolerance:.3g}"
        sizes = table.sum(axis=1, keepdims=True)
        lower, upper = _around(table / np.where(sizes > 0, sizes, 1.0), tolerance)
        upper[sizes[:, 0] == 0] = 1.0
        self.bounds.append(Bounds(codes, lower, upper))
        self.sizes = self.sizes[0], np.where(sizes[:, 0] > 0, np.inf, 0.0)

    def _targets(self, codes):
        """`FairnessTargets` for an attribute: often, not always, some labels meet them."""
        rng, own, given = self.rng, self._shares(codes), {}
        shape = (self.n_clusters, len(own))
        names = rng.choice(["lower", "upper", "min_size", "max_size", "tolerance", "shares"],
                           int(rng.integers(0, 4)), replace=False)  # fmt: skip
        by_cluster = rng.random() < 0.3
        pattern = shape if by_cluster else shape[1:]
        if by_cluster:
            self.title += " by cluster"
        shares, tolerance = np.tile(own, (self.n_clusters, 1)), None
        if "shares" in names:
            moved = rng.dirichlet(np.ones(shape[1]), size=shape[0] if by_cluster else None)
            mixed = 0.7 * own + 0.3 * moved
            given["shares"], shares = mixed, np.broadcast_to(mixed, shape)
        if "tolerance" in names:
            given["tolerance"] = tolerance = float(rng.choice([rng.uniform(), 0.0, 0.1, 0.5]))
        is_bounded = "lower" in names or "upper" in names
        if tolerance is None:
            tolerance = 1.0 if is_bounded and "shares" not in names else 0.0
        lower, upper = _around(shares, tolerance)
        if "lower" in names:
            given["lower"] = rng.uniform(0.0, rng.choice([0.5, 1.0, 1.1]), pattern) * own
            given["lower"] = np.minimum(given["lower"], 1.0)
            lower = np.maximum(lower, given["lower"])
        if "upper" in names:
            least = rng.choice([0.0, 0.5, 1.0])
            given["upper"] = np.minimum(own * (least + rng.exponential(2.0, pattern)), 1.0)
            upper = np.minimum(upper, given["upper"])
        self._draw_sizes(names, given)
        self.bounds.append(Bounds(codes, lower, upper))
        self.title += f" ({', '.join(sorted(given))})"
        return FairnessTargets(**given)

    def _draw_sizes(self, names, given):
        rng, mean = self.rng, self.weights.sum() / self.n_clusters
        pattern = self.n_clusters if rng.random() < 0.4 else ()
        least, greatest = self.sizes
        if "min_size" in names:
            given["min_size"] = self._size(mean * rng.uniform(0.0, 1.05, pattern), np.floor)
            least = np.maximum(least, given["min_size"])
        if "max_size" in names:
            given["max_size"] = self._size(mean * rng.uniform(0.95, 3.0, pattern), np.ceil)
            greatest = np.minimum(greatest, given["max_size"])
        if (least > greatest).any():
            given["max_size"] = np.maximum(least, greatest)
            # Another attribute's may be less, and then nothing meets both.
            greatest = np.minimum(self.sizes[1], given["max_size"])
        self.sizes = least, greatest

    def _size(self, sizes, rounded):
        """Often in whole rows."""
        if self.unit is not None and self.rng.random() < 0.7:
            sizes = rounded(sizes / self.unit) * self.unit
        return sizes if np.ndim(sizes) else float(sizes)


def _around(shares, tolerance):
    """Lower and upper shares."""
    if tolerance == 1.0:
        return np.zeros(shares.shape), np.ones(shares.shape)
    return (1.0 - tolerance) * shares, np.minimum(shares / (1.0 - tolerance), 1.0)


def _cycle(rng, table):
    """A part of a row round two clusters and two groups, which keeps all margins."""
    change = np.zeros(table.shape)
    if min(table.shape) < 2:
        return change
    (l, m), (r, s) = (rng.choice(size, 2, replace=False) for size in table.shape)
    amount = rng.uniform() * min(table[l, r], table[m, s], 1.0)
    change[l, r] = change[m, s] = -amount
    change[l, s] = change[m, r] = amount
    return change


# Checks.


def check_error(case, outcome, error):
    """Only limits that nothing can meet may be refused, and only with a message."""
    text = "".join(traceback.format_exception(error)[-3:])
    if not isinstance(error, ValueError) or not str(error):
        outcome.failures.append((f"raises {type(error).__name__}", text))
        return
    if "fairness" not in case.arguments or case.table is not None:
        outcome.failures.append(("raises ValueError", text))
        return
    if any((own.lower > own.upper + 1e-12).any() for own in case.bounds):
        outcome.asked.append("targets contradict each other")
        return
    missed = least_miss(case)
    outcome.asked.append("targets refused")
    outcome.require(
        missed > 1e-8 * case.weights.sum(), "refuses what can be met",
        f"a table misses limits by {missed:.3g} in all: {error}",
    )  # fmt: skip


def check_result(case, outcome, found, every):
    check_labels(case, outcome, found)
    if outcome.failures:
        return
    check_constraint(case, outcome, found)
    if found.is_filled:
        outcome.asked.append("empty clusters filled")
        return
    check_value(case, outcome, found)
    if case.is_whole:
        check_prices(case, outcome, found)
    is_small = case.values.shape[0] * case.n_clusters <= MOST_VARIABLES
    if is_small and (every or case.draws[0] < SHARE_OF_PROGRAMS):
        check_program(case, outcome, found)
    is_small = case.is_whole and len(case.values) <= MOST_ROWS_MATCHED
    if is_small and (every or case.draws[1] < SHARE_OF_MATCHINGS):
        check_matching(case, outcome, found)


def check_labels(case, outcome, found):
    """Labels, counts and the cost belong together."""
    n_rows, labels = len(case.values), found.labels
    is_right = labels.shape == (n_rows,) and labels.dtype.kind == "i"
    is_right = is_right and labels.min() >= 0 and labels.max() < case.n_clusters
    outcome.require(is_right, "labels", f"{labels!r}")
    names = found.groups.tolist()
    is_right = names == sorted(names) and len(names) == case.n_groups
    outcome.require(is_right, "names of groups", f"{names}")
    finite = [found.counts, found.prices, found.cost, found.lp_value, found.worst_violation]
    is_finite = all(np.isfinite(each).all() for each in finite)
    outcome.require(is_finite, "not finite", f"cost {found.cost}, lp_value {found.lp_value}")
    if outcome.failures:
        return
    counts = count(case, labels)
    away = np.abs(counts - found.counts).max()
    outcome.require(
        found.counts.shape == counts.shape and away <= ROUNDING_ERROR * case.weights.sum(),
        "counts", f"differ from those of the labels by {away:.3g}",
    )  # fmt: skip
    own = found.costs[np.arange(n_rows), labels]
    cost = float(case.weights @ own)
    away, most = abs(cost - found.cost), 1e-9 * float(case.weights @ np.abs(own))
    if case.is_fit:
        most += case.weights.sum() * roundoff(case, found)
    outcome.require(
        away <= most + 1e-300, "cost", f"{found.cost!r}, labels cost {cost!r}, by {away:.3g}"
    )
    if found.gap is not None:
        outcome.require(found.gap == found.cost - found.lp_value, "gap", f"{found.gap!r}")


def check_constraint(case, outcome, found):
    counts = count(case, found.labels)
    total, sizes, unit = case.weights.sum(), counts.sum(axis=1), case.unit
    missed, text = violation(case, counts)
    error = 2.0 * ROUNDING_ERROR * max(unit, sizes.max())
    if not case.is_whole:
        error = 2.0 * ROUNDING_ERROR * max(1.0, sizes.max())
    outcome.require(
        abs(missed - found.worst_violation) <= error, "worst_violation",
        f"{found.worst_violation!r}, expected {missed!r} ({text})",
    )  # fmt: skip
    if not case.is_whole:
        # A cell misses its total by the weight of a row of its group; a size by one of each.
        heaviest = np.zeros(case.n_groups)
        np.maximum.at(heaviest, case.codes, case.weights)
        most = heaviest.max() if case.table is not None else heaviest.max() + heaviest.sum()
        outcome.require(
            missed <= most + 1e-6 * total or found.is_filled, "weights are far off",
            f"missed by {missed:.6g}, the groups' heaviest rows weigh {heaviest.max():.3g} at most "
            f"and {heaviest.sum():.3g} together, all rows {total:.6g} ({text})",
        )  # fmt: skip
        return
    most = (1.0 + ROUNDING_ERROR) * unit
    if found.is_filled:  # a row each, whatever that does to the shares
        most = np.inf
    if case.table is not None and not found.is_filled:
        check_table(case, outcome, counts / unit)
    elif len(case.bounds) > 1:
        outcome.asked.append("attributes missed by a row or more" if missed >= most else "separate")
    elif case.is_proportional:
        rows = np.rint(counts / unit).astype(np.int64)
        products = np.outer(rows.sum(axis=1), rows.sum(axis=0))
        n_rows = len(case.values)
        is_near = (rows >= products // n_rows) & (rows <= -(-products // n_rows))
        outcome.require(is_near.all() or found.is_filled, "not the floor or the ceiling", f"{text}")
    else:
        kind = "missed by a row or more"
        if any(
            np.ptp(each, axis=0).any() for own in case.bounds for each in (own.lower, own.upper)
        ):
            kind += ", bounds by cluster"
        outcome.require(missed < most, kind, f"{missed / unit:.6g} rows ({text})")
    error = ROUNDING_ERROR * max(unit, total)
    is_within = (sizes >= case.least - error) & (sizes <= case.greatest + error)
    outcome.require(
        is_within.all(), "sizes",
        f"{sizes.tolist()}, min_size {case.least.tolist()}, max_size {case.greatest.tolist()}",
    )  # fmt: skip
    if case.is_fit and case.table is None and not case.is_around_table:
        is_filled = (sizes > 0) | (case.greatest < unit)
        outcome.require(is_filled.all(), "empty cluster", f"sizes {sizes.tolist()}")


def check_table(case, outcome, counts):
    """Cells within one row of a table, sizes rounded up or down, what is whole exactly."""
    table = case.table / case.unit
    for name, own, asked in (
        ("a cell", counts, table),
        ("a size", counts.sum(axis=1), table.sum(axis=1)),
        ("a group", counts.sum(axis=0), table.sum(axis=0)),
    ):
        error = 1e-7 * np.maximum(1.0, asked)
        away = np.abs(own - asked)
        is_whole = np.abs(asked - np.rint(asked)) <= error / 100.0
        if name == "a cell":
            is_whole &= is_whole.all()
        worst = np.argmax(np.where(is_whole, 1e3, 1.0) * away)
        outcome.require(
            (away < np.where(is_whole, 0.0, 1.0) + error).all(), f"table: {name}",
            f"{own.flat[worst]:.9g} rows, asked for {asked.flat[worst]:.9g}",
        )  # fmt: skip


def check_prices(case, outcome, found):
    """Every row is where its cost minus the dual variable is least."""
    away = found.costs - found.costs.min(axis=1, keepdims=True)
    prices = found.prices.T[case.codes]
    reduced = away - prices
    slack = reduced[np.arange(len(away)), found.labels] - reduced.min(axis=1)
    scale = np.ptp(away, axis=1) + np.ptp(prices, axis=1)
    most = ERROR_OF_PRICES * scale + 64 * UNIT_ROUNDOFF * np.abs(found.costs).max()
    if case.is_fit:
        most += roundoff(case, found)
    worst = int(np.argmax(slack - most))
    outcome.require(
        slack[worst] <= most[worst], "dual variables",
        f"row {worst} could gain {slack[worst]:.3g}; its costs and prices differ by "
        f"{scale[worst]:.3g}; {int((slack > most).sum())} rows",
    )  # fmt: skip


def check_value(case, outcome, found):
    """Labels within the constraint do not cost less than the program; a whole table costs that."""
    counts = count(case, found.labels)
    missed, _ = violation(case, counts)
    error = precise_error(case, found)
    gap = found.cost - found.lp_value
    if missed == 0.0:
        outcome.asked.append("constraint met exactly")
        outcome.require(
            gap >= -error, "lp_value above the cost of labels that meet the constraint",
            f"cost {found.cost!r}, lp_value {found.lp_value!r}, gap {gap:.3g}, error {error:.3g}",
        )  # fmt: skip
    if missed == 0.0 and case.is_whole and case.table is not None:
        outcome.require(
            gap <= error, "lp_value below the cost of a whole table",
            f"cost {found.cost!r}, lp_value {found.lp_value!r}, gap {gap:.3g}, error {error:.3g}",
        )  # fmt: skip


def check_program(case, outcome, found):
    value = program_value(case, found.costs)
    outcome.asked.append("HiGHS" if value is not None else "HiGHS without a solution")
    if value is None:
        return
    spread = float(case.weights @ np.ptp(found.costs, axis=1))
    # HiGHS has errors of its own.
    error = 2.0 * ERROR_OF_VALUE * spread + precise_error(case, found)
    away = found.lp_value - value
    kind = "lp_value above the program" if away > 0 else "lp_value below the program"
    outcome.require(
        abs(away) <= error, kind,
        f"{found.lp_value!r}, HiGHS finds {value!r}: {away / (spread or 1.0):.3g} of the "
        f"spread {spread:.3g}",
    )  # fmt: skip


def check_matching(case, outcome, found):
    """No labels with these counts cost less."""
    outcome.asked.append("matching")
    away = found.costs - found.costs.min(axis=1, keepdims=True)
    own, best = 0.0, 0.0
    for r in range(case.n_groups):
        members = np.flatnonzero(case.codes == r)
        own += away[members, found.labels[members]].sum()
        table = away[np.ix_(members, found.labels[members])]
        best += table[linear_sum_assignment(table)].sum()
    error = 1e-9 * best + precise_error(case, found) / case.unit
    outcome.require(
        own <= best + error, "labels are not the cheapest for their counts",
        f"above each row's least: {own!r}, a matching {best!r}, error {error:.3g}",
    )  # fmt: skip


# Oracles.


def roundoff(case, found):
    """Of squared distances."""
    return 1e-13 * (np.abs(case.values).max() ** 2 + np.abs(found.costs).max())


def precise_error(case, found):
    """Of sums of costs: a little of what costs usually differ by, and rounding errors."""
    spreads = np.ptp(found.costs, axis=1)
    usual = np.minimum(spreads, 10.0 * np.median(spreads))
    largest = max(np.abs(found.costs).max(), 1e-3 * np.abs(found.prices).max())
    error = ERROR_OF_PRICES * float(case.weights @ usual)
    error += 64 * UNIT_ROUNDOFF * float(case.weights.sum() * largest)
    return error + (case.weights.sum() * roundoff(case, found) if case.is_fit else 0.0)


def count(case, labels, codes=None):
    codes = case.codes if codes is None else codes
    table = np.zeros((case.n_clusters, int(codes.max()) + 1))
    np.add.at(table, (labels, codes), case.weights)
    return table


def violation(case, counts):
    """Weight by which the worst cell or size misses what is asked for, and which one it is."""
    sizes, worst = counts.sum(axis=1), (0.0, "nothing missed")
    least = ROUNDING_ERROR * max(case.unit if case.is_whole else 1.0, sizes.max())
    if case.table is not None:
        away = np.abs(counts - case.table)
        l, r = np.unravel_index(np.argmax(away), away.shape)
        return float(away[l, r]), f"cell {l}, {r}: {counts[l, r]:.9g} of {case.table[l, r]:.9g}"
    first_rows = np.unique(case.codes, return_index=True)[1]
    for a, own in enumerate(case.bounds):
        margin = np.zeros((case.n_clusters, own.lower.shape[1]))
        np.add.at(margin.T, own.codes[first_rows], counts.T)
        for name, beyond in (
            ("lower", own.lower * sizes[:, None] - margin),
            ("upper", margin - own.upper * sizes[:, None]),
        ):
            l, r = np.unravel_index(np.argmax(beyond), beyond.shape)
            text = (
                f"attribute {a}: {margin[l, r]:.9g} of group {r} in cluster {l} of "
                f"{sizes[l]:.9g}, {name} share {getattr(own, name)[l, r]:.9g}"
            )
            worst = max(worst, (float(beyond[l, r]), text), key=lambda each: each[0])
    least_sizes, greatest_sizes = whole_sizes(case)
    for name, beyond in (("min_size", least_sizes - sizes), ("max_size", sizes - greatest_sizes)):
        l = int(np.argmax(beyond))
        text = f"{name} of cluster {l} of {sizes[l]:.9g}"
        worst = max(worst, (float(beyond[l]), text), key=lambda each: each[0])
    return worst if worst[0] > least else (0.0, "nothing missed")


def whole_sizes(case):
    """Limits on sizes; in whole rows, where rows are whole."""
    if not case.is_whole:
        return case.least, case.greatest
    least = np.ceil(case.least / case.unit - ROUNDING_ERROR)
    greatest = np.floor(case.greatest / case.unit + ROUNDING_ERROR)
    if case.is_fit and not case.is_proportional and not case.is_around_table:
        least = np.maximum(least, np.minimum(1.0, greatest))
    return least * case.unit, greatest * case.unit


def limits_on(case, cells, n_columns):
    """Matrix and right side of all bounds: at most.

    ``cells(l, mask)`` has a row over ``n_columns`` variables: the weight in cluster l of the rows
    (or groups) in the mask.
    """
    rows, right = [np.zeros(n_columns)], [0.0]
    least, greatest = whole_sizes(case)
    for l in range(case.n_clusters):
        size = cells(l, None)
        for own in case.bounds:
            for r in range(own.lower.shape[1]):
                cell = cells(l, own.codes == r)
                rows += [own.lower[l, r] * size - cell, cell - own.upper[l, r] * size]
                right += [0.0, 0.0]
        rows.append(-size)
        right.append(-least[l])
        if np.isfinite(greatest[l]):
            rows.append(size)
            right.append(greatest[l])
    return sparse.csr_array(np.array(rows)), np.array(right)


def program_value(case, costs):
    """Value of the program over fractional labels by HiGHS, or None if it finds none."""
    (n, k), w = costs.shape, case.weights / case.weights.mean()
    least = costs.min(axis=1, keepdims=True)
    away = costs - least
    scale = float(away[w > 0].max()) or 1.0

    def cells(l, mask):
        row = np.zeros((n, k))
        row[:, l] = w if mask is None else w * mask
        return row.ravel()

    simplex = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    options = {"A_eq": simplex, "b_eq": np.ones(n)}
    if case.table is not None:
        # The cells of the last cluster follow from the others.
        free = [(l, r) for l in range(k - 1) for r in range(case.n_groups)]
        rows = np.array([cells(l, case.codes == r) for l, r in free]).reshape(len(free), n * k)
        right = case.table[:-1].ravel() / case.weights.mean()
        options["A_eq"] = sparse.vstack([simplex, sparse.csr_array(rows)])
        options["b_eq"] = np.concatenate([np.ones(n), right])
    else:
        matrix, right = limits_on(case, cells, n * k)
        options |= {"A_ub": matrix, "b_ub": right / case.weights.mean()}
    solution = linprog((w[:, None] * away / scale).ravel(), method="highs", **options)
    if solution.status != 0:
        return None
    return solution.fun * scale * case.weights.mean() + float(case.weights @ least[:, 0])


def least_miss(case):
    """Weight by which a table of clusters × groups must miss all limits together."""
    n_groups, first_rows = case.n_groups, np.unique(case.codes, return_index=True)[1]
    sizes = np.bincount(case.codes, weights=case.weights)

    def cells(l, mask):
        row = np.zeros((case.n_clusters, n_groups))
        row[l] = 1.0 if mask is None else mask[first_rows]
        return row.ravel()

    n_cells = case.n_clusters * n_groups
    matrix, right = limits_on(case, cells, n_cells)
    slack = -sparse.eye_array(len(right))
    of_groups = sparse.kron(np.ones((1, case.n_clusters)), sparse.eye_array(n_groups))
    solution = linprog(
        np.repeat([0.0, 1.0], [n_cells, len(right)]),
        A_ub=sparse.hstack([matrix, slack], format="csr"), b_ub=right,
        A_eq=sparse.hstack([of_groups, sparse.csr_array((n_groups, len(right)))], format="csr"),
        b_eq=sizes, method="highs",
    )  # fmt: skip
    return solution.fun if solution.status == 0 else np.inf


if __name__ == "__main__":
    main()
