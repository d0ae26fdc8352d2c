"""Run all benchmarks, one after the other.

    python benchmarks/run.py --data FOLDER
    python benchmarks/run.py --quick

Each is a process of its own; one that fails does not keep the others from running. The exit code is
1 if one failed or if one of its checks does not hold.
"""

import subprocess
import sys

from _common import FOLDER, parsed, parser_of, progress

BENCHMARKS = (
    "census",
    "fair_kmeans",
    "scaling",
    "streaming",
    "peers",
    "tolerance",
    "attributes",
    "sizes",
    "social",
    "embeddings",
)
# Those that read public tables.
READ_DATA = ("census", "tolerance", "attributes")


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--data", help="folder of the public tables")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    options = parsed(parser, arguments)
    failed = [name for name in options.only if run(name, options) != 0]
    if failed:
        print(f"failed, or a check does not hold: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name, options):
    progress(f"== {name}")
    command = [sys.executable, FOLDER / f"{name}.py", "--results", options.results]
    if options.quick:
        command.append("--quick")
    if name in READ_DATA and options.data is not None:
        command += ["--data", options.data]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
