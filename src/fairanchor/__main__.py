"""``python -m fairanchor`` is the command line."""

from fairanchor.cli import main

main(prog_name="fairanchor")
