"""The oldest versions that pyproject.toml allows, as requirements for pip.

python .ci/oldest.py            what the library needs
python .ci/oldest.py report     and what an extra needs
"""

import re
import sys
import tomllib
from pathlib import Path


def oldest(requirement):
    """``numpy>=2.0`` is ``numpy==2.0.*``: the newest repair of the oldest version."""
    name, version = re.fullmatch(r"([\w.\[\]-]+)>=([\d.]+)", requirement).groups()
    return f"{name}=={version}.*"


def main():
    """Print the requirements, one in a line."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    needed = list(project["dependencies"])
    for extra in sys.argv[1:]:
        needed += project["optional-dependencies"][extra]
    sys.stdout.write("\n".join(map(oldest, needed)) + "\n")


if __name__ == "__main__":
    main()
