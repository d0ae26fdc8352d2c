"""Errors of the commands as one line and an exit code; defects keep their traceback."""

import os
import sys
from contextlib import contextmanager

import click

INTERRUPTED = 130
# What bad data and a full disk raise; anything else is a defect and shows its traceback.
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError, RuntimeError)


@contextmanager
def errors_as_one_line():
    """Run a command with the exit codes of the help."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nInterrupted: no file is left half-written.", err=True)
        sys.exit(INTERRUPTED)
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):
        # The last is a reader of our output that has gone, as head does: click ends silently.
        raise
    except EXPECTED_ERRORS as error:
        if os.environ.get("FAIRANCHOR_TRACEBACK"):
            raise
        raise _one_line(error) from error


def printable(text):
    """Text in which nothing can move the cursor, colour the terminal or begin a new line.

    Examples
    --------
    >>> print(printable("red \\x1b[31m name"))
    red \\x1b[31m name
    """
    text = " ".join(str(text).split("\n"))
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _context():
    """That of the command that failed, which click has left already."""
    context = click.get_current_context(silent=True)
    name = context and context.invoked_subcommand
    if not name:
        return context
    return click.Context(context.command.get_command(context, name), context, info_name=name)


def _one_line(error):
    from fairanchor.tables._wording import RequestError

    if isinstance(error, RequestError):
        return click.UsageError(printable(error), _context())
    if isinstance(error, MemoryError):
        return click.ClickException(f"There is not enough memory. {printable(error)}".strip())
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, FileExistsError):
        # The library names its parameter, the command line its option.
        message = message.replace("force=True", "--force")
    return click.ClickException(printable(message) or type(error).__name__)
