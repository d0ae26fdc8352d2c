"""The command line, and what importing costs."""

import pytest
from click.testing import CliRunner

from fairanchor.cli import main


@pytest.mark.slow
def test_demo_prints_both_compositions_and_the_balance():
    result = CliRunner().invoke(main, ["demo", "--rows", "3000", "-k", "3", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    for words in ("Plain k-means", "FairKMeans", "best possible balance", "seconds"):
        assert words in result.output


def test_public_names_are_importable_and_listed():
    import fairanchor

    for name in fairanchor.__all__:
        assert getattr(fairanchor, name).__name__ == name
    assert set(fairanchor.__all__) < set(dir(fairanchor))
