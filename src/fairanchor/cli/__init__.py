"""Command line: one file per command. Nothing heavy is imported before a command runs."""

import click

from fairanchor import __version__
from fairanchor.cli._demo import demo


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fairanchor")
def main():
    """Fair clustering at scale: clusters whose group composition is what was asked for."""


main.add_command(demo)
