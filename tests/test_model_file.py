"""Model files: what is loaded predicts, bit by bit, what was saved."""

from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.exceptions import NotFittedError

import fairanchor._model_file as model_file
from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets
from fairanchor._model import AnchorModel
from fairanchor._model_file import UnavailableClusterer, load_model, save_model
from fairanchor.tables import GroupRule, Preprocessing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
NEW = RNG.normal(size=(100, 4))
GROUPS = np.array(["a", "b", "c"])[np.arange(400) % 3]
NEW_GROUPS = GROUPS[:100]
TWO_COLUMNS = pd.DataFrame({"letter": GROUPS, "digit": np.arange(400) % 2})


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
    "tolerance": {"tolerance": 0.1},
    "tolerance, not refined": {"tolerance": 0.1, "refine": 0},
    "sized by the data": {"fairness": "anchors_sized"},
    "limits by name": {"fairness": FairnessTargets(lower={"a": 0.3}, min_size=50)},
    "limits by cluster": {
        "fairness": FairnessTargets(upper=pd.DataFrame({"a": [0.4, np.nan, 0.3]}), max_size=300)
    },
    "separate attributes": {"groups": TWO_COLUMNS, "attributes": "separate"},
    "separate limits, not refined": {
        "groups": TWO_COLUMNS,
        "attributes": "separate",
        "fairness": [FairnessTargets(tolerance=0.2), FairnessTargets(min_size=20)],
        "refine": 0,
    },
    "one separate attribute": {"attributes": "separate"},
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


@pytest.mark.parametrize("case", [case for case in SETTINGS if "limit" in case or "separ" in case])
def test_limits_and_separate_attributes_are_kept(tmp_path, case):
    options = dict(SETTINGS[case])
    groups = options.pop("groups", GROUPS)
    model = fitted(groups=groups, **options)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.fairness == model.fairness
    for name in ("tolerance", "attributes", "worst_violation_", "assignment_gap_"):
        assert getattr(loaded, name) == getattr(model, name)
    for name in ("attribute_groups_", "attribute_counts_", "attribute_violations_"):
        assert hasattr(loaded, name) == (model.attributes == "separate")
        np.testing.assert_equal(getattr(loaded, name, None), getattr(model, name, None))
    save_model(loaded, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "m.npz").read_bytes()


@pytest.mark.parametrize("refine", [0, 5])
def test_combinations_that_were_not_seen_are_predicted_as_before_saving(tmp_path, refine):
    unseen = (TWO_COLUMNS["letter"] == "a") & (TWO_COLUMNS["digit"] == 1)
    seen = ~unseen.to_numpy()
    model = fitted(X[seen], TWO_COLUMNS[seen], attributes="separate", refine=refine)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    expected = model.predict(X, sensitive_features=TWO_COLUMNS)
    assert_array_equal(loaded.predict(X, sensitive_features=TWO_COLUMNS), expected)


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


def test_parameters_that_could_not_be_loaded_are_not_saved(tmp_path):
    model = fitted().set_params(tol=-1.0)
    with pytest.raises(ValueError, match="'tol' parameter"):
        save_model(model, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []
