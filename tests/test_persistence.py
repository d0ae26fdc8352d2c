"""Model files: loaded models predict bit for bit what saved ones did; bad files are refused."""

import errno
import io
import json
import pickle
import random
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import NotFittedError

from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    FairSpectralClustering,
    LocalGraph,
    ReconstructionGraph,
    persistence,
)
from fairanchor._utils import _archive
from fairanchor.persistence import NOT_STORED, ModelFileError, load_model, save_model
from fairanchor.tables import Preprocessing
from tiers import first_is_fast

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
NEW = RNG.normal(size=(100, 4))
GROUPS = np.array(["a", "b", "c"])[np.arange(400) % 3]
NEW_GROUPS = GROUPS[:100]
TWO_COLUMNS = pd.DataFrame({"letter": GROUPS, "digit": np.arange(400) % 2})
WEIGHTS = RNG.random(400) + 0.5
# The group "a" may only be in cluster 0, and so on.
OWN_CLUSTERS = np.diag([134.0, 133.0, 133.0])
NOT_IN_0 = FairnessTargets(upper=pd.DataFrame({"a": [0.0, np.nan, 1.0]}))

GRAPHS = {"local": LocalGraph(3), "reconstruction": "reconstruction"}
KINDS = ("centers", *GRAPHS)


def estimator_of(kind, **parameters):
    parameters = {"n_clusters": 3, "random_state": 0} | parameters
    if kind == "centers":
        return FairKMeans(**parameters)
    graph = {"graph": GRAPHS[kind]}
    return AnchorFairClustering(**({"n_anchors": 40} | graph | parameters))


def fitted(kind="local", X=X, groups=GROUPS, weights=None, **parameters):
    model = estimator_of(kind, **parameters)
    return model.fit(X, sensitive_features=groups, sample_weight=weights)


def reloaded(model, folder, **options):
    save_model(model, folder / "model.npz", force=True, **options)
    return load_model(folder / "model.npz")


def outputs(model, X, groups):
    """All that a model says of new rows."""
    found = {"predict": model.predict(X, sensitive_features=groups)}
    found["score"] = model.score(X, sensitive_features=groups)
    if isinstance(model, AnchorFairClustering):
        found["soft labels"] = model.predict_proba(X, sensitive_features=groups)
        found["weights"] = model.transform(X, sensitive_features=groups).toarray()
    return found


def assert_same_outputs(loaded, model, X, groups):
    expected = outputs(model, X, groups)
    for name, found in outputs(loaded, X, groups).items():
        assert_array_equal(found, expected[name], err_msg=name)


