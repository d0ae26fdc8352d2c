"""The headline: the numbers are right, and the words follow from them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from fairanchor import FairnessTargets
from fairanchor.metrics import relative_balance_of_table
from fairanchor.report import RunSummary, render_report, report_facts, summarise_labels
from fairanchor.report._verdict import judge, score_text

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
    ([[0, 3], [10, 90]], "Yes, as nearly as whole rows allow", "fair"),
    ([[5, 0], [7, 0]], "Nothing to compare", "neutral"),
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


SENTENCES = [
    ([[10, 20], [20, 40]], "Every cluster is 33.3% “g0” and 66.7% “g1”, as all rows are."),
    (
        [[10, 40], [30, 40]],
        "The share of “g0” is 20.0% to 42.9% in the clusters and 33.3% in all rows.",
    ),
]


@pytest.mark.parametrize(("table", "sentence"), SENTENCES)
def test_the_sentence_is_in_shares_of_rows(table, sentence):
    assert judge(run_of(table)).sentence == sentence


def test_names_that_are_numbers_have_their_column_in_the_sentence():
    run = summarise_labels([0, 0, 1, 1], sensitive_features=[0, 1, 0, 1])
    run.columns = ["female"]
    assert judge(run).sentence.startswith("Every cluster is 50.0% “female = 0”")


def test_a_cluster_too_small_for_a_group_is_named():
    run = run_of([[0, 3], [10, 90]])
    details = " ".join(judge(run).details)
    assert "Cluster “c0” has 3 rows, too few for the share of group “g0”" in details


def test_weights_are_never_called_exact_to_the_row():
    run = run_of([[30, 60], [10, 20]], sample_weight=np.full(120, 0.001))
    assert judge(run).answer == "Nearly"


INCOMPLETE = [
    # Clusters, and rows without a cluster by group.
    ([[50, 50], [50, 50]], [0, 400], "No"),
    ([[500, 500], [500, 500]], [1, 1], "Not for all rows"),
]


@pytest.mark.parametrize(("table", "unassigned", "answer"), INCOMPLETE)
def test_rows_without_a_cluster_are_never_a_yes(table, unassigned, answer):
    run = run_of(table, unassigned=unassigned, n_rows_left_out=sum(unassigned))
    verdict = judge(run)
    assert verdict.answer.startswith(answer)
    assert verdict.level != "good"
    assert any(f"{sum(unassigned)} of" in detail for detail in verdict.details)
    # Rows of which nothing is known but their number.
    assert judge(run_of(table, n_rows_left_out=3)).level == "fair"


@given(tables.filter(lambda table: table.sum() > 0), st.data())
def test_the_balance_compares_clusters_with_all_rows_those_without_a_cluster_too(table, data):
    n_groups = table.shape[1]
    unassigned = data.draw(st.lists(st.integers(0, 3), min_size=n_groups, max_size=n_groups))
    run = run_of(table, unassigned=unassigned, n_rows_left_out=sum(unassigned))
    population = [Fraction(int(n) + m) for n, m in zip(table.sum(axis=0), unassigned, strict=True)]
    ratios = [Fraction(1)]
    for row in table:
        for count, all_rows in zip(row.tolist(), population, strict=True):
            if row.sum() and all_rows:
                ratio = Fraction(count, int(row.sum())) / (all_rows / sum(population))
                ratios.append(min(ratio, 1 / ratio) if ratio else ratio)
    assert_allclose(run.relative_balance, float(min(ratios)))


def test_rows_without_a_cluster_are_part_of_all_rows_on_the_page():
    run = run_of([[50, 10], [50, 10]], unassigned=[0, 80], n_rows_left_out=80)
    page = render_report(run)
    assert "200 rows, 120 of them in 2 clusters" in page
    assert "No cluster: g0 0.0%, g1 100.0%" in page
    assert "All rows: g0 50.0%, g1 50.0%" in page


def test_a_fair_an_unfair_and_an_empty_cluster_are_reported_as_what_they_are():
    fair, unfair = [[30, 60], [0, 0], [10, 20]], [[30, 0], [0, 0], [10, 80]]
    for table, answer in ((fair, "Yes"), (unfair, "No")):
        run = run_of(table)
        facts, page = report_facts(run), render_report(run)
        assert facts["met"]["answer"] == answer
        assert f"<strong>{answer}.</strong>" in page
        assert ("is below 0.8 already" in page) == (answer == "No")
        assert "1 more cluster without a row" in page


@given(st.floats(0, 1))
def test_scores_are_rounded_but_never_to_the_best(value):
    assert abs(float(score_text(value)) - value) <= 1e-4
    assert (score_text(value) == "1.0000") == (value == 1.0)


def test_what_is_reached_is_shown_as_reached():
    assert score_text(1.0) == "1.0000"
    assert score_text(0.99999) == "0.9999"


@pytest.mark.parametrize(("max_size", "answer"), [(3, "Yes"), (2, "No")])
def test_sizes_without_groups_have_an_answer(max_size, answer):
    targets = FairnessTargets(max_size=max_size, tolerance=1.0)
    run = summarise_labels([0, 0, 0, 1], sensitive_features=["a"] * 4, targets=targets)
    verdict = judge(run)
    assert (verdict.answer, verdict.sentence) == (answer, "Clusters have 1 to 3 rows.")
    assert "bounds" in verdict.question
