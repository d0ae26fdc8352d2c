"""The command line that is running, as a line that can be typed again."""

import shlex

import click
from click.core import ParameterSource


def command_line(context=None):
    """The running command with the arguments and options that were given.

    Parameters
    ----------
    context : click.Context, default=None
        By default the current one.

    Returns
    -------
    line : str
        For a POSIX shell.
    """
    context = click.get_current_context() if context is None else context
    parameters, arguments, options = context.command.params, [], []
    for parameter in parameters:
        value = context.params.get(parameter.name)
        if isinstance(parameter, click.Argument):
            arguments.append(str(value))
        elif context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            options += _words_of(parameter, value)
    # A file whose name begins with a dash is no option.
    if any(word.startswith("-") and word != "-" for word in arguments):
        words = [*options, "--", *arguments]
    else:
        words = [*arguments, *options]
    return shlex.join(["fairanchor", context.info_name, *words])


def _words_of(option, value):
    name = max(option.opts, key=len)
    if option.is_flag:
        return [name]
    values = value if option.multiple else [value]
    # A value that begins with a dash would be taken for an option.
    return [word for item in values for word in _pair(name, str(item))]


def _pair(name, value):
    return [f"{name}={value}"] if value.startswith("-") and value != "-" else [name, value]
