"""``fairanchor warm-up``: afterwards no process compiles anything."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairanchor.cli._small_fits import SMALL_FITS

# Runs the command, and lists the kernels that it left uncompiled. Inlined ones are never compiled
# by themselves. One module has no kernels, and imports PyTorch, which is optional.
WARM_UP = """
import importlib, json, pkgutil
from numba.core.dispatcher import Dispatcher
import fairanchor
from fairanchor.cli import main

main(["warm-up"], standalone_mode=False)
left = set()
for module in pkgutil.walk_packages(fairanchor.__path__, "fairanchor."):
    if module.name.rpartition(".")[2] not in ("__main__", "_deep_training"):
        for name, value in vars(importlib.import_module(module.name)).items():
            is_inlined = getattr(value, "targetoptions", {}).get("inline") == "always"
            if isinstance(value, Dispatcher) and not value.signatures and not is_inlined:
                left.add(f"{module.name}.{name}")
print(json.dumps(sorted(left)))
"""
# What users do then, with rows as they come from files, data frames and other libraries.
USE = """
import numpy as np, pandas as pd
from fairanchor import AnchorFairClustering, FairKMeans, FairletClustering, fair_assign
from fairanchor._kernels import COMPILATIONS

rng = np.random.default_rng(5)
X = rng.normal(size=(5000, 4)) + 5.0 * np.eye(4)[rng.integers(0, 4, 5000)]
group, weight = rng.choice(["a", "b", "c"], 5000), rng.uniform(1.0, 3.0, 5000)
for rows in (X, X.astype(np.float32), np.asfortranarray(X), pd.DataFrame(X), X.round()):
    for model in (
        FairKMeans(4, random_state=0),
        FairKMeans(4, tolerance=0.1, random_state=0),
        AnchorFairClustering(4, random_state=0),
        AnchorFairClustering(4, graph="reconstruction", anchors="fdas", random_state=0),
    ):
        model.fit(rows, sensitive_features=group)
        model.predict(rows, sensitive_features=group)
FairKMeans(4, random_state=0).fit(X, sensitive_features=group, sample_weight=weight)
FairletClustering(4, random_state=0).fit(X[:300], sensitive_features=group[:300] == "a")
fair_assign(np.abs(X), sensitive_features=group, tolerance=0.1)
print(COMPILATIONS.count)
"""
in_one_process = pytest.mark.xdist_group("warm-up")


@dataclass(frozen=True)
class WarmedUp:
    """A cache after ``fairanchor warm-up``, and what the command printed."""

    cache: Path
    stdout: str
    stderr: str

    def run(self, *arguments, **environment):
        """Python with this cache, in a process of its own."""
        environment = os.environ | {"NUMBA_CACHE_DIR": str(self.cache)} | environment
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def warmed_up(tmp_path_factory):
    """A fresh cache that the command has filled, which takes minutes."""
    empty = WarmedUp(tmp_path_factory.mktemp("cache"), "", "")
    done = empty.run("-c", WARM_UP)
    assert done.returncode == 0, done.stderr
    return WarmedUp(empty.cache, done.stdout, done.stderr)


@in_one_process
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_warm_up_compiles_every_kernel_and_says_where(warmed_up):
    head, *places, left = warmed_up.stdout.splitlines()
    assert json.loads(left) == []
    assert "kernels compiled in" in head
    assert places
    for place in places:
        assert Path(place.strip()).parent == warmed_up.cache
        assert list(Path(place.strip()).glob("*.nbi"))
    # A line for each part, and neither warnings nor the announcement of a fit.
    titles = [line.partition(":")[0] for line in warmed_up.stderr.splitlines()]
    assert titles == list(SMALL_FITS)


@in_one_process
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_after_it_other_processes_compile_nothing(warmed_up, folder):
    done = warmed_up.run("-W", "ignore", "-c", USE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    fit = ("fit", "people.csv", "-k", 2, "--sensitive", "sex", "--id", "person")
    commands = [
        (*fit, "--model", "m.npz", "--report", "r.html", "-o", "a.csv"),
        (*fit, "--clusterer", "vfc", "-o", "b.csv"),
        (*fit[:4], "--sensitive", "sex,race", "--attributes", "separate", "-o", "c.csv"),
        ("predict", "m.npz", "people.parquet", "-o", "d.csv"),
    ]
    for command in commands:
        done = warmed_up.run("-m", "fairanchor", *command)
        assert done.returncode == 0, done.stderr
        assert "compiling" not in done.stderr


@in_one_process
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_second_time_there_is_nothing_to_compile(warmed_up):
    done = warmed_up.run("-m", "fairanchor", "warm-up")
    assert done.returncode == 0
    assert done.stdout.startswith("nothing to compile in ")


@in_one_process
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_fit_announces_compilation_on_standard_error_unless_quiet(warmed_up, folder):
    command = ("fit", "people.csv", "-k", 2, "--sensitive", "sex", "--id", "person", "-o", "-")
    whole = {path: path.read_bytes() for path in warmed_up.cache.glob("*/*hash_rows*")}
    removed = [path for path in whole if path.suffix == ".nbi"]
    assert removed
    for quiet in ([], ["--quiet"]):
        for path in removed:
            path.unlink()
        done = warmed_up.run("-m", "fairanchor", *command, *quiet)
        assert done.returncode == 0, done.stderr
        assert all(path.exists() for path in removed)  # it has been compiled again
        assert done.stdout.startswith("person,cluster\n")
        assert "compiling" not in done.stdout
        if quiet:
            assert done.stderr == ""
        else:
            assert done.stderr.count("fairanchor: compiling numerical kernels") == 1
    for path, content in whole.items():  # other tests use the same cache
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("variable", "value"), [("NUMBA_DISABLE_JIT", "1"), ("FAIRANCHOR_NUMBA_CACHE", "0")]
)
def test_a_warm_up_that_would_be_in_vain_is_an_error(tmp_path, variable, value):
    done = WarmedUp(tmp_path, "", "").run("-m", "fairanchor", "warm-up", **{variable: value})
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {variable}")
    assert done.stdout == ""
