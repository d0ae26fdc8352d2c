"""Run the tables and figures of the AFCF paper, and put its published numbers beside them.

    python benchmarks/paper/run.py --quick --data FOLDER
    python benchmarks/paper/run.py --all --data FOLDER --jobs 2 --out benchmarks/paper/results

Two blocks are measured: "faithful", the setting of the paper, and "ours", the defaults of the
library except for the clusterer. An interrupted run continues where it stopped.
"""

import json
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import click

from cells import FIGURES, QUICK, TABLES, Request, Settings, first_cells
from data import TITLES, load, shape_of
from fits import kept_result, run
from report import write_report

OUT = Path(__file__).parents[2] / "build" / "paper"


@click.command(help=__doc__.splitlines()[0])
@click.option("--all", "everything", is_flag=True, help="All tables and figures.")
@click.option("--table", "tables", multiple=True, type=click.Choice(TABLES), help="Repeatable.")
@click.option("--figure", "figures", multiple=True, type=click.Choice(FIGURES), help="Repeatable.")
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    type=click.Choice(list(TITLES)),
    help="Repeatable; by default all five.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of the public tables. Without it they are downloaded, except for the census.",
)
@click.option(
    "--out",
    default=OUT,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results, which are replaced; by default build/paper. Finished fits "
    "in it are used again.",
)
@click.option("--quick", is_flag=True, help="Small samples and a small grid: two minutes.")
@click.option("--rows", type=click.IntRange(min=100), help="At most so many rows per dataset.")
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Fits at a time; timed ones always run alone.",
)
@click.option(
    "--time-limit",
    default=1800.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds of a timed fit.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Methods alone, and the paper's solver, are only estimated if a pilot expects "
    "them to take longer; by default three times the limit.",
)
@click.option(
    "--memory-limit",
    default=16.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="GB of a timed fit, on Linux.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--plan", is_flag=True, help="Only print what would run.")
@click.option("--json", "as_json", is_flag=True, help="Print the records (or the plan) as JSON.")
@click.option("--recompute", is_flag=True, help="Ignore finished fits of earlier runs.")
def main(everything, tables, figures, datasets, data, out, quick, rows, patience, plan, as_json,
         recompute, **given):  # fmt: skip
    if not (tables or figures):
        if not (everything or quick):
            raise click.UsageError("Give --all, --quick, --table or --figure.")
        everything = True
    if quick and rows is not None:
        raise click.UsageError("--quick has its own number of rows: leave out --rows.")
    request = Request(
        tuple(name for name in TABLES if everything or name in tables),
        tuple(name for name in FIGURES if everything or name in figures),
        tuple(name for name in TITLES if not datasets or name in datasets),
    )
    settings = Settings(
        data_dir=data,
        patience=3 * given["time_limit"] if patience is None else patience,
        **(QUICK if quick else {"max_rows": rows}),
        **given,
    )
    shapes = {name: shape_of(load(name, data, settings.max_rows)) for name in request.datasets}
    for shape in shapes.values():
        click.echo(f"{shape.name}: {shape.n_rows:,} rows, {shape.origin}", err=True)
    if plan:
        print_plan(request, settings, shapes, out / "cells", as_json)
        return
    outcome = run(request, settings, out / "cells", shapes, recompute=recompute, progress=progress)
    records = write_report(out, request, settings, outcome)
    click.echo(f"results in {out}", err=True)
    if as_json:
        click.echo(json.dumps(records))


def print_plan(request, settings, shapes, folder, as_json):
    """The fits that are known in advance; those that the grids choose come on top."""
    planned = [
        {
            "cell": cell.settings(),
            "done": kept_result(folder, cell, shapes, settings) is not None,
        }
        for cell in first_cells(request, shapes, settings)
    ]
    if as_json:
        click.echo(json.dumps(planned))
        return
    names = ("dataset", "where", "block")
    keys = [" ".join(line["cell"][name] for name in names) for line in planned]
    done = Counter(key for key, line in zip(keys, planned, strict=True) if line["done"])
    for key, count in Counter(keys).items():
        click.echo(f"{key}: {count} fits, {done[key]} done")


@contextmanager
def progress(title, n_cells):
    """A bar on a terminal, and a line for every fit that has no result."""
    label = f"{title}: {n_cells} fits"
    with click.progressbar(length=n_cells, label=label, file=sys.stderr) as bar:

        def advance(cell, result):
            bar.update(1)
            if result["status"] != "done":
                name = ", ".join(map(str, cell.settings().values()))
                click.echo(f"\n{name}: {result['status']}, {result['message']}", err=True)

        yield advance


if __name__ == "__main__":
    main()
