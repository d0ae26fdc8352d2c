"""The dual Newton method: its optimum is the one that a general convex solver finds."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import spsolve
from sklearn.exceptions import ConvergenceWarning

from fairanchor import AnchorFairClustering, ReconstructionGraph
from fairanchor.graph import (
    AnchorGraphProblem,
    NewtonSolver,
    RowSolver,
    allowed_anchors,
    sufficient_multipliers,
    warn_not_converged,
)
from fairanchor.graph import _newton as newton
from fairanchor.rows import MemoryRows
from tiers import first_is_fast

ALPHAS = [1e-4, 1e-2, 1.0, 100.0]


class Case:
    """A random feasible problem."""

    def __init__(self, seed, *, n=50, d=3, m=9, c=3, h=2, alpha=1.0, spread=5.0, equal=False):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, d))
        self.H = self.X[:m].copy()
        if equal:
            self.H[1], self.H[4] = self.H[0], self.H[3]
        self.labels = np.arange(m) % c
        self.codes = np.concatenate([np.arange(h), rng.integers(0, h, n - h)])
        self.sizes = np.bincount(self.codes, minlength=h)
        self.targets = (rng.dirichlet(np.full(c, spread), size=h) * self.sizes[:, None]).T
        self.alpha = alpha
        self.c, self.h, self.m, self.n = c, h, m, n

    @property
    def problem(self):
        return AnchorGraphProblem(self.H, self.labels, self.c, self.alpha)

    def rows(self, weights=None, n_jobs=None):
        return MemoryRows(self.X, self.codes, self.h, weights=weights, n_jobs=n_jobs)

    def solve(self, tol=1e-11, samples=(), **options):
        solver = NewtonSolver(tol=tol, **options)
        return solver.solve(self.problem, self.rows(), self.targets, samples)

    def anchor_weights(self, result):
        """Z at the result's multipliers."""
        allowed = allowed_anchors(self.problem, self.targets)
        (block,) = self.rows().blocks()
        return RowSolver(self.problem, result.multipliers, allowed).weights(block)

    def objective(self, Z):
        return ((self.X - Z @ self.H) ** 2).sum() + self.alpha * (Z**2).sum()

    def cell_mass(self, soft_labels):
        return np.array([soft_labels[self.codes == r].sum(axis=0) for r in range(self.h)]).T


# --- oracle --------------------------------------------------------------------------------


def convex_solution(case):
    """Z by an interior-point method on all n * m weights, polished on the support it finds."""
    n, m, c, h = case.n, case.m, case.c, case.h
    center = case.H.mean(axis=0)
    H, X = case.H - center, case.X - center
    hessian = sp.block_diag([2.0 * (H @ H.T + case.alpha * np.eye(m))] * n, format="csc")
    linear = (-2.0 * X @ H.T).ravel()
    on_simplex = sp.kron(sp.eye(n), np.ones((1, m)))
    groups, clusters = np.eye(h)[case.codes], np.eye(c)[case.labels]
    # The last cluster's cells follow from the others, since rows sum to one.
    cells = sp.kron(groups.T, clusters.T).tocsr()
    kept = np.tile(np.arange(c) < c - 1, h)
    equalities = sp.vstack([on_simplex, cells[kept]]).tocsc()
    right = np.concatenate([np.ones(n), case.targets.T.ravel()[kept]])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-13
    options.tol_ktratio = 1e-12
    solution = clarabel.DefaultSolver(
        sp.triu(hessian).tocsc(),
        linear,
        sp.vstack([equalities, -sp.eye(n * m)]).tocsc(),
        np.concatenate([right, np.zeros(n * m)]),
        [clarabel.ZeroConeT(len(right)), clarabel.NonnegativeConeT(n * m)],
        options,
    ).solve()
    z, dual = np.array(solution.x), np.array(solution.z)[len(right) :]
    return _polished(z > dual, hessian, linear, equalities, right).reshape(n, m)


def _polished(free, hessian, linear, equalities, right):
    """Optimum on the free weights; those of the wrong sign change sides until none is left."""
    for _ in range(20):
        A = equalities[:, free]
        # A whisper of regularisation: on a support some equalities may say the same.
        system = sp.block_array([[hessian[free][:, free], A.T], [A, -1e-13 * sp.eye(A.shape[0])]])
        solution = spsolve(system.tocsc(), np.concatenate([-linear[free], right]))
        z = np.zeros(len(linear))
        z[free] = solution[: free.sum()]
        reduced = hessian @ z + linear + equalities.T @ solution[free.sum() :]
        wrong = np.where(free, z < 0, reduced < -1e-11)
        if not wrong.any():
            assert np.abs(equalities @ z - right).max() < 1e-9
            return z
        free = free ^ wrong
    raise AssertionError("the oracle found no optimum")


