"""Every code block of the README and of the pages runs as printed, and prints what the page shows.

The blocks of a page run from top to bottom in an empty directory: Python blocks in one namespace,
lines of shell blocks that begin with ``fairanchor`` as commands. A block that cannot run has a
comment ``<!-- not run: reason -->`` in front of it, and `NOT_RUN` counts them: it takes a decision
to add one.

A block of text with the comment ``<!-- output -->`` in front of it is what the block before it
prints. Decimal numbers may differ by one in the last digit that is shown, and ``...`` stands for
any text; all else must be equal, apart from white space. To write the outputs anew into a page::

    python tests/test_docs_blocks.py docs/guide/new_rows.md
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, replace
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
    r"(?:^<!-- (?:not run: (?P<reason>[^\n]+?)|(?P<output>output)) -->\n)?"
    r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TOKEN = re.compile(r"(\.\.\.|-?\d+(?:,\d{3})*(?:\.\d+)?|\s+)")
NOT_RUN = {
    "README.md": 1,
    "docs/guide/deep.md": 1,
    "docs/guide/cluster_of_machines.md": 3,
    "docs/guide/installation.md": 1,
    "docs/guide/shares_and_bounds.md": 1,
    "docs/guide/arrow_tables.md": 1,
    "docs/reproduction.md": 1,
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its code, why it is not run, and the output that is shown."""

    language: str
    code: str
    reason: str | None
    output: str | None = None


def blocks_of(page):
    """Blocks of code of a page; directives of the documentation and plain text are none."""
    blocks = []
    for found in FENCE.finditer((ROOT / page).read_text(encoding="utf-8")):
        language = found["language"].strip()
        if found["output"]:
            blocks[-1] = replace(blocks[-1], output=found["code"])
        elif language != "text" and not language.startswith("{"):
            blocks.append(Block(language, found["code"], found["reason"]))
    return blocks


def commands_of(code):
    """Lines of a shell block as lists of words, without comments."""
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_shell(code):
    """Run the commands of a block in the current directory; each must end with 0."""
    printed = ""
    for program, *arguments in commands_of(code):
        if program == "mkdir":
            os.mkdir(*arguments)
            continue
        assert Path(program).name == "fairanchor", f"{program}: mark the block as not run"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, f"{shlex.join(arguments)}\n{result.output}"
        printed += result.output
    return printed


def run_page(page):
    """Run the blocks of a page in the current directory, and yield each with what it printed."""
    namespace = {"__name__": "page"}
    for block in blocks_of(page):
        if block.reason is not None:
            continue
        assert block.language in ("python", ""), f"{page} has a block of {block.language!r}"
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(block.code, page, "exec"), namespace)
            yield block, stream.getvalue()
        else:
            yield block, run_shell(block.code)


def is_shown(printed, shown):
    """Whether an output is the one that a page shows."""
    pattern, numbers = "", []
    for token in TOKEN.split(shown.strip()):
        if token == "...":
            pattern += ".*?"
        elif token.isspace():
            pattern += r"\s+"
        elif TOKEN.fullmatch(token):
            pattern += r"(-?\d+(?:,\d{3})*(?:\.\d+)?)"
            numbers.append(token)
        else:
            pattern += re.escape(token)
    found = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    return found is not None and all(map(is_close, found.groups(), numbers))


def is_close(printed, shown):
    """Whether two numbers are equal, or decimals differ by at most one in the last digit shown."""
    if "." not in shown:
        return printed == shown
    unit = 10.0 ** -len(shown.split(".")[1])
    actual, expected = (float(number.replace(",", "")) for number in (printed, shown))
    return abs(actual - expected) < 1.5 * unit


def people_in_files(directory):
    """Write a directory ``people`` of two files, large enough to be read in chunks."""
    rng = np.random.default_rng(0)
    (directory / "people").mkdir()
    for name in ("a", "b"):
        sex = rng.choice(["f", "m"], 550_000)
        income = rng.normal(np.where(sex == "m", 1.0, 0.0), 1.0)
        table = pa.table({"sex": sex, "income": income, "age": rng.normal(size=550_000)})
        parquet.write_table(table, directory / "people" / f"{name}.parquet")


PREPARE = {"docs/guide/larger_than_memory.md": people_in_files}
# Pages whose blocks need an optional package.
NEEDED = {"docs/guide/deep.md": "torch"}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)])
def test_blocks_of_the_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if page in PREPARE:
        PREPARE[page](tmp_path)
    if page in NEEDED:
        pytest.importorskip(NEEDED[page], reason=f"{page} needs {NEEDED[page]}")
    for block, printed in run_page(page):
        if block.output is not None:
            assert is_shown(printed, block.output), f"\n{block.code}\nprinted\n{printed}"


def test_only_so_many_blocks_are_not_run():
    skipped = {page: [b.reason for b in blocks_of(page) if b.reason] for page in PAGES}
    assert {page: len(reasons) for page, reasons in skipped.items() if reasons} == NOT_RUN


def test_a_block_that_is_wrong_is_noticed():
    with pytest.raises(AssertionError, match="No such command"):
        run_shell("fairanchor cluster people.csv")
    with pytest.raises(AssertionError, match="mark the block"):
        run_shell("curl people.csv")


@pytest.mark.parametrize(
    ("printed", "shown", "expected"),
    [
        ("   f   m\n0  1.25  -3\n", "f m\n0  1.26  -3", True),
        ("1.25", "1.27", False),
        ("1.25", "1.3", True),
        ("3,001 rows", "3,000 rows", False),
        ("-3", "3", False),
        ("cost 12.5, 0.7 s\nlabels: a.csv", "cost 12.5, ...\nlabels: a.csv", True),
        ("cost 12.5\nmodel: a.npz", "cost 12.5\n...\nlabels: a.csv", False),
        ("[1 2 3]", "[1 2]", False),
        ("", "nothing", False),
    ],
)
def test_an_output_that_is_wrong_is_noticed(printed, shown, expected):
    assert is_shown(printed, shown) == expected


def write_outputs(page):
    """Replace the outputs of a page that are no longer what its blocks print."""
    path = (ROOT / page).resolve()
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        if page in PREPARE:
            PREPARE[page](Path(directory))
        for block, printed in run_page(page):
            if block.output is not None and not is_shown(printed, block.output):
                printed = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
                text = path.read_text(encoding="utf-8")
                start = text.index(block.code) + len(block.code)
                path.write_text(
                    text[:start] + text[start:].replace(block.output, printed + "\n", 1),
                    encoding="utf-8",
                )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_outputs(name)
