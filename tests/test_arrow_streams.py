"""Rows from Arrow streams and lazy frames, and data frames as output."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from fairanchor import AnchorFairClustering, FairKMeans, FairletClustering, SociallyFairKMeans
from fairanchor.cluster._large_scale import LargeScaleClusterer

RNG = np.random.default_rng(0)
N_ROWS = 300
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=N_ROWS),
        "sex": RNG.choice(["f", "m"], N_ROWS),
        "income": RNG.integers(0, 50, N_ROWS) / 10,
        "race": RNG.choice([1, 2], N_ROWS),
    }
)
FEATURES = FRAME[["age", "income"]]
TABLE = pa.Table.from_pandas(FRAME)


class Relation:
    """Nothing but a stream, which can be opened again, as a relation of DuckDB."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        reader = pa.RecordBatchReader.from_batches(
            self.table.schema, self.table.to_batches(max_chunksize=70)
        )
        return reader.__arrow_c_stream__(requested_schema)


def duckdb_relation(table):
    return duckdb.from_arrow(table)


STREAMS = {
    "relation": Relation,
    "reader": lambda table: table.to_reader(max_chunksize=40),
    "lazy frame": lambda table: pl.from_arrow(table).lazy(),
    "DuckDB": duckdb_relation,
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("estimator", [FairKMeans, SociallyFairKMeans, AnchorFairClustering])
def test_streams_give_the_labels_of_tables_in_memory(stream, estimator):
    groups = FRAME["sex"]
    numbers = TABLE.drop_columns("race")
    new = estimator(3, random_state=0, **({"n_init": 2} if estimator is SociallyFairKMeans else {}))
    expected = clone(new).fit(FEATURES, sensitive_features=groups)
    model = new.fit(stream(numbers), sensitive_features="sex")
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.feature_names_in_.tolist() == ["age", "income"]
    labels = model.predict(stream(numbers), sensitive_features="sex")
    np.testing.assert_array_equal(labels, expected.labels_)


def test_groups_are_several_columns_or_values_beside_the_stream():
    groups = FRAME[["sex", "race"]]
    expected = FairKMeans(2, random_state=0).fit(FEATURES, sensitive_features=groups)
    model = FairKMeans(2, random_state=0).fit(Relation(TABLE), sensitive_features=["sex", "race"])
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.sensitive_names_in_.tolist() == ["sex", "race"]
    numbers = Relation(TABLE.drop_columns(["sex", "race"]))
    model = FairKMeans(2, random_state=0).fit(numbers, sensitive_features=groups)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    labels = model.predict(numbers, sensitive_features=groups)
    np.testing.assert_array_equal(labels, expected.labels_)


OPENED_AGAIN = {
    "batches": lambda table: lambda: table.to_batches(max_chunksize=70),
    "relation": lambda table: lambda: Relation(table),
    "DuckDB": lambda table: lambda: duckdb_relation(table).to_arrow_reader(50),
}


@pytest.mark.parametrize("opened", OPENED_AGAIN.values(), ids=OPENED_AGAIN)
@pytest.mark.parametrize("estimator", [FairKMeans, AnchorFairClustering])
@pytest.mark.parametrize("chunk_rows", [64, 1000])
def test_functions_that_open_a_stream_are_read_in_every_pass(
    opened, estimator, chunk_rows, monkeypatch
):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", chunk_rows)
    stream = opened(TABLE.drop_columns("race"))
    expected = estimator(3, random_state=0).fit(FEATURES.to_numpy(), sensitive_features=FRAME.sex)
    model = estimator(3, random_state=0).fit(stream, sensitive_features="sex")
    labels = model.labels_ if chunk_rows > N_ROWS else np.concatenate(list(model.iter_labels()))
    np.testing.assert_array_equal(labels, expected.labels_)
    assert model.feature_names_in_.tolist() == ["age", "income"]
    np.testing.assert_array_equal(model.predict(stream, sensitive_features="sex"), labels)


def test_a_stream_that_changes_between_passes_raises_an_error(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 64)
    numbers, rng = TABLE.drop_columns("race"), np.random.default_rng(0)
    sizes = iter([300, 200])
    for another, message in (
        (lambda: numbers.take(rng.permutation(N_ROWS)), "other rows from row 0 on"),
        (lambda: numbers.slice(0, next(sizes)), "ended after row 200, but had 300"),
    ):
        with pytest.raises(ValueError, match=message):
            FairKMeans(3, random_state=0).fit(another, sensitive_features="sex")


@pytest.mark.parametrize("returned", [5, [], [1, 2]])
def test_a_function_that_opens_no_stream_raises_an_error(returned):
    with pytest.raises(TypeError, match="function that returned"):
        FairKMeans(3).fit(lambda: returned, sensitive_features="sex")


def test_paths_are_read_as_files(tmp_path):
    numbers = TABLE.drop_columns("race")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(paths, (numbers.slice(0, 100), numbers.slice(100)), strict=True):
        pq.write_table(part, path)
    expected = FairKMeans(3, random_state=0).fit(FEATURES, sensitive_features=FRAME["sex"])
    for X in (tmp_path, str(tmp_path), paths, [str(path) for path in paths]):
        model = FairKMeans(3, random_state=0).fit(X, sensitive_features="sex")
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        labels = model.predict(X, sensitive_features="sex")
        np.testing.assert_array_equal(labels, expected.labels_)
    with pytest.raises(FileNotFoundError, match="nothing.parquet"):
        FairKMeans(3).fit(tmp_path / "nothing.parquet", sensitive_features="sex")


@pytest.mark.parametrize(
    ("X", "sensitive", "message"),
    [
        (Relation(TABLE), "gender", "'gender'.*age, sex, income, race"),
        (Relation(TABLE), "race", "column 'sex'"),
        (Relation(TABLE.slice(0, 0)), "sex", "without rows"),
    ],
)
def test_what_a_stream_lacks_raises_an_error(X, sensitive, message):
    with pytest.raises(ValueError, match=message):
        FairKMeans(2).fit(X, sensitive_features=sensitive)


def test_estimators_that_take_no_streams_raise_an_error():
    with pytest.raises(TypeError, match=r"\.collect\(\)"):
        FairletClustering(2).fit(pl.from_pandas(FEATURES).lazy(), sensitive_features=FRAME["sex"])


@pytest.mark.parametrize("estimator", [FairKMeans, SociallyFairKMeans])
def test_transform_gives_data_frames_of_distances(estimator):
    model = estimator(3, random_state=0).set_output(transform="pandas")
    model.fit(FEATURES, sensitive_features=FRAME["sex"])
    distances = model.transform(FEATURES)
    expected = np.linalg.norm(FEATURES.to_numpy()[:, None] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(distances, expected, atol=1e-7)
    assert list(distances.columns) == [f"{estimator.__name__.lower()}{k}" for k in range(3)]
    assert isinstance(model.set_output(transform="polars").transform(FEATURES), pl.DataFrame)