def optimality_violation(case, Z, multipliers):
    """Largest violation of the conditions under which (Z, multipliers) is optimal."""
    prices = multipliers[case.labels].T[case.codes]
    gradient = 2.0 * (Z @ case.H - case.X) @ case.H.T + 2.0 * case.alpha * Z + prices
    excess = gradient - gradient.min(axis=1, keepdims=True)
    return max(
        np.abs(Z.sum(axis=1) - 1).max(),
        -Z.min(),
        (Z * excess).max(),
        np.abs(case.cell_mass(Z @ np.eye(case.c)[case.labels]) - case.targets).max(),
    )


# --- the optimum ---------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("d", "m"), [(2, 12), (20, 9)])
@pytest.mark.parametrize(("h", "equal"), [(2, False), (3, True), (5, True)])
def test_optimum_is_that_of_a_general_convex_solver(alpha, d, m, h, equal):
    case = Case(h, d=d, m=m, h=h, alpha=alpha, equal=equal)
    result = case.solve()
    expected = convex_solution(case)
    value = case.objective(expected)
    assert result.converged
    assert_allclose(result.objective, value, rtol=1e-8)
    assert_allclose(result.soft_labels, expected @ np.eye(case.c)[case.labels], atol=1e-6)
    Z = case.anchor_weights(result)
    assert_allclose(case.objective(Z), value, rtol=1e-8)
    assert optimality_violation(case, Z, result.multipliers) < 1e-8 * np.diag(case.problem.Q).max()


@given(
    seed=st.integers(0, 2**20),
    n=st.integers(8, 40),
    d=st.integers(1, 8),
    c=st.integers(1, 4),
    extra=st.integers(0, 5),
    h=st.integers(1, 4),
    log_alpha=st.floats(-3, 3),
)
def test_random_problems_are_solved_to_optimality(seed, n, d, c, extra, h, log_alpha):
    m = min(c + extra, n)
    case = Case(seed, n=n, d=d, m=m, c=c, h=h, alpha=10.0**log_alpha)
    result = case.solve(tol=1e-9)
    assert result.converged
    Z = case.anchor_weights(result)
    assert_allclose(Z @ np.eye(c)[case.labels], result.soft_labels, atol=1e-12)
    violation = optimality_violation(case, Z, result.multipliers)
    assert violation < 1e-8 * max(1.0, np.diag(case.problem.Q).max())


@pytest.mark.parametrize("alpha", ALPHAS)
def test_rows_of_soft_labels_are_on_the_simplex(alpha):
    case = Case(1, n=200, m=20, c=4, h=3, alpha=alpha)
    soft_labels = case.solve(tol=1e-6).soft_labels
    assert soft_labels.min() >= 0
    assert_allclose(soft_labels.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_mass_error_is_within_the_tolerance_of_each_group(tol, alpha):
    case = Case(2, n=300, m=20, c=4, h=3, alpha=alpha)
    result = case.solve(tol=tol)
    error = np.abs(case.cell_mass(result.soft_labels) - case.targets)
    assert result.converged
    assert np.all(error <= tol * case.sizes + 1e-12)
    assert_allclose(result.mass_error, error.max(), atol=1e-12)
    assert_allclose(result.mass, case.cell_mass(result.soft_labels), atol=1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_proposition_1_soft_shares_of_groups_are_those_of_the_targets(alpha):
    """Proposition 1 of the paper, for soft labels: it says nothing about hard ones."""
    case = Case(3, n=300, m=20, c=4, h=3, alpha=alpha)
    mass = case.cell_mass(case.solve(tol=1e-9).soft_labels)
    shares = mass / mass.sum(axis=1, keepdims=True)
    expected = case.targets / case.targets.sum(axis=1, keepdims=True)
    assert_allclose(shares, expected, atol=1e-6)


def test_objective_and_gap_are_those_of_the_weights():
    case = Case(4, alpha=0.1)
    for tol in (0.2, 1e-10):
        result = case.solve(tol=tol)
        Z = case.anchor_weights(result)
        assert_allclose(result.objective, case.objective(Z), rtol=1e-10)
        assert result.history[-1]["objective"] == result.objective
        # The dual value, from scratch: what every row pays, minus what the targets earn.
        prices = result.multipliers[case.labels].T[case.codes]
        dual = case.objective(Z) + (prices * Z).sum() - (result.multipliers * case.targets).sum()
        assert_allclose(result.duality_gap, case.objective(Z) - dual, atol=1e-9)
        optimum = case.objective(convex_solution(case))
        assert dual <= optimum + 1e-8


def test_targets_that_rows_meet_by_themselves_need_no_prices():
    case = Case(5, alpha=0.5)
    (block,) = case.rows().blocks()
    everyone = np.ones((case.h, case.m), dtype=bool)
    Z = RowSolver(case.problem, np.zeros((case.c, case.h)), everyone).weights(block)
    case.targets = case.cell_mass(Z @ np.eye(case.c)[case.labels])
    result = case.solve()
    assert result.n_iter == 1
    assert_array_equal(result.multipliers, 0.0)


def test_with_one_anchor_per_cluster_soft_labels_are_anchor_weights():
    case = Case(6, m=4, c=4, alpha=0.3)
    result = case.solve()
    assert_allclose(result.soft_labels, case.anchor_weights(result), atol=1e-12)


def test_one_cluster_takes_everything_at_once():
    case = Case(7, c=1)
    result = case.solve()
    assert result.n_iter == 1
    assert_allclose(result.soft_labels, 1.0, atol=1e-12)


# --- symmetries ----------------------------------------------------------------------------


def test_order_of_the_rows_does_not_matter():
    case = Case(8, h=3)
    expected = case.solve().soft_labels
    order = np.random.default_rng(0).permutation(case.n)
    case.X, case.codes = case.X[order], case.codes[order]
    assert_allclose(case.solve().soft_labels, expected[order], atol=1e-8)


def test_codes_of_groups_and_clusters_do_not_matter():
    case = Case(9, c=3, h=3)
    expected = case.solve()
    new_group, new_cluster = np.array([2, 0, 1]), np.array([1, 2, 0])
    case.codes, case.labels = new_group[case.codes], new_cluster[case.labels]
    targets = np.empty_like(case.targets)
    targets[np.ix_(new_cluster, new_group)] = case.targets
    case.targets = targets
    result = case.solve()
    assert_allclose(result.soft_labels[:, new_cluster], expected.soft_labels, atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_sample_weights_equal_repetition(alpha):
    case = Case(10, n=40, h=2, alpha=alpha)
    repeats = np.random.default_rng(0).integers(0, 4, case.n)
    weighted = case.rows(weights=repeats.astype(float))
    repeated = MemoryRows(np.repeat(case.X, repeats, axis=0), np.repeat(case.codes, repeats), 2)
    targets = np.outer([0.2, 0.5, 0.3], weighted.group_sizes)
    solver = NewtonSolver(tol=1e-11)
    first = solver.solve(case.problem, weighted, targets)
    second = solver.solve(case.problem, repeated, targets)
    assert_allclose(np.repeat(first.soft_labels, repeats, axis=0), second.soft_labels, atol=1e-8)
    assert_allclose(first.objective, second.objective, rtol=1e-9)
    assert_allclose(first.mass, second.mass, atol=1e-8)


def test_a_group_without_weight_is_free():
    case = Case(11, h=2)
    weights = np.where(case.codes == 1, 0.0, 1.0)
    rows = case.rows(weights=weights)
    targets = np.outer([0.5, 0.3, 0.2], rows.group_sizes)
    result = NewtonSolver(tol=1e-9).solve(case.problem, rows, targets)
    assert result.converged
    assert_allclose(result.soft_labels.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(result.multipliers[:, 1], 0.0)


def test_number_of_threads_does_not_change_a_bit():
    case = Case(12, n=10_000, m=6, h=3)
    one, two = (
        NewtonSolver(tol=1e-6).solve(case.problem, case.rows(n_jobs=jobs), case.targets)
        for jobs in (1, 2)
    )
    assert_array_equal(one.soft_labels, two.soft_labels)
    assert_array_equal(one.multipliers, two.multipliers)


def test_start_on_a_sample_ends_at_the_same_optimum():
    case = Case(13, n=40_000, m=8, c=3, h=2, alpha=1.0)
    some = np.arange(0, case.n, 10)
    weights = (case.sizes / np.bincount(case.codes[some]))[case.codes[some]]
    sample = MemoryRows(case.X[some], case.codes[some], case.h, weights=weights)
    result = case.solve(tol=1e-10, samples=[sample])
    assert result.converged
    cold = case.solve(tol=1e-10)
    assert_allclose(result.soft_labels, cold.soft_labels, atol=1e-7)
    assert result.n_iter <= cold.n_iter


# --- zero and extreme targets --------------------------------------------------------------


@pytest.fixture
def with_zero_targets():
    case = Case(14, n=60, m=12, c=4, h=3, alpha=0.05)
    case.targets = np.array([[1, 0, 2], [0, 1, 0], [1, 1, 0], [2, 0, 0]]) * case.sizes
    case.targets = case.targets / np.array([4, 2, 2])
    return case


def test_anchors_of_zero_targets_get_exactly_zero_weight(with_zero_targets):
    case = with_zero_targets
    result = case.solve()
    assert result.converged
    assert np.all(result.mass[case.targets == 0] == 0)
    forbidden = case.targets.T[case.codes] == 0
    assert np.all(result.soft_labels[forbidden] == 0)
    expected = convex_solution(case) @ np.eye(case.c)[case.labels]
    assert_allclose(result.soft_labels, expected, atol=1e-6)


def test_sufficient_multipliers_do_without_the_mask(with_zero_targets):
    case = with_zero_targets
    result = case.solve()
    multipliers = sufficient_multipliers(
        case.problem, case.rows(), case.targets, result.multipliers
    )
    assert np.isfinite(multipliers).all()
    wanted = case.targets > 0
    assert_array_equal(multipliers[wanted], result.multipliers[wanted])
    (block,) = case.rows().blocks()
    everything = np.ones((case.h, case.m), dtype=bool)
    Z = RowSolver(case.problem, multipliers, everything).weights(block)
    assert_allclose(Z @ np.eye(case.c)[case.labels], result.soft_labels, atol=1e-9)


def test_sufficient_multipliers_change_nothing_without_zero_targets():
    case = Case(15)
    result = case.solve()
    same = sufficient_multipliers(case.problem, case.rows(), case.targets, result.multipliers)
    assert same is result.multipliers


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_a_cluster_may_be_nearly_empty(alpha, share):
    """No row wants the cluster's anchors, so that its mass is flat until the price is right."""
    case = Case(16, n=80, m=10, c=3, h=2, alpha=alpha)
    case.targets = np.outer([0.6, 0.4 - share, share], case.sizes)
    result = case.solve(tol=1e-9)
    assert result.converged
    assert_allclose(result.mass, case.targets, atol=1e-7)


def test_a_group_may_have_one_row():
    case = Case(17, n=30, h=4)
    case.codes = np.concatenate([[1, 2, 3], np.zeros(27, dtype=int)])
    case.sizes = np.bincount(case.codes)
    case.targets = np.outer([0.2, 0.5, 0.3], case.sizes)
    result = case.solve()
    assert result.converged
    assert_allclose(result.soft_labels[:3], [[0.2, 0.5, 0.3]] * 3, atol=1e-9)


def test_equal_rows_are_shared_as_the_targets_say():
    case = Case(18, alpha=1.0)
    case.X = np.ones_like(case.X)
    case.H = np.ones_like(case.H)
    result = case.solve()
    assert result.converged
    expected = (case.targets / case.sizes).T[case.codes]
    assert_allclose(result.soft_labels, expected, atol=1e-8)


# --- iterations ----------------------------------------------------------------------------


def test_too_few_sweeps_end_in_a_warning_that_counts_samples():
    case = Case(19, n=200, alpha=1e-3)
    result = case.solve(max_iter=2)
    assert not result.converged
    with pytest.warns(ConvergenceWarning, match=r"is [\d.]+ samples away"):
        warn_not_converged(result)


def test_a_converged_graph_does_not_warn():
    warn_not_converged(Case(20).solve())


def test_history_has_one_record_per_state_and_ends_with_the_result():
    result = Case(21, alpha=1e-2).solve()
    assert [record["sweep"] for record in result.history] == list(range(1, result.n_iter + 1))
    assert result.history[-1]["mass_error"] == result.mass_error


@pytest.mark.parametrize("seed", first_is_fast(range(20)))
def test_trust_region_step_is_optimal(seed):
    """Conditions of Moré and Sorensen, which are sufficient."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    root = rng.normal(size=(k, int(rng.integers(0, k + 1))))  # singular, or even zero
    curvature = root @ root.T
    gradient = rng.normal(size=k)
    radius = 10.0 ** rng.uniform(-3, 3)
    step, predicted = newton.trust_region_step(gradient, curvature, radius)
    length = np.linalg.norm(step)
    assert length <= 1.001 * radius
    residual = gradient - curvature @ step
    ridge = residual @ step / length**2
    assert_allclose(residual, ridge * step, atol=1e-8 * np.linalg.norm(gradient))
    if length < 0.999 * radius:
        assert_allclose(residual, 0.0, atol=1e-8 * np.linalg.norm(gradient))
    assert_allclose(predicted, gradient @ step - 0.5 * step @ curvature @ step, rtol=1e-8)


# --- real data -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["law_school", "credit_card", "bank_marketing"])
@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 10.0])
def test_real_data_needs_at_most_twelve_sweeps(name, alpha, request):
    data = request.getfixturevalue(name)
    model = AnchorFairClustering(
        data.n_clusters,
        clusterer="fair_kmeans",
        graph=ReconstructionGraph(alpha=alpha, tol=1e-6),
        n_anchors=20 * len(data.group_sizes),
        random_state=0,
    ).fit(data.X, sensitive_features=data.sensitive_features)
    assert model.converged_
    assert model.n_iter_ <= 12
    assert model.mass_error_ <= 1e-6 * data.group_sizes.max()
    assert model.worst_violation_ < 1
