"""The rows' programs: the solver against exact rational arithmetic and an interior-point method."""

from fractions import Fraction
from itertools import combinations

import clarabel
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csc_matrix, eye, vstack

from fairanchor.graph import AnchorGraphProblem, RowSolver
from fairanchor.rows import MemoryRows
from tiers import first_is_fast

ALPHAS = [1e-4, 1e-2, 1.0, 100.0]


def one_group(X):
    return MemoryRows(np.ascontiguousarray(X, dtype=float), np.zeros(len(X), dtype=np.int64), 1)


def solve(X, H, alpha, labels=None, multipliers=None, allowed=None):
    """Anchor weights of rows of one group."""
    m = len(H)
    labels = np.arange(m) % min(3, m) if labels is None else labels
    n_clusters = labels.max() + 1
    multipliers = np.zeros((n_clusters, 1)) if multipliers is None else multipliers
    allowed = np.ones((1, m), dtype=bool) if allowed is None else allowed
    problem = AnchorGraphProblem(H, labels, n_clusters, alpha)
    return weights(problem, one_group(X), multipliers, allowed)


def weights(problem, rows, multipliers, allowed):
    solver = RowSolver(problem, multipliers, allowed)
    return np.concatenate([solver.weights(block) for block in rows.blocks()])


def sweep(problem, rows, multipliers, allowed):
    """Soft labels, and the sums that the dual method uses."""
    active = np.ones(rows.n_groups, dtype=bool)
    soft_labels = np.empty((rows.n_rows, len(multipliers)))

    def kernel(block):
        own = soft_labels[block.start : block.stop]
        return RowSolver(problem, multipliers, allowed).sweep(block, active, own)

    return soft_labels, *rows.sum(kernel)


# --- oracles -------------------------------------------------------------------------------


def exact_solution(A, b):
    """Gauss-Jordan elimination on fractions."""
    n = len(A)
    A = [[*row, value] for row, value in zip(A, b, strict=True)]
    for p in range(n):
        q = next(i for i in range(p, n) if A[i][p] != 0)
        A[p], A[q] = A[q], A[p]
        for i in range(n):
            if i != p and A[i][p] != 0:
                factor = A[i][p] / A[p][p]
                A[i] = [x - factor * y for x, y in zip(A[i], A[p], strict=True)]
    return [A[i][n] / A[i][i] for i in range(n)]


def exact_row(x, H, prices, alpha, allowed):
    """The one support whose solution meets the optimality conditions, without any rounding."""
    m = len(H)
    x, prices = [Fraction(v) for v in x.tolist()], [Fraction(v) for v in prices.tolist()]
    H = [[Fraction(v) for v in h] for h in H.tolist()]
    alpha = Fraction(float(alpha))
    dot = lambda u, v: sum(a * b for a, b in zip(u, v, strict=True))  # noqa: E731
    Q = [[dot(H[i], H[j]) + (alpha if i == j else 0) for j in range(m)] for i in range(m)]
    b = [prices[j] / 2 - dot(H[j], x) for j in range(m)]
    usable = np.flatnonzero(allowed).tolist()
    for size in range(1, len(usable) + 1):
        for S in combinations(usable, size):
            A = [[Q[i][j] for j in S] + [Fraction(-1)] for i in S]
            A.append([Fraction(1)] * size + [Fraction(0)])
            *z, multiplier = exact_solution(A, [-b[i] for i in S] + [Fraction(1)])
            gradient = {j: b[j] + dot([Q[j][i] for i in S], z) for j in usable if j not in S}
            if min(z) >= 0 and all(g >= multiplier for g in gradient.values()):
                solution = np.zeros(m)
                solution[list(S)] = [float(v) for v in z]
                return solution
    raise AssertionError("a strictly convex program has a solution")


def exact_weights(X, H, prices, alpha, allowed):
    return np.array([exact_row(x, H, prices, alpha, allowed) for x in X])


def interior_point_row(x, H, prices, alpha):
    """The same program by a general interior-point solver."""
    m = len(H)
    Q = 2.0 * (H @ H.T + alpha * np.eye(m))
    constraints = csc_matrix(vstack([np.ones((1, m)), -eye(m)]))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-14
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(m)]
    bound = np.concatenate([[1.0], np.zeros(m)])
    linear = prices - 2.0 * H @ x
    upper = csc_matrix(np.triu(Q))
    return np.array(
        clarabel.DefaultSolver(upper, linear, constraints, bound, cones, options).solve().x
    )


def few_digits(values):
    """Numbers with few binary digits, which keep the fractions short."""
    return np.asarray(values, dtype=np.float16).astype(np.float64)


