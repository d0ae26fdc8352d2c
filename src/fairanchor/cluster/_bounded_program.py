"""Fair assignment to given centres: the linear program and its rounding.

Equal rows are one: ``mass`` of them, each of weight ``unit``.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

#: Rows of a sample, and of the first restricted program; below this all rows enter at once.
PROGRAM_ROWS = 1000

#: Masses this close to an integer are one: the accuracy that HiGHS promises.
INTEGRAL = 1e-7


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
        return solve_whole(program)
    sampled = solve_program(_sampled(program))
    priced = program.cost if sampled is None else program.priced(sampled[1])
    chosen = np.argmin(priced, axis=1)
    by_margin = np.argsort(np.diff(np.sort(priced, axis=1)[:, :2])[:, 0], kind="stable")
    free = by_margin[: max(PROGRAM_ROWS, int(3 * np.sqrt(n_rows * n_clusters)))]
    while True:
        fixed = np.setdiff1d(rows, free)
        held = program.cells(fixed, chosen[fixed]) @ program.mass[fixed]
        solution = solve_whole(program.subset(free, program.mass[free]), held)
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
    worst = max(map(worst_violation, tables, program.limits))
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


def solve_whole(program, held=0.0):
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
        if solve_whole(probe) is None:
            low = middle + 1
        else:
            high = middle
    return float(candidates[low])


# Rounding.


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


def worst_violation(table, limits):
    """By how much the worst cell of a table clusters × groups misses its share; 0 if none does."""
    low, high = limits
    size = table.sum(axis=1, keepdims=True)
    return float(max(0.0, (low * size - table).max(), (table - high * size).max()))
