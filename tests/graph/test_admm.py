"""The paper's ADMM: two small tables carry it, to the digits of the full matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from fairanchor.graph import (
    ADMMSolver,
    AnchorGraphProblem,
    NewtonSolver,
    RowSolver,
    warn_not_converged,
)
from fairanchor.rows import MemoryRows
from tiers import first_is_fast


def make_case(seed=0, *, n=30, d=3, m=6, c=3, h=2, alpha=0.5, feasible=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    labels = np.arange(m) % c
    codes = np.concatenate([np.arange(h), rng.integers(0, h, n - h)])
    sizes = np.bincount(codes, minlength=h)
    targets = (rng.dirichlet(np.full(c, 5.0), size=h) * sizes[:, None]).T
    if not feasible:  # the first group is asked for more than it has, the others for less
        targets[:, 0] *= 1.3
        targets[:, 1:] *= (n - 1.3 * sizes[0]) / (n - sizes[0])
    problem = AnchorGraphProblem(X[:m].copy(), labels, c, alpha)
    return problem, MemoryRows(X, codes, h), targets


# --- oracle: the paper's matrices, m x n, as it prints them ---------------------------------


def frank_wolfe(Q, c, z, n_steps, gap_tol, curvature_tol):
    """Minimise z'Qz / 2 + c'z over the simplex (the paper's Algorithm 3)."""
    z = z.copy()
    for _ in range(n_steps):
        gradient = Q @ z + c
        direction = -z
        direction[np.argmin(gradient)] += 1.0
        gap = -gradient @ direction
        if gap <= gap_tol:
            break
        curvature = direction @ Q @ direction
        z = z + (1.0 if curvature <= curvature_tol else min(1.0, gap / curvature)) * direction
    return z


def literal_admm(problem, rows, targets, solver, n_iter):
    """Algorithm 2 with full Lambda and E; the penalty adapts from the first iteration on."""
    H, X = problem.H.T, (rows.X - problem.center).T
    m, n = problem.n_anchors, rows.n_rows
    cells = [
        (l, r, np.ix_(problem.anchor_labels == l, rows.group_codes == r))
        for l in range(targets.shape[0])
        for r in range(targets.shape[1])
    ]
    Z = np.full((m, n), 1.0 / m)
    rho = 2 * np.trace(H.T @ H) / m if solver.rho is None else solver.rho
    E, Lambda = Z.copy(), np.zeros((m, n))
    records = []
    for k in range(n_iter):
        Q = 2.0 * (H.T @ H + problem.alpha * np.eye(m)) + rho * np.eye(m)
        for i in range(n):
            c = -2.0 * H.T @ X[:, i] - rho * E[:, i] + Lambda[:, i]
            Z[:, i] = frank_wolfe(
                Q, c, Z[:, i], solver.n_inner, solver.gap_tol, solver.curvature_tol
            )
        E_old, E = E, Z + Lambda / rho
        for l, r, cell in cells if solver.constrained else ():
            E[cell] += (targets[l, r] - E[cell].sum()) / E[cell].size
        Lambda = Lambda + rho * (Z - E)
        objective = ((X - H @ Z) ** 2).sum() + problem.alpha * (Z**2).sum()
        r, s = np.linalg.norm(Z - E), rho * np.linalg.norm(E - E_old)
        records.append(
            {
                "r": r,
                "s": s,
                "rho": rho,
                "objective": objective,
                "norm": max(np.linalg.norm(Z), np.linalg.norm(E)),
                "multiplier_norm": np.linalg.norm(Lambda),
                "augmented_lagrangian": objective + (Lambda * (Z - E)).sum() + rho / 2 * r**2,
            }
        )
        if k % solver.adapt_every == 0:
            if r > solver.ratio * s:
                rho *= solver.factor
            elif s > solver.ratio * r:
                rho /= solver.factor
            records[-1]["s"] = rho * np.linalg.norm(E - E_old)
    return Z.T, Lambda, records


@pytest.mark.parametrize("feasible", first_is_fast([True, False]))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_inner": 5, "adapt_every": 3},
        {"rho": 100.0, "adapt_every": 4},
        {"rho": 1e-2, "adapt_every": 2, "factor": 3.0, "ratio": 2.0},
        {"constrained": False, "n_inner": 3},
    ],
)
def test_two_small_tables_equal_the_full_matrices(options, feasible):
    problem, rows, targets = make_case(feasible=feasible)
    # No iteration may end early: tolerances that nothing meets.
    solver = ADMMSolver(max_iter=40, tol=0.0, absolute_tol=0.0, **options)
    result = solver.solve(problem, rows, targets)
    Z, Lambda, records = literal_admm(problem, rows, targets, solver, 40)
    soft_labels = Z @ np.eye(problem.n_clusters)[problem.anchor_labels]
    assert_allclose(result.soft_labels, soft_labels, atol=1e-10)
    full = result.multipliers[problem.anchor_labels][:, rows.group_codes]
    assert_allclose(Lambda, full, atol=1e-10 * (1 + np.abs(Lambda).max()))
    assert len(result.history) == 40
    for name in records[0]:
        found = [record[name] for record in result.history]
        expected = [record[name] for record in records]
        assert_allclose(found, expected, rtol=1e-8, atol=1e-10, err_msg=name)


def test_the_printed_stopping_rule_bounds_both_residuals():
    problem, rows, targets = make_case(n=15, m=5, alpha=2.0)
    solver = ADMMSolver(max_iter=2000, stopping="printed", tol=1e-3)
    result = solver.solve(problem, rows, targets)
    largest = [max(record["r"], record["s"]) for record in result.history]
    assert result.converged
    assert largest[-1] < 1e-3 <= min(largest[:-1])


