"""Doctests of the whole package; those that need PyTorch only where it is installed."""

from importlib.util import find_spec

DEEP = ["src/fairanchor/cluster/_deep.py", "src/fairanchor/cluster/_deep_training.py"]
collect_ignore = [] if find_spec("torch") else DEEP
