"""Standard output has results only, whatever libraries print."""

import ctypes
import sys

import pytest

from fairanchor import FairKMeans


@pytest.mark.skipif(sys.platform == "win32", reason="asks the C library by its name")
def test_what_compiled_libraries_print_in_a_fit_goes_to_standard_error(
    folder, run, monkeypatch, capfd
):
    fit = FairKMeans.fit

    def noisy(self, *args, **kwargs):
        ctypes.CDLL(None).puts(b"words of a library")
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(FairKMeans, "fit", noisy)
    run("fit", "people.csv", "-k", 2, "--sensitive", "sex", "--id", "person", "-o", "a.csv")
    ctypes.CDLL(None).puts(b"afterwards")
    ctypes.CDLL(None).fflush(None)
    captured = capfd.readouterr()
    assert captured.out == "afterwards\n"
    assert "words of a library\n" in captured.err
