"""On which rows the anchor graph is solved, and what depends on it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fairanchor import AnchorFairClustering
from fairanchor.datasets import make_fair_blobs

N_ROWS = 60_000


@pytest.fixture(scope="module")
def blobs():
    data = make_fair_blobs(N_ROWS, n_features=3, random_state=0)
    return data.data, np.asarray(data.sensitive_features)


def fitted(blobs, **parameters):
    X, group = blobs
    return AnchorFairClustering(3, random_state=0, **parameters).fit(X, sensitive_features=group)


def soft_mass_error(model, blobs):
    """Farthest cell from the composition of the population, by the soft labels of all rows."""
    X, group = blobs
    soft = model.predict_proba(X, sensitive_features=group)
    mass = np.stack([soft[group == name].sum(axis=0) for name in model.groups_], axis=1)
    sizes = np.array([np.sum(group == name) for name in model.groups_])
    return np.abs(mass - np.outer(mass.sum(axis=1), sizes / sizes.sum())).max(), sizes


def test_a_refined_fit_of_many_rows_solves_the_graph_on_rows_that_stand_for_all(blobs):
    model = fitted(blobs)
    assert 0 < model.n_graph_rows_ < N_ROWS / 2
    assert model.converged_
    error, sizes = soft_mass_error(model, blobs)
    assert error <= 0.01 * sizes.max()


def test_all_rows_are_solved_if_asked_for(blobs):
    model = fitted(blobs, graph_rows="all")
    assert model.n_graph_rows_ == N_ROWS
    error, sizes = soft_mass_error(model, blobs)
    assert error <= 2 * model.mass_error_ + 1e-6
    assert model.mass_error_ <= 1e-3 * sizes.max()


def test_refined_labels_do_not_depend_on_it(blobs):
    assert_array_equal(fitted(blobs).labels_, fitted(blobs, graph_rows="all").labels_)


def test_without_refinement_all_rows_are_solved(blobs):
    assert fitted(blobs, refine=0).n_graph_rows_ == N_ROWS


def test_of_few_rows_all_are_solved(blobs):
    X, group = blobs
    model = AnchorFairClustering(3, random_state=0).fit(X[:500], sensitive_features=group[:500])
    assert model.n_graph_rows_ == 500


def test_another_word_is_refused(blobs):
    with pytest.raises(ValueError, match="graph_rows"):
        fitted(blobs, graph_rows="some")
