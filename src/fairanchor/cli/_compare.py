"""``fairanchor compare``: what fairness costs on a table, method by method."""

import click

from fairanchor.cli._common import (
    NOT_CONVERGED,
    PATH,
    FiniteRange,
    Run,
    check_outputs,
    count_rows,
    exit_with,
    jobs_option,
    load_table,
    missing_option,
    print_json,
    print_result,
    run_options,
    show_source,
    table_options,
)
from fairanchor.cli._comparison import (
    METHODS,
    PLAIN,
    head_of_summary,
    is_unfair,
    measured,
    relate_costs,
    warm_up,
    write_records,
)
from fairanchor.cli._path import check_path_options, compare_path
from fairanchor.cli._targets import attributes_option

FIGURES = (".png", ".svg", ".pdf")


@click.command(
    short_help="Compare plain and fair methods on a table.",
    epilog="Example: fairanchor compare people.csv -k 5 --sensitive sex -o compare.png",
)
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--clusters", "-k", "n_clusters", required=True, type=click.IntRange(min=1),
              help="Number of clusters.")  # fmt: skip
@click.option(
    "--sensitive",
    multiple=True,
    required=True,
    metavar="COLUMNS",
    help="Column, or columns separated by commas: their combinations are the groups.",
)
@click.option(
    "--features",
    multiple=True,
    metavar="COLUMNS",
    help="Columns to cluster by; by default all but the sensitive ones and the id.",
)
@click.option("--exclude", multiple=True, metavar="COLUMNS", help="Columns that are no features.")
@click.option("--id", "id_column", metavar="COLUMN", help="Column that is no feature.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(METHODS),
    default=METHODS,
    help="Only these; repeatable. By default all.",
)
@click.option("--path", is_flag=True,
              help="Fair k-means for several tolerances instead of several methods.")  # fmt: skip
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    type=FiniteRange(min=0, max=1),
    help="With --path: only these; repeatable. By default 0, 0.05, 0.1, 0.2, 0.5 and 1.",
)
@attributes_option
@click.option("--no-scale", is_flag=True, help="Do not standardise numeric columns.")
@click.option("--min-group-size", type=click.IntRange(min=0), default=0, metavar="N",
              help="Merge groups of fewer rows into one, called 'other'.")  # fmt: skip
@missing_option
@table_options
@click.option("--output", "-o", type=PATH, help=f"Figure, {', '.join(FIGURES)}.")
@click.option("--table", type=PATH,
              help="Results as a table, .csv, .tsv, .parquet or .arrow.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Table as JSON on standard output.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0, max=2**32 - 1),
              help="The same seed gives the same labels.")  # fmt: skip
@jobs_option
@run_options
@click.pass_context
def compare(
    context, source, output, table, as_json, methods, path, tolerances, force, quiet, **options
):
    """Cluster INPUT by plain k-means and by each fair method, and compare.

    Cost is the k-means cost of the labels, relative to plain k-means if it is compared. 'fair
    k-means' is what 'fairanchor fit' runs by default, 'anchors+NAME' the anchor framework of
    'fairanchor fit --clusterer NAME'. Exit code 3: a method failed, did not converge, or misses
    proportional clusters by a row or more; the table states which.

    With --path the table has a row for each tolerance: a group's share of a cluster is between
    (1 - tolerance) p and p / (1 - tolerance), where p is its share of all rows. 'violation' is by
    how many rows the worst cell misses these bounds, 'gap' the certified part of the cost that
    whole rows add at most; below 0 where labels gain by missing bounds by a part of a row. With
    --attributes separate the bounds hold for each sensitive column by itself.
    """
    check_path_options(context, path, tolerances, options)
    run = Run(quiet)
    check_outputs(None, output, table, force=force, inputs=[source])
    _check_files(output, table)
    with run.step("read", f"Reading {show_source(source)}"):
        loaded = load_table(source, options)
    run.say(
        f"{show_source(source)}: {count_rows(len(loaded.X))}, {loaded.preprocessing.describe()}."
    )
    if loaded.n_dropped:
        run.say(f"Left out: {count_rows(loaded.n_dropped)} with missing values.")
    if path:
        outputs = {"figure": output, "table": table}
        compare_path(run, source, loaded, options, tolerances, outputs, as_json, force)
        return
    records = _run_all(run, list(dict.fromkeys(methods)), loaded, options)
    _print(_summary(source, loaded, options, records, run), as_json)
    # After the lines, so that the results are printed even if a file cannot be written.
    write_records(run, _columns(records), table, force)
    if output is not None:
        _draw(run, records, output, force)
    exit_with(NOT_CONVERGED if any(map(_remark, records)) else 0)


