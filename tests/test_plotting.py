"""What the figures show, against slow oracles; names and bad input."""

import io
import subprocess
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans

mpl.use("agg")

import matplotlib.pyplot as plt  # noqa: E402  the backend comes first

from fairanchor import AnchorFairClustering, FairKMeans, plotting  # noqa: E402
from fairanchor.datasets import make_zafar  # noqa: E402
from fairanchor.metrics import balance_score, dataset_balance  # noqa: E402
from fairanchor.model_selection import FairnessPath
from fairanchor.plotting._names import display_name  # noqa: E402

SVG_TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(autouse=True)
def _closed_figures():
    plt.close("all")  # those of the examples in docstrings, which have no fixture
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    return make_zafar(1200, variant="original", random_state=0)


@pytest.fixture(scope="module")
def model(rows):
    estimator = AnchorFairClustering(3, n_anchors=40, graph="reconstruction", random_state=0)
    return estimator.fit(rows.data, sensitive_features=rows.sensitive_features)


# Composition and balance


def widths_of_bars(ax):
    """Widths by (bar, group), bars from top to bottom."""
    return np.array([[bar.get_width() for bar in container] for container in ax.containers]).T


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=30))
def test_composition_bars_are_the_shares_of_the_groups(pairs):
    labels, groups = zip(*pairs, strict=True)
    ax = plotting.plot_composition(list(labels), list(groups), ax=plt.figure().subplots())
    names = sorted(set(groups))
    expected = [[groups.count(name) / len(groups) for name in names]]
    for cluster in sorted(set(labels)):
        own = [g for l, g in pairs if l == cluster]
        expected.append([own.count(name) / len(own) for name in names])
    assert_allclose(widths_of_bars(ax), expected, atol=1e-12)
    plt.close("all")


def test_an_estimator_is_drawn_like_its_labels(rows, model):
    figure = plt.figure()
    of_model, of_labels = figure.subplots(2)
    plotting.plot_composition(model, ax=of_model)
    plotting.plot_composition(model.labels_, rows.sensitive_features, ax=of_labels)
    assert_allclose(widths_of_bars(of_model), widths_of_bars(of_labels))
    texts = [[t.get_text() for t in ax.get_yticklabels()] for ax in (of_model, of_labels)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("draw", [plotting.plot_composition, plotting.plot_balance])
def test_other_groups_than_those_of_the_fit_are_drawn_if_they_are_given(rows, model, draw):
    others = np.where(rows.data[:, 0] > np.median(rows.data[:, 0]), "high", "low")
    figure = plt.figure()
    of_model, of_labels, own = figure.subplots(3)
    draw(model, others, ax=of_model)
    draw(model.labels_, others, ax=of_labels)
    draw(model, ax=own)
    texts = [[t.get_text() for t in ax.get_legend().get_texts()] for ax in figure.axes]
    assert texts[0] == texts[1] != texts[2]
    drawn = [np.concatenate([line.get_xdata() for line in ax.lines]) for ax in figure.axes]
    assert_allclose(drawn[0], drawn[1])
    assert len(drawn[0]) != len(drawn[2]) or not np.allclose(drawn[0], drawn[2])


def test_weights_equal_repeated_rows(rows, model):
    groups = rows.sensitive_features
    weights = np.where(groups == groups[0], 3, 1)
    repeated = np.repeat(np.arange(len(weights)), weights)
    of_weights, of_repeated = plt.figure().subplots(2)
    plotting.plot_composition(model, groups, sample_weight=weights, ax=of_weights)
    plotting.plot_composition(model.labels_[repeated], groups[repeated], ax=of_repeated)
    assert_allclose(widths_of_bars(of_weights), widths_of_bars(of_repeated))


def test_dashed_lines_stand_at_the_population_boundaries():
    ax = plotting.plot_composition([0, 0, 0, 1], ["a", "b", "c", "c"])
    assert_allclose(sorted(line.get_xdata()[0] for line in ax.lines), [0.25, 0.5])


def test_small_groups_are_drawn_as_one():
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    ax = plotting.plot_composition(np.zeros(len(groups), int), groups)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["13", "14", "15", "16", "17", "18", "19", "13 smaller groups"]
    assert_allclose(widths_of_bars(ax)[0, -1], np.arange(1, 14).sum() / len(groups))


def test_of_many_clusters_the_farthest_are_drawn():
    labels = np.repeat(np.arange(60), 10)
    groups = np.tile(["a"] * 5 + ["b"] * 5, 60)
    groups[labels == 57] = "a"
    groups[labels == 3] = "b"
    ax = plotting.plot_composition(labels, groups)
    shown = [text.get_text().split(":")[0] for text in ax.get_yticklabels()]
    assert len(shown) == 41
    assert {"3", "57"} < set(shown)
    assert [int(name) for name in shown[1:]] == sorted(int(name) for name in shown[1:])


def test_balance_marks_the_metric_and_its_bound(rows):
    labels = KMeans(4, n_init=1, random_state=0).fit_predict(rows.data)
    groups = rows.sensitive_features
    ax = plotting.plot_balance(labels, groups)
    points = [line for line in ax.lines if len(line.get_xdata()) == 1]
    values = [line.get_xdata()[0] for line in points]
    assert_allclose(min(values), balance_score(labels, sensitive_features=groups))
    bound = next(line for line in ax.lines if len(line.get_xdata()) == 2)
    assert_allclose(bound.get_xdata()[0], dataset_balance(groups))
    colors = [mpl.colors.to_hex(line.get_markerfacecolor()) for line in points]
    assert colors.count("#ffffff") == 3
    assert colors[int(np.argmin(values))] != "#ffffff"


# Comparison


def test_comparison_is_relative_to_the_first_cost():
    methods = [{"name": f"m{i}", "cost": c, "balance": 0.1 * i} for i, c in enumerate([50, 60, 55])]
    ax = plotting.plot_comparison(methods)
    assert_allclose([line.get_ydata()[0] for line in ax.lines], [1.0, 1.2, 1.1])
    assert_allclose([line.get_xdata()[0] for line in ax.lines], [0.0, 0.1, 0.2])


@pytest.mark.parametrize("make", [np.array, tuple, iter, list])
def test_names_can_be_any_sequence(make):
    ax = plotting.plot_profiles([[0.0], [1.0]], ["x", "y"], feature_names=make(["age"]))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x", "y"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["age"]


def test_a_price_of_a_per_mille_does_not_fill_the_axis():
    methods = [{"name": f"m{i}", "cost": 1000 + i, "balance": 0.2 + i / 2} for i in range(2)]
    low, high = plotting.plot_comparison(methods).get_ylim()
    assert high - low >= 0.05


def test_comparison_shows_every_method_that_agrees_with_another():
    methods = [{"name": f"m{i}", "cost": 2.0, "balance": 0.5, "other": 1} for i in range(12)]
    ax = plotting.plot_comparison(methods, bound=0.6)
    assert len(ax.get_legend().get_texts()) == 13
    points = [line for line in ax.lines if line.get_linestyle() == "None"]
    looks = {(line.get_marker(), line.get_markersize()) for line in points}
    assert len(looks) == 12
    assert {line.get_markerfacecolor() for line in points} == {"none"}


# Rows, profiles, anchors


@pytest.mark.parametrize("n_rows", [1, 2, 40, 5000])
@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_an_embedding_draws_each_row_or_so_many_as_it_says(n_rows, n_features):
    X = np.random.default_rng(1).normal(size=(n_rows, n_features))
    ax = plotting.plot_embedding(X, np.arange(n_rows) % 13, max_points=1000)
    assert sum(len(line.get_xdata()) for line in ax.lines) == min(n_rows, 1000)
    again = plotting.plot_embedding(X, np.arange(n_rows) % 13, max_points=1000)
    for one, other in zip(ax.lines, again.lines, strict=True):
        assert_array_equal(one.get_xydata(), other.get_xydata())


def test_colours_that_repeat_come_with_another_marker():
    X = np.random.default_rng(2).normal(size=(400, 2))
    ax = plotting.plot_embedding(X, np.arange(400) % 20)
    looks = {(line.get_color(), line.get_marker()) for line in ax.lines}
    assert len(looks) == 20


def test_profiles_are_standardised_differences_of_means():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 4)) * [1, 10, 0, 1e-3] + [0, 1e6, 7, 0]
    labels = rng.integers(0, 3, 500)
    X[labels == 1, 1] += 25
    ax = plotting.plot_profiles(X, labels, feature_names=["a", "b", "constant", "d"])
    table = ax.collections[0].get_array().reshape(3, 4)
    names = [text.get_text() for text in ax.get_xticklabels()]
    assert names[0] == "b"
    for column, name in enumerate(names):
        x = X[:, ["a", "b", "constant", "d"].index(name)]
        for cluster in range(3):
            expected = 0.0 if name == "constant" else (x[labels == cluster].mean() - x.mean())
            assert_allclose(table[cluster, column] * max(x.std(), 1e-9), expected, atol=1e-8)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_profiles_have_the_column_names_of_a_frame(library):
    columns = {"age": [1.0, 2.0, 1.0, 2.0], "income": [0.0, 0.0, 8.0, 8.0]}
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[library]
    frame = getattr(pytest.importorskip(library), make)(columns)
    ax = plotting.plot_profiles(frame, [0, 0, 1, 1])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["income", "age"]


