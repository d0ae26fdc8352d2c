"""``fairanchor reproduce``: the paper's tables and figures beside what this library gets."""

import json
import sys
from pathlib import Path

import click

from fairanchor.cli._common import FiniteRange, print_result
from fairanchor.cli._errors import errors_as_one_line
from fairanchor.cli._progress import draws

TABLES = ("2", "3", "4", "5")
FIGURES = ("alpha", "anchors", "convergence")
DATASETS = ("law", "credit", "bank", "zafar", "census")


@click.command(
    short_help="Run the paper's tables and figures.",
    epilog="Example: fairanchor reproduce --quick --data FOLDER --out try",
)
@click.option("--all", "everything", is_flag=True, help="All tables and figures.")
@click.option("--table", "tables", multiple=True, type=click.Choice(TABLES), help="Repeatable.")
@click.option("--figure", "figures", multiple=True, type=click.Choice(FIGURES), help="Repeatable.")
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    type=click.Choice(DATASETS),
    help="Repeatable; by default all five.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False),
    help="Folder with local copies of the public tables. Without it they are downloaded (but for "
    "the census) and kept in scikit-learn's data folder.",
)
@click.option(
    "--out",
    default="reproduction",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for results. Finished parts in it are used again.",
)
@click.option(
    "--quick", is_flag=True, help="Small samples and a small grid: everything in two minutes."
)
@click.option("--rows", type=click.IntRange(min=100), help="At most so many rows per dataset.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1),
              help="Fits at a time; timed ones always run alone.")  # fmt: skip
@click.option("--time-limit", default=1800.0, show_default=True,
              type=FiniteRange(min=0, min_open=True),
              help="Seconds; then a timed run is killed.")  # fmt: skip
@click.option("--patience", type=FiniteRange(min=0, min_open=True), metavar="SECONDS",
              help="Methods alone, and the paper's solver, are not run but estimated if a pilot "
              "expects longer; by default three times the limit.")  # fmt: skip
@click.option("--memory-limit", default=16.0, show_default=True,
              type=FiniteRange(min=0, min_open=True), help="GB of a timed run.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0),
              help="The same seed gives the same results.")  # fmt: skip
@click.option("--plan", is_flag=True, help="Only print what would be run, and for how long.")
@click.option("--json", "as_json", is_flag=True, help="Print the records (or the plan) as JSON.")
@click.option("--recompute", is_flag=True, help="Ignore finished parts of earlier runs.")
@click.option("--force", is_flag=True, help="Write into a folder that this command did not make.")
def reproduce(everything, tables, figures, datasets, out, plan, as_json, recompute, force, **given):
    """Run the tables and figures of the AFCF paper, beside its published numbers.

    Two blocks are measured: "faithful", the setting of the paper, and "ours", the defaults of
    this library but for the clusterer. Writes one CSV file per table, pictures, results.json,
    findings.md and index.html, which shows everything side by side. Can be interrupted: finished
    fits are kept, and the same command goes on from there.
    """
    request = _request(everything or (given["quick"] and not tables and not figures),
                       tables, figures, datasets)  # fmt: skip
    _check_installed()
    settings = _settings(**given)
    with errors_as_one_line(f"Interrupted. Finished fits are in {out}; run again to go on."):
        if plan:
            _print_plan(request, settings, out, as_json, recompute)
        else:
            _reproduce(request, settings, out, as_json, recompute, force)


def _request(everything, tables, figures, datasets):
    from fairanchor.reproduction._plan import Request

    if everything and (tables or figures):
        raise click.UsageError("--all already includes every --table and --figure: give one kind.")
    if not (everything or tables or figures):
        raise click.UsageError("Say what to reproduce: --all, --table, --figure or --quick.")
    in_order = tuple(name for name in DATASETS if not datasets or name in datasets)
    if everything:
        return Request(TABLES, FIGURES, in_order)
    return Request(
        tuple(table for table in TABLES if table in tables),
        tuple(figure for figure in FIGURES if figure in figures),
        in_order,
    )


def _check_installed():
    from importlib.util import find_spec

    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"The report needs {' and '.join(missing)}; install with: "
            "pip install 'fairanchor[report]'"
        )