def _check_files(output, table):
    """Raise an error before the work for what could not be drawn or written after it."""
    if table is not None:
        from fairanchor.tables._write import check_format

        check_format(table)
    if output is None:
        return
    if not output.lower().endswith(FIGURES):
        raise click.UsageError(f"-o {output}: expected a figure, {', '.join(FIGURES)}.")
    from fairanchor.plotting._style import import_matplotlib

    import_matplotlib()


def _run_all(run, methods, loaded, options):
    seed, jobs, n_clusters = options["seed"], options["jobs"], options["n_clusters"]
    with run.step("prepare", "Loading compiled kernels"):
        warm_up(methods, seed)
    records = []
    for method in methods:
        title = f"{method} ({len(records) + 1} of {len(methods)})"
        with run.step(method, title):
            records.append(measured(method, loaded, n_clusters, seed, jobs))
    relate_costs(records)
    return records


def _summary(source, loaded, options, records, run):
    own = {"methods": records, "warnings": run.warnings}
    return head_of_summary(source, loaded, options) | own


def _remark(record):
    """Why a method's figures are to be read with care, or nothing."""
    if "error" in record:
        return f"failed: {record['error']}"
    remarks = []
    if not record["converged"]:
        remarks.append("did not converge")
    if is_unfair(record):
        remarks.append(f"misses its proportions by {record['worst_violation']:.1f} rows")
    return ", ".join(remarks)


def _columns(records):
    """The records as columns by name; where a method failed, there is a reason but no figure."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    columns["warnings"] = ["; ".join(said) for said in columns["warnings"]]
    return columns


def _print(summary, as_json):
    if as_json:
        print_json(summary)
        return
    records = summary["methods"]
    width = max(len(record["method"]) for record in records) + 2
    heads = ("cost", "/ plain", "balance", "relative", "MNCE", "seconds")
    lines = [f"{'method':{width}}" + "".join(f"{head:>10}" for head in heads)]
    for record in records:
        remark = _remark(record)
        figures = "" if "error" in record else _figures_line(record)
        lines.append(f"{record['method']:{width}}{figures}{'  ' * bool(figures)}{remark}".rstrip())
    bounds = [record["balance_bound"] for record in records if "balance_bound" in record]
    if bounds:
        lines.append(f"No clustering of these rows has a balance above {bounds[0]:.4f}.")
    print_result(lines)


def _figures_line(record):
    relative = record.get("relative_cost")
    relative = f"{relative:10.3f}" if relative is not None else f"{'':10}"
    return (
        f"{record['cost']:10.4g}{relative}{record['balance']:10.4f}"
        f"{record['relative_balance']:10.4f}{record['mnce']:10.4f}{record['seconds']:10.2f}"
    )


def _draw(run, records, output, force):
    drawn = [record for record in records if "error" not in record]
    if not drawn:
        run.say(f"No method succeeded: there is no figure {output}.")
        return
    with run.step("draw", f"Drawing {output}"):
        _save_figure(drawn, output, force)
    run.say(f"figure: {output}")


def _save_figure(records, output, force):
    """Cost against balance of each method, plain k-means first: its cost counts as 1."""
    from fairanchor.cli._figures import save_figure
    from fairanchor.plotting import plot_comparison

    ordered = sorted(records, key=lambda record: record["method"] != PLAIN)
    results = [{"name": record["method"], **record} for record in ordered]
    # Rows that are their own centres cost nothing, and no cost is relative to that.
    reference = None if results[0]["cost"] > 0 else 1.0
    bound = records[0]["balance_bound"]

    def draw(ax):
        plot_comparison(results, bound=bound, reference=reference, ax=ax)

    save_figure(draw, output, force, salt="compare")
