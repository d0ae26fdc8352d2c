"""One cell: what it fits, what it measures, and how it is stopped."""

import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from fairanchor import AnchorFairClustering
from fairanchor.reproduction import _isolated, _measure
from fairanchor.reproduction._cells import Cell, Settings
from fairanchor.reproduction._data import Prepared, load, shape_of
from fairanchor.reproduction._isolated import (
    IsolatedRunner,
    may_take_hours,
    over_memory,
    pilot_estimate,
)
from fairanchor.reproduction._methods import DENSE, METHODS, memory_estimate

SETTINGS = Settings(max_rows=200)
OURS = Cell("zafar", "ffc", "framework", "ours")


def small_data(n_rows=200):
    rng = np.random.default_rng(0)
    target = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, 3)) + 3 * target[:, None]
    groups = np.where(rng.random(n_rows) < 0.3 + 0.3 * target, "a", "b")
    return Prepared("zafar", X, groups, target, 2, "made up")


def test_scores_are_those_of_a_table_counted_by_pandas():
    data = small_data()
    labels = np.random.default_rng(1).integers(0, 2, len(data.X))
    measured = _measure.scores(labels, data)
    table = pd.crosstab(labels, data.groups)
    assert measured["balance"] == pytest.approx((table.min(axis=1) / table.max(axis=1)).min())
    share = table.div(table.sum(axis=1), axis=0)
    population = pd.Series(data.groups).value_counts(normalize=True)
    entropy = -(share * np.log(share)).sum(axis=1)
    assert measured["mnce"] == pytest.approx(
        entropy.min() / -(population * np.log(population)).sum()
    )
    agreement = (labels == data.target).mean()
    assert measured["acc"] == pytest.approx(max(agreement, 1 - agreement))
    centres = pd.DataFrame(data.X).groupby(labels).transform("mean").to_numpy()
    assert measured["cost"] == pytest.approx(((data.X - centres) ** 2).sum(axis=1).mean())


def test_without_the_constraint_every_row_solves_its_own_program():
    data = small_data(60)
    model = AnchorFairClustering(2, n_anchors=8, alpha=0.5, random_state=0)
    model.fit(data.X, sensitive_features=data.groups)
    labels = _measure.unconstrained_labels(model, data)
    H, of_cluster = model.anchors_, model.anchor_labels_
    for x, label in zip(data.X[:15], labels, strict=False):
        solved = minimize(
            lambda z, x=x: ((x - z @ H) ** 2).sum() + 0.5 * (z**2).sum(),
            np.full(8, 1 / 8),
            bounds=[(0, 1)] * 8,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
            options={"ftol": 1e-12},
        )
        soft = np.bincount(of_cluster, weights=solved.x, minlength=2)
        if abs(soft[0] - soft[1]) > 1e-3:
            assert label == soft.argmax()


def test_the_two_blocks_are_the_paper_and_the_defaults():
    data = small_data()
    faithful = _measure.estimator(replace(OURS, block="faithful"), data, 0, 1)
    paper = AnchorFairClustering.as_in_paper(2, clusterer="ffc")
    differing = {"random_state", "n_jobs", "n_anchors"}
    for name, value in paper.get_params(deep=False).items():
        if name not in differing:
            assert getattr(faithful, name) == value, name
    assert faithful.n_anchors == 20 * 2
    ours = _measure.estimator(OURS, data, 0, 1)
    default = AnchorFairClustering(2, clusterer="ffc")
    for name, value in default.get_params(deep=False).items():
        if name not in ("random_state", "n_jobs"):
            assert getattr(ours, name) == value, name


def test_a_refusal_is_a_result_with_its_reason():
    cell = replace(OURS, method="fairlets", per_group=1, dataset="census")
    result = _measure.measure_cell(cell, Settings(max_rows=200))
    assert result["status"] == "refused"
    assert "n_clusters=5" in result["message"]


def test_warnings_of_a_fit_are_kept_with_the_result():
    cell = replace(OURS, block="faithful", per_group=5, history=True)
    result = _measure.measure_cell(cell, SETTINGS)
    assert result["status"] == "done"
    assert any(text.startswith("ConvergenceWarning") for text in result["warnings"])
    assert len(result["history"]) == result["n_iter"]


def test_a_sample_is_always_the_same_and_a_part_of_the_data():
    data = small_data()
    first, second = data.sample(50), data.sample(50)
    assert np.array_equal(first.X, second.X)
    rows = {tuple(row) for row in data.X}
    assert len({tuple(row) for row in first.X} & rows) == 50
    assert data.sample(None) is data
    assert data.sample(1000) is data


def test_other_values_have_another_digest():
    data = small_data()
    changed = replace(data, X=data.X + np.eye(*data.X.shape))
    regrouped = replace(data, groups=data.groups[::-1].copy())
    digests = {shape_of(d).digest for d in (data, changed, regrouped)}
    assert len(digests) == 3
    assert shape_of(small_data()).digest == shape_of(data).digest


@pytest.mark.parametrize("method", [*METHODS, DENSE])
def test_memory_is_foreseen_where_it_grows_with_pairs(method):
    small = memory_estimate(method, (4_000, 6_000))
    large = memory_estimate(method, (40_000, 60_000))
    assert large == 100 * small
    assert (small > 0) == (method in (DENSE, "fairlets"))


