"""Run all benchmarks behind the README's figures, one after the other.

    python benchmarks/run.py --data FOLDER
    python benchmarks/run.py --quick

Each is a process of its own; one that fails does not keep the others from running. The exit code is
1 if one failed or if one of its checks does not hold. The README's tables are printed at the end.
"""

import subprocess
import sys

from _common import FOLDER, parsed, parser_of, progress

BENCHMARKS = ("census", "fair_kmeans", "scaling", "kernels", "streaming", "peers", "tolerance",
              "attributes")  # fmt: skip

# Those that read public tables if they are there.
NEED_DATA = ("census", "tolerance", "attributes")


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--data", help="folder of the public tables")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    options = parsed(parser, arguments)
    failed = [name for name in options.only if run(name, options) != 0]
    code = run_script("readme_figures", options)
    if failed:
        print(f"failed, or a check does not hold: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed or code else 0


def run(name, options):
    progress(f"== {name}")
    data = ["--data", options.data] if name in NEED_DATA and options.data is not None else []
    return run_script(name, options, *data)


def run_script(name, options, *arguments):
    quick = ["--quick"] if options.quick else []
    command = [sys.executable, FOLDER / f"{name}.py", "--results", options.results]
    return subprocess.run([*command, *quick, *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main())
