"""Advice in messages: every option that a message names is one of the command that shows it."""

import ast
import re
from pathlib import Path

import click
import pytest

import fairanchor
from fairanchor.cli import COMMANDS, main

ROOT = Path(fairanchor.__file__).parent
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])(?: ([a-z][a-z-]+))?")
FITTING = {"fit", "compare"}
READING = {*FITTING, "predict", "audit"}
# Which commands can show the messages of a module, or of one of its functions.
SHOWN_BY = {
    "_files.py": {*READING, "demo"},
    "cli/_errors.py": set(COMMANDS) - {"warm-up"},  # which writes no file that users name
    "cli/_common.py": READING,
    "cli/_common.py:check_outputs": {"fit", "predict"},
    "cli/_common.py:check_report": {"fit", "audit"},
    "cli/_common.py:composition_lines": {"fit", "predict", "audit"},
    **{f"cli/_{name.replace('-', '_')}.py": {name} for name in COMMANDS},
    "cli/_comparison.py": {"compare"},
    "cli/_fit_folder.py": {"fit"},
    "cli/_path.py": {"compare"},
    "cli/_predict.py:_load_model": {"fit"},
    "tables/_csv.py": READING,
    "tables/_from_chunks.py": {"fit"},
    "cli/_targets.py": {"fit"},
    "tables/_grouping.py": READING,
    "tables/_grouping.py:_check_number": {*FITTING, "audit"},
    "tables/_load.py": {"fit", "predict"},
    "tables/_missing.py": READING,
    "tables/_numbers.py": FITTING,
    "tables/_preprocessing.py": FITTING,
    "tables/_preprocessing.py:_require": {*FITTING, "predict"},
    "tables/_read.py": READING,
    "tables/_roles.py": FITTING,
    "tables/_roles.py:_id_is_used": {"fit", "predict", "compare"},
}
# Named only where the columns are chosen, as the function itself decides.
ONLY_WHEN = {("tables/_preprocessing.py:_require", "exclude"): FITTING}


def strings_of(tree):
    """Name of the function around it and text, for all strings but docstrings."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name.endswith(
            ("option", "options")
        ):
            continue
        described = ast.get_docstring(function, clean=False)
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.JoinedStr):
                    yield function.name, "".join(_text(part) for part in node.values)
                elif _text(node) not in ("{}", described):
                    yield function.name, node.value


def _text(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"


def is_used(path):
    """Whether another module of its folder names it: what nothing imports shows nothing."""
    others = [other for other in path.parent.glob("*.py") if other != path]
    return any(path.stem in other.read_text(encoding="utf-8") for other in others)


def named_options():
    """Module, function, option and the word after it, wherever a message names an option."""
    folders = [ROOT / name for name in ("cli", "tables")]
    files = [path for folder in folders for path in sorted(folder.glob("*.py")) if is_used(path)]
    for path in [*files, ROOT / "_utils" / "_files.py"]:
        module = path.relative_to(ROOT).as_posix()
        for function, text in strings_of(ast.parse(path.read_text(encoding="utf-8"))):
            for option, value in OPTION.findall(text):
                yield module, function, option, value


def commands_of(module, function, option):
    place = f"{module}:{function}"
    if (place, option) in ONLY_WHEN:
        return ONLY_WHEN[place, option]
    for key in (place, module, module.split("/")[0]):
        if key in SHOWN_BY:
            return SHOWN_BY[key]
    raise AssertionError(f"{place} names --{option}: say here which commands can show it")


def option_of(command, name):
    options = main.get_command(None, command).params
    return next((option for option in options if f"--{name}" in option.opts), None)


def test_options_that_messages_name_exist_where_they_are_shown():
    named = list(named_options())
    assert len(named) > 25
    for module, function, name, value in named:
        for command in commands_of(module, function, name):
            option = option_of(command, name)
            assert option, f"{module}:{function} names --{name}, which {command} does not have"
            choices = getattr(option.type, "choices", None)
            if name == "missing" and value:
                assert value in choices, f"{module}:{function}: --missing {value} of {command}"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_has_help_and_every_command_a_line_that_is_not_cut(name):
    command = main.get_command(None, name)
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.opts}"
    assert not command.get_short_help_str(60).endswith("...")
