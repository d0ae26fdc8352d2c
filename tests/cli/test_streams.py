"""Standard output has results only, whatever libraries print."""

import subprocess
import sys

import pytest

NOISY = """
import click, ctypes, sys
from fairanchor.cli import main

@main.command()
def noisy():
    ctypes.CDLL(None).puts(b"words of a library")
    click.echo("the result")
    {then}

main(["noisy"], standalone_mode={standalone})
print("afterwards")
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asks the C library by its name")


def run(then="", standalone=False):
    code = NOISY.format(then=then, standalone=standalone)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_what_compiled_libraries_print_goes_to_standard_error():
    done = run()
    assert (done.stdout, done.stderr) == ("the result\nafterwards\n", "words of a library\n")


def test_standard_output_is_put_back_after_an_error():
    done = run("raise KeyError('defect')")
    assert done.stdout == "the result\n"
    assert done.stderr.startswith("words of a library\n")
    assert "defect" in done.stderr


@pytest.mark.parametrize("name", ["/dev/stdout", "--report=/dev/fd/1"])
def test_a_name_of_standard_output_keeps_its_meaning(name):
    code = NOISY.format(then="print('a page', file=open('/dev/stdout', 'w'))", standalone=False)
    code = code.replace("main([", f"sys.argv.append({name!r})\nmain([")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a page" in done.stdout
    assert "the result" in done.stdout


def test_a_reader_that_has_gone_is_no_error_message():
    code = NOISY.format(then="click.echo('x' * 1_000_000)", standalone=True)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == "words of a library\n"