def test_without_the_constraint_every_row_is_reconstructed_best():
    problem, rows, targets = make_case(alpha=2.0)
    free = ADMMSolver(max_iter=300, constrained=False, absolute_tol=1e-7, gap_tol=1e-12)
    result = free.solve(problem, rows, targets)
    assert result.converged
    multipliers, everyone = np.zeros(targets.shape), np.ones((2, problem.n_anchors), dtype=bool)
    assert_array_equal(result.multipliers, multipliers)
    soft_labels = np.empty((rows.n_rows, problem.n_clusters))
    (block,) = rows.blocks()
    RowSolver(problem, multipliers, everyone).sweep(block, np.ones(2, dtype=bool), soft_labels)
    assert_allclose(result.soft_labels, soft_labels, atol=0.02)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_first_penalty_follows_the_unit_of_the_features(scale):
    problem, rows, targets = make_case()
    scaled = AnchorGraphProblem(problem.anchors * scale, problem.anchor_labels, 3, 0.5 * scale**2)
    X = MemoryRows(rows.X * scale, rows.group_codes, 2)
    # The printed rule compares residuals of different units: here the penalty is constant.
    solver = ADMMSolver(max_iter=30, gap_tol=0.0, curvature_tol=0.0, ratio=np.inf)
    result, expected = solver.solve(scaled, X, targets), solver.solve(problem, rows, targets)
    assert_allclose(result.history[0]["rho"], scale**2 * expected.history[0]["rho"])
    assert_allclose(result.soft_labels, expected.soft_labels, atol=1e-6)


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_limit_agrees_with_newton(seed):
    problem, rows, targets = make_case(seed, n=15, m=5, alpha=2.0)
    newton = NewtonSolver(tol=1e-10).solve(problem, rows, targets)
    admm = ADMMSolver(max_iter=600, tol=1e-6, absolute_tol=1e-6, n_inner=400, gap_tol=1e-10).solve(
        problem, rows, targets
    )
    assert_allclose(admm.soft_labels, newton.soft_labels, atol=0.02)
    assert_allclose(admm.objective, newton.objective, rtol=1e-3)
    # Prices of one group may all be shifted; their differences may not.
    centred = lambda table: table - table.mean(axis=0)  # noqa: E731
    assert_allclose(
        centred(admm.multipliers), centred(newton.multipliers), atol=0.05 * problem.alpha
    )


def test_convergence_means_that_both_residuals_are_small():
    problem, rows, targets = make_case(n=15, m=5, alpha=2.0)
    solver = ADMMSolver(max_iter=2000)
    result = solver.solve(problem, rows, targets)
    assert result.converged
    assert result.n_iter < 2000
    scale = np.sqrt(15 * 5) * solver.absolute_tol
    first_rho = result.history[0]["rho"]
    *earlier, last = result.history

    def met(record):
        primal = record["r"] <= scale + solver.tol * record["norm"]
        dual = record["s"] <= first_rho * scale + solver.tol * record["multiplier_norm"]
        return primal and dual

    assert met(last)
    assert not any(map(met, earlier))


def test_result_describes_its_last_iterate():
    problem, rows, targets = make_case()
    result = ADMMSolver(max_iter=30).solve(problem, rows, targets)
    own = [result.soft_labels[rows.group_codes == r].sum(axis=0) for r in range(2)]
    assert_allclose(result.mass, np.transpose(own), atol=1e-10)
    assert_allclose(result.mass_error, np.abs(result.mass - targets).max(), atol=1e-12)
    assert_allclose(result.soft_labels.sum(axis=1), 1.0, atol=1e-12)
    assert result.soft_labels.min() >= 0
    assert [record["sweep"] for record in result.history] == list(range(1, result.n_iter + 1))


def test_targets_that_nothing_meets_do_not_converge_and_the_penalty_grows():
    """The simplex gives each group its size; the paper's table may ask for more (T1)."""
    problem, rows, targets = make_case(feasible=False)
    solver = ADMMSolver(max_iter=600)
    result = solver.solve(problem, rows, targets)
    assert not result.converged
    penalties = [record["rho"] for record in result.history]
    assert penalties[-1] > 1e6 * penalties[0]
    assert np.isfinite(result.soft_labels).all()
    # Every group lacks what it was asked for in excess of its size.
    missing = (targets - result.mass).sum(axis=0)
    assert_allclose(missing, targets.sum(axis=0) - rows.group_sizes, atol=1e-9)
    with pytest.warns(ConvergenceWarning, match="samples away from its target"):
        warn_not_converged(result)


def test_number_of_threads_does_not_change_a_bit():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(9000, 2)), rng.integers(0, 2, 9000)
    problem = AnchorGraphProblem(X[:4].copy(), np.arange(4) % 2, 2, 1.0)
    targets = np.outer([0.5, 0.5], np.bincount(codes)).astype(float)
    one, two = (
        ADMMSolver(max_iter=5).solve(problem, MemoryRows(X, codes, 2, n_jobs=jobs), targets)
        for jobs in (1, 2)
    )
    assert_array_equal(one.soft_labels, two.soft_labels)


def test_sample_weights_are_refused():
    problem, rows, targets = make_case()
    weighted = MemoryRows(rows.X, rows.group_codes, 2, weights=np.ones(rows.n_rows))
    with pytest.raises(ValueError, match="does not take sample_weight.*newton"):
        ADMMSolver().solve(problem, weighted, targets)
