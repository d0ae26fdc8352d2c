"""Newton steps without the matrix, against the matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fairanchor._kernels._price_newton import maximise_in_box
from fairanchor.assignment import _price_newton
from fairanchor.assignment._limit_curvature import CurvatureOfLimits
from fairanchor.assignment._share_limits import LimitRows, ShareLimits
from fairanchor.assignment._tolerance import assign_with_tolerance

RIDGE = 0.3


def random_model(seed, n_clusters=3, n_groups=4):
    """Limits on shares and sizes, and curvatures of some soft shares."""
    rng = np.random.default_rng(seed)
    limits = ShareLimits.proportional(
        rng.integers(5, 50, n_groups), n_clusters, 0.2, least=5.0, greatest=90.0
    )
    constraints = LimitRows.of([limits]).constraints
    shares = rng.dirichlet(np.ones(n_clusters), size=(n_groups, 20))
    curvature = np.einsum("rnl,lk->rlk", shares, np.eye(n_clusters))
    curvature -= np.einsum("rnl,rnk->rlk", shares, shares)
    # The matrix in full, by the definition: K has a block for each group.
    matrix = constraints.matrix.toarray()
    blocks = np.zeros((n_clusters, n_groups, n_clusters, n_groups))
    for r in range(n_groups):
        blocks[:, r, :, r] = curvature[r]
    size = n_clusters * n_groups
    dense = matrix @ blocks.reshape(size, size) @ matrix.T + RIDGE * np.eye(len(matrix))
    return CurvatureOfLimits(constraints, curvature, RIDGE), dense, rng


@pytest.mark.parametrize("seed", range(4))
def test_products_are_those_of_the_matrix(seed):
    model, dense, rng = random_model(seed)
    vector = rng.normal(size=len(dense))
    assert_allclose(model.times(vector), dense @ vector, atol=1e-10)
    assert_allclose(model.constraints.dense, model.constraints.matrix.toarray(), atol=1e-12)
    assert (model.about_diagonal() > 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_step_is_nearly_the_best_in_the_box(seed):
    model, dense, rng = random_model(seed)
    gradient = 5 * rng.normal(size=len(dense))
    lowest, highest = -rng.uniform(0, 2, len(dense)), rng.uniform(0, 2, len(dense))

    def value(point):
        return gradient @ point - point @ dense @ point / 2

    found = model.maximise_in_box(gradient, lowest, highest)
    best = maximise_in_box(dense, gradient, lowest, highest, 100)
    assert ((found >= lowest) & (found <= highest)).all()
    assert value(found) > 0.9 * value(best)


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.5])
def test_many_limits_come_to_the_same_program(monkeypatch, tolerance):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 12, 1_500)
    scores = rng.normal(size=(1_500, 4)) + rng.normal(size=(12, 4))[codes]
    few = assign_with_tolerance(scores, codes, tolerance)
    monkeypatch.setattr(_price_newton, "MANY_LIMITS", 0)
    many = assign_with_tolerance(scores, codes, tolerance)
    assert many.lp_value == pytest.approx(few.lp_value, rel=1e-9)
    assert many.violation == pytest.approx(few.violation)
    assert many.cost == pytest.approx(few.cost, rel=1e-9)
