"""Advice in messages: every option that a message names exists, and every option is explained."""

import ast
import re
from pathlib import Path

import click
import pytest

import fairanchor
from fairanchor.cli import main

ROOT = Path(fairanchor.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def texts_of(module):
    """All strings of a module."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize("directory", ["cli", "tables"])
def test_options_that_messages_name_exist(directory):
    known = {"--help"}
    for name in main.commands:
        known.update(*(option.opts for option in main.commands[name].params))
    for module in (ROOT / directory).glob("*.py"):
        named = {option for text in texts_of(module) for option in OPTION.findall(text)}
        assert named <= known, f"{module}: {named - known}"


@pytest.mark.parametrize("name", list(main.commands))
def test_every_option_has_help_and_every_command_a_line_that_is_not_cut(name):
    command = main.commands[name]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.opts}"
    assert not command.get_short_help_str(60).endswith("...")
