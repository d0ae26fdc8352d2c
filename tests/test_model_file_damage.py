"""Model files that are damaged, foreign, newer or hostile: an error of the library, no harm."""

import errno
import io
import json
import pickle
import shutil
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import fairanchor._model_archive as model_archive
import fairanchor._model_file as model_file
from fairanchor import AnchorFairClustering, __version__
from fairanchor._model_archive import write_archive
from fairanchor._model_file import load_model, save_model
from fairanchor.tables import GroupRule, Preprocessing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
NEW = RNG.normal(size=(100, 4))
GROUPS = np.array(["a", "b", "c"])[np.arange(400) % 3]
NEW_GROUPS = GROUPS[:100]


def fitted(rows=X):
    return AnchorFairClustering(3, random_state=0).fit(rows, sensitive_features=GROUPS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    model = fitted()
    save_model(model, path)
    return model, path


REFUSED = "is not a model file of fairanchor, or it is damaged"


def contents(path):
    """Manifest and arrays of a model file, read without the library."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop("model.json"))
    arrays = {name[:-4]: np.load(io.BytesIO(data)) for name, data in entries.items()}
    return manifest, arrays


def forged(path, target, change):
    """A copy with other contents, whose checksum and description agree with them."""
    manifest, arrays = contents(path)
    change(manifest, arrays)
    with open(target, "wb") as file:
        write_archive(file, manifest, arrays)
    return target


def rewritten(path, target, replaced, compression=zipfile.ZIP_STORED):
    """A copy with other entries; None leaves one out."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", compression) as new:
        entries = {name: old.read(name) for name in old.namelist()} | replaced
        for name, data in entries.items():
            if data is not None:
                new.writestr(name, data)
    return target


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def test_a_forged_file_without_a_change_is_accepted(saved, tmp_path):
    """So that what the tests below see refused is the change, not the forgery."""
    model, path = saved
    loaded = load_model(forged(path, tmp_path / "same.npz", lambda manifest, arrays: None))
    expected = model.predict_proba(NEW, sensitive_features=NEW_GROUPS)
    assert_array_equal(loaded.predict_proba(NEW, sensitive_features=NEW_GROUPS), expected)
    assert (tmp_path / "same.npz").read_bytes() == path.read_bytes()


def set_in(name, key, value):
    return lambda manifest, arrays: manifest[name].update({key: value})


def set_to(name, value):
    return lambda manifest, arrays: manifest.update({name: value})


def set_cell(name, cell, value):
    def change(manifest, arrays):
        arrays[name][cell] = value

    return change


def set_array(name, make):
    return lambda manifest, arrays: arrays.update({name: make(arrays[name])})


