"""A table of people as files, and the command line as a function."""

import inspect
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet

from fairanchor.cli import main

N_PEOPLE = 900


def make_people(n=N_PEOPLE, seed=0):
    """People whose income depends on their sex, so that plain clusters are not fair."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    return pa.table(
        {
            "person": [f"{i:05d}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.lognormal(10, 0.5, n) * np.where(sex == "m", 2.0, 1.0), 2),
            "job": rng.choice(["nurse", "cook", "smith"], n),
            "sex": sex,
            "race": rng.choice([1, 2, 3], n, p=[0.6, 0.3, 0.1]),
        }
    )


@dataclass(frozen=True)
class Folder:
    """A working folder with the people in several formats."""

    path: object
    people: pa.Table

    def __truediv__(self, name):
        return self.path / name

    def write(self, name, **columns):
        """Write the people with some columns replaced or added; returns the path."""
        table = self.people
        for column, values in columns.items():
            if column in table.column_names:
                table = table.drop_columns(column)
            if values is not None:
                table = table.append_column(column, pa.array(values))
        path = self.path / name
        (csv.write_csv if name.endswith(".csv") else parquet.write_table)(table, path)
        return path

    def write_strangers(self, name, n):
        """Write other people of the same kind; returns their table."""
        strangers = make_people(n, seed=1)
        parquet.write_table(strangers, self.path / name)
        return strangers

    @property
    def names(self):
        """Names of all files in the folder."""
        return sorted(entry.name for entry in self.path.iterdir())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Current folder with ``people.csv`` and ``people.parquet``."""
    monkeypatch.chdir(tmp_path)
    folder = Folder(tmp_path, make_people())
    folder.write("people.csv")
    folder.write("people.parquet")
    return folder


def runner():
    """A runner that keeps standard error apart, which click before 8.2 does on request."""
    if "mix_stderr" in inspect.signature(CliRunner).parameters:
        return CliRunner(mix_stderr=False)
    return CliRunner()


@pytest.fixture
def run():
    """``run("fit", ...)`` returns click's result; the exit code must be as expected."""

    def invoke(*arguments, code=0, stdin=None):
        result = runner().invoke(main, [str(item) for item in arguments], input=stdin)
        unexpected = result.exception
        if unexpected is not None and not isinstance(unexpected, SystemExit):
            raise unexpected
        assert code in (None, result.exit_code), result.output
        return result

    return invoke
