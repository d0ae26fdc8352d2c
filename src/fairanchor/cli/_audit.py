"""``fairanchor audit``: how fair are given clusters, whoever made them."""

import click

from fairanchor.cli._audit_limits import asked_of_labels, limit_lines, summary_of_asked
from fairanchor.cli._common import (
    NOT_CONVERGED,
    PATH,
    FiniteRange,
    Run,
    check_outputs,
    check_report,
    composition_lines,
    count_rows,
    exit_with,
    measures_line,
    measures_of,
    missing_policy,
    open_input,
    print_json,
    print_result,
    run_options,
    show_name,
    show_source,
    table_options,
)
from fairanchor.cli._targets import check_targets_options, targets_options

MOST_CELLS = 20_000_000


@click.command(
    short_help="Measure the fairness of given clusters.",
    epilog=(
        "Example: fairanchor audit labels.csv --data people.csv --id person --sensitive sex "
        "--min-relative-balance 0.9"
    ),
)
@click.argument("labels", metavar="LABELS", type=PATH)
@click.option(
    "--sensitive",
    multiple=True,
    required=True,
    metavar="COLUMNS",
    help="Column, or columns separated by commas: their combinations are the groups.",
)
@click.option("--cluster", default="cluster", show_default=True, metavar="COLUMN",
              help="Column of LABELS that names the cluster.")  # fmt: skip
@click.option(
    "--data",
    type=PATH,
    help="Table with the sensitive columns, if LABELS has none; same rows in the same order, "
    "unless --id matches them.",
)
@click.option("--id", "id_column", metavar="COLUMN", help="Identifies a row in LABELS and --data.")
@click.option(
    "--missing",
    multiple=True,
    default=["error"],
    type=click.Choice(["error", "own-group", "drop-rows"]),
    help="Missing sensitive values: raise an error, count them as a group, or leave them out.",
)
@click.option("--min-group-size", type=click.IntRange(min=0), default=0, metavar="N",
              help="Merge groups of fewer rows into one, called 'other'.")  # fmt: skip
@click.option(
    "--min-relative-balance",
    type=FiniteRange(0, 1),
    help="End with exit code 3 if the relative balance is smaller.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0, max=1),
    help="Bounds to check: a group's share of a cluster between (1 - tolerance) and 1 / (1 - "
    "tolerance) times its share of all rows.",
)
@targets_options
@table_options
@click.option("--report", type=PATH, help="Report, .html.")
@click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output.")
@run_options
def audit(labels, report, as_json, min_relative_balance, force, quiet, **options):
    """Measure the composition of the clusters in LABELS, a table made by any tool.

    Balance is the smallest group over the largest in the worst cluster; relative balance compares
    each group's share of a cluster with its share of all rows (1 is proportional); MNCE is the
    worst cluster's entropy over that of all rows. Rows without a cluster are not counted, and
    their number is printed.

    --tolerance, --targets and --attributes separate state a constraint, as in 'fairanchor fit'.
    The violation is then printed, and the report judges by it. Exit code 3: the constraint is
    missed by a row or more, or --min-relative-balance is not reached.
    """
    run = Run(quiet)
    check_targets_options(options)
    inputs = [labels, options["data"], options["targets"]]
    check_outputs(None, report, force=force, inputs=inputs)
    _check_request(labels, report, options)
    with run.step("read", f"Reading {show_source(labels)}"):
        clusters, groups, columns, n_without = _load(labels, options)
    if n_without:
        run.say(f"Not counted: {count_rows(n_without)} without a cluster or a group.")
    summary = _summary(labels, clusters, groups, n_without, run)
    asked, request = asked_of_labels(summary, columns, options)
    summary |= summary_of_asked(asked)
    lines = composition_lines(summary["counts"], summary["groups"], summary["clusters"])
    lines += ["", measures_line(summary), _worst_sentence(summary["worst_cell"])]
    lines += limit_lines(asked, request, clusters.names)
    # The table is the result, unless --json replaces it.
    if as_json:
        run.say("\n".join(lines))
    else:
        print_result(lines)
    if report is not None:
        with run.step("report", f"Writing {report}"):
            _write_report(report, labels, clusters, groups, summary, force, asked, request)
        run.say(f"report: {report}")
    if as_json:
        print_json(summary)
    _judge(summary, min_relative_balance, asked)