FORGED = {
    "no groups": (set_to("groups", []), "names no groups"),
    "other groups": (set_to("groups", ["a"]), r"has shape \[3, 3\], expected \[3, 1\]"),
    "equal groups": (set_to("groups", ["a", "b", "a"]), "3 groups, but 2 different names"),
    "nameless groups": (set_to("groups", ["a", "b", ["c"]]), "names nothing"),
    "unknown solver": (set_to("row_solver", "Magic"), "Magic"),
    "unknown parameter": (set_in("parameters", "magic", 1), "magic"),
    "bad parameter": (set_in("parameters", "tol", -1.0), "'tol' parameter .* must be"),
    "bad clusterer": (set_in("parameters", "clusterer", "magic"), "'clusterer' parameter"),
    "no ridge": (set_to("alpha", 0.0), "its alpha is 0.0, expected a positive number"),
    "text as ridge": (set_to("alpha", "10"), "its alpha is '10'"),
    "odd scale": (set_to("scale", 3.0), "its scale is 3.0, expected a power of two"),
    "neither way": (set_to("by_distance", 1), "by_distance is 1, expected a boolean"),
    "few names": (set_to("feature_names_in", ["p"]), "are no 4 texts"),
    "sensitive number": (set_to("sensitive_names_in", 3), "are 3, expected different texts"),
    "no sensitive names": (set_to("sensitive_names_in", []), "are .., expected different texts"),
    "equal titles": (set_to("sensitive_names_in", ["t", "t"]), "expected different texts"),
    "three titles for two parts": (
        lambda m, a: m.update(
            groups=[{"tuple": [name, 1]} for name in "abc"], sensitive_names_in=["t", "u", "v"]
        ),
        r"3 sensitive columns, but names of groups have \[2\] parts",
    ),
    "no attribute": (lambda m, a: m["attributes"].pop("inertia_"), "its attributes are"),
    "bad attribute": (set_in("attributes", "n_iter_", 2.5), "n_iter_ is no whole number"),
    "bad cost": (set_in("attributes", "inertia_", {"float": "nan"}), "inertia_ is nan"),
    "other width": (set_in("attributes", "n_features_in_", 5), "is 5, expected 4"),
    "bad history": (set_in("attributes", "history_", [1]), "no list of records"),
    "no clusters": (set_to("n_clusters", 0), "n_clusters is 0, expected a whole number from 1"),
    "a boolean size": (set_to("n_anchors", True), "n_anchors is True"),
    "huge": (set_to("n_anchors", 10**12), "n_anchors is 1,000,000,000,000, at most"),
    "odd supports": (set_to("n_supports", 7), "n_supports is 7, expected 0, 1 or 60"),
    "old version": (set_to("format_version", 0), "format_version is 0, expected 2"),
    "labels out of range": (set_cell("model.anchor_labels", 3, 7), "goes from 0 to 7, expected 0"),
    "negative labels": (set_cell("anchor_labels_", 3, -1), "goes from -1 to 2, expected 0 to 2"),
    "not finite": (set_cell("model.centers", (0, 0), np.nan), "not finite"),
    "negative mass": (set_cell("anchor_masses_", 0, -1.0), "negative number"),
    "shares": (set_cell("model.shares", 0, 0.9), "add up to"),
    "no anchor": (set_cell("model.allowed_cells", np.s_[:, 1], False), "may use no anchor"),
    "empty support": (set_cell("model.typical_supports", 2, False), "support is empty"),
    "wrong type": (set_array("model.prices", lambda a: a.astype(int)), "has type int64"),
    "wrong shape": (set_array("model.prices", lambda a: a[:, :2]), r"shape \[3, 2\], expected"),
    "overflow": (set_array("model.anchors", lambda a: a * 1e200), "too large to be multiplied"),
    "missing array": (lambda m, a: a.pop("model.prices"), "its arrays are"),
    "separate is no record": (set_to("separate", 3), "its separate attributes are 3"),
    "no titles": (set_to("separate", {"titles": []}), "have no titles"),
    "no violations": (set_to("separate", {"titles": ["t"]}), "miss their limits by None"),
    "other limits": (
        set_in("parameters", "fairness", {"dict": [["Magic", 1]]}),
        r"of the kinds \['Magic'\]",
    ),
    "bad limits": (
        set_in("parameters", "fairness", {"dict": [["FairnessTargets", {"dict": [["x", 1]]}]]}),
        "unexpected keyword argument 'x'",
    ),
    "missing separate": (
        set_to("separate", {"titles": ["t"], "violations": [0.0], "priced": False}),
        "its arrays are",
    ),
    "two titles for one part": (
        set_to("separate", {"titles": ["t", "u"], "violations": [0.0, 0.0], "priced": False}),
        "2 columns, but names of groups have 1 parts",
    ),
    "one more array": (lambda m, a: a.update(extra=np.zeros(3)), "its arrays are .*'extra'"),
}


@pytest.mark.parametrize("case", FORGED)
def test_contents_that_make_no_sense_are_refused(saved, tmp_path, case):
    change, message = FORGED[case]
    path = forged(saved[1], tmp_path / "bad.npz", change)
    with pytest.raises(ValueError, match=f"{REFUSED}: .*{message}"):
        load_model(path)


def test_a_file_from_before_titles_were_kept_goes_by_position(tmp_path):
    frame = pd.DataFrame({"letter": GROUPS, "digit": np.arange(400) % 2})
    model = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=frame)
    save_model(model, tmp_path / "new.npz")
    older = lambda manifest, arrays: manifest.pop("sensitive_names_in")  # noqa: E731
    loaded = load_model(forged(tmp_path / "new.npz", tmp_path / "old.npz", older))
    assert not hasattr(loaded, "sensitive_names_in_")
    renamed = frame.set_axis(["other", "titles"], axis=1)
    expected = model.predict(X, sensitive_features=frame)
    assert_array_equal(loaded.predict(X, sensitive_features=renamed), expected)


