"""The headline: the numbers are right, and the words follow from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from fairanchor.metrics import relative_balance_of_table
from fairanchor.report import RunSummary
from fairanchor.report._verdict import (
    judge,
    price_sentence,
    score_text,
    share_of_best,
)

tables = arrays(
    np.int64, st.tuples(st.integers(1, 4), st.integers(2, 4)), elements=st.integers(0, 9)
)


def run_of(table, **known):
    """A run with these counts."""
    table = np.asarray(table)
    cells = np.repeat(np.arange(table.size), table.ravel())
    labels, codes = np.divmod(cells, table.shape[1])
    names = [f"g{r}" for r in range(table.shape[1])]
    clusters = [f"c{l}" for l in range(len(table))]
    return RunSummary(
        title="t",
        labels=labels,
        group_codes=codes,
        group_names=names,
        cluster_names=clusters,
        **known,
    )


@settings(deadline=None)
@given(tables.filter(lambda table: table.sum() > 0))
def test_the_worst_cell_is_the_one_that_sets_the_relative_balance(table):
    composition = run_of(table).composition
    l, r = composition.worst_cell
    ratio = composition.shares[l, r] / composition.population[r]
    assert_allclose(min(ratio, 1 / ratio) if ratio else 0.0, relative_balance_of_table(table))
    assert composition.balance <= composition.bound + 1e-12


ANSWERS = [
    ([[30, 60], [10, 20]], "Yes", "good"),
    ([[31, 60], [10, 21]], "Yes", "good"),
    ([[300, 605], [100, 195]], "Nearly", "good"),
    ([[300, 650], [100, 150]], "Only partly", "fair"),
    ([[300, 50], [100, 400]], "No", "poor"),
    ([[0, 3], [10, 90]], "As nearly as whole rows allow", "fair"),
    ([[5, 0], [7, 0]], "No comparison", "neutral"),
]


@pytest.mark.parametrize(("table", "answer", "level"), ANSWERS)
def test_the_answer_follows_from_the_table(table, answer, level):
    run = run_of(table)
    verdict = judge(run)
    assert (verdict.answer, verdict.level) == (answer, level)


def test_a_run_that_did_not_converge_is_never_called_fair():
    for table, _, _ in ANSWERS[:-1]:
        run = run_of(table, converged=False)
        verdict = judge(run)
        assert (verdict.answer, verdict.level) == ("Not converged", "poor")


def test_the_sentence_has_the_number_and_the_best_possible():
    run = run_of([[10, 40], [30, 40]])
    verdict = judge(run)
    assert "a balance of 0.2500, 50.0% of the best possible" in verdict.sentence
    assert "can exceed 0.5000" in verdict.sentence
    assert verdict.details == [
        "Farthest from the population: group “g0” is 20.0% of cluster “c0”, but 33.3% of all rows."
    ]


def test_a_cluster_too_small_for_a_group_is_named():
    run = run_of([[0, 3], [10, 90]])
    details = " ".join(judge(run).details)
    assert "Cluster “c0” has 3 rows, too few for the share of group “g0”" in details


def test_weights_are_never_called_exact_to_the_row():
    run = run_of([[30, 60], [10, 20]], sample_weight=np.full(120, 0.001))
    assert judge(run).answer == "Nearly"


PRICES = [
    (105.0, 100.0, "5.0% higher"),
    (100.01, 100.0, "equals that of plain k-means"),
    (98.0, 100.0, "2.0% lower"),
]


@pytest.mark.parametrize(("cost", "plain_cost", "words"), PRICES)
def test_the_price_says_which_way_it_goes(cost, plain_cost, words):
    assert words in price_sentence(run_of([[1, 1]], cost=cost, plain_cost=plain_cost))


def test_without_costs_there_is_no_price():
    assert price_sentence(run_of([[1, 1]])) is None
    assert price_sentence(run_of([[1, 1]], cost=0.0, plain_cost=0.0)) is None


@settings(deadline=None)
@given(st.floats(0, 1))
def test_scores_are_rounded_but_never_to_the_best(value):
    assert abs(float(score_text(value)) - value) <= 1e-4
    assert (score_text(value) == "1.0000") == (value == 1.0)
    assert (share_of_best(value, 1.0) == "100.0%") == (value == 1.0)


def test_what_is_reached_is_shown_as_reached():
    assert score_text(1.0) == "1.0000"
    assert score_text(0.99999) == "0.9999"
    assert share_of_best(0.3, 0.3) == "100.0%"
    assert share_of_best(0.29999, 0.3) == "99.9%"