def test_a_run_that_cannot_fit_in_memory_is_not_started():
    shape = replace(shape_of(small_data()), group_sizes=(40_000, 60_000), n_rows=100_000)
    cell = Cell("zafar", DENSE, "alone", "faithful", timed=True)
    result = over_memory(cell, shape, Settings(memory_limit=16))
    assert result["status"] == "not run"
    assert result["estimated_gb"] == pytest.approx(42 * 100_000**2 / 2**30)
    assert "the limit is 16 GB" in result["message"]
    assert over_memory(cell, shape, Settings(memory_limit=1000)) is None


def test_a_pilot_foresees_a_quadratic_method_within_a_factor(monkeypatch):
    data = small_data(20_000)
    monkeypatch.setattr(_isolated, "load", lambda *arguments: data)
    monkeypatch.setattr(
        _isolated, "_seconds_of", lambda cell, sample, seed: 1e-7 * len(sample.X) ** 2
    )
    seconds = pilot_estimate(Cell("zafar", "ffc", "alone", "ours"), Settings())
    assert seconds == pytest.approx(1e-7 * 20_000**2, rel=1e-6)
    framework = Cell("zafar", "ffc", "framework", "faithful")
    assert pilot_estimate(framework, Settings(), n_jobs=4) == pytest.approx(seconds / 4)
    monkeypatch.setattr(_isolated, "load", lambda *arguments: small_data(200))
    assert pilot_estimate(Cell("zafar", "ffc", "alone", "ours"), Settings()) is None


@pytest.mark.parametrize(
    ("where", "block", "long"),
    [("alone", "ours", True), ("framework", "faithful", True), ("framework", "ours", False)],
)
def test_only_methods_alone_and_the_papers_solver_are_worth_a_pilot(where, block, long):
    assert may_take_hours(Cell("zafar", "ffc", where, block)) is long


# In a process of its own.


def test_an_isolated_run_measures_what_a_direct_one_does():
    cell = replace(OURS, timed=True)
    with IsolatedRunner(SETTINGS) as runner:
        shape = shape_of(load("zafar", None, 200))
        isolated = runner.run(cell, shape)
        again = runner.run(replace(cell, method="vfc"), shape)
    direct = _measure.measure_cell(cell, SETTINGS)
    assert isolated["status"] == again["status"] == "done"
    for name in ("acc", "nmi", "balance", "mnce", "cost", "n_anchors"):
        assert isolated[name] == pytest.approx(direct[name], abs=1e-12)
    # Threads are not refused, as they would be in a daemonic process.
    assert not [text for text in isolated["warnings"] if "multiprocessing" in text]


def test_a_run_is_killed_at_the_time_limit_and_the_next_one_works():
    settings = Settings(max_rows=2000, time_limit=0.05)
    shape = shape_of(load("zafar", None, 2000))
    with IsolatedRunner(settings) as runner:
        slow = runner.run(Cell("zafar", "fairlets", "alone", "ours", timed=True), shape)
        start = time.perf_counter()
        assert slow["status"] == "time limit"
        assert slow["message"] == "killed after 0.05 s"
        assert slow["seconds"] == 0.05
        runner.settings = replace(settings, time_limit=100.0)
        fast = runner.run(Cell("zafar", "vfc", "framework", "ours", rows=200, timed=True), shape)
        assert fast["status"] == "done"
        assert time.perf_counter() - start < 100


def test_a_run_over_its_memory_is_reported_as_such():
    # 3,000 rows need about 400 MB for the dense eigenproblem; the estimate is bypassed.
    settings = Settings(max_rows=3000, memory_limit=0.2)
    shape = shape_of(load("zafar", None, 3000))
    cell = Cell("zafar", DENSE, "alone", "faithful", timed=True)
    assert over_memory(cell, shape, settings)["status"] == "not run"
    with IsolatedRunner(settings) as runner:
        runner._start()
        runner._pipe.send(cell)
        result = runner._wait(cell)
    assert result["status"] == "memory limit"
    assert "needs more than 0.2 GB" in result["message"]


def test_a_process_that_dies_is_reported_and_replaced(monkeypatch):
    shape = shape_of(load("zafar", None, 200))
    with IsolatedRunner(SETTINGS) as runner, warnings.catch_warnings():
        runner._start()
        runner._process.kill()
        runner._process.join()
        result = runner.run(replace(OURS, timed=True), shape)
        assert result["status"] == "died"
        assert "exit code -9" in result["message"]
        assert runner.run(replace(OURS, timed=True), shape)["status"] == "done"


def test_no_proportional_labels_are_more_accurate_than_the_bound():
    from itertools import product

    from fairanchor.reproduction._data import accuracy_bound

    groups, target = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 0, 1, 0, 1, 1, 1])
    data = SimpleNamespace(groups=groups, target=target)
    fair = [
        np.mean(labels == target)
        for labels in map(np.array, product((0, 1), repeat=8))
        if labels[:4].sum() == labels[4:].sum()
    ]
    assert accuracy_bound(data) == pytest.approx(max(fair)) == pytest.approx(0.75)
