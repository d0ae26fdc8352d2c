"""Shares of the groups within bounds in every cluster, by linear programming."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from fairanchor._groups import _columns, check_groups
from fairanchor._scaling import power_of_two_scale
from fairanchor._sklearn_compat import Interval, StrOptions, fit_context
from fairanchor.clusterers._base import FairClusterer, count_cells, fill_empty_clusters
from fairanchor.clusterers._fairlets import find_centers
from fairanchor.exceptions import FairnessWarning

#: Rows of a sample, and of the first restricted program; below this all rows enter at once.
PROGRAM_ROWS = 1000

#: Masses this close to an integer are one: the accuracy that HiGHS promises.
INTEGRAL = 1e-7


class BoundedFairAssignment(FairClusterer):
    """Fair assignment to the centres of an unfair clustering (Bera et al., 2019).

    First centres are found without any regard to groups. Then, with N[l, r] the rows of
    group r in cluster l and N_l the cluster's rows, the labels solve approximately ::

        min   sum or max over rows of cost(x_i, center[label_i])
        s.t.  lower_r N_l <= N[l, r] <= upper_r N_l   for every cluster l and group r

    where the cost is the squared distance (k-means) or the distance. By default
    ``lower_r = (1 - tolerance) pi_r`` and ``upper_r = pi_r / (1 - tolerance)``, pi_r being the
    share of the group in the data. The linear program is solved exactly, with at least one
    row's mass in every cluster, then rounded iteratively.

    Any number of groups. Several columns of ``sensitive_features`` are attributes of their
    own, each with its bounds, and *not* their intersection: a row is in one group of each.

    *Guaranteed for the labels*, with D attributes: no bound is missed by 4 D + 4 rows or
    more (``violation_`` is what was found, commonly below 3 rows), and ``inertia_`` is at most
    ``lp_value_``, the smallest cost that any labels *within* the bounds could have with these
    centres. With ``sample_weight`` all counts are sums of weights and the bound is 4 D + 4
    times the largest weight. Should an empty cluster have to be filled afterwards, or the
    bound be missed for numerical reasons, a ``FairnessWarning`` says so.

    The program has n k variables, but rows that clearly prefer one cluster under the
    prices of the bounds are put there at once and this is checked afterwards (the optimum is
    the exact one): below 1 s for 10,000 rows and 5 clusters, below 5 s for 100,000, up to
    some 20 s with weights or several attributes, and a minute for k-center.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    objective : {"kmeans", "kmedian", "kcenter"}, default="kmeans"
        The cost, and how centres are found: k-means; k-medoids by swaps (on samples of 2,000
        rows); farthest-first traversal. For k-center the program is a bisection over the
        distances for the least radius, then the least sum of distances within it.
    tolerance : float in [0, 1), default=0.2
        Relative slack of the default bounds; 0 asks for exact proportionality.
    lower, upper : dict, array-like of shape (n_groups,), or list of these, default=None
        Shares instead of the default bounds, by name (others keep the default) or for all
        groups in sorted order of the names. With several columns, a list with one such
        entry, or None, per column. The share of a group in the data must lie within.
    n_init : int, default=10
        Starts for the centres.
    max_iter : int, default=300
        Most iterations for the centres.
    random_state : int, RandomState instance or None, default=None
        Determines the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres of the unfair clustering, to which the rows were assigned.
    inertia_ : float
        Cost of the labels with these centres, a maximum for k-center.
    lp_value_ : float
        Optimal value of the linear program, the radius for k-center.
    violation_ : float
        By how many rows (or weight) the worst cell misses its bound; 0 if none does.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, of the intersection (tuples) if there are several columns.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Rows, or their weight, in each cluster and group.
    balance_ : float
        Smallest group over largest group in the worst cluster, from ``counts_``.
    attribute_groups_, attribute_counts_ : list of ndarray
        Names and table of each column.
    n_iter_ : int
        Iterations of the search for the centres.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [1] S. Bera, D. Chakrabarty, N. Flores, M. Negahbani, "Fair algorithms for clustering",
       NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import BoundedFairAssignment
    >>> X = np.arange(20.0)[:, np.newaxis]
    >>> group = np.where(X[:, 0] < 10, "low", "high")
    >>> model = BoundedFairAssignment(2, tolerance=0.4, random_state=0)
    >>> np.sort(model.fit(X, sensitive_features=group).counts_, axis=0)
    array([[3, 3],
           [7, 7]])
    """

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions({"kmeans", "kmedian", "kcenter"})],
        "tolerance": [Interval(Real, 0, 1, closed="left")],
        "lower": [None, dict, "array-like"],
        "upper": [None, dict, "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        objective="kmeans",
        tolerance=0.2,
        lower=None,
        upper=None,
        n_init=10,
        max_iter=300,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.objective = objective
        self.tolerance = tolerance
        self.lower = lower
        self.upper = upper
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Find centres, then the fair assignment to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Groups of each row; every column is an attribute with its own bounds.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the costs and in the bounds.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        attributes = _attributes(sensitive_features, groups)
        row_weights = np.ones(len(X)) if weights is None else weights
        limits = self._limits(attributes, row_weights)
        scale = power_of_two_scale(X)
        centers = self._find_centers(X * scale, row_weights)
        self.cluster_centers_ = centers / scale

        distance = cdist(X * scale, centers)
        cost = distance**2 if self.objective == "kmeans" else distance
        unit = scale**2 if self.objective == "kmeans" else scale
        labels, value = assign_within(
            cost, row_weights, groups.codes, [a.codes for a in attributes], limits,
            smallest_radius=self.objective == "kcenter",
        )  # fmt: skip
        self.lp_value_ = value / unit
        labels, n_filled = fill_empty_clusters(X * scale, labels, self.n_clusters)
        self._store_labels(labels, groups, weights)
        self._store_attributes(attributes, limits, row_weights, weights is None, n_filled)
        used = cost[np.arange(len(X)), self.labels_]
        if self.objective == "kcenter":
            self.inertia_ = float(used[row_weights > 0].max()) / unit
        else:
            self.inertia_ = float(row_weights @ used) / unit
        return self

    def _limits(self, attributes, weights):
        """Least and greatest share of each group of each attribute, as one array each."""
        lowers = _per_column(self.lower, len(attributes), "lower")
        uppers = _per_column(self.upper, len(attributes), "upper")
        limits = []
        for groups, lower, upper in zip(attributes, lowers, uppers, strict=True):
            share = np.bincount(groups.codes, weights=weights) / weights.sum()
            default = (1 - self.tolerance) * share, np.minimum(1, share / (1 - self.tolerance))
            low = _given_shares(lower, default[0], groups, "lower")
            high = _given_shares(upper, default[1], groups, "upper")
            _refuse_contradictions(low, high, share, groups)
            limits.append((low, high))
        return limits

    def _find_centers(self, X, weights):
        random_state = check_random_state(self.random_state)
        if self.objective != "kmeans":
            rows, self.n_iter_ = find_centers(
                X, weights, self.n_clusters, objective=self.objective, n_init=self.n_init,
                max_iter=self.max_iter, random_state=random_state,
            )  # fmt: skip
            return X[rows]
        model = KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=random_state
        )
        # Bits must not depend on the number of threads. Equal centres are no failure here: the
        # program puts mass in every cluster.
        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Number of distinct", ConvergenceWarning)
            model.fit(X, sample_weight=weights)
        self.n_iter_ = model.n_iter_
        return model.cluster_centers_

    def _store_attributes(self, attributes, limits, row_weights, unweighted, n_filled):
        """Set the tables per attribute and ``violation_``; warn if the promise is not met."""
        tables = [
            count_cells(self.labels_, a.codes, self.n_clusters, a.n_groups, row_weights)
            for a in attributes
        ]
        self.violation_ = max(map(_violation, tables, limits))
        if unweighted:
            tables = [table.astype(np.int64) for table in tables]
        self.attribute_groups_ = [a.public_names for a in attributes]
        self.attribute_counts_ = [
            a.to_public(table) for a, table in zip(attributes, tables, strict=True)
        ]
        promised = (4 * len(attributes) + 4) * row_weights.max()
        if n_filled or self.violation_ >= promised:
            warnings.warn(
                f"A bound is missed by {self.violation_:g} rows (in weight); {n_filled} empty "
                f"clusters had to be filled. Below {promised:g} was to be expected.",
                FairnessWarning,
                stacklevel=3,
            )


def _attributes(sensitive_features, groups):
    """The groups of each sensitive column by itself."""
    columns = [] if sensitive_features is None else _columns(sensitive_features)
    if len(columns) < 2:
        return [groups]
    return [check_groups(values, len(values)) for _, values in columns]


def _per_column(given, n_columns, name):
    if n_columns == 1 or given is None:
        return [given] * n_columns
    if not isinstance(given, (list, tuple)) or len(given) != n_columns:
        raise ValueError(
            f"{name}={given!r} should be a list with one entry for each of the {n_columns} columns "
            "of sensitive_features (None keeps a column's default)."
        )
    return given


def _given_shares(given, default, groups, name):
    """Shares in canonical order."""
    if given is None:
        return default
    if isinstance(given, dict):
        unknown = set(given) - set(groups.names)
        if unknown:
            raise ValueError(
                f"{name} names the groups {sorted(map(str, unknown))}, which are not in "
                f"sensitive_features: {groups.public_names.tolist()}."
            )
        pairs = zip(groups.names, default, strict=True)
        shares = np.array([given.get(group, share) for group, share in pairs], dtype=np.float64)
    else:
        shares = np.asarray(given, dtype=np.float64)
        if shares.shape != (groups.n_groups,):
            raise ValueError(
                f"{name} has shape {shares.shape}, expected ({groups.n_groups},): one share for "
                f"each of the groups {groups.public_names.tolist()}."
            )
        shares = groups.from_public(shares)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"{name}={given!r} should hold shares between 0 and 1.")
    return shares


def _refuse_contradictions(low, high, share, groups):
    for r, name in enumerate(groups.names):
        if low[r] > high[r]:
            raise ValueError(f"Group {name!r} has lower={low[r]:g} > upper={high[r]:g}.")
        if not low[r] - 1e-12 <= share[r] <= high[r] + 1e-12:
            raise ValueError(
                f"Group {name!r} has the share {share[r]:g} of the data, which is not between "
                f"lower={low[r]:g} and upper={high[r]:g}: no clustering has all clusters within "
                "bounds that all rows together are outside of."
            )


def _violation(table, limits):
    low, high = limits
    size = table.sum(axis=1, keepdims=True)
    return float(max(0.0, (low * size - table).max(), (table - high * size).max()))


# The linear program. Equal rows are one: `mass` of them, each of weight `unit`.


@dataclass
class FairProgram:
    """Minimise ``sum cost x``, rows of x summing to ``mass``, groups within limits.

    Attributes
    ----------
    cost : ndarray of shape (n_rows, n_clusters)
        Cost of a unit of mass; infinity forbids the pair.
    mass, unit : ndarray of shape (n_rows,)
        Number of equal rows, and the weight of each.
    codes : list of ndarray of shape (n_rows,)
        Group of each row, for each attribute.
    limits : list of (ndarray, ndarray)
        Least and greatest share of each group, for each attribute.
    least : float
        Least weight of a cluster.
    """

    cost: np.ndarray
    mass: np.ndarray
    unit: np.ndarray
    codes: list
    limits: list
    least: float

    def cells(self, rows, clusters):
        """Matrix that sums the weight of pairs into cells (attribute, group, cluster)."""
        n_clusters = self.cost.shape[1]
        blocks = [
            sparse.csr_array(
                (self.unit[rows], (code[rows] * n_clusters + clusters, np.arange(len(rows)))),
                shape=(len(low) * n_clusters, len(rows)),
            )
            for code, (low, _) in zip(self.codes, self.limits, strict=True)
        ]
        return sparse.vstack(blocks, format="csr")

    def subset(self, rows, mass):
        """The program of some rows, with other masses."""
        codes = [code[rows] for code in self.codes]
        return FairProgram(self.cost[rows], mass, self.unit[rows], codes, self.limits, self.least)

    def sizes_of_cells(self):
        """Matrices that sum cells to clusters, for each attribute (rows: attribute, cluster)."""
        each = sparse.eye_array(self.cost.shape[1])
        return sparse.block_diag([sparse.hstack([each] * len(low)) for low, _ in self.limits])

    def joint_codes(self):
        return np.unique(np.stack(self.codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)

    def priced(self, prices):
        """Costs after the prices of the cells were taken off."""
        n_clusters, start = self.cost.shape[1], 0
        priced = self.cost.copy()
        for code, (low, _) in zip(self.codes, self.limits, strict=True):
            table = prices[start : start + len(low) * n_clusters].reshape(-1, n_clusters)
            priced -= self.unit[:, None] * table[code]
            start += table.size
        return priced


def assign_within(cost, weights, joint_codes, codes, limits, *, smallest_radius):
    """Labels of all rows, and the value of the linear program.

    Rows without weight take no part: they go to their nearest centre.
    """
    labels = np.argmin(cost, axis=1)
    counted = np.flatnonzero(weights > 0)
    key = np.column_stack([cost, joint_codes, weights])[counted]
    _, first, merged = np.unique(key, axis=0, return_index=True, return_inverse=True)
    merged, first = merged.reshape(-1), counted[first]
    heaviest = weights.max()
    unit = weights[first] / heaviest
    mass = np.bincount(merged).astype(np.float64)
    least = min(unit.min(), mass @ unit / cost.shape[1])
    program_cost = cost[first] if smallest_radius else cost[first] * unit[:, None]
    program = FairProgram(program_cost, mass, unit, [c[first] for c in codes], limits, least)
    if smallest_radius:
        value = _least_radius(program)
        program.cost = np.where(program.cost <= value, program.cost, np.inf)
    x = _nearest_if_within(program)
    if x is None:
        solution = solve_program(program)
        if solution is None:
            raise RuntimeError("HiGHS finds no fair assignment, though one exists.")
        x = solution[0]
    if not smallest_radius:
        value = heaviest * float((program.cost * x).sum())
    whole = round_masses(program, x)
    in_merged_order = counted[np.argsort(merged, kind="stable")]
    labels[in_merged_order] = np.repeat(np.tile(np.arange(cost.shape[1]), len(mass)), whole.ravel())
    return labels, value


def solve_program(program):
    """Masses of an optimal vertex and the prices of the cells; None if infeasible.

    Only rows without a clear preference, under the prices of a smaller sample, enter the
    program at first. With its prices all the others are checked, and join if they would
    rather be elsewhere: when none would, the optimum is that of the whole program.
    """
    n_rows, n_clusters = program.cost.shape
    rows = np.arange(n_rows)
    if n_rows <= PROGRAM_ROWS:
        return _solve(program)
    sampled = solve_program(_sampled(program))
    priced = program.cost if sampled is None else program.priced(sampled[1])
    chosen = np.argmin(priced, axis=1)
    by_margin = np.argsort(np.diff(np.sort(priced, axis=1)[:, :2])[:, 0], kind="stable")
    free = by_margin[: max(PROGRAM_ROWS, int(3 * np.sqrt(n_rows * n_clusters)))]
    while True:
        fixed = np.setdiff1d(rows, free)
        held = program.cells(fixed, chosen[fixed]) @ program.mass[fixed]
        solution = _solve(program.subset(free, program.mass[free]), held)
        if solution is None and len(fixed) == 0:
            return None
        wrong = fixed
        if solution is not None:
            priced = program.priced(solution[1])
            slack = 1e-9 * np.abs(priced[np.isfinite(priced)]).max()
            wrong = fixed[priced[fixed, chosen[fixed]] > priced[fixed].min(axis=1) + slack]
            if len(wrong) == 0:
                x = np.zeros(program.cost.shape)
                x[rows, chosen] = program.mass
                x[free] = solution[0]
                return x, solution[1]
        if len(wrong) > len(free) // 4:
            # Too few rows can move: the limits cannot be met, or only at extreme prices.
            wrong = by_margin[: 2 * len(free)]
        free = np.union1d(free, wrong)


def _nearest_if_within(program):
    """Masses of the cheapest assignment of all, or None if it does not meet the limits."""
    rows, nearest = np.arange(len(program.mass)), np.argmin(program.cost, axis=1)
    cells = program.cells(rows, nearest) @ program.mass
    n_clusters = program.cost.shape[1]
    ends = np.cumsum([len(low) * n_clusters for low, _ in program.limits])
    tables = [table.reshape(-1, n_clusters).T for table in np.split(cells, ends[:-1])]
    worst = max(map(_violation, tables, program.limits))
    if tables[0].sum(axis=1).min() < program.least or worst > 1e-12 * cells.sum():
        return None
    x = np.zeros(program.cost.shape)
    x[rows, nearest] = program.mass
    return x


def _sampled(program):
    """A program of evenly spaced rows of each joint group, which stand for the whole group.

    Masses are scaled so that the joint groups keep their weight, and the limits feasible.
    """
    joint = program.joint_codes()
    order = np.argsort(joint, kind="stable")
    step = min(8, len(order) // PROGRAM_ROWS + 1)
    first_of_group = np.unique(joint[order], return_index=True)[1]
    sample = np.union1d(order[::step], order[first_of_group])
    weight = program.mass * program.unit
    factor = np.bincount(joint, weights=weight) / np.bincount(joint[sample], weights=weight[sample])
    return program.subset(sample, program.mass[sample] * factor[joint[sample]])


def _solve(program, held=0.0):
    """Masses and the prices of the cells; None if infeasible.

    Variables are the masses of the allowed pairs, the weights of the cells and those of the
    clusters; ``held`` is the weight of rows that are not in the program in each cell.
    """
    rows, clusters = np.nonzero(np.isfinite(program.cost))
    cells = program.cells(rows, clusters)
    sums = program.sizes_of_cells()
    (n_rows, n_clusters), (n_cells, n_pairs) = program.cost.shape, cells.shape
    sizes = sparse.vstack([sparse.eye_array(n_clusters)] * len(program.limits))
    pairs = sparse.csr_array((np.ones(n_pairs), (rows, np.arange(n_pairs))), (n_rows, n_pairs))
    equal = sparse.block_array(
        [[pairs, None, None], [cells, -sparse.eye_array(n_cells), None], [None, sums, -sizes]]
    )
    low, high = (
        np.concatenate([np.repeat(limits[side], n_clusters) for limits in program.limits])
        for side in (0, 1)
    )
    size_of_cell = sparse.vstack([sparse.eye_array(n_clusters)] * (n_cells // n_clusters))
    below = sparse.hstack([-sparse.eye_array(n_cells), size_of_cell * low[:, None]])
    above = sparse.hstack([sparse.eye_array(n_cells), size_of_cell * -high[:, None]])
    within = sparse.vstack([below, above])
    regret = (program.cost - program.cost.min(axis=1, keepdims=True))[rows, clusters]
    typical = regret.mean() or 1.0
    lowest = np.repeat([0.0, program.least], [n_pairs + n_cells, n_clusters])
    result = linprog(
        np.concatenate([regret / typical, np.zeros(n_cells + n_clusters)]),
        A_ub=sparse.hstack([sparse.csr_array((within.shape[0], n_pairs)), within]),
        b_ub=np.zeros(within.shape[0]),
        A_eq=equal,
        b_eq=np.concatenate([program.mass, np.zeros(n_cells) - held, np.zeros(sums.shape[0])]),
        bounds=np.column_stack([lowest, np.full(len(lowest), np.inf)]),
        method="highs-ds",
        options={"presolve": False},  # presolve alone took 9 s where the simplex needs 0.5 s
    )
    if result.status == 2:
        return None
    if result.status != 0:
        raise RuntimeError(f"HiGHS could not solve the fair assignment: {result.message}")
    x = np.zeros(program.cost.shape)
    x[rows, clusters] = result.x[:n_pairs]
    prices = result.eqlin.marginals[n_rows : n_rows + n_cells] * typical
    return x, prices


def _least_radius(program):
    """Least distance within which masses can meet the limits; rows alike in reach are merged."""
    joint = program.joint_codes()
    candidates = np.unique(program.cost)
    low = int(np.searchsorted(candidates, program.cost.min(axis=1).max()))
    high = len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        reach = program.cost <= candidates[middle]
        key = np.column_stack([joint, np.packbits(reach, axis=1)])
        _, first, merged = np.unique(key, axis=0, return_index=True, return_inverse=True)
        mass = np.bincount(merged.reshape(-1), weights=program.mass * program.unit)
        probe = program.subset(first, mass)
        probe.cost = np.where(reach[first], 0.0, np.inf)
        probe.unit = np.ones(len(first))
        if _solve(probe) is None:
            low = middle + 1
        else:
            high = middle
    return float(candidates[low])


def round_masses(program, x):
    """Integer masses, by solving smaller and smaller programs on what is still fractional.

    Clusters and cells keep their weight, within its floor and ceiling if all weights are
    equal. When a program leaves nothing integral, the restrictions with the fewest fractional
    masses are dropped: at a vertex these are at most 2 (D + 1), so their weight changes by
    less than as many rows. The cost never rises, as the old masses stay feasible.
    """
    sums = program.sizes_of_cells().tocsr()[: x.shape[1]]
    totals = sparse.vstack([sums, sparse.eye_array(sums.shape[1])], format="csr")
    rows, clusters = np.nonzero(x)
    matrix = totals @ program.cells(rows, clusters)
    low = high = matrix @ x[rows, clusters]
    if (program.unit == 1).all():
        low, high = np.floor(low + 10 * INTEGRAL), np.ceil(high - 10 * INTEGRAL)
    live = np.ones(len(low), dtype=bool)
    whole, part = _split_masses(x)
    done = matrix @ whole[rows, clusters]
    while part.any():
        rows, clusters = np.nonzero(part)
        matrix = totals @ program.cells(rows, clusters)
        n_fractional = np.diff(matrix.indptr)
        live &= n_fractional > 0
        masses = _resolve(
            program.cost[rows, clusters], rows, part[rows, clusters], matrix[live],
            (low - done)[live], (high - done)[live],
        )  # fmt: skip
        if masses is not None:
            more, part[rows, clusters] = _split_masses(masses)
            whole[rows, clusters] += more
            done += matrix @ more
        if np.count_nonzero(part) == len(rows):
            live &= n_fractional > n_fractional[live].min()
    return np.rint(whole).astype(np.int64)


def _split_masses(x):
    whole = np.floor(x + INTEGRAL)
    part = np.where(x - whole > INTEGRAL, x - whole, 0.0)
    return whole, part


def _resolve(cost, rows, masses, matrix, low, high):
    """A vertex of the program on fractional masses; None if HiGHS finds none."""
    _, at = np.unique(rows, return_inverse=True)
    n_pairs = len(rows)
    equal = sparse.csr_array((np.ones(n_pairs), (at.reshape(-1), np.arange(n_pairs))))
    result = linprog(
        cost / (np.abs(cost).max() or 1.0),
        A_ub=sparse.vstack([matrix, -matrix]),
        b_ub=np.concatenate([high, -low]) + 10 * INTEGRAL,
        A_eq=equal,
        b_eq=np.rint(np.bincount(at.reshape(-1), weights=masses)),
        bounds=(0, 1),
        method="highs-ds",
    )
    return result.x if result.status == 0 else None
