"""Runs of ``fairanchor fit`` that are killed or short of disk."""

import os
import random
import signal
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import _children as children
import pyarrow as pa
import pyarrow.dataset as ds
from _tiny_disk import fill
from pyarrow import csv, parquet

from fairanchor.cli import main
from fairanchor.datasets import make_fair_blobs

OLD = b"what was there before\n"
OUTPUTS = ("labels.csv", "model.npz")
CHUNK_ROWS = 400
ENDINGS = {0: "finished", 1: "error in one line"}
MEGABYTE = 2**20
# Bytes of the messages of a run, which go to a file as well.
MESSAGES = 2_000


@dataclass
class Tally:
    """How many runs were disturbed, how they ended, and what was wrong with any of them."""

    tried: int
    endings: dict
    violations: list

    @classmethod
    def empty(cls):
        return cls(0, {}, [])

    def count(self, ending):
        self.tried += 1
        self.endings[ending] = self.endings.get(ending, 0) + 1


class Scene:
    """A folder with a table, and what an undisturbed run makes of it.

    Parameters
    ----------
    folder : Path
        Empty.
    rows : int
        Rows of the table.
    outputs : Path, default=None
        Folder of the outputs, by default the same.
    """

    def __init__(self, folder, rows, outputs=None):
        self.folder = Path(folder)
        self.outputs = self.folder if outputs is None else Path(outputs)
        self.table = self.folder / "people.csv"
        csv.write_csv(people(rows, 0), self.table)
        self.seconds = self._expected()

    def _expected(self):
        small = self.folder / "small.csv"
        # Small, so that children do not inherit memory that is free already.
        csv.write_csv(people(2_000, 1), small)
        warm_up("fit", small, "-k", 3, "--sensitive", "group", "--json")
        ended = self.run(children.command_line)
        if ended.code != 0:
            raise RuntimeError(f"An undisturbed run failed: {ended.said}")
        self.whole = {name: (self.outputs / name).read_bytes() for name in OUTPUTS}
        return ended.seconds

    def run(self, function, *first, kill_when=None):
        """One ``fairanchor fit`` over the old files, disturbed by ``function``."""
        for name in OUTPUTS:
            (self.outputs / name).write_bytes(OLD)
        return children.run(
            function, *first, "fit", self.table, "-k", 3, "--sensitive", "group", "--force",
            "-o", self.outputs / OUTPUTS[0], "--model", self.outputs / OUTPUTS[1], "--jobs", 2,
            said=self.folder / "said.txt", kill_when=kill_when,
        )  # fmt: skip

    def partial_files(self):
        return list(self.outputs.glob(".fairanchor-*.partial"))

    def sweep(self):
        """Remove what a killed run could not remove itself; returns how much there was."""
        left = self.partial_files()
        for path in left:
            path.unlink()
        return len(left)

    def wrong(self):
        """Outputs that are neither what was there before nor complete."""
        return [
            f"{name} is neither the old file nor a whole one"
            for name in OUTPUTS
            if (self.outputs / name).read_bytes() not in (OLD, self.whole[name])
        ]


def people(rows, seed):
    """A table of two features and a group."""
    data = make_fair_blobs(rows, centers=3, random_state=seed)
    columns = {"x": data.data[:, 0], "y": data.data[:, 1], "group": data.sensitive_features}
    return pa.table(columns)


def warm_up(*arguments):
    """Run a command in this process, so that its children find kernels compiled."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        main([str(argument) for argument in arguments], standalone_mode=False)


def kills(scene, number, seed=0):
    """SIGKILL at random moments: half anywhere, half within milliseconds of a file's beginning."""
    rng, tally = random.Random(seed), Tally.empty()
    while tally.endings.get("killed", 0) < number:
        k = tally.tried
        if k == 3 * number + 20:
            raise RuntimeError(f"Only {tally.endings} of {k} runs could be killed in time.")
        moment = Moment(scene, rng, near_writing=k % 2 == 1)
        ended = scene.run(children.command_line, kill_when=moment)
        killed = ended.code == -signal.SIGKILL
        tally.count("killed" if killed else "finished before")
        if not killed and ended.code != 0:
            tally.violations.append(f"run {k}: exit code {ended.code}: {ended.said}")
        tally.violations += [f"run {k}: {wrong}" for wrong in scene.wrong()]
        scene.sweep()  # nobody is left to remove a temporary file
    return tally


class Moment:
    """When to kill: after a random time, or a random time after a file has begun to be written."""

    def __init__(self, scene, rng, near_writing):
        self.scene, self.near_writing = scene, near_writing
        self.delay = rng.uniform(0, 0.03 if near_writing else scene.seconds)
        self.began = None if near_writing else time.perf_counter()

    def __call__(self):
        if self.began is None and self.scene.partial_files():
            self.began = time.perf_counter()
        return self.began is not None and time.perf_counter() - self.began >= self.delay


