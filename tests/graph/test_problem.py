"""The anchor graph's problem: its matrix, its units, its limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor.graph import AnchorGraphProblem, GraphResult, NewtonSolver
from fairanchor.graph._problem import LARGEST_ALPHA, SMALLEST_ALPHA
from fairanchor.rows import MemoryRows


@pytest.fixture
def anchors():
    return np.random.default_rng(0).normal(size=(6, 3))


def test_attributes_are_measured_from_the_mean_of_the_anchors(anchors):
    X = np.random.default_rng(1).normal(size=(5, 3))
    problem = AnchorGraphProblem(anchors, [0, 1, 2, 0, 1, 0], 3, 0.7)
    mean = anchors.sum(axis=0) / 6
    for i in range(6):
        for j in range(6):
            expected = (anchors[i] - mean) @ (anchors[j] - mean) + 0.7 * (i == j)
            assert_allclose(problem.Q[i, j], expected, atol=1e-14)
    products = [[(x - mean) @ (h - mean) for h in anchors] for x in X]
    assert_allclose(problem.products(X), products, atol=1e-14)
    assert_array_equal(problem.anchors_per_cluster, [3, 2, 1])


@pytest.mark.parametrize("shift", [1e3, -1e6])
@pytest.mark.slow
def test_translation_changes_nothing(shift):
    rng = np.random.default_rng(2)
    # Few binary digits, so that the shifted numbers are exact.
    X = np.round(rng.normal(size=(40, 3)) * 1024) / 1024
    codes = rng.integers(0, 2, 40)
    targets = np.outer([0.5, 0.3, 0.2], np.bincount(codes))

    def solve(X):
        problem = AnchorGraphProblem(X[:8].copy(), np.arange(8) % 3, 3, 0.1)
        return NewtonSolver(tol=1e-9).solve(problem, MemoryRows(X, codes, 2), targets)

    expected, shifted = solve(X), solve(X + shift)
    assert_allclose(shifted.soft_labels, expected.soft_labels, atol=1e-7)
    assert_allclose(shifted.objective, expected.objective, rtol=1e-7)


@pytest.mark.parametrize(
    ("factor", "effective"),
    [(1e-15, SMALLEST_ALPHA), (0.0, SMALLEST_ALPHA), (1e12, LARGEST_ALPHA)],
)
def test_alpha_outside_the_range_of_doubles_is_clipped_with_a_warning(anchors, factor, effective):
    mean_square = ((anchors - anchors.mean(axis=0)) ** 2).sum() / 6
    with pytest.warns(UserWarning, match=r"times the anchors' mean squared norm.*Standardise"):
        problem = AnchorGraphProblem(anchors, np.zeros(6), 1, factor * mean_square)
    assert_allclose(problem.alpha, effective * mean_square)


@pytest.mark.parametrize("factor", [2 * SMALLEST_ALPHA, 1e-4, 1.0, 1e6, 0.5 * LARGEST_ALPHA])
def test_alpha_within_the_range_is_taken_as_it_is(anchors, factor):
    alpha = factor * ((anchors - anchors.mean(axis=0)) ** 2).sum() / 6
    assert AnchorGraphProblem(anchors, np.zeros(6), 1, alpha).alpha == alpha


@pytest.mark.parametrize("alpha", [None, 0.0, 0.3, np.inf])
def test_equal_anchors_need_no_alpha(alpha):
    problem = AnchorGraphProblem(np.ones((4, 2)), np.zeros(4), 1, alpha)
    assert problem.alpha == 1.0
    assert_allclose(problem.Q, np.eye(4))


def test_history_is_converted_to_the_users_units():
    record = {"sweep": 3, "objective": 8.0, "mass_error": 2.0, "r": 1.0, "s": 4.0, "rho": 12.0}
    result = GraphResult(None, None, None, 0.0, 8.0, 0.0, True, 1, [record])
    (converted,) = result.history_in_units_of(2.0)
    assert converted == {
        "sweep": 3, "objective": 2.0, "mass_error": 2.0, "r": 1.0, "s": 1.0, "rho": 3.0,
    }  # fmt: skip
