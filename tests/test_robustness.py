"""`robustness_check` rewrites groups of the given rows only, and reports what refits give."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, FairnessWarning, robustness_check
from fairanchor.datasets import make_zafar
from fairanchor.metrics import relative_balance_score

ATTACKS = ("random", "search", "flip", "cfc")
DATA = make_zafar(400, variant="original", random_state=0)
X = DATA.data
TWO = np.asarray(DATA.sensitive_features)
FOUR = np.array(["a", "b", "c", "d"])[2 * (TWO.max() == TWO) + (np.arange(400) % 3 == 0)]


class TwoHalves(BaseEstimator):
    """Each recorded group is split into two halves, in the order of the rows."""

    seen: list = []

    def fit(self, X, y=None, *, sensitive_features=None):
        type(self).seen.append(np.asarray(sensitive_features).copy())
        self.labels_ = np.zeros(len(X), dtype=int)
        for name in np.unique(sensitive_features):
            rows = np.flatnonzero(sensitive_features == name)
            self.labels_[rows[len(rows) // 2 :]] = 1
        return self


class NeedsPairs(TwoHalves):
    """Raises an error for a group of one row."""

    def fit(self, X, y=None, *, sensitive_features=None):
        if np.unique(sensitive_features, return_counts=True)[1].min() < 2:
            raise ValueError("a group has no second half")
        return super().fit(X, y, sensitive_features=sensitive_features)


def by_hand(labels, group):
    """Relative balance, cell by cell."""
    worst = 1.0
    for label in np.unique(labels):
        for name in np.unique(group):
            share = np.mean(group[labels == label] == name)
            overall = np.mean(group == name)
            worst = min(worst, share / overall, overall / share if share > 0 else 1.0)
    return worst


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("groups", [TWO, FOUR], ids=["two groups", "four groups"])
def test_only_the_given_rows_are_rewritten_and_every_score_is_that_of_the_others(attack, groups):
    TwoHalves.seen = []
    rows = np.arange(5, 400, 7)
    result = robustness_check(TwoHalves(), X, groups, rows, attack, n_evaluations=6, random_state=0)
    assert_array_equal(np.sort(result.rows), rows)
    honest = np.setdiff1d(np.arange(400), rows)
    scores = []
    for reported in list(TwoHalves.seen):
        rewritten = np.flatnonzero(reported != groups)
        assert set(rewritten) <= set(rows)
        assert set(reported) <= set(groups)
        labels = TwoHalves().fit(X, sensitive_features=reported).labels_
        scores.append(by_hand(labels[honest], groups[honest]))
    # The records as they are, then for each point the attack and its control.
    assert_allclose(result.baseline, scores[0])
    points = np.array_split(scores[1:], len(result.records))
    n_fits = len(points[0]) if attack == "random" else len(points[0]) - 5
    for point, record in zip(points, result.records, strict=True):
        assert_allclose(record["worst"], min(point[:n_fits]))
        assert_allclose(record["median"], np.median(point[:n_fits]))
        assert_allclose(record["control"], np.median(point[-5 if n_fits < len(point) else 0 :]))
    reported = groups.copy()
    reported[result.rows[: len(result.worst_groups)]] = result.worst_groups
    labels = TwoHalves().fit(X, sensitive_features=reported).labels_
    worst = min(record["worst"] for record in result.records)
    assert_allclose(by_hand(labels[honest], groups[honest]), worst)
    assert_allclose(result.worst, min(worst, result.baseline))
    assert [record["n_failed"] for record in result.records] == [0] * len(result.records)


def test_flipped_rows_report_any_group_but_their_own():
    TwoHalves.seen = []
    result = robustness_check(TwoHalves(), X, FOUR, 0.25, "flip", n_evaluations=3, random_state=1)
    assert_array_equal(result.curve["n_rewritten"], [0, 25, 50, 75, 100])
    assert_allclose(result.curve["share"], [0, 1 / 16, 1 / 8, 3 / 16, 1 / 4])
    flips = [np.sum(reported != FOUR) for reported in TwoHalves.seen]
    assert flips.count(100) == 3  # and the control, by chance, never
    assert len(flips) == 1 + 4 * (3 + 5)


def test_a_search_is_at_least_as_bad_as_its_starts():
    arguments = (TwoHalves(), X, TWO, np.arange(60))
    search = robustness_check(*arguments, "search", n_evaluations=8, random_state=0)
    flip = robustness_check(*arguments, "flip", random_state=0)
    assert np.all(search.curve["worst"][-1] <= flip.curve["worst"][-1])
    for name in np.unique(TWO):
        reported = TWO.copy()
        reported[:60] = name
        labels = TwoHalves().fit(X, sensitive_features=reported).labels_
        alone = relative_balance_score(labels[60:], sensitive_features=TWO[60:])
        assert search.curve["worst"][-1] <= alone + 1e-12


def test_the_preset_of_the_publication_has_three_tenths_of_the_rows_in_eight_steps():
    result = robustness_check(TwoHalves(), X, TWO, attack="cfc", n_evaluations=2, random_state=0)
    assert_array_equal(result.curve["n_rewritten"], [0, *range(15, 121, 15)])


@pytest.mark.slow
def test_a_seed_gives_one_result_whatever_the_names_of_the_groups():
    model, rows, group = FairKMeans(2, n_init=1), X[:100], TWO[:100]
    named = np.where(group == group.max(), "yes", "no")
    first, second, other = (
        robustness_check(model, rows, groups, attack="cfc", n_evaluations=1, random_state=seed)
        for groups, seed in ((group, 5), (named, 5), (group, 6))
    )
    assert first.records == second.records
    assert first.records != other.records


@pytest.mark.slow
def test_separate_columns_of_a_frame_are_judged_by_the_worst_of_them():
    table = pd.DataFrame({"sex": TWO, "region": np.arange(400) % 2})[:200]
    model = FairKMeans(2, attributes="separate", n_init=1, random_state=0)
    result = robustness_check(model, X[:200], table, 0.2, "flip", n_evaluations=1, random_state=0)
    labels = model.fit(X[:200], sensitive_features=table).labels_
    honest = np.setdiff1d(np.arange(200), result.rows)
    alone = [by_hand(labels[honest], table[name].to_numpy()[honest]) for name in table]
    assert_allclose(result.baseline, min(alone))
    assert result.worst < result.baseline


def test_fits_that_raise_an_error_are_counted_and_reported():
    """One row alone reports the second group."""
    group = np.r_[np.zeros(80), np.ones(20)]
    with pytest.warns(FairnessWarning, match="fits raised an error.*second half"):
        result = robustness_check(
            NeedsPairs(), X[:100], group, np.arange(80, 99), "flip", random_state=0
        )
    assert result.records[-1]["n_failed"] == 1
    assert np.isnan(result.records[-1]["worst"])
    assert result.worst <= result.baseline
    assert "nan" in result._repr_html_()


def test_a_notebook_shows_the_numbers_of_the_curve():
    result = robustness_check(TwoHalves(), X, TWO, attack="flip", random_state=0)
    page = result._repr_html_()
    assert page.count("<tr>") == 1 + 5
    for value in (result.baseline, result.worst, result.control):
        assert f"{value:.3f}" in page


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"estimator": FairKMeans}, TypeError, "should be an instance"),
        ({"estimator": KMeans(2)}, TypeError, "no parameter sensitive_features"),
        ({"attack": "worst"}, ValueError, "attack='worst' should be one of"),
        ({"n_evaluations": 0}, ValueError, "n_evaluations == 0"),
        ({"n_evaluations": 2.5}, TypeError, "n_evaluations must be an instance of int"),
        ({"rows": 0.0}, ValueError, "rows=0.0"),
        ({"rows": 1.0}, ValueError, "rows=1.0"),
        ({"rows": 7}, ValueError, "rows=7 should be a share"),
        ({"rows": ["a"]}, ValueError, "should be a share"),
        ({"rows": [0, 400]}, ValueError, "different row indices in 0..399"),
        ({"rows": [1, 1]}, ValueError, "different row indices"),
        ({"rows": np.arange(400)}, ValueError, "an honest row"),
        ({"rows": []}, ValueError, "different row indices"),
        ({"sensitive_features": np.zeros(400)}, ValueError, "one group"),
        ({"sensitive_features": TWO[:9]}, ValueError, "has 9 rows, expected 400"),
        ({"X": np.full((400, 2), np.nan)}, ValueError, "NaN"),
    ],
)
def test_invalid_input_raises_an_error(arguments, error, message):
    given = {"estimator": FairKMeans(2), "X": X, "sensitive_features": TWO} | arguments
    with pytest.raises(error, match=message):
        robustness_check(**given)
