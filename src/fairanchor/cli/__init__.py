"""Command line: `_commands` has the options of all commands, `_fit` and so on do the work.

Nothing heavy is imported before a command runs.
"""

from fairanchor.cli._commands import main

__all__ = ["main"]