def _settings(data, quick, rows, jobs, time_limit, patience, memory_limit, seed):
    from fairanchor.reproduction._cells import HOPELESS, QUICK, Settings

    if quick and rows is not None:
        raise click.UsageError("--quick has its own number of rows: leave out --rows.")
    chosen = QUICK if quick else {"max_rows": rows}
    return Settings(
        data_dir=data,
        jobs=jobs,
        time_limit=time_limit,
        patience=HOPELESS * time_limit if patience is None else patience,
        memory_limit=memory_limit,
        seed=seed,
        **chosen,
    )


def _reproduce(request, settings, out, as_json, recompute, force):
    from fairanchor.reproduction._report import write_marker, write_report
    from fairanchor.reproduction._run import plan, run, shapes_of
    from fairanchor.reproduction._store import CellStore, check_folder

    check_folder(out, force=force)
    if write_marker(out, settings) and not recompute:
        click.echo(
            f"Warning: finished fits in {out} were made by other code of the same version; they "
            "are used again. --recompute measures everything anew.",
            err=True,
        )
    shapes = shapes_of(request, settings)
    for shape in shapes.values():
        click.echo(f"{shape.name}: {shape.n_rows:,} rows, {shape.origin}", err=True)
    store = CellStore(out / "cells", settings, recompute=recompute)
    _echo_duration(plan(request, settings, store, shapes), request, settings, shapes, err=True)
    outcome = run(request, settings, store, shapes, _progress())
    records, written = write_report(out, request, settings, outcome)
    _echo_choices()
    for path in written:
        click.echo(f"wrote {path}", err=True)
    if as_json:
        print_result([json.dumps(records)])


def _echo_choices():
    from fairanchor.reproduction._choose import RULES

    click.echo("How hyper-parameters were chosen:", err=True)
    for name, rule in RULES.items():
        click.echo(f"  {name}: {rule}", err=True)


def _print_plan(request, settings, out, as_json, recompute):
    from fairanchor.reproduction._run import plan, shapes_of
    from fairanchor.reproduction._store import CellStore

    shapes = shapes_of(request, settings)
    store = CellStore(out / "cells", settings, recompute=recompute)
    lines = plan(request, settings, store, shapes)
    if as_json:
        planned = [
            {"cell": cell.settings(), "done": done, "seconds": seconds}
            for cell, done, seconds in lines
        ]
        print_result([json.dumps(planned)])
        return
    _print_plan_lines(lines, settings)
    _echo_duration(lines, request, settings, shapes, err=False)


def _print_plan_lines(lines, settings):
    """Groups of cells of one dataset, block and kind, with their seconds on one core."""
    groups = {}
    for cell, done, seconds in lines:
        kind = "timed" if cell.timed else "course" if cell.history else "grid"
        group = groups.setdefault((cell.dataset, cell.where, cell.block, kind), [0, 0, 0.0, 0])
        group[0] += 1
        group[1] += done
        group[2] += seconds if seconds is not None and not done else 0.0
        group[3] += seconds is None and not done
    click.echo(f"{'dataset':9}{'where':11}{'block':10}{'kind':8}{'fits':>5}{'done':>6}  seconds")
    for (dataset, where, block, kind), (fits, done, seconds, unknown) in groups.items():
        text = f"{seconds:,.0f}"
        if unknown:
            text = f"at most {unknown} x {settings.time_limit:,.0f}, by a pilot"
        click.echo(f"{dataset:9}{where:11}{block:10}{kind:8}{fits:>5}{done:>6}  {text}")


def _echo_duration(lines, request, settings, shapes, *, err):
    """What is left to do, in minutes of one core."""
    from fairanchor.reproduction._plan import choices_bound

    left = [seconds for _, done, seconds in lines if not done]
    known = sum(seconds for seconds in left if seconds is not None)
    alone = sum(seconds is None for seconds in left)
    choices = choices_bound(request, shapes, settings)
    click.echo(
        f"To do: about {known / 60:,.1f} minutes of one core for {len(left) - alone} fits; at most "
        f"{choices / 60:,.1f} for those that the grids choose; and {alone} methods alone, at most "
        f"{settings.time_limit:g} s each.",
        err=err,
    )


def _progress():
    """A bar on a terminal that can redraw a line, a line per stage elsewhere."""
    from fairanchor.reproduction._progress import Bar, Lines

    return Bar() if draws(sys.stderr) else Lines()
