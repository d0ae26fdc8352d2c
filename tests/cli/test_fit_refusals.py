"""``fairanchor fit``: what is refused, with which words and which exit code."""

import numpy as np
import pytest

BASIC = ("fit", "people.csv", "-k", 3, "--sensitive", "sex", "--id", "person", "--jobs", 1)

CONTENT = {
    "empty.csv": b"",
    "header.csv": b"age,sex\n",
    "semicolons.csv": b"age;sex\n1;f\n2;m\n",
    "repeated.csv": b"age,sex,age\n1,f,2\n2,m,3\n",
    "truncated.parquet": b"PAR1\x15\x04\x15",
    "text.csv": b"age,sex\n" + b"".join(b"%d,f\n%d,m\n" % (i, i) for i in range(9)) + b"old,m\n",
    "infinite.csv": b"age,sex\n1,f\ninf,m\n2,f\n",
}
REFUSED = {
    "no file": ("none.csv", [], "There is no file none.csv"),
    "empty": ("empty.csv", [], "empty.csv is empty"),
    "no rows": ("header.csv", [], "has columns but no rows"),
    "wrong delimiter": ("semicolons.csv", [], "Use --delimiter ';'"),
    "repeated name": ("repeated.csv", [], "more than one column called 'age'"),
    "truncated Parquet": ("truncated.parquet", [], "is not a complete Parquet file"),
    "text among numbers": ("text.csv", [], "the first other value is 'old'"),
    "infinity": ("infinite.csv", [], "'age' has 1 infinite value,"),
    "misspelled": ("people.csv", ["--exclude", "persn"], "did you mean 'person'?"),
    "identifier as feature": ("people.parquet", [], "'person' is text with 900"),
    "too many clusters": ("people.csv", ["--exclude", "person", "-k", 901], "--clusters=901"),
    "unwritable output": ("people.csv", ["-o", "nowhere/labels.csv"], "does not exist"),
    "folder as output": ("people.csv", ["-o", "."], "is a directory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line_on_stderr_and_exit_code_1(folder, run, case):
    source, options, message = REFUSED[case]
    if source in CONTENT:
        (folder / source).write_bytes(CONTENT[source])
    folder.write("clusters.csv", cluster=np.arange(900), person=None)
    before = folder.names
    result = run("fit", source, "-k", 2, "--sensitive", "sex", *options, "--quiet", code=1)
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert folder.names == before


WRONG_USAGE = {
    "no clusters": (["people.csv", "--sensitive", "sex"], "--clusters"),
    "no sensitive column": (["people.csv", "-k", 2], "--sensitive"),
    "sensitive without a name": (
        ["people.csv", "-k", 2, "--sensitive", ",", "--max-size", 500, "--id", "person"],
        "',' names no column",
    ),
    "zero clusters": (["people.csv", "-k", 0, "--sensitive", "sex"], "x>=1"),
    "unknown clusterer": ([*BASIC[1:], "--clusterer", "magic"], "fair_kmeans"),
    "two outputs in one": ([*BASIC[1:], "-o", "a.csv", "--model", "a.csv"], "Two outputs"),
    "json and data": ([*BASIC[1:], "-o", "-", "--json"], "standard output"),
    "model to standard output": ([*BASIC[1:], "--model", "-"], "name a file"),
    "contradiction": ([*BASIC[1:], "--missing", "error", "--missing", "impute"], "contradict"),
    "delimiter": ([*BASIC[1:], "--delimiter", "::"], "one ASCII character"),
    "foreign delimiter": ([*BASIC[1:], "--delimiter", "é"], "one ASCII character"),
    "no threads": ([*BASIC[1:], "--jobs", 0], "x>=1"),
    "unknown format": ([*BASIC[1:], "-o", "labels.xlsx"], "'.xlsx', which names no format"),
    "no format": ([*BASIC[1:], "-o", "labels"], "labels has no suffix: expected one of .csv"),
    "no page": ([*BASIC[1:], "--report", "report.pdf"], "expected a name that ends in .html"),
    "both lists": (
        [*BASIC[1:], "--features", "age", "--exclude", "job"],
        "--features and --exclude",
    ),
    "id is a feature": ([*BASIC[1:], "--features", "person"], "cannot be the id of a row"),
    "id is sensitive": ([*BASIC[1:], "--id", "sex"], "cannot be the id of a row"),
}


@pytest.mark.parametrize("case", WRONG_USAGE)
def test_wrong_usage_ends_with_2(folder, run, case):
    arguments, message = WRONG_USAGE[case]
    before = folder.names
    result = run("fit", *arguments, code=2)
    assert message in result.stderr
    assert "fit --help" in result.stderr
    assert folder.names == before


def test_an_option_that_does_not_exist_is_wrong_usage(run):
    assert "No such option" in run(*BASIC, "--graph", "local", code=2).stderr
