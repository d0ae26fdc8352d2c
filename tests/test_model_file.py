"""Model files: what is loaded predicts, bit by bit, what was saved."""

import io
import json
import zipfile
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.exceptions import NotFittedError

import fairanchor._model_file as model_file
from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor._model import AnchorModel
from fairanchor._model_file import UnavailableClusterer, load_model, save_model
from fairanchor.tables import GroupRule, Preprocessing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
NEW = RNG.normal(size=(100, 4))
GROUPS = np.array(["a", "b", "c"])[np.arange(400) % 3]
NEW_GROUPS = GROUPS[:100]


def fitted(X=X, groups=GROUPS, **parameters):
    model = AnchorFairClustering(**({"n_clusters": 3, "random_state": 0} | parameters))
    return model.fit(X, sensitive_features=groups)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    model = fitted()
    save_model(model, path)
    return model, path


# Shapes and ridges for which different row solvers are chosen.
SETTINGS = {
    "default": {},
    "not refined": {"refine": 0},
    "spfc": {"clusterer": "spfc"},
    "dense supports": {"refine": 0, "alpha": 1000.0, "n_anchors": 40},
    "sparse supports": {"refine": 0, "alpha": 0.01, "n_anchors": 60},
    "many features": {"refine": 0, "X": RNG.normal(size=(400, 30)), "n_anchors": 30},
    "one feature": {"refine": 0, "X": X[:, :1]},
    "scaled by a power of two": {"X": X * 1e100, "alpha": 1e200},
    "zero targets": {
        "groups": GROUPS,
        "fairness": np.array([[134, 0, 0], [0, 133, 0], [0, 0, 133.0]]),
        "refine": 0,
    },
    "admm": {"solver": "admm", "refine": 0, "tol": 0.5},
    "one group": {"groups": np.zeros(400)},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_loaded_model_predicts_bit_by_bit_the_same(tmp_path, case):
    options = dict(SETTINGS[case])
    rows, groups = options.pop("X", X), options.pop("groups", GROUPS)
    model = fitted(rows, groups, **options)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    for name in ("predict", "predict_proba", "score"):
        expected = getattr(model, name)(rows, sensitive_features=groups)
        assert_array_equal(getattr(loaded, name)(rows, sensitive_features=groups), expected)
    expected = model.transform(rows, sensitive_features=groups).toarray()
    assert_array_equal(loaded.transform(rows, sensitive_features=groups).toarray(), expected)


def test_all_row_solvers_can_be_saved():
    kinds = get_args({f.name: f for f in fields(AnchorModel)}["row_solver"].type)
    assert set(kinds) == set(model_file.ROW_SOLVERS.values())


@pytest.mark.parametrize("name", model_file.ROW_SOLVERS)
def test_every_row_solver_is_the_same_after_loading(tmp_path, name):
    model = fitted(refine=0)
    solver = model_file.ROW_SOLVERS[name](model._model.row_solver.problem)
    model._model = replace(model._model, row_solver=solver)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert type(loaded._model.row_solver) is type(solver)
    expected = model.predict_proba(NEW, sensitive_features=NEW_GROUPS)
    assert_array_equal(loaded.predict_proba(NEW, sensitive_features=NEW_GROUPS), expected)


def test_no_field_of_the_model_is_forgotten():
    kept = {*model_file.MODEL_TABLES, "row_solver", "by_distance"}
    assert kept == {field.name for field in fields(AnchorModel)}


def test_attributes_and_parameters_are_kept(saved):
    model, path = saved
    loaded = load_model(path)
    assert loaded.get_params() == model.get_params()
    left_out = {"labels_", "clusterer_"}
    public = {name for name in vars(model) if name.endswith("_")} - left_out
    assert public <= set(vars(loaded))
    for name in public:
        np.testing.assert_equal(getattr(loaded, name), getattr(model, name))
    assert not left_out & set(vars(loaded))
    assert_array_equal(loaded.get_feature_names_out(), model.get_feature_names_out())


def test_a_loaded_model_can_be_saved_again_to_the_same_bytes(saved, tmp_path):
    _, path = saved
    save_model(load_model(path), tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_a_loaded_model_can_be_cloned_and_fitted_again(saved):
    model, path = saved
    again = clone(load_model(path)).fit(X, sensitive_features=GROUPS)
    assert_array_equal(again.labels_, model.labels_)


def test_preprocessing_stays_with_the_model_it_was_learned_for(tmp_path):
    table = pa.table({name: X[:, j] for j, name in enumerate("pqrs")})
    preprocessing = Preprocessing.learn(table, list("pqrs"), GroupRule(("group",)))
    rows = preprocessing.rows_of(table)
    save_model(fitted(rows), tmp_path / "m.npz", preprocessing=preprocessing)
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.preprocessing_ == preprocessing
    save_model(loaded, tmp_path / "again.npz")
    assert load_model(tmp_path / "again.npz").preprocessing_ == preprocessing
    loaded.fit(NEW, sensitive_features=NEW_GROUPS)
    save_model(loaded, tmp_path / "other.npz")
    assert load_model(tmp_path / "other.npz").preprocessing_ is None


def test_the_file_is_small_and_holds_nothing_per_row(tmp_path):
    sizes = []
    for n in (400, 4000):
        rows = np.random.default_rng(1).normal(size=(n, 4))
        model = fitted(rows, np.arange(n) % 2, n_anchors=20)
        save_model(model, tmp_path / f"{n}.npz")
        sizes.append((tmp_path / f"{n}.npz").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 2000
    assert max(sizes) < 30_000


@pytest.mark.parametrize(
    "groups",
    [
        np.arange(400) % 3,
        np.arange(400) % 2 == 0,
        (np.arange(400) % 2) + 0.5,
        pd.Series(["a", None, "b", "a"] * 100),
        pd.DataFrame({"x": ["a", "b"] * 200, "y": [1, 2, 2, 1] * 100}),
        np.array(["2020-01-01", "2021-06-01"], dtype="datetime64[D]")[np.arange(400) % 2],
    ],
    ids=["integers", "booleans", "floats", "missing", "two columns", "dates"],
)
def test_names_of_groups_keep_their_type(tmp_path, groups):
    model = fitted(groups=groups, missing_groups="own_group")
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.groups_.tolist() == model.groups_.tolist()
    expected = model.predict(X, sensitive_features=groups)
    assert_array_equal(loaded.predict(X, sensitive_features=groups), expected)


def test_names_of_features_are_checked_after_loading_too(tmp_path):
    frame = pd.DataFrame(X, columns=["p", "q", "r", "s"])
    save_model(fitted(frame), tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    loaded.predict(frame, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[["q", "p", "r", "s"]], sensitive_features=GROUPS)


def test_unknown_groups_are_handled_as_before_saving(tmp_path):
    model = fitted(unknown_groups="blind")
    save_model(model, tmp_path / "m.npz")
    strangers = np.full(100, "z")
    expected = model.predict(NEW, sensitive_features=strangers)
    loaded = load_model(tmp_path / "m.npz")
    assert_array_equal(loaded.predict(NEW, sensitive_features=strangers), expected)


def test_a_clusterer_of_the_library_is_kept_with_its_parameters(tmp_path):
    save_model(fitted(clusterer=FairKMeans(n_init=3)), tmp_path / "m.npz")
    clusterer = load_model(tmp_path / "m.npz").clusterer
    assert type(clusterer) is FairKMeans
    assert clusterer.n_init == 3


def by_first_column(anchors, sensitive_features, n_clusters, *, sample_weight, random_state):
    return np.argsort(np.argsort(anchors[:, 0])) * n_clusters // len(anchors)


@pytest.mark.parametrize("clusterer", [AgglomerativeClustering(), by_first_column])
def test_a_foreign_clusterer_is_described_and_refuses_to_fit(tmp_path, clusterer):
    model = fitted(clusterer=clusterer)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    expected = model.predict(NEW, sensitive_features=NEW_GROUPS)
    assert_array_equal(loaded.predict(NEW, sensitive_features=NEW_GROUPS), expected)
    assert isinstance(loaded.clusterer, UnavailableClusterer)
    with pytest.raises(RuntimeError, match=r"set_params\(clusterer=...\)"):
        loaded.fit(X, sensitive_features=GROUPS)
    save_model(loaded, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "m.npz").read_bytes()


def test_a_generator_as_random_state_is_announced(tmp_path):
    model = fitted(random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="random_state is a generator"):
        save_model(model, tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").random_state is None


def test_what_cannot_be_saved_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(AnchorFairClustering(), tmp_path / "m.npz")
    with pytest.raises(TypeError, match="is a FairKMeans, expected an AnchorFairClustering"):
        save_model(FairKMeans(), tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_by_force(saved, tmp_path):
    model, _ = saved
    (tmp_path / "m.npz").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        save_model(model, tmp_path / "m.npz")
    save_model(model, tmp_path / "m.npz", force=True)
    load_model(tmp_path / "m.npz")


# Files that are damaged, foreign, newer or hostile.


def rewritten(path, target, change_manifest=None, replaced=None):
    """A copy of a model file with another manifest or other entries."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "model.json" and change_manifest is not None:
                manifest = json.loads(data)
                change_manifest(manifest)
                data = json.dumps(manifest).encode()
            data = (replaced or {}).get(name, data)
            if data is not None:
                new.writestr(name, data)
    return target


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


MANIFESTS = {
    "newer": (lambda m: m.update(format_version=99), "has version 99 of the model format"),
    "foreign": (lambda m: m.update(format="other"), "is not a model file"),
    "no groups": (lambda m: m.pop("groups"), "is damaged"),
    "other groups": (lambda m: m.update(groups=["a"]), "is damaged .*shape"),
    "unknown solver": (lambda m: m.update(row_solver="Magic"), "is damaged .*Magic"),
    "unknown parameter": (lambda m: m["parameters"].update(magic=1), "is damaged .*magic"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_bad_manifest_is_refused(saved, tmp_path, case):
    change, message = MANIFESTS[case]
    path = rewritten(saved[1], tmp_path / "bad.npz", change)
    with pytest.raises(ValueError, match=message):
        load_model(path)


ENTRIES = {
    "missing array": ({"model.prices.npy": None}, "is damaged"),
    "wrong shape": ({"model.prices.npy": npy(np.zeros((3, 2)))}, "shape"),
    "labels out of range": ({"model.anchor_labels.npy": npy(np.full(60, 7))}, "0..2"),
    "not finite": ({"model.centers.npy": npy(np.full((3, 4), np.nan))}, "finite"),
    "text": ({"model.centers.npy": npy(np.full((3, 4), "x"))}, "is damaged"),
    "not JSON": ({"model.json": b"{"}, "cannot be read"),
    "no manifest": ({"model.json": None}, "has no entry model.json"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_bad_entries_are_refused(saved, tmp_path, case):
    replaced, message = ENTRIES[case]
    path = rewritten(saved[1], tmp_path / "bad.npz", replaced=replaced)
    with pytest.raises(ValueError, match=message):
        load_model(path)


class Bomb:
    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


def test_a_pickle_in_a_model_file_is_not_run(saved, tmp_path):
    pickled = npy(np.array([Bomb()], dtype=object))
    path = rewritten(saved[1], tmp_path / "bad.npz", replaced={"model.prices.npy": pickled})
    with pytest.raises(ValueError, match="is damaged .*allow_pickle"):
        load_model(path)
    assert not Bomb.exploded
    np.lib.format.read_array(io.BytesIO(pickled), allow_pickle=True)
    assert Bomb.exploded  # the bomb is a real one


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"], ids=["empty", "text", "zip"])
def test_other_files_are_no_models(tmp_path, content):
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(ValueError, match="is not a model file of fairanchor, or it is damaged"):
        load_model(tmp_path / "m.npz")
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        load_model(tmp_path / "none.npz")


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_byte_is_an_error_or_changes_nothing(saved, tmp_path, data):
    model, path = saved
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    (tmp_path / "bad.npz").write_bytes(content)
    try:
        loaded = load_model(tmp_path / "bad.npz")
    except ValueError:
        return
    expected = model.predict_proba(NEW, sensitive_features=NEW_GROUPS)
    assert_array_equal(loaded.predict_proba(NEW, sensitive_features=NEW_GROUPS), expected)


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_an_error(saved, tmp_path, share):
    content = saved[1].read_bytes()
    (tmp_path / "bad.npz").write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="not a model file|damaged"):
        load_model(tmp_path / "bad.npz")
