"""Rows in chunks: files give the bits that memory gives, and both are as good as one table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering

from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    ReconstructionGraph,
    SociallyFairKMeans,
)
from fairanchor.assignment import _sweep, _transport
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.exceptions import FairnessWarning
from fairanchor.rows import MemoryChunks, MemoryRows, Sampler
from fairanchor.rows._chunks import hashes_of
from fairanchor.rows._open import FileTable
from tiers import first_is_fast

N_ROWS = 3_000
CHUNK_ROWS = 550
# Files end within chunks, chunks within files; one is empty, one has a single row.
EDGES = [0, 100, 100, 1_350, 1_351, 2_500, N_ROWS]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)


def make_rows(seed=0, n=N_ROWS):
    """Features with whole and equal rows among them, and three groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 4.0 * np.eye(4)[rng.integers(0, 3, size=n)]
    X[: n // 3] = np.round(X[: n // 3])
    groups = np.array(["b", "a", "c"])[rng.choice(3, size=n, p=[0.3, 0.6, 0.1])]
    return X, groups


def make_table(X, **columns):
    return pa.table({**columns, **{f"x{j}": X[:, j] for j in range(X.shape[1])}})


def write_files(folder, table, edges=EDGES, *, row_group_size=400):
    folder.mkdir(exist_ok=True)
    for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        part = table.slice(a, b - a)
        pq.write_table(part, folder / f"f{k}.parquet", row_group_size=row_group_size)
    return ds.dataset(folder, format="parquet")


def gathered(model):
    return np.concatenate(list(model.iter_labels()))


FIGURES = (
    "counts_", "targets_", "cluster_centers_", "assignment_prices_", "inertia_", "balance_",
    "assignment_gap_", "n_iter_", "converged_", "n_clusters_found_", "lp_value_", "cost_path_",
    "anchors_", "anchor_indices_", "anchor_masses_", "anchor_labels_", "multipliers_",
    "mass_error_", "duality_gap_", "expected_excess_",
)  # fmt: skip


def assert_same_model(found, expected, labels):
    """Every figure has the same bits."""
    assert_array_equal(labels, expected.labels_)
    assert found.groups_.tolist() == expected.groups_.tolist()
    for name in FIGURES:
        assert hasattr(found, name) == hasattr(expected, name), name
        if hasattr(expected, name):
            assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.worst_violation_ < 1
    assert getattr(found, "history_", None) == getattr(expected, "history_", None)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Rows in memory, and the same in files."""
    X, groups = make_rows()
    folder = tmp_path_factory.mktemp("stored") / "data"
    return X, groups, write_files(folder, make_table(X, g=groups))


SETTINGS = {
    "default": {},
    "k-means on the anchors": {"clusterer": "fair_kmeans"},
    "vfc": {"clusterer": "vfc"},
    "fairlets": {"clusterer": "fairlets"},
    "an estimator": {"clusterer": AgglomerativeClustering()},
    "fdas": {"anchors": "fdas", "n_anchors": 60},
    "the paper's quotas": {"anchors": FDAS(quotas="paper")},
    "das": {"anchors": "das", "n_anchors": 60},
    "random anchors": {"anchors": "random", "n_anchors": 50},
    "given anchors": {"anchors": np.arange(5, N_ROWS, 61)},
    "anchors' composition": {"fairness": "anchors"},
    "reconstruction": {"graph": "reconstruction", "n_anchors": 60},
    "small alpha": {"graph": ReconstructionGraph(alpha=0.01, tol=1e-6), "n_anchors": 60},
    "two threads": {"n_jobs": 2},
}


@pytest.mark.parametrize("setting", first_is_fast(SETTINGS, 3))
def test_files_give_the_bits_of_memory(setting, stored):
    X, groups, dataset = stored
    parameters = {"n_clusters": 3, "random_state": 0} | SETTINGS[setting]
    expected = AnchorFairClustering(**parameters).fit(X, sensitive_features=groups)
    found = AnchorFairClustering(**parameters).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))
    assert found.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    assert not hasattr(found, "labels_")


FAIR_KMEANS_SETTINGS = {
    "default": {},
    "several fits": {"n_init": 3},
    "seeds": {"init": "k-means++"},
    "random rows": {"init": "random"},
    "given centres": {"init": np.eye(4)[:4] * 3.0},
    "given labels": {"init": np.arange(N_ROWS) % 4},
    "few iterations": {"tol": 0.01},
    "two threads": {"n_jobs": 2},
}


@pytest.mark.parametrize("setting", first_is_fast(FAIR_KMEANS_SETTINGS, 2))
def test_fair_k_means_of_files_has_the_bits_of_memory(setting, stored):
    X, groups, dataset = stored
    parameters = {"n_clusters": 4, "random_state": 0} | FAIR_KMEANS_SETTINGS[setting]
    expected = FairKMeans(**parameters).fit(X, sensitive_features=groups)
    found = FairKMeans(**parameters).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))
    assert found.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    assert not hasattr(found, "labels_")
    assert_array_equal(clone(found).fit_predict(dataset, sensitive_features="g"), expected.labels_)


@pytest.mark.parametrize("graph", first_is_fast(["local", "reconstruction", None]))
def test_a_table_of_targets_is_met_exactly(graph, stored):
    """Even where it keeps a group out of a cluster."""
    X, groups, dataset = stored
    sizes = np.unique(groups, return_counts=True)[1]
    targets = np.stack([sizes // 2, sizes - sizes // 2 - 40, np.full(3, 40)])
    targets[:2, 1] = [sizes[1] - 40, 0]
    model = FairKMeans(3, fairness=targets, random_state=0)
    if graph is not None:
        model = AnchorFairClustering(3, fairness=targets, graph=graph, n_anchors=60, random_state=0)
    expected = clone(model).fit(X, sensitive_features=groups)
    found = clone(model).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))
    assert_array_equal(found.counts_, targets)


@pytest.mark.parametrize("chunk_rows", first_is_fast([97, 1_500, 2_999]))
def test_every_size_of_chunks_gives_the_bits_of_memory(chunk_rows, stored, monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", chunk_rows)
    X, groups, dataset = stored
    expected = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=groups)
    found = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))


@pytest.mark.slow
def test_how_files_are_cut_does_not_matter(stored, tmp_path):
    X, groups, dataset = stored
    expected = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    for k, edges in enumerate(([0, N_ROWS], [0, 1, 2, 3, CHUNK_ROWS, 2 * CHUNK_ROWS, N_ROWS])):
        again = write_files(
            tmp_path / str(k), make_table(X, g=groups), edges, row_group_size=333 + k
        )
        found = AnchorFairClustering(3, random_state=0).fit(again, sensitive_features="g")
        assert_array_equal(gathered(found), gathered(expected))
        assert found.inertia_ == expected.inertia_


def test_a_dataset_of_one_chunk_is_read_into_memory(stored, monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", N_ROWS)
    X, groups, dataset = stored
    expected = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=groups)
    found = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, found.labels_)
    assert found.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    with pytest.raises(ValueError, match="labels are in labels_"):
        next(found.iter_labels())


# Groups


GROUPS = {
    "integers": np.arange(N_ROWS) % 3 - 1,
    "small integers": (np.arange(N_ROWS) % 2).astype(np.int8),
    "truth": np.arange(N_ROWS) % 3 == 0,
    "numbers": np.array([0.5, 2.5, -1.0])[np.arange(N_ROWS) % 3],
    "dates": np.array(["2020-01-01", "2021-06-05"], dtype="M8[D]")[np.arange(N_ROWS) % 2],
    "dictionary": np.arange(N_ROWS) % 3 + 10,
    "text": np.array(["ä", "<b>", ""])[np.arange(N_ROWS) % 3],
    "one file only": np.where(np.arange(N_ROWS) < 60, "rare", "usual"),
    "last rows only": np.where(np.arange(N_ROWS) >= N_ROWS - 80, "rare", "usual"),
}


@pytest.mark.parametrize("kind", first_is_fast(GROUPS, 3))
def test_names_of_groups_have_many_types(kind, stored, tmp_path):
    X, groups = stored[0], pa.array(GROUPS[kind])
    column = groups.dictionary_encode() if kind in ("text", "dictionary") else groups
    dataset = write_files(tmp_path / "data", make_table(X, g=column))
    model = FairKMeans(3, random_state=0)
    expected = clone(model).fit(X, sensitive_features=groups)
    found = clone(model).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))
    assert [type(name) for name in found.groups_] == [type(name) for name in expected.groups_]


def test_files_may_have_different_widths_of_one_kind(stored, tmp_path):
    X = stored[0]
    codes = np.arange(N_ROWS) % 3
    dataset = write_files(tmp_path / "data", make_table(X, g=codes))
    narrow = make_table(X.astype(np.float32).astype(float), g=codes.astype(np.int16)).slice(0, 100)
    narrow = narrow.set_column(1, "x0", narrow.column("x0").cast(pa.float32()))
    pq.write_table(narrow, tmp_path / "data" / "f0.parquet")
    X = np.concatenate([X[:100].astype(np.float32).astype(float), X[100:]])
    model = AnchorFairClustering(3, random_state=0)
    expected = clone(model).fit(X, sensitive_features=codes)
    found = clone(model).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))


def test_several_sensitive_columns_are_their_intersection(stored, tmp_path):
    X, groups, _ = stored
    columns = {"g": groups, "age": np.arange(N_ROWS) % 2}
    dataset = write_files(tmp_path / "data", make_table(X, **columns))
    model = AnchorFairClustering(3, random_state=0)
    expected = clone(model).fit(X, sensitive_features=pd.DataFrame(columns))
    found = clone(model).fit(dataset, sensitive_features=["g", "age"])
    assert_same_model(found, expected, gathered(found))
    assert found.groups_.tolist()[0] == ("a", 0)
    assert found.n_features_in_ == 4


@pytest.mark.parametrize(
    "values", first_is_fast([[1, 2, None], ["b", None, "a"], [0.5, None, 0.25]])
)
def test_missing_groups_can_be_a_group_of_their_own(values, stored, tmp_path):
    """They are missing in some chunks only: names must not change their type there."""
    X = stored[0]
    listed = [values[k % 2] for k in range(N_ROWS)]
    listed[1_500:1_800] = values * 100
    if values[0] != 1:
        listed[: len(values)] = values
    dataset = write_files(tmp_path / "data", make_table(X, g=pa.array(listed)))
    model = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    expected = clone(model).fit(X, sensitive_features=np.array(listed, dtype=object))
    found = clone(model).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))
    assert [type(name) for name in found.groups_] == [type(name) for name in expected.groups_]
    assert found.groups_[-1] is None


def test_rows_without_groups_are_one_group_with_a_warning(stored, tmp_path):
    X = stored[0]
    dataset = write_files(tmp_path / "data", make_table(X))
    with pytest.warns(FairnessWarning, match="one group") as caught:
        found = AnchorFairClustering(3, random_state=0).fit(dataset)
    assert caught[0].filename == __file__
    with pytest.warns(FairnessWarning, match="one group"):
        expected = AnchorFairClustering(3, random_state=0).fit(X)
    assert_same_model(found, expected, gathered(found))


# Columns


def test_columns_of_numbers_have_many_types(tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "g": pa.array(rng.choice(["a", "b"], size=N_ROWS)),
        "single": pa.array(rng.normal(size=N_ROWS).astype(np.float32)),
        "half": pa.array(rng.normal(size=N_ROWS).astype(np.float16)),
        "integer": pa.array(rng.integers(-9, 9, size=N_ROWS).astype(np.int8)),
        "unsigned": pa.array(rng.integers(0, 9, size=N_ROWS).astype(np.uint64)),
        "truth": pa.array(rng.random(N_ROWS) < 0.5),
        "dictionary": pa.array(rng.integers(0, 4, size=N_ROWS)).dictionary_encode(),
    }
    numbers = list(columns.values())[1:]
    X = np.column_stack([np.array(column.to_pylist(), dtype=float) for column in numbers])
    dataset = write_files(tmp_path / "data", pa.table(columns))
    groups = columns["g"].to_pylist()
    expected = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=groups)
    found = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))


def test_only_named_features_are_read(stored, tmp_path):
    X, groups, _ = stored
    text = pa.array(["no number"] * N_ROWS)
    dataset = write_files(tmp_path / "data", make_table(X, g=groups, note=text))
    table = FileTable(dataset, features=["x2", "x0"])
    expected = AnchorFairClustering(3, random_state=0).fit(X[:, [2, 0]], sensitive_features=groups)
    found = AnchorFairClustering(3, random_state=0).fit(table, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))
    assert found.feature_names_in_.tolist() == ["x2", "x0"]


def test_arrow_files_give_the_bits_of_parquet_files(stored, tmp_path):
    X, groups, dataset = stored
    table = make_table(X, g=pa.array(groups).dictionary_encode())
    for k, (a, b) in enumerate(zip(EDGES[:-1], EDGES[1:], strict=True)):
        with (
            pa.OSFile(str(tmp_path / f"f{k}.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table.slice(a, b - a), max_chunksize=250)
    found = AnchorFairClustering(3, random_state=0)
    found.fit(ds.dataset(tmp_path, format="ipc"), sensitive_features="g")
    expected = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    assert_array_equal(gathered(found), gathered(expected))
    assert found.inertia_ == expected.inertia_


@pytest.mark.parametrize("unit", first_is_fast([1e-80, 1e80]))
def test_numbers_out_of_the_range_of_squares_are_scaled(unit, tmp_path):
    X, groups = make_rows()
    X = X * unit
    dataset = write_files(tmp_path / "data", make_table(X, g=groups))
    model = AnchorFairClustering(3, random_state=0)
    expected = clone(model).fit(X, sensitive_features=groups)
    found = clone(model).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))


def test_duplicates_are_labelled_in_row_order_whatever_holds_them(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(N_ROWS, 3)).astype(float)
    groups = rng.choice(["a", "b"], size=N_ROWS)
    dataset = write_files(tmp_path / "data", make_table(X, g=groups))
    expected = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=groups)
    found = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    assert_same_model(found, expected, gathered(found))


# Quality


ESTIMATORS = {
    "local": AnchorFairClustering(3, random_state=0),
    "reconstruction": AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0),
    "FairKMeans": FairKMeans(4, random_state=0),
}


@pytest.mark.parametrize("estimator", first_is_fast(ESTIMATORS))
def test_chunks_cost_hardly_more_than_one_table(estimator, monkeypatch):
    X, groups = make_rows(seed=1)
    chunked = clone(ESTIMATORS[estimator]).fit(X, sensitive_features=groups)
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 2**20)
    whole = clone(ESTIMATORS[estimator]).fit(X, sensitive_features=groups)
    assert chunked.inertia_ <= 1.03 * whole.inertia_
    assert chunked.worst_violation_ < 1
    assert_allclose(chunked.balance_, whole.balance_, rtol=0.02)


@pytest.mark.parametrize("estimator", first_is_fast(ESTIMATORS))
def test_reported_figures_are_those_of_the_labels(estimator, stored):
    X, groups, dataset = stored
    model = clone(ESTIMATORS[estimator]).fit(dataset, sensitive_features="g")
    labels = gathered(model)
    counts = pd.crosstab(labels, groups).to_numpy()
    assert_array_equal(model.counts_, counts)
    own = ((X - model.cluster_centers_[labels]) ** 2).sum()
    assert_allclose(model.inertia_, own, rtol=1e-9)
    assert_allclose(model.balance_, (counts.min(axis=1) / counts.max(axis=1)).min())
    if estimator != "FairKMeans":
        means = np.stack([X[labels == l].mean(axis=0) for l in range(3)])
        assert_allclose(model.cluster_centers_, means, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator", first_is_fast(ESTIMATORS))
def test_predict_gives_the_labels_but_for_ties(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(N_ROWS, 4)), rng.choice(["a", "b"], size=N_ROWS)
    dataset = write_files(tmp_path / "data", make_table(X, g=groups))
    model = clone(ESTIMATORS[estimator]).fit(dataset, sensitive_features="g")
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    predicted = model.predict(frame, sensitive_features=groups)
    assert np.count_nonzero(predicted != gathered(model)) <= 3


BOUNDS = [
    {"tolerance": 0.1},
    {"fairness": FairnessTargets(upper=0.7, min_size=700, max_size=1_300)},
    {"min_cluster_size": 900},
]


@pytest.mark.parametrize("estimator", [AnchorFairClustering(3), FairKMeans(3)])
@pytest.mark.parametrize("parameters", first_is_fast(BOUNDS, 2))
def test_bounds_hold_for_rows_in_files_with_the_labels_of_memory(estimator, parameters, stored):
    X, groups, dataset = stored
    model = clone(estimator).set_params(random_state=0, **parameters)
    expected = clone(model).fit(X, sensitive_features=groups)
    found = clone(model).fit(dataset, sensitive_features="g")
    assert_array_equal(gathered(found), expected.labels_)
    assert_array_equal(found.counts_, pd.crosstab(gathered(found), groups).to_numpy())
    assert found.worst_violation_ == expected.worst_violation_ < 1
    sizes = found.counts_.sum(axis=1)
    if "fairness" in parameters:
        assert 700 <= sizes.min() <= sizes.max() <= 1_300
    if "min_cluster_size" in parameters:
        assert sizes.min() >= 900


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        (AnchorFairClustering(3, attributes="separate"), "attributes='separate'"),
        (FairKMeans(3, attributes="separate"), "attributes='separate'"),
        (AnchorFairClustering(3, graph="reconstruction", tolerance=0.1), "tolerance=0.1"),
    ],
)
def test_what_needs_memory_raises_with_its_name(estimator, named, stored):
    with pytest.raises(ValueError, match=f"{named}.*3,000"):
        clone(estimator).fit(stored[2], sensitive_features="g")


# The verbs


@pytest.fixture(params=["memory", "files"])
def rows(request, stored):
    X, groups, dataset = stored
    codes = np.searchsorted(["a", "b", "c"], groups)
    if request.param == "memory":
        return MemoryChunks(MemoryRows(X, codes, 3), CHUNK_ROWS)
    source = FileTable(dataset).source("g")
    rows, groups, _ = source.open(CHUNK_ROWS, "error", None, 3, lambda n_groups: 20)
    assert groups.names.tolist() == ["a", "b", "c"]  # the largest first
    return rows


def test_sums_are_those_of_all_rows(rows, stored):
    X = stored[0]
    products, sizes, number = rows.sum(
        lambda block: (
            (block.X * block.weights[:, None]).T @ block.X,
            np.bincount(block.group_codes, weights=block.weights, minlength=3),
            np.array([block.weights.sum()]),
        )
    )
    assert_allclose(products, X.T @ X)
    assert_array_equal(sizes, rows.group_sizes)
    assert number[0] == rows.total == N_ROWS
    assert rows.largest(lambda block: block.X.max()) == X.max()


def test_rows_are_taken_in_any_order(rows, stored):
    X, groups, _ = stored
    rng = np.random.default_rng(0)
    for indices in (rng.integers(0, N_ROWS, size=300), np.array([N_ROWS - 1, 0, 0])):
        taken = rows.take(indices)
        assert_array_equal(taken.X, X[indices])
        assert_array_equal(np.array(["a", "b", "c"])[taken.group_codes], groups[indices])


@pytest.mark.parametrize("wanted", [[20, 20, 20], [3, 50, 10**6]])
def test_the_rows_that_are_drawn_do_not_depend_on_where_they_are(rows, stored, wanted):
    X, groups, _ = stored
    drawn = rows.draw(np.array(wanted))
    members = [np.flatnonzero(groups == name) for name in ("a", "b", "c")]
    hashes = hashes_of(np.arange(N_ROWS))
    chosen = [
        np.sort(own[np.argsort(hashes[own])[:size]])
        for own, size in zip(members, wanted, strict=True)
    ]
    assert_array_equal(drawn.numbers, np.concatenate(chosen))
    assert_array_equal(drawn.rows.X, X[drawn.numbers])
    assert_array_equal(drawn.rows.group_codes, np.repeat([0, 1, 2], list(map(len, chosen))))


def test_each_gives_every_chunk_its_argument_in_order(rows):
    found = rows.each("test", lambda chunk, extra: (chunk.number, chunk.start, extra), range(6))
    assert found == [(k, k * CHUNK_ROWS, k) for k in range(6)]
    assert rows.each("test", lambda chunk: chunk.rows.n_rows, combine=sum) == N_ROWS


def test_every_chunk_of_every_pass_is_reported(stored):
    seen = []
    table = FileTable(stored[2], progress=lambda *step: seen.append(step))
    model = AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0)
    model.fit(table, sensitive_features="g")
    list(model.iter_labels())
    titles = [title for title, done, _ in seen if done == 1]
    assert len(set(titles)) >= 4  # a title for each kind of pass
    assert titles.index("anchor graph") > titles.index("first look")
    assert [done for _, done, _ in seen] == list(range(1, 7)) * len(titles)
    assert {n for *_, n in seen} == {6}


def test_an_error_in_a_pass_ends_the_reader_that_is_ahead(rows):
    def fail(chunk):
        if chunk.number == 1:
            raise ArithmeticError("in chunk 1")
        return 0

    with pytest.raises(ArithmeticError, match="in chunk 1"):
        rows.each("test", fail)


# Bands that are too large.


@pytest.mark.parametrize("estimator", first_is_fast([FairKMeans, AnchorFairClustering]))
def test_a_band_that_is_thinned_leaves_labels_exact_and_the_same_everywhere(
    stored, monkeypatch, estimator
):
    X, groups, dataset = stored
    whole = estimator(3, random_state=0).fit(X, sensitive_features=groups)
    monkeypatch.setattr(_sweep, "MOST_ENTRIES", 200)
    monkeypatch.setattr(_sweep, "ENTRIES_PER_CELL", 0)
    monkeypatch.setattr(_transport, "FEW_ENTRIES", 0)
    memory = estimator(3, random_state=0).fit(X, sensitive_features=groups)
    streamed = estimator(3, random_state=0).fit(dataset, sensitive_features="g")
    assert_array_equal(gathered(streamed), memory.labels_)
    assert streamed.n_passes_ == memory.n_passes_
    assert memory.n_passes_ > 2
    assert memory.worst_violation_ < 1.0
    assert memory.assignment_gap_ <= 1e-9 * memory.inertia_
    assert memory.inertia_ <= 1.005 * whole.inertia_


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [FairKMeans, AnchorFairClustering])
def test_prices_that_a_sample_cannot_tell_take_few_passes(estimator, monkeypatch):
    # Blobs are far apart: by how much a group misses its share of one is noise in a sample.
    rng = np.random.default_rng(4)
    blobs = rng.integers(4, size=200_000)
    X = 9.0 * rng.normal(size=(4, 6))[blobs] + rng.normal(size=(200_000, 6))
    groups = rng.integers(3, size=200_000)
    whole = FairKMeans(4, random_state=0).fit(X, sensitive_features=groups)
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 2**15)
    model = estimator(4, random_state=0).fit(X, sensitive_features=groups)
    assert model.worst_violation_ < 1.0
    assert model.n_passes_ <= 4
    if estimator is FairKMeans:
        assert model.inertia_ == pytest.approx(whole.inertia_, rel=1e-4)


def test_a_band_that_is_thinned_keeps_small_groups(monkeypatch):
    rng = np.random.default_rng(1)
    blobs = rng.integers(5, size=60_000)
    X = rng.uniform(-3, 3, (5, 4))[blobs] + rng.normal(size=(60_000, 4))
    shares = rng.dirichlet([7.2, 0.72, 0.06], 5)
    groups = (rng.random(60_000)[:, None] > shares.cumsum(axis=1)[blobs, :-1]).sum(axis=1)
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 2**14)
    whole = FairKMeans(5, random_state=0).fit(X, sensitive_features=groups)
    monkeypatch.setattr(_sweep, "MOST_ENTRIES", 2**12)
    monkeypatch.setattr(_sweep, "ENTRIES_PER_CELL", 0)
    thinned = FairKMeans(5, random_state=0).fit(X, sensitive_features=groups)
    assert np.bincount(groups).min() < 2_000
    assert thinned.worst_violation_ < 1.0
    assert thinned.inertia_ <= 1.001 * whole.inertia_


@pytest.fixture
def overlapping(monkeypatch):
    """Overlapping blobs in five chunks, which samples leave some way from converged."""
    rng = np.random.default_rng(4)
    centers = rng.uniform(-2, 2, (6, 4))
    blobs = rng.integers(6, size=40_000)
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 2**13)
    monkeypatch.setattr(LargeScaleClusterer, "_sampler", Sampler((4_000, 1_000), 500))
    X = centers[blobs] + rng.normal(size=(40_000, 4))
    return X, blobs % 2 * (rng.random(40_000) < 0.7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_number_of_passes_is_bounded(overlapping):
    X, groups = overlapping
    options = {"init": X[:6], "tol": 1e-6, "random_state": 0}
    model = FairKMeans(6, max_passes=5, **options).fit(X, sensitive_features=groups)
    free = FairKMeans(6, **options).fit(X, sensitive_features=groups)
    assert model.n_passes_ + 1 <= 5 < free.n_passes_ + 1
    assert model.worst_violation_ < 1.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_samples_show_what_more_iterations_would_gain(overlapping):
    X, groups = overlapping
    options = {"init": X[:6], "tol": 1e-6, "random_state": 0}
    free = FairKMeans(6, **options).fit(X, sensitive_features=groups)
    for max_iter in (1, 4):
        model = FairKMeans(6, max_iter=max_iter, **options).fit(X, sensitive_features=groups)
        excess = model.inertia_ / free.inertia_ - 1.0
        assert excess > 0.01
        assert model.expected_excess_ == pytest.approx(excess, rel=0.2)
    assert 0.0 <= free.expected_excess_ < 0.005
    few = FairKMeans(6, **options).fit(X[:100], sensitive_features=groups[:100])
    assert not hasattr(few, "expected_excess_")


def test_a_second_sample_has_other_rows_as_far_as_there_are_any():
    codes = np.repeat([0, 1, 2], [100, 25, 10])
    rows = MemoryChunks(MemoryRows(np.arange(135.0)[:, None], codes, 3), 30)
    wanted = np.array([20, 20, 20])
    first, second = rows.draw(wanted), rows.draw(wanted, second=True)
    assert_array_equal(first.rows.group_sizes, [20, 20, 10])
    assert_array_equal(second.rows.group_sizes, [20, 20, 10])
    common = np.intersect1d(first.numbers, second.numbers)
    assert_array_equal(np.bincount(codes[common], minlength=3), [0, 15, 10])


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("estimator", first_is_fast([FairKMeans, AnchorFairClustering]))
def test_short_numbers_give_the_labels_of_doubles(stored, tmp_path, dtype, estimator):
    X, groups, _ = stored
    X = np.round(20 * X).astype(dtype) if dtype == "int8" else X.astype(dtype)
    dataset = write_files(tmp_path / "short", make_table(X, g=pa.array(groups).dictionary_encode()))
    streamed = estimator(3, random_state=0).fit(dataset, sensitive_features="g")
    memory = estimator(3, random_state=0).fit(X.astype(np.float64), sensitive_features=groups)
    assert_array_equal(gathered(streamed), memory.labels_)
    assert_array_equal(streamed.cluster_centers_, memory.cluster_centers_)


@pytest.mark.parametrize("estimator", [FairKMeans, SociallyFairKMeans])
def test_datasets_are_labelled_batch_by_batch(stored, estimator):
    X, groups, dataset = stored
    model = estimator(3, random_state=0).fit(dataset, sensitive_features="g")
    frame = dataset.to_table().to_pandas()
    expected = model.predict(frame.drop(columns="g"), sensitive_features=frame["g"])
    assert_array_equal(model.predict(dataset, sensitive_features="g"), expected)
    frames = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)
    assert_array_equal(model.predict(frames, sensitive_features="g"), expected)
