"""Run the tables and figures of the AFCF paper, and put its published numbers beside them.

    python benchmarks/paper/run.py --data FOLDER
    python benchmarks/paper/run.py --data FOLDER --stage grid --jobs 2 --limit 60
    python benchmarks/paper/run.py --report

Every fit is one line of ``results/fits.csv``; what is there is not run again. Two blocks are
measured: "faithful", the setting of the paper, and "ours", the defaults of the library except
for the clusterer. From the fits come cells.csv, the tables, the figures and the page of the
documentation, which ``--report`` writes without running anything.
"""

import csv
import json
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

import click

import data
import plan
import report
from fits import Store, Worker

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parents[1] / "docs" / "reproduction.md"


@click.command(help=__doc__.splitlines()[0])
@click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of the public tables; without it they are downloaded.",
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice(list(plan.STAGES)),
    help="Repeatable; by default all, in this order.",
)
@click.option("--dataset", "datasets", multiple=True, type=click.Choice(list(data.TITLES)))
@click.option("--method", "methods", multiple=True, type=click.Choice(list(plan.METHODS)))
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--faithful-seeds",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="Seeds of the faithful block on all rows.",
)
@click.option("--census-seeds", default=3, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--grid-rows",
    default=4000,
    show_default=True,
    type=click.IntRange(min=100),
    help="Rows on which the faithful block searches its grid.",
)
@click.option(
    "--limit",
    default=1800.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Seconds of a fit; one that was ended at a smaller limit runs again.",
)
@click.option(
    "--budget",
    default=float("inf"),
    type=click.FloatRange(min=1),
    help="Seconds after which no further fit is started.",
)
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Fits at a time, with one thread each.",
)
@click.option(
    "--again",
    multiple=True,
    metavar="METHOD",
    type=click.Choice(list(plan.METHODS)),
    help="Forget the fits of this method and run them again; repeatable.",
)
@click.option(
    "--results",
    default=RESULTS,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of fits, tables and figures; by default that of the repository.",
)
@click.option(
    "--page",
    default=PAGE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Page to write; by default docs/reproduction.md.",
)
@click.option("--report", "only_report", is_flag=True, help="Only write tables, figures and page.")
def main(folder, stages, datasets, methods, again, results, page, only_report, **given):
    results.mkdir(parents=True, exist_ok=True)
    store = Store(results / "fits.csv")
    if again:
        store.results = {k: v for k, v in store.results.items() if k.method not in again}
        store.write()
    if not only_report:
        options = Options(folder=folder, datasets=datasets or tuple(data.TITLES),
                          methods=methods or tuple(plan.METHODS), **given)  # fmt: skip
        write_facts(results / "datasets.csv", options)
        machine = {"cores": os.cpu_count(), "architecture": platform.machine(),
                   "python": platform.python_version()}  # fmt: skip
        (results / "machine.json").write_text(json.dumps(machine) + "\n")
        for stage in stages or plan.STAGES:
            run_stage(stage, options, store, results)
        store.write()
    report.write(results, page, store)
    click.echo(f"fits, tables and figures: {results}\npage: {page}", err=True)


class Options:
    """What all stages share."""

    def __init__(self, **given):
        self.__dict__.update(given)
        self.start = time.monotonic()


def run_stage(stage, options, store, results):
    """Run the fits of a stage that are missing."""
    fits = [fit for fit in dict.fromkeys(plan.STAGES[stage](options, store))
            if fit.dataset in options.datasets and fit.method in options.methods]  # fmt: skip
    if stage == "convergence":  # the histories are in a file of their own
        known = set(report.read_courses(results / "convergence.csv"))
        fits = [fit for fit in fits if (fit.dataset, fit.variant, fit.alpha) not in known]
    else:
        fits = [fit for fit in fits if is_missing(fit, store, options.limit)]
    if not fits:
        return
    workers = SimpleQueue()
    for _ in range(options.jobs):
        workers.put(Worker(options.folder, options.limit))

    def run(fit):
        if time.monotonic() - options.start > options.budget:
            return None
        if stage == "scaling" and plan.slower_ones_ended(fit, store):
            return None
        worker = workers.get()
        try:
            if stage in FRESH:
                worker.close()  # the peak of the memory is that of the process
            return worker.run(fit)
        finally:
            workers.put(worker)

    started = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(run, fit): fit for fit in fits}
        for number, future in enumerate(as_completed(futures), 1):
            answer = future.result()
            if answer is None:
                continue
            fit, (result, history) = futures[future], answer
            store.add(fit, result)
            if stage == "convergence":
                append_history(results / "convergence.csv", fit, history)
            if result["status"] != "done" or number % 20 == 0:
                elapsed = time.monotonic() - started
                click.echo(f"{stage} {number}/{len(fits)} {elapsed:.0f} s: {fit} "
                           f"{result['status']} {result.get('note', '')}", err=True)  # fmt: skip
    while not workers.empty():
        workers.get().close()


# Stages in which every fit has a process of its own.
FRESH = ("scaling", "census")


def is_missing(fit, store, limit):
    """Whether a fit has no result, or was ended at a smaller limit than this one."""
    result = store.results.get(fit)
    if result is None or result["status"] == "died":
        return True
    return result["status"] == "time" and limit > 1.01 * report.limit_of(result)


def append_history(path, fit, history):
    """The iterations of a solver."""
    names = ("augmented_lagrangian", "objective", "r", "s", "rho", "mass_error")
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(("dataset", "variant", "alpha", "rows", "iteration", *names))
        for k, record in enumerate(history, 1):
            shown = [f"{record[name]:.8g}" if name in record else "" for name in names]
            writer.writerow((fit.dataset, fit.variant, fit.alpha, fit.rows, k, *shown))


def write_facts(path, options):
    """Sizes and bounds of the datasets, which the page prints; once for each."""
    known = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            known = {line["dataset"]: line for line in csv.DictReader(file)}
    for name in options.datasets:
        if name not in known:
            found = data.facts(data.load(name, options.folder))
            known[name] = {
                key: f"{v:.6g}" if isinstance(v, float) else v for key, v in found.items()
            }
            data.load.cache_clear()
    lines = [known[name] for name in data.TITLES if name in known]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    sys.exit(main())