def test_profiles_leave_out_clusters_without_rows():
    ax = plotting.plot_profiles([[0.0], [1.0], [2.0]], [0, 2, 2])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "2"]


def test_areas_of_anchors_grow_with_their_masses(rows, model):
    ax = plotting.plot_anchors(model, X=rows.data)
    drawn = np.concatenate([points.get_sizes() for points in ax.collections])
    order = np.concatenate(
        [np.flatnonzero(model.anchor_labels_ == l) for l in np.unique(model.anchor_labels_)]
    )
    masses = model.anchor_masses_[order]
    assert_allclose(np.corrcoef(drawn, masses)[0, 1], 1.0)


def test_convergence_draws_exact_zeros_at_the_foot(model):
    ended = SimpleNamespace(history_=[
        {"sweep": 1, "mass_error": 10.0}, {"sweep": 2, "mass_error": 0.0}
    ])  # fmt: skip
    assert_allclose(plotting.plot_convergence(ended).lines[0].get_ydata(), [10.0, 1.0])
    del ended.history_[0]
    assert plotting.plot_convergence(ended).get_yscale() == "linear"
    errors = plotting.plot_convergence(model).lines[0].get_ydata()
    assert_allclose(errors, [record["mass_error"] for record in model.history_])


def test_convergence_of_fair_k_means_is_its_cost(rows):
    model = FairKMeans(3, init="random", n_init=1, random_state=0)
    model.fit(rows.data, sensitive_features=rows.sensitive_features)
    ax = plotting.plot_convergence(model)
    assert_allclose(ax.lines[0].get_ydata(), model.cost_path_)
    assert_array_equal(ax.lines[0].get_xdata(), np.arange(len(model.cost_path_)))
    assert (ax.get_yscale(), ax.get_ylabel()) == ("linear", "cost")


def test_the_local_graph_has_no_iterations_to_draw(rows):
    model = AnchorFairClustering(2, n_anchors=40, random_state=0)
    model.fit(rows.data, sensitive_features=rows.sensitive_features)
    with pytest.raises(ValueError, match="AnchorFairClustering has no history_"):
        plotting.plot_convergence(model)


# Axes and names

FRAMEWORK = SimpleNamespace(
    anchors_=np.eye(2),
    anchor_labels_=np.zeros(2, dtype=int),
    anchor_masses_=np.ones(2),
    history_=[{"sweep": 1, "mass_error": 1.0}],
)
DRAWN = [
    lambda ax: plotting.plot_composition([0, 1], ["a", "b"], ax=ax),
    lambda ax: plotting.plot_balance([0, 1], ["a", "b"], ax=ax),
    lambda ax: plotting.plot_comparison([{"name": "m", "cost": 1, "balance": 1}], ax=ax),
    lambda ax: plotting.plot_profiles([[0.0], [1.0]], [0, 1], ax=ax),
    lambda ax: plotting.plot_embedding([[0.0], [1.0]], [0, 1], ax=ax),
    lambda ax: plotting.plot_anchors(FRAMEWORK, ax=ax),
    lambda ax: plotting.plot_convergence(FRAMEWORK, ax=ax),
]