def _check_request(labels, report, options):
    check_report(report)
    if options["id_column"] is not None and options["data"] is None:
        raise click.UsageError(
            "--id matches rows of LABELS with rows of --data: give --data as well."
        )
    if labels == options["data"] == "-":
        raise click.UsageError("LABELS and --data cannot both be standard input.")


def _load(labels, options):
    """Groupings of the rows by cluster and by group, without rows that lack either.

    Also the sensitive columns, and how many rows were left out.
    """
    import numpy as np

    from fairanchor.tables._grouping import encode_groups, learn_groups
    from fairanchor.tables._missing import is_missing
    from fairanchor.tables._roles import require_columns, split_names

    source = open_input(labels, options["delimiter"], options["null_values"])
    require_columns(source, [options["cluster"]])
    holder = source
    if options["data"] is not None:
        holder = open_input(options["data"], options["delimiter"], options["null_values"])
    sensitive = split_names(holder, options["sensitive"])
    table = _joined(source, holder, [options["cluster"]], sensitive, options["id_column"])
    counted = ~is_missing(table.column(options["cluster"]))
    policy = missing_policy(options["missing"])
    if policy.groups == "drop":
        for name in sensitive:
            counted &= ~is_missing(table.column(name))
    if not counted.any():
        raise ValueError(f"No row of {source.title} has both a cluster and a group.")
    table = table.filter(counted)
    own_group = "own_group" if policy.groups == "own_group" else "error"
    groups, _ = learn_groups(
        table, sensitive, missing=own_group, min_size=options["min_group_size"]
    )
    clusters = encode_groups(table, [options["cluster"]])
    _check_clusters(clusters, len(groups.names), options["cluster"])
    n_without = int(np.count_nonzero(~counted))
    return _sorted(clusters), _sorted(groups), list(sensitive), n_without


