"""Command line: one file per command. Nothing heavy is imported before a command runs."""

import sys
from importlib import import_module

import click

from fairanchor import __version__
from fairanchor.cli._errors import errors_as_one_line
from fairanchor.cli._streams import output_for_results_only

COMMANDS = {
    "fit": "fairanchor.cli._fit",
    "predict": "fairanchor.cli._predict",
    "audit": "fairanchor.cli._audit",
    "compare": "fairanchor.cli._compare",
    "demo": "fairanchor.cli._demo",
    "warm-up": "fairanchor.cli._warm_up",
}


class LazyGroup(click.Group):
    """Commands that are imported when they are run; their errors as one line."""

    def list_commands(self, ctx):
        """Names in the order of `COMMANDS`."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx, name):
        """The function called like the command, in its module."""
        if name in COMMANDS:
            return getattr(import_module(COMMANDS[name]), name.replace("-", "_"))
        return super().get_command(ctx, name)

    def invoke(self, ctx):
        """Run a command with the exit codes of the help."""
        if hasattr(sys.stdout, "reconfigure"):
            # A name that the terminal's encoding does not have is shown by its number.
            sys.stdout.reconfigure(errors="backslashreplace")
        with errors_as_one_line(), output_for_results_only():
            return super().invoke(ctx)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0: done; 1: invalid data or file, or error at run time; 2: invalid "
        "command-line arguments; 3: finished, but not converged, a target missed by a row or more, "
        "or a threshold crossed; 130: interrupted. With FAIRANCHOR_TRACEBACK=1 in the environment "
        "errors show a traceback."
    ),
)
@click.version_option(__version__, prog_name="fairanchor")
def main():
    """Fair clustering at scale: clusters with the group composition that you ask for."""
