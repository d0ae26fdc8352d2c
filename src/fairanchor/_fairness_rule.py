"""From what the user asks for to limits on the clusters, and to targets of the anchor graph."""

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairanchor._fairness_targets import FairnessTargets
from fairanchor.assignment._feasibility import check_limits
from fairanchor.assignment._limit_rule import LimitRule, proportional_rule
from fairanchor.assignment._share_limits import LimitRows, ShareLimits
from fairanchor.graph._row_solvers import allowed_anchors, choose_row_solver, require_solved


def has_limits(fairness, tolerance, attributes):
    """Whether limits are asked for, instead of a table of targets."""
    return tolerance > 0.0 or attributes == "separate" or is_limits(fairness)


def check_request(fairness, tolerance, attributes, solver, assignment):
    """Refuse combinations of parameters that mean nothing."""
    if not has_limits(fairness, tolerance, attributes):
        return
    asked = f"tolerance={tolerance}" if tolerance > 0.0 else f"attributes={attributes!r}"
    if is_limits(fairness):
        asked = f"fairness={fairness!r}"
    if assignment != "balanced":
        raise ValueError(
            f"{asked} needs assignment='balanced', got {assignment!r}: the largest soft label "
            "keeps no limit."
        )
    if solver != "newton" or (isinstance(fairness, str) and fairness == "paper"):
        raise ValueError(
            f"{asked} needs solver='newton' and a fairness that can be met, got solver={solver!r} "
            f"and fairness={fairness!r}: limits are kept by exact prices."
        )
    if is_limits(fairness) and tolerance > 0.0:
        raise ValueError(
            f"tolerance={tolerance} is given and fairness is {fairness!r}: state the tolerance in "
            "FairnessTargets(tolerance=...)."
        )


def rule_of(fairness, tolerance, attributes, groups, rows, *, min_size, targets, unit=1.0):
    """Limits on the clusters, or None if a table of targets is all that is asked for.

    Parameters
    ----------
    fairness : str, table, FairnessTargets or list of FairnessTargets
    tolerance : float
    attributes : Attributes or None
        None if the combinations of all columns are one attribute.
    groups : Groups
    rows : MemoryRows
    min_size : float
        Least weight of a cluster; of clusters that mirror the population.
    targets : ndarray of shape (n_clusters, n_groups)
        Around whose shares a tolerance is, unless they are the population's.
    unit : float
        What one row weighs in the user's units.

    Returns
    -------
    rule : LimitRule or None
    """
    joint = None if attributes is None else attributes.joint_of_several
    n_clusters = len(targets)
    if is_limits(fairness):
        return _rule_of_targets(fairness, attributes, groups, rows, n_clusters, unit)
    by_population = isinstance(fairness, str) and fairness == "population"
    if joint is not None and not by_population:
        raise ValueError(
            f"attributes='separate' with {joint.shape[1]} columns needs fairness='population' or a "
            f"list of FairnessTargets, one for each column; got fairness={fairness!r}, which is "
            "about their combinations."
        )
    if tolerance == 0.0 and joint is None:
        return None
    if by_population:
        # Where rows are whole, a cluster has at least one.
        least = min_size if rows.is_weighted else max(min_size, 1.0)
        sizes = rows.group_sizes
        return proportional_rule(sizes, n_clusters, tolerance, min_size=least, joint=joint)
    return LimitRule((_around(targets, tolerance),))


def nearest_targets(rule, problem, rows):
    """Targets of the anchor graph within the limits, as near as possible to what it does alone.

    Parameters
    ----------
    rule : LimitRule
    problem : AnchorGraphProblem
    rows : MemoryRows

    Returns
    -------
    targets : ndarray of shape (n_clusters, n_groups)
        Those that differ least, in the sum of all cells, from the mass that the anchors of each
        cluster get of each group without any constraint.
    """
    mass = _mass_without_prices(problem, rows)
    constraints = LimitRows.of(list(rule.limits), rule.joint).constraints
    if len(constraints.right) == 0 or constraints.excess(mass) <= 1e-9 * rows.total:
        return mass
    n_clusters, n_groups = mass.shape
    n_cells = mass.size
    identity = sparse.eye_array(n_cells)
    nothing = sparse.csr_array((len(constraints.right), n_cells))
    limits = sparse.hstack([constraints.matrix, nothing], format="csr")
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups))
    whole = sparse.hstack([of_groups, sparse.csr_array((n_groups, n_cells))])
    equal, flat = constraints.is_equal, mass.ravel()
    # Variables: the cells, and their distances from the mass.
    solution = linprog(
        np.repeat([0.0, 1.0], n_cells),
        A_ub=sparse.vstack(
            [
                sparse.hstack([identity, -identity]),
                sparse.hstack([-identity, -identity]),
                limits[~equal],
            ]
        ),
        b_ub=np.concatenate([flat, -flat, constraints.right[~equal]]),
        A_eq=sparse.vstack([whole, limits[equal]]),
        b_eq=np.concatenate([rows.group_sizes, constraints.right[equal]]),
        method="highs",
    )
    if solution.status != 0:
        raise RuntimeError(f"HiGHS found no targets within the limits: {solution.message}")
    table = np.maximum(solution.x[:n_cells].reshape(mass.shape), 0.0)
    totals = table.sum(axis=0)
    return table * np.divide(rows.group_sizes, totals, out=np.ones(n_groups), where=totals > 0)