@pytest.fixture(scope="module")
def with_preprocessing(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "model.npz"
    table = pa.table({"p": X[:, 0], "q": X[:, 1], "r": ["x", "y"] * 200})
    preprocessing = Preprocessing.learn(table, list("pqr"), GroupRule(("group",)))
    save_model(fitted(preprocessing.rows_of(table)), path, preprocessing=preprocessing)
    return path


def set_column(position, **values):
    return lambda manifest, arrays: manifest["preprocessing"]["columns"][position].update(values)


def set_rule(**values):
    return lambda manifest, arrays: manifest["preprocessing"]["groups"].update(values)


PREPROCESSING = {
    "scale of zero": (set_column(0, scale=0.0), "'p' is scaled by"),
    "text as centre": (set_column(0, center="0"), "'p' is scaled by"),
    "nameless": (set_column(1, name=3), "called 3, which is no text"),
    "unknown kind": (set_column(1, kind="magic"), "magic"),
    "equal categories": (set_column(2, categories=["x", "x"]), "not different texts"),
    "foreign fill": (set_column(2, fill="z"), "filled with 'z', which is no category"),
    "more categories": (set_column(2, categories=["x", "y", "z"]), "become 5 features, .* has 4"),
    "no sensitive column": (set_rule(columns=[]), "names no sensitive columns"),
    "unknown rule": (set_rule(missing="ignore"), "rule for missing groups is 'ignore'"),
    "scaled neither way": (set_in("preprocessing", "scaled", "yes"), "scaled neither way"),
}


@pytest.mark.parametrize("case", PREPROCESSING)
def test_preprocessing_that_makes_no_sense_is_refused(with_preprocessing, tmp_path, case):
    change, message = PREPROCESSING[case]
    path = forged(with_preprocessing, tmp_path / "bad.npz", change)
    with pytest.raises(ValueError, match=f"{REFUSED}: .*{message}"):
        load_model(path)


def test_a_newer_file_is_refused_with_both_versions(saved, tmp_path):
    change = set_to("format_version", 99)
    later = lambda m, a: (change(m, a), m.update(written_by="fairanchor 7.0"))  # noqa: E731
    path = forged(saved[1], tmp_path / "new.npz", later)
    message = f"version 99 of .* by fairanchor 7.0; this is fairanchor {__version__}, which reads"
    with pytest.raises(ValueError, match=message):
        load_model(path)


ENTRIES = {
    "missing": ({"model.prices.npy": None}, "no entry 'model.prices.npy'"),
    "one more": ({"evil.py": b"print()"}, "an entry 'evil.py', which no model has"),
    "no header": ({"model.shares.npy": b"x" * 130}, "does not begin like one"),
    "broken header": (
        {"model.shares.npy": npy(np.zeros(3)).replace(b"(3,)", b"(3,")},
        "a header that cannot be read",
    ),
    "code in the header": (
        {"model.shares.npy": npy(np.zeros(3)).replace(b"False, 's", b"__x__, 's")},
        "a header that cannot be read",
    ),
    "text": ({"model.shares.npy": npy(np.full(3, "x" * 8))}, "declares|has type <U8"),
    "other numbers": ({"model.shares.npy": npy(np.full(3, 1 / 3 + 1e-9))}, "their checksum"),
    "not JSON": ({"model.json": b"{"}, "model.json cannot be read"),
    "deep JSON": ({"model.json": b"[" * 100_000}, "model.json cannot be read"),
    "NaN": ({"model.json": b"[NaN]"}, "NaN is no JSON"),
    "a list": ({"model.json": b"[]"}, "does not say 'fairanchor-model'"),
    "no manifest": ({"model.json": None}, "has no entry model.json"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_bad_entries_are_refused(saved, tmp_path, case):
    replaced, message = ENTRIES[case]
    path = rewritten(saved[1], tmp_path / "bad.npz", replaced)
    with pytest.raises(ValueError, match=f"{REFUSED}: .*({message})"):
        load_model(path)


def test_another_format_is_foreign(saved, tmp_path):
    text = json.dumps(contents(saved[1])[0] | {"format": "other"}).encode()
    path = rewritten(saved[1], tmp_path / "bad.npz", {"model.json": text})
    with pytest.raises(ValueError, match="does not say 'fairanchor-model'"):
        load_model(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(saved, tmp_path):
    path = shutil.copy(saved[1], tmp_path / "bad.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model.json", b"{}")
    with pytest.raises(ValueError, match="two entries of one name"):
        load_model(path)


# Bombs: small files that unpack to more than a machine has.


def zeros_entry(archive, name, header, n_bytes):
    """An entry of so many zeros, written without having them in memory."""
    with archive.open(name, "w", force_zip64=True) as member:
        member.write(header)
        for _ in range(n_bytes // 2**20):
            member.write(bytes(2**20))


def memory_used(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["model.json", "model.prices.npy", "extra.npy"])
def test_a_bomb_is_refused_before_it_is_unpacked(saved, tmp_path, name):
    path = rewritten(saved[1], tmp_path / "bomb.npz", {name: None})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        zeros_entry(archive, name, b"", 600 * 2**20)
    assert path.stat().st_size < 5_000_000

    def refuse():
        with pytest.raises(ValueError, match=r"would unpack to|has 629,145,600 bytes"):
            load_model(path)

    assert memory_used(refuse) < 10_000_000


def test_an_entry_that_lies_about_its_size_is_not_unpacked(saved, tmp_path):
    """What zipfile would unpack in one go if it were not told how much to read."""
    path = rewritten(saved[1], tmp_path / "bomb.npz", {"model.json": None})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        zeros_entry(archive, "model.json", b"", 200 * 2**20)
        info = archive.getinfo("model.json")
        info.file_size = 1000  # in the directory, which is what a reader believes

    def refuse():
        with pytest.raises(ValueError, match=REFUSED):
            load_model(path)

    assert memory_used(refuse) < 10_000_000


ABSURD = {
    "more than there is": (10**15, 4),
    "an overflow": (2**62, 4),
    "a negative size": (-60, 4),
    "no size": (0, 4),
    "another order": (4, 60),
}


@pytest.mark.parametrize("case", ABSURD)
def test_a_header_with_another_shape_is_refused_before_memory_is_taken(saved, tmp_path, case):
    header = npy(contents(saved[1])[1]["model.anchors"])
    shape = f"({ABSURD[case][0]}, {ABSURD[case][1]})".encode()
    assert header.count(b"(60, 4)") == 1
    start, rest = header.split(b"(60, 4), }")
    padding = rest.index(b"\n")
    rest = b" " * (padding - len(shape) + len(b"(60, 4)")) + rest[padding:]
    path = rewritten(
        saved[1], tmp_path / "bad.npz", {"model.anchors.npy": start + shape + b", }" + rest}
    )

    def refuse():
        with pytest.raises(ValueError, match=r"header that cannot be read|declared are"):
            load_model(path)

    assert memory_used(refuse) < 10_000_000


def test_a_model_too_large_to_be_loaded_is_not_saved(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(model_archive, "LARGEST_MANIFEST", 100)
    with pytest.raises(ValueError, match="at most 100 are read"):
        save_model(saved[0], tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


class Bomb:
    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    Bomb.exploded = False


def test_a_pickle_in_a_model_file_is_not_run(saved, tmp_path):
    pickled = npy(np.array([Bomb()], dtype=object))
    path = rewritten(saved[1], tmp_path / "bad.npz", {"model.shares.npy": pickled})
    with pytest.raises(ValueError, match="has type .O and shape"):
        load_model(path)
    assert not Bomb.exploded
    np.lib.format.read_array(io.BytesIO(pickled), allow_pickle=True)
    assert Bomb.exploded  # the bomb is a real one


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_under_the_name_of_a_model_is_not_run(tmp_path, protocol):
    path = tmp_path / "m.npz"
    path.write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(ValueError, match=f"{REFUSED}: it is a pickle"):
        load_model(path)
    assert not Bomb.exploded
    pickle.loads(path.read_bytes())
    assert Bomb.exploded


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"], ids=["empty", "text", "zip"])
def test_other_files_are_no_models(tmp_path, content):
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(ValueError, match=REFUSED):
        load_model(tmp_path / "m.npz")
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        load_model(tmp_path / "none.npz")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)


def test_arrays_of_somebody_else_are_no_model(tmp_path):
    np.savez(tmp_path / "m.npz", a=np.zeros(3), b=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match=f"{REFUSED}: it has no entry model.json"):
        load_model(tmp_path / "m.npz")
    assert not Bomb.exploded


def test_a_file_that_was_cut_off_is_called_so(saved, tmp_path):
    (tmp_path / "m.npz").write_bytes(saved[1].read_bytes()[:2000])
    with pytest.raises(ValueError, match="the archive is cut off or altered"):
        load_model(tmp_path / "m.npz")


def test_a_disk_that_fails_is_not_called_a_damaged_file(saved, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(model_file, "read_archive", fail)
    with pytest.raises(OSError, match="Input/output error"):
        load_model(saved[1])
