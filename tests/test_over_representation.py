"""One cap for every group: ``FairnessTargets(upper=0.2)`` and ``--max-share 0.2``."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets, fair_assign
from fairanchor.cli import main

N_ROWS, N_GROUPS, CAP = 600, 8, 0.2
RNG = np.random.default_rng(0)
SOURCE = RNG.integers(0, N_GROUPS, N_ROWS)
X = np.column_stack([SOURCE % 3, SOURCE]) * 2.0 + RNG.normal(size=(N_ROWS, 2))
ESTIMATORS = [
    FairKMeans(4, random_state=0),
    AnchorFairClustering(4, random_state=0),
    AnchorFairClustering(4, clusterer="consensus", n_anchors=100, random_state=0),
]


def counts_of(labels, groups=SOURCE):
    return pd.crosstab(np.asarray(labels), np.asarray(groups)).to_numpy()


def rows_over_the_cap(counts, cap=CAP):
    return (counts - cap * counts.sum(axis=1, keepdims=True)).max()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["k-means", "framework", "consensus"])
def test_no_group_has_more_than_the_cap_of_any_cluster(estimator):
    plain = type(estimator)(**(estimator.get_params(deep=False) | {"tolerance": 1.0}))
    plain = plain.fit(X, sensitive_features=SOURCE)
    assert rows_over_the_cap(counts_of(plain.labels_)) > 10
    model = type(estimator)(
        **(estimator.get_params(deep=False) | {"fairness": FairnessTargets(upper=CAP)})
    )
    model.fit(X, sensitive_features=SOURCE)
    counts = counts_of(model.labels_)
    assert counts.shape == (4, N_GROUPS)
    assert rows_over_the_cap(counts) <= 1e-9
    assert model.worst_violation_ <= 1e-9


def test_one_number_is_the_same_as_a_cap_for_each_group():
    each = FairnessTargets(upper=dict.fromkeys(range(N_GROUPS), CAP))
    costs = RNG.normal(size=(N_ROWS, 4))
    one, all_ = (
        fair_assign(costs, sensitive_features=SOURCE, fairness=targets)
        for targets in (FairnessTargets(upper=CAP), each)
    )
    np.testing.assert_array_equal(one.labels, all_.labels)


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=["k-means", "framework"])
@pytest.mark.parametrize(
    ("cap", "message"),
    [(0.12, "misses its upper share 0.12"), (1.2, "between 0 and 1")],
)
def test_a_cap_that_cannot_be_met_is_explained(estimator, cap, message):
    parameters = estimator.get_params(deep=False) | {"fairness": FairnessTargets(upper=cap)}
    with pytest.raises(ValueError, match=message):
        type(estimator)(**parameters).fit(X, sensitive_features=SOURCE)


@pytest.fixture
def news(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "source": SOURCE, "half": SOURCE % 2})
    table.to_csv("news.csv", index=False)
    (tmp_path / "news").mkdir()
    for part in range(2):
        table[part::2].to_parquet(f"news/{part}.parquet", index=False)
    return table


def fit(*options, source="news.csv", code=0):
    arguments = ["fit", source, "-k", "4", "--jobs", "1", "--features", "x,y", *options, "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result


def summary(*options, **keywords):
    output = fit("--quiet", *options, **keywords).output
    return json.loads(output)


@pytest.mark.parametrize("source", ["news.csv", "news"])
def test_max_share_caps_every_group(news, source):
    found = summary("--sensitive", "source", "--max-share", "0.2", source=source)
    counts = np.array(found["counts"])
    assert counts.sum() == N_ROWS
    assert rows_over_the_cap(counts) <= 1e-9
    assert rows_over_the_cap(counts) > -5  # it is the only constraint, so it binds
    assert found["parameters"]["max_share"] == 0.2


def test_max_share_goes_with_tolerance_sizes_and_separate_columns(news):
    options = ("--max-share", "0.2", "--tolerance", "0.5", "--min-size", "140")
    counts = np.array(summary("--sensitive", "source", *options)["counts"])
    assert rows_over_the_cap(counts) <= 1e-9
    assert counts.sum(axis=1).min() >= 140
    shares = np.bincount(SOURCE) / N_ROWS
    assert (counts - 0.5 * shares * counts.sum(axis=1, keepdims=True)).min() > -1
    options = ("--sensitive", "source,half", "--attributes", "separate", "--max-share", "0.55")
    found = summary(*options)
    for name in ("source", "half"):
        assert rows_over_the_cap(np.array(found["attributes"][name]["counts"]), 0.55) < 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--max-share", "0.1"), 1, "misses its upper share 0.1"),
        (("--max-share", "1.5"), 2, "max-share"),
        (("--max-share", "0.5", "--targets", __file__), 2, "--max-share and --targets"),
    ],
)
def test_invalid_caps_raise_an_error(news, options, code, message):
    assert message in fit("--sensitive", "source", *options, code=code).output