CASES = {
    "default": {},
    "one group": {"groups": np.zeros(400)},
    "one feature": {"X": X[:, :1]},
    "huge numbers": {"X": X * 1e100},
    "tiny numbers": {"X": X * 1e-100},
    "far from zero": {"X": X + 1e9},
    "weights": {"weights": WEIGHTS},
    "equal weights": {"weights": np.full(400, 0.3)},
    "blind": {"unknown_groups": "blind"},
    "tolerance": {"tolerance": 0.1},
    "min_cluster_size": {"min_cluster_size": 50},
    "a table with cells that are not allowed": {"fairness": OWN_CLUSTERS},
    "bounds with cells that are not allowed": {"fairness": NOT_IN_0},
    "bounds by name": {"fairness": FairnessTargets(lower={"a": 0.3}, min_size=[50, 40, 1])},
    "separate attributes": {"groups": TWO_COLUMNS, "attributes": "separate"},
    "separate bounds": {
        "groups": TWO_COLUMNS,
        "attributes": "separate",
        "fairness": [FairnessTargets(tolerance=0.2), FairnessTargets(min_size=20)],
    },
    "separate bounds with weights": {
        "groups": TWO_COLUMNS,
        "attributes": "separate",
        "weights": WEIGHTS,
        "fairness": [NOT_IN_0, FairnessTargets(tolerance=1.0)],
    },
    "one separate attribute": {"attributes": "separate"},
}
ANCHOR_CASES = {
    "all rows as anchors": {"n_anchors": "auto", "X": X[:120], "groups": GROUPS[:120]},
    "rows as anchors": {"anchors": FDAS(quotas="paper", weights="uniform")},
    "given anchors": {"anchors": np.arange(0, 400, 10)},
    "clusters that are found": {"n_clusters": None, "clusterer": AgglomerativeClustering(4)},
    "argmax": {"assignment": "argmax"},
    "as in the paper": {
        "graph": ReconstructionGraph(solver="admm", tol=0.5),
        "assignment": "argmax",
        "fairness": "paper",
    },
    "one anchor per cluster": {"n_anchors": 3},
    "a ridge": {"graph": ReconstructionGraph(alpha=0.01)},
}
ROUND_TRIPS = [(kind, case) for kind in KINDS for case in CASES]
ROUND_TRIPS += [(kind, case) for kind in GRAPHS for case in ANCHOR_CASES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "case"), first_is_fast(ROUND_TRIPS, len(CASES)))
def test_round_trip(tmp_path, kind, case):
    options = dict((CASES | ANCHOR_CASES)[case])
    model = fitted(kind, **options)
    loaded = reloaded(model, tmp_path)
    rows, groups = options.get("X", X), options.get("groups", GROUPS)
    assert_same_outputs(loaded, model, rows, groups)
    assert_same_outputs(loaded, model, rows[::-1] * 1.5, groups)
    if isinstance(model.fairness, FairnessTargets):
        assert loaded.fairness == model.fairness
    if case == "blind":
        assert_same_outputs(loaded, model, NEW, np.full(100, "stranger"))
        assert_same_outputs(loaded, model, NEW, None)

    left_out = {"labels_", "clusterer_", "history_"}
    public = {name for name in vars(model) if name.endswith("_") and name[0] != "_"} - left_out
    assert public | {"preprocessing_"} == {
        name for name in vars(loaded) if name.endswith("_") and name[0] != "_"
    }
    for name in public:
        found, expected = getattr(loaded, name), getattr(model, name)
        np.testing.assert_equal(found, expected)
        assert getattr(found, "dtype", None) == getattr(expected, "dtype", None) or np.isscalar(
            expected
        )

    first = (tmp_path / "model.npz").read_bytes()
    save_model(model, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == first
    save_model(loaded, tmp_path / "again.npz", force=True)
    assert (tmp_path / "again.npz").read_bytes() == first


@pytest.mark.parametrize("kind", KINDS)
def test_unseen_combinations_are_predicted_as_before(tmp_path, kind):
    seen = ~((TWO_COLUMNS["letter"] == "a") & (TWO_COLUMNS["digit"] == 1)).to_numpy()
    model = fitted(kind, X[seen], TWO_COLUMNS[seen], attributes="separate")
    loaded = reloaded(model, tmp_path)
    assert_same_outputs(loaded, model, X, TWO_COLUMNS)
    assert_same_outputs(loaded, model, X, TWO_COLUMNS[["digit", "letter"]])
    with pytest.raises(ValueError, match="has not seen"):
        loaded.predict(X, sensitive_features=TWO_COLUMNS.assign(letter="z"))


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
    model = fitted("centers", groups=groups, missing_groups="own_group")
    loaded = reloaded(model, tmp_path)
    names = loaded.groups_.tolist()
    assert names == model.groups_.tolist()
    assert list(map(type, names)) == list(map(type, model.groups_.tolist()))
    assert_same_outputs(loaded, model, X, groups)


def test_names_of_features_are_checked_after_loading(tmp_path):
    frame = pd.DataFrame(X, columns=list("pqrs"))
    loaded = reloaded(fitted(X=frame), tmp_path)
    loaded.predict(frame, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[list("qprs")], sensitive_features=GROUPS)


PARAMETERS = {
    "centers": {
        "fairness": FairnessTargets(lower={"a": [0.1, 0.0, 0.2], "b": [0.0, 0.1, 0.2]}),
        "init": "k-means++",
        "n_init": np.int64(2),
        "min_cluster_size": None,
    },
    "local": {
        "anchors": FDAS(weights="uniform"),
        "clusterer": FairKMeans(n_init=3, fairness=FairnessTargets(min_size=2)),
        "graph": LocalGraph(n_neighbors=np.int32(7)),
        "tolerance": 0.25,
    },
    "reconstruction": {
        "clusterer": "vfc",
        "graph": ReconstructionGraph(alpha=2.0, max_iter=50),
        "fairness": "anchors",
        "n_jobs": 1,
    },
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_kept(tmp_path, kind):
    model = fitted(kind, **PARAMETERS[kind])
    loaded = reloaded(model, tmp_path)
    assert type(loaded) is type(model)
    found, expected = loaded.get_params(deep=False), model.get_params(deep=False)
    for name, value in expected.items():
        if hasattr(value, "get_params"):
            assert type(found[name]) is type(value)
            assert found[name].get_params(deep=False) == value.get_params(deep=False)
        else:
            assert found[name] == value
    again = clone(loaded).fit(X, sensitive_features=GROUPS)
    assert_array_equal(again.labels_, model.labels_)


def by_first_column(anchors, sensitive_features, n_clusters, *, sample_weight, random_state):
    return np.argsort(np.argsort(anchors[:, 0])) * n_clusters // len(anchors)


FITTED_KMEANS = KMeans(3, n_init=1, random_state=0).fit(X)
PLACEHOLDERS = {
    "foreign clusterer": ("local", {"clusterer": AgglomerativeClustering()}),
    "callable": ("reconstruction", {"clusterer": by_first_column}),
    "centres": ("centers", {"init": X[:3].tolist()}),
    "labels": ("centers", {"init": np.arange(400) % 3}),
    "fitted estimator": ("centers", {"init": FITTED_KMEANS}),
}


@pytest.mark.parametrize("case", PLACEHOLDERS)
def test_what_cannot_be_stored_is_described_and_refuses_to_fit(tmp_path, case):
    kind, options = PLACEHOLDERS[case]
    model = fitted(kind, **options)
    loaded = reloaded(model, tmp_path)
    assert_same_outputs(loaded, model, NEW, NEW_GROUPS)
    [name] = options
    assert getattr(loaded, name).startswith(NOT_STORED)
    with pytest.raises(ValueError, match=f"'{name}' parameter .*{NOT_STORED}"):
        clone(loaded).fit(X, sensitive_features=GROUPS)
    save_model(loaded, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


def test_a_clusterer_whose_parameters_cannot_be_stored_is_described(tmp_path):
    model = fitted().set_params(clusterer=FairKMeans(init=KMeans()))
    assert reloaded(model, tmp_path).clusterer == f"{NOT_STORED}FairKMeans(init=KMeans())"


@pytest.mark.parametrize(
    "parameters",
    [
        {"random_state": np.random.RandomState(0)},
        {"clusterer": FairSpectralClustering(random_state=np.random.RandomState(0))},
    ],
)
def test_a_generator_is_replaced_with_a_warning(tmp_path, parameters):
    model = fitted(**parameters)
    with pytest.warns(UserWarning, match="random_state"):
        loaded = reloaded(model, tmp_path)
    [owner] = [loaded.clusterer or loaded]
    assert owner.random_state is None


def learned(columns="pqr"):
    table = pa.table({"p": X[:, 0], "q": X[:, 1], "r": ["x", "y"] * 200})
    preprocessing = Preprocessing.learn(table, list(columns), ["group"])
    return preprocessing, preprocessing.rows_of(table)


def test_preprocessing_stays_with_the_model_it_was_learned_for(tmp_path):
    preprocessing, rows = learned()
    loaded = reloaded(fitted(X=rows), tmp_path, preprocessing=preprocessing)
    assert loaded.preprocessing_ == preprocessing
    assert loaded.sensitive_names_in_.tolist() == ["group"]
    loaded = reloaded(loaded, tmp_path)
    assert loaded.preprocessing_ == preprocessing
    loaded.fit(NEW, sensitive_features=NEW_GROUPS)
    assert reloaded(loaded, tmp_path).preprocessing_ is None


def test_the_file_holds_nothing_per_row(tmp_path):
    sizes = []
    for n in (400, 4000):
        rows = np.random.default_rng(1).normal(size=(n, 4))
        for kind in KINDS:
            save_model(
                fitted(kind, rows, np.arange(n) % 2, n_clusters=2), tmp_path / f"{kind}{n}.npz"
            )
            sizes.append((tmp_path / f"{kind}{n}.npz").stat().st_size)
    assert max(sizes) < 10_000


def test_numpy_opens_the_file(tmp_path):
    model = fitted()
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        assert_array_equal(stored["anchor_labels_"], model.anchor_labels_)
        assert json.loads(stored["content.json"])["class"] == "AnchorFairClustering"


# Writing.


def test_an_existing_file_is_replaced_only_by_force(tmp_path):
    model = fitted()
    (tmp_path / "model.npz").write_bytes(b"old")
    with pytest.raises(FileExistsError, match="force=True") as caught:
        model.save(tmp_path / "model.npz")
    assert "--force" not in str(caught.value)
    assert (tmp_path / "model.npz").read_bytes() == b"old"
    model.save(tmp_path / "model.npz", force=True)
    load_model(tmp_path / "model.npz")


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    model, path = fitted(), tmp_path / "model.npz"
    path.write_bytes(b"old")

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        model.save(path, force=True)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


class Subclass(FairKMeans):
    pass


def test_what_cannot_be_saved_leaves_no_file(tmp_path):
    path = tmp_path / "model.npz"
    with pytest.raises(NotFittedError):
        save_model(AnchorFairClustering(), path)
    for estimator in (KMeans(), Subclass(2)):
        with pytest.raises(TypeError, match="expected one of"):
            save_model(estimator, path)
    with pytest.raises(ValueError, match="'tolerance' parameter"):
        save_model(fitted().set_params(tolerance=-1.0), path)
    with pytest.raises(ValueError, match="quotas"):
        save_model(fitted().set_params(anchors=FDAS(quotas="none")), path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_too_large_to_be_loaded_is_not_saved(tmp_path, monkeypatch):
    for limit in ("LARGEST_DOCUMENT", "LARGEST_FILE", "LARGEST_DECOMPRESSED"):
        with monkeypatch.context() as patched:
            patched.setattr(_archive, limit, 100)
            with pytest.raises(ValueError, match="cannot be saved"):
                save_model(fitted(), tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


# Bad files.


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A fitted model of each kind, with the bytes of its file; and one of separate attributes."""
    path = tmp_path_factory.mktemp("models") / "model.npz"
    preprocessing, rows = learned()
    found = {}
    for kind in KINDS:
        model = fitted(kind, rows)
        save_model(model, path, preprocessing=preprocessing, force=True)
        found[kind] = model, path.read_bytes()
    model = fitted(groups=TWO_COLUMNS, attributes="separate", anchors="fdas")
    save_model(model, path, force=True)
    return found | {"separate": (model, path.read_bytes())}


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members, compression=zipfile.ZIP_STORED, sign=True):
    """Bytes of an archive, whose checksum is right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.comment = bytes(_archive.CHECKSUM_LENGTH)
        for name, member in members.items():
            archive.writestr(name, member)
    return _archive.with_checksum(buffer.getvalue()) if sign else buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), **options)
    return buffer.getvalue()


def with_manifest(content, change):
    members = members_of(content)
    manifest = json.loads(members["content.json"])
    change(manifest)
    return archive_of(members | {"content.json": json.dumps(manifest).encode()})


def with_array(content, name, change):
    members = members_of(content)
    array = np.load(io.BytesIO(members[f"{name}.npy"]))
    return archive_of(members | {f"{name}.npy": npy(change(array))})


def refused(content, folder, match=None):
    path = folder / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_a_forged_file_without_a_change_is_loaded(files, tmp_path):
    """So that the tests below see the change refused, not the forgery."""
    for model, content in files.values():
        (tmp_path / "same.npz").write_bytes(archive_of(members_of(content)))
        loaded = load_model(tmp_path / "same.npz")
        assert_array_equal(loaded.counts_, model.counts_)


def put(*keys, value):
    """Change one value of a manifest."""
    *way, last = keys

    def change(manifest):
        for key in way:
            manifest = manifest[key]
        manifest[last] = value

    return change


def leave_out(*keys):
    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        del manifest[keys[-1]]

    return change


OTHER = {"class": "Other", "parameters": {}}
BAD_BOUNDS = {"class": "FairnessTargets", "parameters": {"shares": {"float": "nan"}}}
BAD_GRAPH = {"class": "LocalGraph", "parameters": {"n_neighbors": 0}}
MANIFESTS = [
    ("local", put("format", value="other")),
    ("local", put("format_version", value=2)),
    ("local", put("format_version", value=True)),
    ("local", leave_out("format_version")),
    ("local", put("class", value="FairKMeans")),
    ("centers", put("class", value="AnchorFairClustering")),
    ("local", put("class", value="KMeans")),
    ("local", put("costs", value="CenterCosts")),
    ("local", put("costs", value="magic")),
    ("local", put("costs", value=[1])),
    ("local", put("parameters", value=[])),
    ("local", put("parameters", "magic", value=1)),
    ("local", leave_out("parameters", "graph")),
    ("local", put("parameters", "tolerance", value=-1.0)),
    ("local", put("parameters", "n_clusters", value=2**31)),
    ("local", put("parameters", "unknown_groups", value="ignore")),
    ("local", put("parameters", "clusterer", value="magic")),
    ("local", put("parameters", "clusterer", value=OTHER)),
    ("local", put("parameters", "fairness", value=BAD_BOUNDS)),
    ("local", put("parameters", "graph", value=BAD_GRAPH)),
    ("local", put("parameters", "graph", value=NOT_STORED)),
    ("local", put("groups", value=[])),
    ("local", put("groups", value=["a", "b", "a"])),
    ("local", put("groups", value=["a", "b", ["c"]])),
    ("local", put("groups", value=["a", "b", {"float": "nan"}])),
    ("local", put("groups", value=["a", "b"])),
    ("local", put("groups", value=["a", "b", {"code": "c"}])),
    ("local", put("feature_names_in", value=["p"])),
    ("local", put("feature_names_in", value=[1, 2, 3, 4])),
    ("local", put("sensitive_names_in", value=3)),
    ("local", put("sensitive_names_in", value=["t", "t"])),
    ("separate", put("sensitive_names_in", value=["t", "u", "v"])),
    ("local", put("attributes", value=["t"])),
    ("separate", put("attributes", value=None)),
    ("separate", put("attributes", value=["letter", "letter"])),
    ("separate", put("attributes", value=["letter"])),
    ("separate", put("attributes", value=["a", "b", "c"])),
    ("local", put("preprocessing", "impute", value="yes")),
    ("local", put("preprocessing", "columns", 0, "scale", value=0.0)),
    ("local", put("preprocessing", "columns", 0, "center", value="0")),
    ("local", put("preprocessing", "columns", 1, "name", value=3)),
    ("local", put("preprocessing", "columns", 1, "kind", value="magic")),
    ("local", put("preprocessing", "columns", 2, "categories", value=["x", "x"])),
    ("local", put("preprocessing", "columns", 2, "fill", value="z")),
    ("local", put("preprocessing", "columns", 2, "categories", value=["x", "y", "z"])),
    ("local", put("preprocessing", "sensitive", value=[])),
    ("local", put("preprocessing", "sensitive", value=[3])),
]


@pytest.mark.parametrize("number", range(len(MANIFESTS)))
def test_forged_manifests_are_refused(files, tmp_path, number):
    kind, change = MANIFESTS[number]
    refused(with_manifest(files[kind][1], change), tmp_path)


@pytest.mark.parametrize("version", [1, 99])
def test_another_version_of_the_format_says_so(files, tmp_path, version):
    def change(manifest):
        manifest.update(format_version=version, fairanchor="7.0")

    refused(with_manifest(files["local"][1], change), tmp_path, match=f"version {version} .*7.0")


def cell(place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


ALL_ARRAYS = {
    "another shape": lambda array: array[:-1] if array.ndim else array.reshape(1, 1),
    "one more axis": lambda array: array[None],
    "no rows": lambda array: array.ravel()[:0].reshape(0, *array.shape[1:]),
    "text": lambda array: np.full(array.shape, "x"),
    "complex numbers": lambda array: array.astype(complex),
    "half precision": lambda array: array.astype(np.float16),
    "another byte order": lambda array: array.astype(">f8"),
    "another order": lambda array: np.asfortranarray(np.broadcast_to(array.sum(), (3, 2))),
}
NUMBERS = {"NaN": np.nan, "infinity": np.inf, "minus infinity": -np.inf}
ARRAYS = [
    ("local", "n_iter_", lambda number: number + 0.5),
    ("local", "converged_", lambda number: number.astype(int)),
    ("local", "_length", lambda number: np.array(3.0)),
    ("local", "_length", lambda number: np.array(0.0)),
    ("local", "_length", lambda number: np.array(2.0**600)),
    ("local", "_costs.n_neighbors", lambda number: number * 0),
    ("local", "_costs.n_neighbors", lambda number: number * 0 + 2**60),
    ("local", "_costs.least_alpha", lambda number: np.array(0.0)),
    ("local", "_costs.least_alpha", lambda number: np.array(np.nan)),
    ("reconstruction", "_costs.problem.alpha", lambda number: -number),
    ("reconstruction", "_costs.problem.alpha", lambda number: np.array(np.inf)),
    ("separate", "attribute_violations", lambda array: array[:1]),
    ("local", "anchor_labels_", cell(3, 3)),
    ("local", "anchor_labels_", cell(3, -1)),
    ("local", "anchor_labels_", cell(3, 2**60)),
    ("local", "anchor_labels_", lambda array: np.minimum(array, 1)),
    ("local", "anchor_labels_", lambda array: array.astype(float)),
    ("reconstruction", "anchor_labels_", cell(0, 3)),
    ("reconstruction", "anchor_labels_", lambda array: np.maximum(array, 1)),
    ("separate", "anchor_indices_", cell(0, -1)),
    ("local", "anchor_masses_", cell(0, -1.0)),
    ("local", "_group_shares", cell(0, 0.9)),
    ("local", "_group_shares", cell(0, -0.1)),
    ("local", "_allowed", cell(np.s_[:, 1], False)),
    ("local", "_allowed", lambda array: array.astype(int)),
    ("local", "counts_", cell((0, 0), -1)),
    ("centers", "_costs.centers", lambda array: array * 1e100),
    ("local", "_costs.anchors", lambda array: array * 1e100),
    ("reconstruction", "_costs.problem.anchors", lambda array: array * 1e100),
    ("local", "_costs.anchors", lambda array: array[:, :2]),
    ("local", "cluster_centers_", lambda array: array[:, :2]),
    ("local", "assignment_prices_", lambda array: array[:, :2]),
    ("separate", "attribute_prices", cell((0, 0), np.nan)),
    ("separate", "attribute_prices", lambda array: array[:, 1:]),
]


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_forged_arrays_are_refused(files, tmp_path, number):
    kind, name, change = ARRAYS[number]
    refused(with_array(files[kind][1], name, change), tmp_path)


@pytest.mark.parametrize("kind", first_is_fast([*KINDS, "separate"]))
def test_every_array_is_checked(files, tmp_path, kind):
    content = files[kind][1]
    for name in members_of(content):
        if name == "content.json":
            continue
        name = name.removesuffix(".npy")
        for change in ALL_ARRAYS.values():
            if name == "cost_path_" and change in (
                ALL_ARRAYS["another shape"],
                ALL_ARRAYS["no rows"],
            ):
                continue  # of any length
            refused(with_array(content, name, change), tmp_path)
        is_number = np.load(io.BytesIO(members_of(content)[f"{name}.npy"])).ndim == 0
        for number in () if is_number else NUMBERS.values():
            if name != "attribute_prices" or number != -np.inf:
                change = lambda array: np.full(array.shape, number)  # noqa: B023, E731
                refused(with_array(content, name, change), tmp_path)
        if name not in ("anchor_indices_", "attribute_prices"):
            members = members_of(content)
            del members[f"{name}.npy"]
            refused(archive_of(members), tmp_path)


class Bomb:
    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


PICKLED = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
SHARES = npy(np.zeros(3))
MEMBERS = {
    "one more": {"evil.py": b"print()"},
    "one more array": {"extra.npy": SHARES},
    "an array of another kind": {"_costs.centers.npy": SHARES},
    "pickled objects": {"_group_shares.npy": PICKLED},
    "no array": {"_group_shares.npy": b"x" * 152},
    "an empty member": {"_group_shares.npy": b""},
    "cut off": {"_group_shares.npy": SHARES[:-8]},
    "too long": {"_group_shares.npy": SHARES + bytes(8)},
    "a broken header": {"_group_shares.npy": SHARES.replace(b"(3,)", b"(3, ")},
    "code in a header": {"_group_shares.npy": SHARES.replace(b"False, 's", b"__x__, 's")},
    "a long header": {"_group_shares.npy": npy(np.zeros(3), version=(2, 0))},
    "a negative shape": {"_group_shares.npy": SHARES.replace(b"(3,), }  ", b"(-3,), } ")},
    "an absurd shape": {"_group_shares.npy": SHARES.replace(b"(3,), }    ", b"(30000,), }")},
    "no JSON": {"content.json": b"{"},
    "not UTF-8": {"content.json": b"\xff\xfe\xfd"},
    "deep JSON": {"content.json": b"[" * 100_000},
    "a long number": {"content.json": b"1" * 10_000},
    "NaN": {"content.json": b"[NaN]"},
    "a list": {"content.json": b"[]"},
    "an empty object": {"content.json": b"{}"},
}  # fmt: skip


@pytest.mark.parametrize("case", MEMBERS)
def test_forged_members_are_refused(files, tmp_path, case):
    content = archive_of(members_of(files["local"][1]) | MEMBERS[case])
    refused(content, tmp_path)
    assert not Bomb.exploded


def test_other_archives_are_refused(files, tmp_path):
    members = members_of(files["local"][1])
    refused(archive_of({"content.json": members["content.json"]}), tmp_path)
    refused(archive_of({k: v for k, v in members.items() if k != "content.json"}), tmp_path)
    refused(archive_of(members, zipfile.ZIP_BZIP2), tmp_path)
    refused(archive_of(members, sign=False), tmp_path, match="checksum")
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3), b=np.array([Bomb()], dtype=object))
    refused(buffer.getvalue(), tmp_path)
    assert not Bomb.exploded


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(files, tmp_path):
    path = tmp_path / "twice.npz"
    path.write_bytes(files["local"][1])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("content.json", b"{}")
    refused(_archive.with_checksum(path.read_bytes()), tmp_path)


OTHER_FILES = {
    "empty": b"",
    "text": b"age,income\n3,4\n",
    "the beginning of an archive": b"PK\x03\x04",
    "the end of an archive": b"PK\x05\x06" + bytes(18),
    "a pickle": pickle.dumps(Bomb()),
    "an array": npy(np.zeros(3)),
}


@pytest.mark.parametrize("case", OTHER_FILES)
def test_other_files_are_refused(tmp_path, case):
    refused(OTHER_FILES[case], tmp_path)
    assert not Bomb.exploded


def test_a_missing_file_a_folder_and_a_device_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        load_model(tmp_path / "missing.npz")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)
    with pytest.raises(ModelFileError, match="/dev/null"):
        load_model("/dev/null")


# Bombs: small files that decompress to more than a machine has.


def memory_used(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["content.json", "counts_.npy", "extra.npy"])
@pytest.mark.parametrize("lies", first_is_fast([True, False]))
def test_a_bomb_is_refused_before_it_is_decompressed(files, tmp_path, name, lies):
    path = tmp_path / "bomb.npz"
    members = {own: data for own, data in members_of(files["local"][1]).items() if own != name}
    path.write_bytes(archive_of(members))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open(name, "w", force_zip64=True) as member:
            for _ in range(250):
                member.write(bytes(2**20))
        if lies:
            archive.getinfo(name).file_size = 200  # in the directory, which a reader believes
    content = _archive.with_checksum(path.read_bytes())
    assert len(content) < 3_000_000
    assert memory_used(lambda: refused(content, tmp_path)) < 20_000_000


def test_a_header_that_claims_more_than_the_file_has_allocates_nothing(files, tmp_path):
    members = members_of(files["local"][1])
    header = members["_costs.anchors.npy"]
    for shape in (b"(10000000000, 4)", b"(4611686018427387904, 4)", b"(0, 4)", b"(4, 40)"):
        start, rest = header.split(b"(40, 4), }")
        padding = rest.index(b"\n") + len(b"(40, 4)") - len(shape)
        forged = start + shape + b", }" + b" " * padding + rest[rest.index(b"\n") :]
        content = archive_of(members | {"_costs.anchors.npy": forged})
        assert memory_used(lambda: refused(content, tmp_path)) < 5_000_000  # noqa: B023


def test_a_graph_that_would_fill_the_memory_is_refused(files, tmp_path):
    """Its table of anchors x anchors is not in the file."""
    members = members_of(files["reconstruction"][1])
    m = persistence.MOST_ANCHORS + 1
    members["_costs.problem.anchors.npy"] = npy(np.zeros((m, 4)))
    members["anchor_labels_.npy"] = npy(np.arange(m) % 3)
    members["anchor_masses_.npy"] = npy(np.ones(m))
    content = archive_of(members, zipfile.ZIP_DEFLATED)
    assert memory_used(lambda: refused(content, tmp_path, match="number of anchors")) < 20_000_000


# Damage at random.


def bit_flipped(rng, content):
    content = bytearray(content)
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def truncated(rng, content):
    return content[: rng.randrange(len(content))]


def part_left_out(rng, content):
    start, stop = sorted(rng.sample(range(len(content)), 2))
    return rng.choice([content[stop:], content[:start] + content[stop:]])


def overwritten(rng, content):
    start = rng.randrange(len(content))
    noise = rng.randbytes(rng.choice([4, 100]))
    return (content[:start] + noise + content[start + len(noise) :])[: len(content)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [bit_flipped, truncated, part_left_out, overwritten])
def test_any_damage_is_refused(files, tmp_path, kind, damage):
    content, rng = files[kind][1], random.Random(0)
    for _ in range(100):
        refused(damage(rng, content), tmp_path)


def places_in(plain, so_far=()):
    """Paths to all values of a JSON structure."""
    pairs = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in pairs:
        yield (*so_far, key)
        if isinstance(value, (dict, list)):
            yield from places_in(value, (*so_far, key))


ODD = [None, True, -1, 2, 1e308, 10**30, "", "x", [], {}, [1, [2]], {"tuple": [[1]]}]
ODD += [{"float": "nan"}, {"dict": [[[1], 2]]}, {"bytes": "A"}, {"numpy_time": ["O", 1]}]
ODD += [{"class": "FDAS", "parameters": {}}, {"class": "Other", "parameters": {}}, NOT_STORED, 0.5]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", first_is_fast([*KINDS, "separate"]))
def test_an_edited_manifest_is_refused_or_can_be_used(files, tmp_path, kind):
    content, rng = files[kind][1], random.Random(kind)
    places = sorted(places_in(json.loads(members_of(content)["content.json"])), key=str)
    path = tmp_path / "edited.npz"
    n_refused = 0
    for _ in range(200):
        keys = rng.choice(places)
        change = leave_out(*keys) if rng.random() < 0.2 else put(*keys, value=rng.choice(ODD))
        path.write_bytes(with_manifest(content, change))
        try:
            loaded = load_model(path)
        except ModelFileError:
            n_refused += 1
            continue
        if loaded.n_jobs not in (None, 1):  # zero means nothing
            loaded.n_jobs = 1
        name = loaded.groups_[0]
        if isinstance(name, tuple):
            groups = pd.DataFrame([name] * 100).astype(object)
        else:
            groups = pd.Series([name] * 100, dtype=object)
        loaded.__dict__.pop("sensitive_names_in_", None)
        loaded.__dict__.pop("feature_names_in_", None)
        loaded.missing_groups = "own_group"
        labels = loaded.predict(NEW, sensitive_features=groups)
        assert 0 <= labels.min() <= labels.max() < len(loaded.cluster_centers_)
    assert n_refused > 60