# --- exactness -----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n_features", [1, 3, 9])
def test_weights_equal_exact_arithmetic(alpha, n_features):
    rng = np.random.default_rng(n_features)
    H = few_digits(rng.normal(size=(6, n_features)))
    X = few_digits(2.0 * rng.normal(size=(6, n_features)))
    labels, multipliers = np.arange(6) % 3, few_digits(rng.normal(size=(3, 1)))
    Z = solve(X, H, alpha, labels, multipliers)
    expected = exact_weights(X, H, multipliers[labels, 0], alpha, np.ones(6, dtype=bool))
    assert_allclose(Z, expected, atol=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_equal_exact_arithmetic_with_forbidden_anchors(alpha):
    rng = np.random.default_rng(7)
    H, X = few_digits(rng.normal(size=(6, 2))), few_digits(rng.normal(size=(5, 2)))
    for allowed in [[0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 1, 1], [0, 1, 1, 1, 1, 1]]:
        allowed = np.array([allowed], dtype=bool)
        Z = solve(X, H, alpha, allowed=allowed)
        expected = exact_weights(X, H, np.zeros(6), alpha, allowed[0])
        assert_allclose(Z, expected, atol=1e-9)
        assert np.all(Z[:, ~allowed[0]] == 0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_degenerate_rows_equal_exact_arithmetic(alpha):
    """Rows on an anchor, between two, at the centre of all; anchors that occur twice."""
    rng = np.random.default_rng(3)
    H = few_digits(rng.normal(size=(5, 2)))
    H[1], H[3] = H[0], H[2]
    X = np.array([H[0], H[4], (H[0] + H[4]) / 2, (H[0] + H[2]) / 2, few_digits(H.mean(axis=0))])
    Z = solve(X, H, alpha)
    expected = exact_weights(X, H, np.zeros(5), alpha, np.ones(5, dtype=bool))
    assert_allclose(Z, expected, atol=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_equidistant_anchors_share_a_row_equally(alpha):
    corners = np.vstack([np.eye(4), -np.eye(4)])
    Z = solve(np.zeros((3, 4)), corners, alpha)
    assert_allclose(Z, 1 / 8, atol=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_equal_anchors_share_every_row_equally(alpha):
    X = np.random.default_rng(0).normal(size=(20, 3))
    Z = solve(X, np.tile(X[0], (7, 1)), alpha)
    assert_allclose(Z, 1 / 7, atol=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_far_away_rows_equal_exact_arithmetic(alpha):
    rng = np.random.default_rng(5)
    H = few_digits(rng.normal(size=(6, 3)))
    X = 1e6 * few_digits(rng.normal(size=(6, 3)))
    Z = solve(X, H, alpha)
    expected = exact_weights(X, H, np.zeros(6), alpha, np.ones(6, dtype=bool))
    assert_allclose(Z, expected, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-6, 1e-5])
def test_tiny_alpha_loses_no_more_digits_than_its_data(alpha):
    """With equal anchors only alpha tells how to share: errors of 1e-16 in H appear over alpha."""
    rng = np.random.default_rng(2)
    H = few_digits(rng.normal(size=(5, 2)))
    H[1], H[3] = H[0], H[2]
    X = [H[0], (H[0] + H[4]) / 2, (H[0] + H[2]) / 2, H.mean(axis=0), rng.normal(size=2)]
    X = few_digits(X)
    Z = solve(X, H, alpha)
    expected = exact_weights(X, H, np.zeros(5), alpha, np.ones(5, dtype=bool))
    assert_allclose(Z, expected, atol=1e-12 / alpha)
    # The sums over equal anchors do not depend on how these share.
    merge = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert_allclose(Z @ merge, expected @ merge, atol=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("shape", [(2, 15), (25, 40), (60, 20)])
def test_larger_rows_equal_an_interior_point_method(alpha, shape):
    n_features, m = shape
    rng = np.random.default_rng(m)
    H = rng.normal(size=(m, n_features)) + 3.0
    X = rng.normal(size=(4, n_features)) + 3.0
    labels, multipliers = np.arange(m) % 4, rng.normal(size=(4, 1))
    Z = solve(X, H, alpha, labels, multipliers)
    center = H.mean(axis=0)
    for x, z in zip(X, Z, strict=True):
        found = interior_point_row(x - center, H - center, multipliers[labels, 0], alpha)
        # An error of the interior point's objective is that of its weights squared times alpha.
        assert_allclose(z, found, atol=1e-9 + 3e-8 / np.sqrt(alpha))
        value = ((x - z @ H) ** 2).sum() + alpha * z @ z + multipliers[labels, 0] @ z
        other = (
            ((x - found @ H) ** 2).sum() + alpha * found @ found + multipliers[labels, 0] @ found
        )
        assert value <= other + 1e-11 * (1 + abs(other))


# --- scale, simplex ------------------------------------------------------------------------


def random_problem(seed, *, n=60, kind="normal"):
    rng = np.random.default_rng(seed)
    n_features, m = int(rng.integers(1, 12)), int(rng.integers(2, 30))
    if kind == "lattice":
        X = rng.integers(0, 3, size=(n, n_features)).astype(float)
    else:
        X = rng.normal(size=(n, n_features))
    if kind == "scales":
        X *= 10.0 ** rng.integers(-3, 7, size=(n, 1))
    codes = rng.integers(0, 3, size=n)
    labels = np.concatenate([np.arange(min(4, m)), rng.integers(0, min(4, m), m - min(4, m))])
    allowed = rng.random((3, m)) < 0.7
    allowed[np.arange(3), rng.integers(0, m, 3)] = True
    rows = MemoryRows(X, codes, 3, weights=rng.uniform(0.5, 2, n))
    return rows, X[rng.integers(0, n, m)], labels, allowed, rng


def relative_violation(problem, rows, Z, multipliers, allowed):
    """Largest ``z * (gradient - smallest gradient)`` over the terms that gradients are made of."""
    prices = 0.5 * multipliers[problem.anchor_labels].T[rows.group_codes]
    linear = prices - (rows.X - problem.center) @ problem.H.T
    gradient = np.where(allowed[rows.group_codes], Z @ problem.Q + linear, np.inf)
    excess = gradient - gradient.min(axis=1, keepdims=True)
    size = np.abs(linear).max(axis=1) + np.diag(problem.Q).max()
    return (np.where(Z > 0, Z * np.where(Z > 0, excess, 0), 0).max(axis=1) / size).max()


@pytest.mark.parametrize("kind", ["normal", "lattice", "scales"])
@pytest.mark.parametrize("seed", first_is_fast(range(8)))
def test_rows_are_on_the_simplex_and_optimal(kind, seed):
    rows, H, labels, allowed, rng = random_problem(seed, kind=kind)
    mean_square = ((H - H.mean(axis=0)) ** 2).sum() / len(H)
    for alpha in 10.0 ** np.array([-6.0, -4.0, -2.0, 0.0, 2.0, 6.0]) * (mean_square or 1.0):
        problem = AnchorGraphProblem(H, labels, labels.max() + 1, alpha)
        multipliers = rng.normal(size=(problem.n_clusters, 3)) * alpha
        Z = weights(problem, rows, multipliers, allowed)
        assert Z.min() >= 0
        assert_allclose(Z.sum(axis=1), 1.0, atol=1e-12)
        assert np.all(Z[~allowed[rows.group_codes]] == 0)
        assert relative_violation(problem, rows, Z, multipliers, allowed) < 1e-10
        assert sweep(problem, rows, multipliers, allowed)[4][1] == 0  # all rows solved


def test_weights_do_not_change_when_all_is_scaled_by_a_power_of_two():
    rng = np.random.default_rng(1)
    H, X, multipliers = rng.normal(size=(9, 3)), rng.normal(size=(30, 3)), rng.normal(size=(3, 1))
    expected = solve(X, H, 0.5, multipliers=multipliers)
    for scale in (2.0**-200, 2.0**40, 2.0**200):
        Z = solve(X * scale, H * scale, 0.5 * scale**2, multipliers=multipliers * scale**2)
        assert_allclose(Z, expected, atol=1e-12)


# --- sums of a sweep -----------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
def test_sums_of_a_sweep_are_those_of_its_weights(alpha):
    rows, H, labels, allowed, rng = random_problem(4)
    problem = AnchorGraphProblem(H, labels, labels.max() + 1, alpha)
    multipliers = rng.normal(size=(problem.n_clusters, 3))
    Z = weights(problem, rows, multipliers, allowed)
    soft_labels, mass, _, value, counts = sweep(problem, rows, multipliers, allowed)
    assert_allclose(soft_labels, Z @ np.eye(problem.n_clusters)[labels], atol=1e-13)
    prices = multipliers[labels].T[rows.group_codes]
    # ||x - H'z||^2 - ||x||^2, measured from the centre of the anchors.
    X, centred = rows.X - H.mean(axis=0), H - H.mean(axis=0)
    per_row = ((X - Z @ centred) ** 2).sum(axis=1) - (X**2).sum(axis=1)
    per_row += alpha * (Z**2).sum(axis=1) + (prices * Z).sum(axis=1)
    for r in range(3):
        own = rows.group_codes == r
        assert_allclose(mass[:, r], rows.weights[own] @ soft_labels[own], rtol=1e-12)
        assert_allclose(value[r], rows.weights[own] @ per_row[own], rtol=1e-10)
    assert counts[0] >= np.count_nonzero(Z)
    assert counts[1] == 0


@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("masked", [False, True])
def test_curvature_is_minus_twice_the_derivative_of_the_mass(alpha, masked):
    rows, H, labels, allowed, rng = random_problem(11)
    allowed = allowed if masked else np.ones_like(allowed)
    problem = AnchorGraphProblem(H, labels, labels.max() + 1, alpha)
    multipliers = rng.normal(size=(problem.n_clusters, 3))
    curvature = sweep(problem, rows, multipliers, allowed)[2]
    step = 1e-6 * alpha
    for l in range(problem.n_clusters):
        for r in range(3):
            moved = np.zeros_like(multipliers)
            moved[l, r] = step
            above = sweep(problem, rows, multipliers + moved, allowed)[1]
            below = sweep(problem, rows, multipliers - moved, allowed)[1]
            derivative = (above - below) / (2 * step)
            expected = np.zeros_like(derivative)
            expected[:, r] = -0.5 * curvature[r, l]
            assert_allclose(derivative, expected, atol=1e-5 * np.abs(curvature).max())


def test_rows_of_inactive_groups_are_left_alone():
    rows, H, labels, allowed, rng = random_problem(6)
    problem = AnchorGraphProblem(H, labels, labels.max() + 1, 1.0)
    multipliers = rng.normal(size=(problem.n_clusters, 3))
    expected, mass, curvature, value, _ = sweep(problem, rows, multipliers, allowed)
    (block,) = rows.blocks()
    soft_labels = np.full((rows.n_rows, problem.n_clusters), 7.0)
    active = np.array([False, True, False])
    sums = RowSolver(problem, multipliers, allowed).sweep(block, active, soft_labels)
    own = rows.group_codes == 1
    assert np.all(soft_labels[~own] == 7.0)
    assert_array_equal(soft_labels[own], expected[own])
    assert_array_equal(sums[0][:, 1], mass[:, 1])
    assert_array_equal(sums[1][1], curvature[1])
    assert sums[2][1] == value[1]


# --- ill-conditioned rows ------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-5, 1e-2, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("shape", [(2, 40), (30, 20)])
def test_rows_are_optimal_for_small_and_large_supports(alpha, shape):
    n_features, m = shape
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, n_features))
    problem = AnchorGraphProblem(X[:m], np.arange(m) % 3, 3, alpha)
    rows, multipliers = one_group(X), rng.normal(size=(3, 1)) * alpha
    allowed = np.ones((1, m), dtype=bool)
    Z = weights(problem, rows, multipliers, allowed)
    assert relative_violation(problem, rows, Z, multipliers, allowed) < 1e-12


def excess_of_gradients(problem, X, Z, multipliers):
    """Gradient minus its mean under the weights, in more digits than the solver has."""
    linear = 0.5 * multipliers[problem.anchor_labels, 0] - problem.products(X)
    gradient = linear + Z.astype(np.longdouble) @ problem.Q.astype(np.longdouble)
    return gradient - (gradient * Z).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scale", [1e3, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_features_of_large_scale_cost_no_digits(scale, alpha):
    """As of incomes or amounts that were not standardised."""
    rng = np.random.default_rng(0)
    X = scale * rng.normal(size=(200, 4))
    mean_square = ((X[:60] - X[:60].mean(axis=0)) ** 2).sum() / 60
    problem = AnchorGraphProblem(X[:60], np.arange(60) % 3, 3, max(alpha, 1e-7 * mean_square))
    multipliers = problem.alpha * rng.normal(size=(3, 1))
    Z = weights(problem, one_group(X), multipliers, np.ones((1, 60), dtype=bool))
    excess = excess_of_gradients(problem, X, Z, multipliers)
    assert_allclose(Z.sum(axis=1), 1.0, rtol=1e-12)
    assert Z.min() >= 0.0
    assert excess.min() >= -1e-3 * problem.alpha
    assert np.abs(excess[Z > 0]).max() <= 1e-3 * problem.alpha


@pytest.mark.parametrize("scales", [(1e-8, 1, 1e8), (1, 1e4, 1e8), (1, 1, 1e5)])
@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_a_feature_that_dwarfs_the_others_costs_no_digits(scales, seed):
    """Anchors are then nearly in a line, and only the small ridge tells their weights apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3)) * scales
    H, labels = X[:60], np.arange(60) % 3
    problem = AnchorGraphProblem(H, labels, 3, 2e-7 * H.var(axis=0).sum())
    multipliers = 0.01 * problem.alpha * rng.normal(size=(3, 1))
    allowed = np.ones((1, 60), dtype=bool)
    Z = weights(problem, one_group(X), multipliers, allowed)
    # Optimality: the gradient is constant on the support, nowhere below.
    excess = excess_of_gradients(problem, X, Z, multipliers)
    assert_allclose(Z.sum(axis=1), 1.0, rtol=1e-12)
    assert Z.min() >= 0.0
    assert excess.min() >= -1e-3 * problem.alpha
    assert np.abs(excess[Z > 0]).max() <= 1e-3 * problem.alpha