@pytest.mark.parametrize("draw", DRAWN)
def test_given_axes_are_used_and_returned_else_new_ones_are_made(draw):
    ax = plt.figure().subplots()
    assert draw(ax) is ax
    assert draw(None) is not ax
    assert len(plt.get_fignums()) == 2


@pytest.mark.parametrize("name", ["$x^2$", r"\$5 to $10", "_hidden", "<b>", "%s", "{x}", "$"])
def test_names_are_drawn_as_they_are_written(name):
    ax = plotting.plot_composition([0, 0, 1], [name, "b", "b"])
    svg = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        ax.figure.savefig(svg, format="svg")
    texts = [element.text for element in ElementTree.fromstring(svg.getvalue()).iter(SVG_TEXT)]
    assert name in [text.strip("\u200b") for text in texts if text]


NAMES = [
    (None, "(missing)"),
    ("", "(empty)"),
    (("f", 30), "f × 30"),
    ("a\nb\tc", "a b c"),
    ("a\x00b", "a\\u0000b"),
    ("evil\u202egnp", "evil\\u202egnp"),
    ("\ud800", "\\ud800"),
    ("x" * 300, "x" * 199 + "…"),
    (True, "True"),
    ("Ünïcödé 名", "Ünïcödé 名"),
]


@pytest.mark.parametrize(("value", "text"), NAMES)
def test_names_become_one_visible_line(value, text):
    assert display_name(value) == text


# Bad input


def path_of(costs):
    """A path of these costs from tight to loose."""
    places = np.linspace(0, 1, len(costs))
    names = ("tolerance", "relative_balance", "cost")
    values = zip(places, 1 - places / 2, costs, strict=True)
    return FairnessPath([dict(zip(names, own, strict=True)) for own in values], [])


def test_the_path_is_drawn_relative_to_its_loosest_tolerance():
    ax = plotting.plot_fairness_path(path_of([30.0, 24.0, 20.0]))
    [line] = ax.lines
    np.testing.assert_allclose(line.get_ydata(), [1.5, 1.2, 1.0])
    np.testing.assert_allclose(line.get_xdata(), [1.0, 0.75, 0.5])
    assert [text.get_text() for text in ax.texts] == ["tolerance 0", "0.5", "1"]
    assert ax.get_ylabel() == "cost, tolerance 1 = 1"


def test_points_of_a_path_that_fall_together_have_one_name():
    records = path_of([20.0, 20.0]).records
    records[1]["relative_balance"] = 0.999
    ax = plotting.plot_fairness_path(FairnessPath(records, []))
    assert [text.get_text() for text in ax.texts] == ["tolerance 0"]


