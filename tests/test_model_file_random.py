"""Model files damaged at random: an error of the library, or an equal model."""

import io
import json
import random
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import fairanchor._model_archive as model_archive
from fairanchor import AnchorFairClustering
from fairanchor._model_archive import ModelFileError
from fairanchor._model_file import load_model, save_model
from fairanchor.tables import GroupRule, Preprocessing

NEW = np.random.default_rng(1).normal(size=(100, 4))
NEW_GROUPS = np.array(["a", "b", "c"])[np.arange(100) % 3]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A fitted model, and the bytes of its file."""
    path = tmp_path_factory.mktemp("table") / "model.npz"
    numbers = np.random.default_rng(0).normal(size=(2, 300))
    table = pa.table({"p": numbers[0], "q": numbers[1], "r": ["x", "y", "y"] * 100})
    preprocessing = Preprocessing.learn(table, list("pqr"), GroupRule(("group",)))
    model = AnchorFairClustering(3, random_state=0)
    model.fit(preprocessing.rows_of(table), sensitive_features=["a", "b", "c"] * 100)
    save_model(model, path, preprocessing=preprocessing)
    return model, path.read_bytes()


def bytes_changed(rng, content):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 20])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def cut(rng, content):
    start, stop = sorted(rng.randrange(len(content)) for _ in range(2))
    return rng.choice([content[:stop], content[start:], content[:start] + content[stop:]])


def entries_swapped(rng, content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    one, other = rng.sample(sorted(entries), 2)
    entries[one], entries[other] = entries[other], entries[one]
    return packed(entries)


def places_in(plain, so_far=()):
    """Paths to all values of a JSON structure."""
    pairs = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in pairs:
        yield (*so_far, key)
        if isinstance(value, (dict, list)):
            yield from places_in(value, (*so_far, key))


ODD = [None, True, -1, 2, 1e308, 10**30, "", "x", [], {}, [1, [2]], {"tuple": [[1]]}]
ODD += [{"float": "nan"}, {"dict": [[[1], 2]]}, {"bytes": "A"}, {"numpy_time": ["O", 1]}]


def manifest_edited(rng, content):
    """Another manifest whose checksum agrees with it, so that only its sense can be refused."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries["model.json"])
    *way, last = rng.choice(sorted(places_in(manifest), key=str))
    holder = manifest
    for key in way:
        holder = holder[key]
    if rng.random() < 0.2:
        del holder[last]
    else:
        holder[last] = rng.choice(ODD)
    arrays = {
        name[:-4]: np.load(io.BytesIO(data))
        for name, data in entries.items()
        if name.endswith(".npy")
    }
    manifest["sha256"] = model_archive._checksum(manifest, arrays)
    return packed(entries | {"model.json": json.dumps(manifest).encode()})


def packed(entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


DAMAGES = {"bytes": bytes_changed, "cut": cut, "swapped": entries_swapped}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_an_error_or_changes_nothing(saved, tmp_path, damage):
    model, content = saved
    rng = random.Random(damage)
    expected = model.predict_proba(NEW, sensitive_features=NEW_GROUPS)
    n_refused = 0
    for _ in range(120):
        (tmp_path / "bad.npz").write_bytes(DAMAGES[damage](rng, content))
        try:
            loaded = load_model(tmp_path / "bad.npz")
        except ModelFileError:
            n_refused += 1
        else:
            found = loaded.predict_proba(NEW, sensitive_features=NEW_GROUPS)
            assert_array_equal(found, expected)
    assert n_refused > 60


def test_an_edited_manifest_is_refused_or_can_be_used(saved, tmp_path):
    content, rng = saved[1], random.Random(0)
    n_refused = 0
    for _ in range(200):
        (tmp_path / "bad.npz").write_bytes(manifest_edited(rng, content))
        try:
            loaded = load_model(tmp_path / "bad.npz")
        except ModelFileError:
            n_refused += 1
        else:
            groups = np.empty(100, dtype=object)
            groups[:] = [loaded.groups_[0]] * 100
            labels = loaded.predict(NEW, sensitive_features=groups.tolist())
            assert 0 <= labels.min() <= labels.max() < loaded.n_clusters
    assert n_refused > 80