def full_disks(scene, number, seed=0):
    """No file can grow beyond a random size; then fsync and rename fail as on a full disk."""
    rng, tally = random.Random(seed), Tally.empty()
    largest = max(map(len, scene.whole.values()))
    sizes = [rng.randrange(MESSAGES, largest) for _ in range(number)]
    faults = [(children.command_with_small_files, size) for size in sizes]
    faults += [(children.command_with_full_disk, ("fsync", k)) for k in (1, 2, 3, 4)]
    for fault, given in faults:
        ended = scene.run(fault, given)
        tally.count(ENDINGS.get(ended.code, f"exit code {ended.code}"))
        tally.violations += [f"{given}: {wrong}" for wrong in scene.wrong()]
        tally.violations += ill_mannered(given, ended)
        if scene.sweep():
            tally.violations.append(f"{given}: a temporary file is left")
    return tally


def full_file_systems(scene, number, seed=0):
    """The outputs are on a file system that has from no block to all but enough left."""
    rng, tally = random.Random(seed), Tally.empty()
    needed = sum(map(len, scene.whole.values()))
    for k in range(number):
        for name in OUTPUTS:
            (scene.outputs / name).write_bytes(OLD)
        left = fill(scene.outputs, rng.randrange(needed))
        ended = scene.run(children.command_line)
        tally.count(ENDINGS.get(ended.code, f"exit code {ended.code}"))
        title = f"run {k}, {left:,} bytes"
        tally.violations += [f"{title}: {wrong}" for wrong in scene.wrong()]
        tally.violations += ill_mannered(title, ended)
        if scene.sweep():
            tally.violations.append(f"{title}: a temporary file is left")
    return tally


def ill_mannered(title, ended):
    """Any end but success and one line with exit code 1."""
    if ended.code == 0:
        return []
    errors = [line for line in ended.said.splitlines() if line.startswith("Error: ")]
    if ended.code == 1 and len(errors) == 1 and "Traceback" not in ended.said:
        return []
    return [f"{title}: exit code {ended.code}: {ended.said[-300:]}"]


def resumed_runs(folder, number, rows, seed=0):
    """Runs with a checkpoint that are killed again and again, and resumed to the end."""
    rng, tally = random.Random(seed), Tally.empty()
    scene = FolderScene(Path(folder), rows)
    for k in range(number):
        n_kills = scene.killed_and_resumed(k, rng)
        tally.count(f"killed {n_kills} times" if n_kills != 1 else "killed once")
        if scene.labels(f"out-{k}") != scene.expected:
            tally.violations.append(f"run {k}: the labels are not those of an undisturbed run")
    return tally


class FolderScene:
    """A folder of Parquet files in several chunks, and the labels of an undisturbed run."""

    def __init__(self, folder, rows):
        self.folder, self.data = folder, folder / "data"
        self.data.mkdir(parents=True)
        for seed, part in enumerate(("a", "b")):
            parquet.write_table(people(rows // 2, seed), self.data / f"{part}.parquet")
        warm_up("fit", self.data, "-k", 3, "--sensitive", "group", "--json")
        ended = self.run("undisturbed", "undisturbed-checkpoint")
        self.seconds = ended.seconds
        self.expected = self.labels("undisturbed")

    def run(self, output, checkpoint, *options, kill_when=None):
        return children.run(
            children.command_in_chunks, CHUNK_ROWS, "fit", self.data, "-k", 3,
            "--sensitive", "group", "--engine", "stream", "-o", self.folder / output,
            "--checkpoint", self.folder / checkpoint, *options,
            said=self.folder / "said.txt", kill_when=kill_when,
        )  # fmt: skip

    def labels(self, output):
        path = self.folder / output
        return ds.dataset(path).to_table().to_pydict() if path.exists() else None

    def killed_and_resumed(self, k, rng):
        """One run, killed up to three times; returns how often it was."""
        options, n_kills = (), 0
        for attempt in range(4):
            until = time.perf_counter() + rng.uniform(0.1, 0.7) * self.seconds
            last = attempt == 3
            ended = self.run(
                f"out-{k}", f"checkpoint-{k}", *options,
                kill_when=None if last else lambda until=until: time.perf_counter() >= until,
            )  # fmt: skip
            if ended.code == 0:
                break
            if ended.code != -signal.SIGKILL:
                raise RuntimeError(f"A run with a checkpoint failed: {ended.said}")
            n_kills += 1
            if (self.folder / f"out-{k}").exists():  # killed when all was done
                break
            if any((self.folder / f"checkpoint-{k}").glob("*")):
                options = ("--resume",)
        return n_kills