def allowed_cells(rule, n_groups):
    """Cells that the limits do not forbid altogether."""
    allowed = np.ones((rule.n_clusters, n_groups), dtype=bool)
    for a, own in enumerate(rule.limits):
        codes = np.arange(n_groups) if rule.joint is None else rule.joint[:, a]
        allowed &= own.upper[:, codes] > 0.0
    return allowed


def is_limits(fairness):
    """Whether these are `FairnessTargets`, or a list of them."""
    if isinstance(fairness, FairnessTargets):
        return True
    listed = isinstance(fairness, (list, tuple)) and len(fairness) > 0
    return listed and all(isinstance(own, FairnessTargets) for own in fairness)


def _rule_of_targets(fairness, attributes, groups, rows, n_clusters, unit):
    each = list(fairness) if isinstance(fairness, (list, tuple)) else [fairness]
    joint = None if attributes is None else attributes.joint_of_several
    n_attributes = 1 if joint is None else joint.shape[1]
    if len(each) != n_attributes:
        raise ValueError(
            f"fairness has {len(each)} FairnessTargets, expected {n_attributes}: one for each "
            "attribute, which with attributes='separate' is each column."
        )
    if joint is None:
        limits = each[0].resolve(groups, n_clusters, group_sizes=rows.group_sizes)
        limits, names = [limits], [groups.names]
    else:
        names = attributes.names
        sizes = [np.bincount(codes, weights=rows.group_sizes) for codes in joint.T]
        triples = zip(each, sizes, names, strict=True)
        limits = [own.limits_for(size, name, n_clusters) for own, size, name in triples]
    limits = [_in_rows(own, rows, unit) for own in limits]
    if joint is not None:
        limits[0] = _with_all_sizes(limits)
    names = [list(own) for own in names]
    titles = None if joint is None else attributes.titles
    check_limits(limits, rows.group_sizes, names, joint, titles).raise_if_infeasible()
    return LimitRule(tuple(limits), joint)


def _in_rows(limits, rows, unit):
    """Sizes in rows instead of the user's weights; where rows are whole, none is empty."""
    least, greatest = limits.least / unit, limits.greatest / unit
    in_rows = ShareLimits(limits.lower, limits.upper, least, greatest)
    if rows.is_weighted:
        return in_rows
    whole = in_rows.in_whole_rows()
    return replace(whole, least=np.maximum(whole.least, np.minimum(1.0, whole.greatest)))


def _with_all_sizes(limits):
    """The first attribute's limits with the sizes that all attributes together allow."""
    return ShareLimits(
        limits[0].lower,
        limits[0].upper,
        np.max([own.least for own in limits], axis=0),
        np.min([own.greatest for own in limits], axis=0),
    )


def _around(targets, tolerance):
    """Shares of a table's clusters up to a tolerance, sizes free; no rows where it has none."""
    sizes = targets.sum(axis=1)
    shares = np.divide(targets, sizes[:, None], out=np.zeros(targets.shape),
                       where=sizes[:, None] > 0)  # fmt: skip
    upper = np.ones(targets.shape)
    if tolerance < 1.0:
        upper = np.minimum(shares / (1.0 - tolerance), 1.0)
    greatest = np.where(sizes > 0, np.inf, 0.0)
    upper[sizes == 0] = 1.0
    return ShareLimits((1.0 - tolerance) * shares, upper, np.zeros(len(sizes)), greatest)


def _mass_without_prices(problem, rows):
    """Mass of each group on the anchors of each cluster when nothing is asked for."""
    shape = (problem.n_clusters, rows.n_groups)
    nothing, everything = np.zeros(shape), np.ones(shape)
    solver = choose_row_solver(problem, rows, nothing, everything)
    priced = solver.at(nothing, allowed_anchors(problem, everything))
    everyone = np.ones(rows.n_groups, dtype=bool)

    def add(block):
        soft_labels = np.empty((len(block.X), problem.n_clusters))
        mass, _, _, counts = priced.sweep(block, everyone, soft_labels, with_curvature=False)
        require_solved(counts, len(block.X), problem)
        return (mass,)

    return rows.sum(add)[0]
