"""Every code block of the README and of the pages runs as printed.

The blocks of a page run from top to bottom in an empty directory: Python blocks in one namespace,
lines of shell blocks that begin with ``fairanchor`` as commands. A block that cannot run has a
comment ``<!-- not run: reason -->`` in front of it, and `NOT_RUN` counts them: it takes a decision
to add one.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from fairanchor.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    if not {"gallery", "generated"} & set(path.relative_to(ROOT).parts)
)
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = {
    "README.md": 2,
    "docs/fairness.md": 1,
    "docs/large_data.md": 3,
    "docs/guide/arrow_tables.md": 1,
    "docs/guide/quick_start.md": 1,
    "docs/reproduction.md": 1,
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its code, and why it is not run."""

    language: str
    code: str
    reason: str | None


def blocks_of(page):
    """Blocks of code of a page; directives of the documentation and plain text are none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [Block(m["language"].strip(), m["code"], m["reason"]) for m in FENCE.finditer(text)]
    return [b for b in found if b.language != "text" and not b.language.startswith("{")]


def commands_of(code):
    """Lines of a shell block as lists of words, without comments."""
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_shell(code):
    """Run the commands of a block in the current directory; each must end with 0."""
    for program, *arguments in commands_of(code):
        if program == "mkdir":
            os.mkdir(*arguments)
            continue
        assert Path(program).name == "fairanchor", f"{program}: mark the block as not run"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, f"{shlex.join(arguments)}\n{result.output}"


def people_in_files(directory):
    """Write a directory ``people`` of two files, large enough to be read in chunks."""
    rng = np.random.default_rng(0)
    (directory / "people").mkdir()
    for name in ("a", "b"):
        sex = rng.choice(["f", "m"], 550_000)
        income = rng.normal(np.where(sex == "m", 1.0, 0.0), 1.0)
        table = pa.table({"sex": sex, "income": income, "age": rng.normal(size=550_000)})
        parquet.write_table(table, directory / "people" / f"{name}.parquet")


PREPARE = {"docs/large_data.md": people_in_files}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)])
def test_blocks_of_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if page in PREPARE:
        PREPARE[page](tmp_path)
    namespace = {"__name__": "page"}
    for block in blocks_of(page):
        if block.reason is not None:
            continue
        assert block.language in ("python", ""), f"{page} has a block of {block.language!r}"
        if block.language == "python":
            exec(compile(block.code, page, "exec"), namespace)
        else:
            run_shell(block.code)


def test_only_so_many_blocks_are_not_run():
    skipped = {page: [b.reason for b in blocks_of(page) if b.reason] for page in PAGES}
    assert {page: len(reasons) for page, reasons in skipped.items() if reasons} == NOT_RUN


def test_a_block_that_is_wrong_is_noticed():
    with pytest.raises(AssertionError, match="No such command"):
        run_shell("fairanchor cluster people.csv")
    with pytest.raises(AssertionError, match="mark the block"):
        run_shell("curl people.csv")
