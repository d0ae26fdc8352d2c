"""Command line: one file per command. Nothing heavy is imported before a command runs."""

import os
from importlib import import_module

import click

from fairanchor import __version__

COMMANDS = {
    "fit": "fairanchor.cli._fit",
    "predict": "fairanchor.cli._predict",
    "audit": "fairanchor.cli._audit",
    "compare": "fairanchor.cli._compare",
    "demo": "fairanchor.cli._demo",
    "reproduce": "fairanchor.cli._reproduce",
}
INTERRUPTED = 130
# What bad data and a full disk raise; anything else is a defect and shows its traceback.
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError, RuntimeError)


class LazyGroup(click.Group):
    """Commands that are imported when they are asked for; their errors as one line."""

    def list_commands(self, ctx):
        """Names in the order of `COMMANDS`."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx, name):
        """The function called like the command, in its module."""
        if name in COMMANDS:
            return getattr(import_module(COMMANDS[name]), name)
        return super().get_command(ctx, name)

    def invoke(self, ctx):
        """Run a command with the exit codes that the help promises."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted: no file is left half-written.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # the reader of our output has gone, as head does
            raise
        except RuntimeError as error:
            if isinstance(error, (click.exceptions.Exit, click.Abort)):
                raise
            raise _one_line(error) from error
        except EXPECTED_ERRORS as error:
            raise _one_line(error) from error


def _one_line(error):
    if os.environ.get("FAIRANCHOR_TRACEBACK"):
        raise error
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return click.ClickException(f"{where}{error.strerror}")
    if isinstance(error, MemoryError):
        return click.ClickException(f"There is not enough memory. {error}".strip())
    return click.ClickException(str(error))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 done, 1 data or run-time error, 2 usage, 3 finished but not converged or "
        "a target missed, 130 interrupted. With FAIRANCHOR_TRACEBACK=1 in the environment errors "
        "show where they happened."
    ),
)
@click.version_option(__version__, prog_name="fairanchor")
def main():
    """Fair clustering at scale: clusters whose group composition is what was asked for."""
