"""Command line: one file per command. Nothing heavy is imported before a command runs."""

import sys
from importlib import import_module
from typing import Any

import click

from fairanchor import __version__
from fairanchor.cli._terminal import errors_as_one_line

COMMANDS = {
    "fit": "fairanchor.cli._fit",
    "predict": "fairanchor.cli._predict",
    "audit": "fairanchor.cli._audit",
    "compare": "fairanchor.cli._compare",
    "report": "fairanchor.cli._report",
    "demo": "fairanchor.cli._demo",
    "warm-up": "fairanchor.cli._warm_up",
}


class LazyGroup(click.Group):
    """Commands that are imported when they are run, and whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            command: click.Command = getattr(import_module(COMMANDS[name]), name.replace("-", "_"))
            return command
        return super().get_command(ctx, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if hasattr(sys.stdout, "reconfigure"):
            # Letters that the terminal's encoding does not have are shown by their numbers.
            sys.stdout.reconfigure(errors="backslashreplace")
        with errors_as_one_line():
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
def main() -> None:
    """Fair clustering at scale: clusters with the group composition that you specify."""
