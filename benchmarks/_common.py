"""What the benchmarks share: options, processes of their own, memory, and result files.

A benchmark is a script with ``main(arguments)``. It prints a table and writes
``<results>/<name>.json``: the machine, the records, *checks* that must hold (the exit code is
1 if one does not) and *goals*, which are reported either way. With ``--quick`` all sizes are
small: that run shows that the script works, its figures mean nothing.
"""

import argparse
import ctypes
import gc
import importlib.metadata
import json
import multiprocessing
import os
import platform
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import joblib
import numpy as np
from threadpoolctl import threadpool_info

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
QUICK_RESULTS = FOLDER.parent / "build" / "bench-quick"
PACKAGES = ("fairanchor", "numpy", "scipy", "scikit-learn", "numba")
MEGABYTE = 1e6


class RunFailed(RuntimeError):
    """A measurement in a process of its own that came to no result."""


# Options and result files.


def parser_of(description, *, repeats=True):
    """Options that every benchmark has; see `parsed`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    if repeats:
        parser.add_argument("--repeats", type=int, help="runs of each kind, by default 3")
    parser.add_argument(
        "--results", type=Path,
        help="folder of the result files, which are replaced; by default benchmarks/results, "
        "with --quick build/bench-quick",
    )  # fmt: skip
    return parser


def parsed(parser, arguments):
    options = parser.parse_args(arguments)
    if options.results is None:
        options.results = QUICK_RESULTS if options.quick else RESULTS
    if getattr(options, "repeats", 1) is None:
        options.repeats = 1 if options.quick else 3
    if getattr(options, "repeats", 1) < 1:
        parser.error(f"--repeats {options.repeats} should be at least 1: nothing would be measured")
    return options


def machine_facts():
    """Cores, memory, threads and versions; nothing that names the machine."""
    threads = {}
    for pool in threadpool_info():
        threads[pool["user_api"]] = max(pool["num_threads"], threads.get(pool["user_api"], 0))
    return {
        "cores": joblib.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.system(),
        "architecture": platform.machine(),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def finish(name, options, *, settings, records, checks=(), goals=()):
    """Write the result file and say what holds.

    Returns
    -------
    exit_code : int
        1 if a check does not hold.
    """
    document = {
        "benchmark": name,
        "quick": options.quick,
        "machine": machine_facts(),
        "settings": settings,
        "checks": list(checks),
        "goals": list(goals),
        "records": list(records),
    }
    path = options.results / f"{name}.json"
    write_json(path, document)
    for kind in ("checks", "goals"):
        for claim in document[kind]:
            print(f"{'holds' if claim['holds'] else 'FAILS'}  {claim['claim']}: {claim['found']}")
    print(f"results in {shown(path)}", file=sys.stderr)
    return 0 if all(claim["holds"] for claim in checks) else 1


def with_earlier(name, options, records, key):
    """These records, and those of the result file that were not measured again."""
    measured = {key(record) for record in records}
    path = options.results / f"{name}.json"
    earlier = read_json(path)["records"] if path.exists() else []
    return records + [record for record in earlier if key(record) not in measured]


def claim(text, holds, found):
    """An entry of checks or goals: what should be, whether it is, and what was found."""
    return {"claim": text, "holds": bool(holds), "found": found}


def write_json(path, document):
    text = json.dumps(rounded(document), indent=1, allow_nan=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def write_whole(path, write):
    """Write a file so that it is there completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=path.suffix, delete=False) as file:
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            # Temporary files are private, results are not.
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read_json(path):
    return json.loads(path.read_text())


def rounded(value):
    """Five digits: a clock has no more. NumPy's numbers become Python's."""
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.5g}")
    return value.item() if isinstance(value, np.generic) else value


def shown(path):
    """The path from where the user is, if it lies below."""
    path = Path(path).resolve()
    here = Path.cwd().resolve()
    return path.relative_to(here) if path.is_relative_to(here) else path


def without_places(text):
    """The text without addresses and absolute paths: results name no machine."""
    text = re.sub(r"\b[a-z][a-z+]*://[^\s'\")>]+", "<address>", text)
    text = re.sub(r"host='[^']*'", "host=<address>", text)
    return re.sub(r"(?<![\w.<])/(?:[\w.+-]+/)*[\w.+-]+/?", "<path>", text)


# Time.


def timed(function, *arguments, **keywords):
    """Seconds of a call, and its result."""
    start = time.perf_counter()
    result = function(*arguments, **keywords)
    return time.perf_counter() - start, result


def caught(function, *arguments, **keywords):
    """The result of a call, and the warnings it gave as one line each."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function(*arguments, **keywords)
    return result, sorted({f"{w.category.__name__}: {w.message}" for w in found})


def progress(text):
    print(f"{text} ...", file=sys.stderr, flush=True)


def median(values):
    return float(np.median(values))


# Processes of their own, and their memory.


def in_new_process(function, *arguments, limit=3600):
    """Result of ``function(*arguments)`` in a new process, which is killed after the limit.

    The limit counts from the start of the process, so its imports are part of it.
    """
    # Not fork: the parent's memory and its compiled kernels would be inherited.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            raise RunFailed(f"killed after {limit:g} s")
        succeeded, result = receiver.recv()
    except EOFError:
        process.join()
        raise RunFailed(f"died, exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if not succeeded:
        raise RunFailed(result)
    return result


def _send_result(sender, function, arguments):
    try:
        sender.send((True, function(*arguments)))
    except Exception as error:
        traceback.print_exc()
        sender.send((False, f"{type(error).__name__}: {error}"))


def reset_peak_memory():
    """Resident memory in MB, from which the peak counts from now on.

    Only Linux can set the peak back; elsewhere the peak so far is returned, and a difference to
    it is a lower bound.
    """
    gc.collect()
    if sys.platform == "linux":
        # What was freed would otherwise be used again, and not be counted.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory():
    """Peak resident memory in MB."""
    if sys.platform == "linux":
        # Not getrusage, which remembers the parent's peak from before exec.
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / MEGABYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / MEGABYTE


# Text.


def print_table(titles, lines):
    """Columns as wide as they need to be."""
    lines = [list(map(str, titles)), *[list(map(str, line)) for line in lines]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip(), flush=True)


def number(value, form="{:.2f}"):
    """The number as text, or a dash where there is none."""
    return "-" if value is None else form.format(value)