def _check_clusters(clusters, n_groups, column):
    """Values that are hardly ever equal are no clusters, and their table fills the memory."""
    import warnings

    from fairanchor.tables._wording import quoted

    n_clusters, n_rows = len(clusters.names), len(clusters.codes)
    message = (
        f"The column {quoted(column)} has {n_clusters:,} different values in "
        f"{count_rows(n_rows)}: it seems not to name clusters. --cluster names another column."
    )
    if n_clusters * n_groups > MOST_CELLS:
        raise ValueError(message)
    if n_clusters > max(20, n_rows // 2):
        warnings.warn(message, UserWarning, stacklevel=2)


def _joined(source, holder, cluster, sensitive, id_column):
    """One table with the cluster and the sensitive columns, in the order of the labels."""
    import pyarrow as pa

    from fairanchor.tables._roles import require_columns
    from fairanchor.tables._wording import RequestError, quoted

    if set(cluster) & set(sensitive):
        raise RequestError(f"The column {quoted(cluster[0])} cannot be both cluster and group.")
    if holder is source:
        return source.read([*cluster, *sensitive], text=[*cluster, *sensitive])
    own = [] if id_column is None else [id_column]
    require_columns(source, own)
    require_columns(holder, own)
    left = source.read([*own, *cluster], text=[*own, *cluster])
    right = holder.read([*own, *sensitive], text=[*own, *sensitive])
    if own:
        right = right.take(_partners(left.column(id_column), right.column(id_column), holder))
    elif len(left) != len(right):
        raise ValueError(
            f"{source.title} has {count_rows(len(left))}, {holder.title} has {len(right):,}: they "
            "cannot be matched by position. Use --id to match them by a column."
        )
    columns = {name: left.column(name) for name in cluster}
    return pa.table(columns | {name: right.column(name) for name in sensitive})


def _partners(wanted, present, holder):
    """Row of each wanted id; an id that is missing or ambiguous is an error."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from fairanchor.tables._wording import quoted

    wanted, present = wanted.cast(pa.string()), present.cast(pa.string()).combine_chunks()
    counted = pc.value_counts(present)
    counts = counted.field("counts").to_numpy()
    if counts.max() > 1:
        repeated = counted.field("values")[int(counts.argmax())].as_py()
        raise ValueError(
            f"{holder.title} has {counts.max()} rows with the id {quoted(repeated)}: ids must be "
            "unique to match labels."
        )
    rows = pc.index_in(wanted, value_set=present)
    if rows.null_count:
        position = pc.index(pc.is_null(rows), True).as_py()
        raise ValueError(
            f"{holder.title} lacks {count_rows(rows.null_count, 'id')} of the labels, the first is "
            f"{quoted(wanted[position].as_py())}."
        )
    return rows


def _sorted(grouping):
    """The same grouping with its names in the order of the library's tables."""
    from fairanchor.groups._groups import encode_names
    from fairanchor.tables._grouping import Grouping, object_array

    _, names = encode_names(object_array(grouping.names), missing="own_group")
    return Grouping(grouping.codes_among(names), list(names))


def _summary(labels, clusters, groups, n_without, run):
    from fairanchor.groups._groups import count_cells

    counts = count_cells(clusters.codes, groups.codes, len(clusters.names), len(groups.names))
    return {
        "command": "audit",
        "input": labels,
        "n_rows": len(clusters.codes),
        "n_rows_not_counted": n_without,
        "clusters": clusters.names,
        "groups": groups.names,
        "counts": counts,
        **measures_of(counts),
        "worst_cell": _worst_cell(counts, clusters.names, groups.names),
        "warnings": run.warnings,
    }


def _worst_cell(counts, clusters, groups):
    """The cell farthest from proportional, by ratio."""
    import numpy as np

    sizes, totals = counts.sum(axis=1, keepdims=True), counts.sum(axis=0)
    expected = sizes * totals / counts.sum()
    closeness = np.minimum(counts, expected) / np.maximum(counts, expected)
    l, r = np.unravel_index(np.argmin(closeness), counts.shape)
    return {
        "cluster": clusters[l],
        "group": groups[r],
        "rows": int(counts[l, r]),
        "proportional_rows": float(expected[l, r]),
        "share_of_cluster": float(counts[l, r] / sizes[l, 0]),
        "share_of_all": float(totals[r] / counts.sum()),
    }


def _worst_sentence(cell):
    rows = f"{count_rows(cell['rows'])}, {cell['proportional_rows']:,.1f} would be proportional"
    return (
        f"farthest from proportional: group {show_name(cell['group'])} in cluster "
        f"{show_name(cell['cluster'])}, {cell['share_of_cluster']:.2%} of its rows against "
        f"{cell['share_of_all']:.2%} of all ({rows})"
    )


def _write_report(path, labels, clusters, groups, summary, force, asked, request):
    from fairanchor.cli._repeat import command_line
    from fairanchor.report import RunSummary, write_report

    run = RunSummary(
        title=f"Clusters of {show_source(labels)}",
        labels=clusters.codes,
        group_codes=groups.codes,
        group_names=groups.names,
        cluster_names=clusters.names,
        counts=summary["counts"],
        checks=asked,
        constraint=request,
        n_rows_left_out=summary["n_rows_not_counted"],
        left_out_reason="without a cluster or a group",
        warnings=summary["warnings"],
        command=command_line(),
    )
    write_report(path, run, force=force)


def _judge(summary, least, asked):
    missed = max((own.worst for own in asked or ()), default=0.0)
    if missed >= 1.0:
        click.echo(f"The constraint is missed by {missed:,.1f} rows.", err=True)
    is_below = least is not None and summary["relative_balance"] < least
    if is_below:
        click.echo(
            f"The relative balance {summary['relative_balance']:.4f} is below "
            f"--min-relative-balance {least:g}.",
            err=True,
        )
    exit_with(NOT_CONVERGED if missed >= 1.0 or is_below else 0)