def test_separate_attributes_have_a_curve_each():
    records = path_of([30.0, 24.0, 20.0]).records
    for record in records:
        half = {"relative_balance": 0.5 + record["relative_balance"] / 2}
        own = {"relative_balance": record["relative_balance"]}
        record["attributes"] = {"sex": own, "_$race$": half}
    ax = plotting.plot_fairness_path(FairnessPath(records, []))
    first, second = ax.lines
    np.testing.assert_allclose(first.get_xdata(), [1.0, 0.75, 0.5])
    np.testing.assert_allclose(second.get_xdata(), [1.0, 0.875, 0.75])
    np.testing.assert_allclose(second.get_ydata(), [1.5, 1.2, 1.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "sex", "\u200b_\\$race\\$",
    ]  # fmt: skip


def clusters_path_of(costs, plain):
    """A path over 2, 3, ... clusters."""
    return FairnessPath(
        [
            {"n_clusters": k, "tolerance": 0.1, "cost": own, "plain_cost": least,
             "smallest_cell": 100 // k, "balance": 1 / k, "silhouette": 0.5}
            for k, (own, least) in enumerate(zip(costs, plain, strict=True), start=2)
        ],
        [],
    )  # fmt: skip


def test_costs_over_clusters_are_relative_to_the_fewest_without_limits():
    ax = plotting.plot_clusters_path(clusters_path_of([30.0, 15.0], [20.0, 14.0]))
    fair, plain = ax.lines
    np.testing.assert_allclose(fair.get_ydata(), [1.5, 0.75])
    np.testing.assert_allclose(plain.get_ydata(), [1.0, 0.7])
    assert [text.get_text() for text in ax.get_xticklabels()] == [
        "2\n50\n0.50\n0.50", "3\n33\n0.33\n0.50",
    ]  # fmt: skip
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "tolerance 0.1",
        "no constraint",
    ]


BAD_INPUT = [
    (lambda: plotting.plot_composition([0, 1]), "sensitive_features is None"),
    (lambda: plotting.plot_composition([0, 1], ["a"]), "sensitive_features has 1 rows, expected 2"),
    (lambda: plotting.plot_balance([[0, 1]], ["a", "b"]), r"shape \(1, 2\), expected"),
    (lambda: plotting.plot_composition(KMeans()), "KMeans has no counts_: it is not fitted"),
    (lambda: plotting.plot_comparison([{"name": "a", "cost": 0, "balance": 1}]), "cost is 0.0"),
    (lambda: plotting.plot_comparison([{"name": "a", "cost": np.nan, "balance": 1}]), "finite"),
    (lambda: plotting.plot_composition([0, None], ["a", "b"]), "labels has 1 missing value"),
    (lambda: plotting.plot_balance([0.0, np.nan], ["a", "b"]), "the first in row 1"),
    (lambda: plotting.plot_composition([0, 1], ["a", "b"], sample_weight=[1]), "expected \\(2,\\)"),
    (lambda: plotting.plot_composition([0], ["a"], sample_weight=[-1]), "1 negative values"),
    (
        lambda: plotting.plot_profiles(np.eye(2), [0, 1], feature_names=["a"]),
        "feature_names has 1 entries, expected 2",
    ),
    (lambda: plotting.plot_comparison([{"cost": 1}]), "should have a name, a cost and a balance"),
    (lambda: plotting.plot_comparison([]), "a balance for each method"),
    (lambda: plotting.plot_embedding([[np.nan]], [0]), "Input X contains NaN"),
    (lambda: plotting.plot_embedding([0.0], [0]), "Expected 2D array, got 1D"),
    (lambda: plotting.plot_embedding([[0.0]], [0, 1]), r"labels has 2 entries, expected 1"),
    (lambda: plotting.plot_anchors(KMeans()), "KMeans has no anchors_: it is not fitted"),
    (lambda: plotting.plot_fairness_path(path_of([0.0])), "reference cost is 0.0"),
    (
        lambda: plotting.plot_clusters_path(path_of([1.0])),
        "path is one of fairness_path, expected one of clusters_path",
    ),
    (
        lambda: plotting.plot_fairness_path(clusters_path_of([1.0], [1.0])),
        "path is one of clusters_path, expected one of fairness_path",
    ),
    (lambda: plotting.plot_clusters_path(clusters_path_of([1.0], [0.0])), "reference cost is 0.0"),
]


@pytest.mark.parametrize(("call", "message"), BAD_INPUT)
def test_bad_input_is_refused_with_its_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("draw", [plotting.plot_fairness_path, plotting.plot_clusters_path])
def test_what_is_no_path_is_refused_by_its_type(draw):
    with pytest.raises(TypeError, match=r"^path is a list, expected a FairnessPath of \w+_path.$"):
        draw([1.0])


def test_weights_without_groups_are_refused_with_an_estimator(model):
    with pytest.raises(ValueError, match="sample_weight need the group of each row"):
        plotting.plot_composition(model, sample_weight=np.ones(1200))


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "fairanchor\[report\]"'):
        plotting.plot_composition([0, 1], ["a", "b"])


@pytest.mark.slow
def test_importing_the_module_does_not_import_matplotlib():
    code = "import sys, fairanchor.plotting, fairanchor.report; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
