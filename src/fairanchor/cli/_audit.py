"""``fairanchor audit``: how fair are given clusters, whoever made them."""

import warnings
from dataclasses import dataclass
from typing import Any

import click

from fairanchor.cli._common import (
    PATH,
    Options,
    Run,
    Share,
    attribute_lines,
    check_outputs,
    command_line,
    composition_entries,
    composition_lines,
    exit_with,
    measures_line,
    print_json,
    print_result,
    shared,
    show_name,
    show_source,
)
from fairanchor.cli._targets import check_targets_options, targets_of_file
from fairanchor.tables._wording import RequestError, counted, quoted, typed

MOST_CELLS = 20_000_000


@click.command(
    short_help="Measure the fairness of given clusters.",
    epilog=(
        "Example: fairanchor audit labels.csv --data people.csv --id person --sensitive sex "
        "--min-relative-balance 0.9"
    ),
)
@click.argument("labels", metavar="LABELS", type=PATH)
@shared("sensitive")
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
@click.option(
    "--min-relative-balance",
    type=Share(),
    help="End with exit code 3 if the relative balance is smaller.",
)
@click.option(
    "--tolerance",
    type=Share(),
    help="Bounds to check: a group's share of a cluster between (1 - tolerance) and 1 / (1 - "
    "tolerance) times its share of all rows.",
)
@shared("targets", "attributes", "delimiter", "report", "json", "force", "quiet")
def audit(labels: str, **options: Any) -> None:
    """Measure the composition of the clusters in LABELS, a table made by any tool.

    Balance is the smallest group over the largest in the worst cluster; relative balance compares
    each group's share of a cluster with its share of all rows (1 is proportional); MNCE is the
    worst cluster's entropy over that of all rows. Rows without a cluster are not counted, and
    their number is printed.

    --tolerance, --targets and --attributes separate state a constraint, as in 'fairanchor fit'.
    The violation is then printed, and the report judges by it. Exit code 3: the constraint is
    missed by a row or more, or --min-relative-balance is not reached.
    """
    run = Run(options["quiet"])
    check_targets_options(options)
    check_outputs(options, "report", inputs=[labels, options["data"], options["targets"]])
    if options["id_column"] is not None and options["data"] is None:
        raise click.UsageError(
            "--id matches rows of LABELS with rows of --data: give --data as well."
        )
    if labels == options["data"] == "-":
        raise click.UsageError("LABELS and --data cannot both be standard input.")
    with run.step("read", f"Reading {show_source(labels)}"):
        rows = _load(labels, options)
    if rows.n_without:
        run.say(f"Not counted: {counted(rows.n_without, 'row')} without a cluster or a group.")
    constraint, request = _constraint(rows, options)
    summary = _summary(labels, rows, constraint, run)
    lines = _lines(summary, rows, constraint, request)
    # The table is the result, unless --json replaces it.
    if options["as_json"]:
        run.say(*lines)
    else:
        print_result(*lines)
    if options["report"] is not None:
        with run.step("report", f"Writing {options['report']}"):
            _write_report(labels, rows, constraint, request, options, run)
        run.say(f"report: {options['report']}")
    if options["as_json"]:
        print_json(summary)
    exit_with(_problems(summary, options["min_relative_balance"]))


@dataclass(frozen=True)
class _Rows:
    """Rows with a cluster and a group, and how many rows lack one of them."""

    clusters: list[Any]
    groups: list[Any]
    cluster_codes: Any
    group_codes: Any
    columns: list[str]
    n_without: int

    @property
    def counts(self) -> Any:
        from fairanchor.groups._groups import count_cells

        shape = len(self.clusters), len(self.groups)
        return count_cells(self.cluster_codes, self.group_codes, *shape)


def _load(labels: str, options: Options) -> _Rows:
    import numpy as np

    from fairanchor.groups._groups import encode_names
    from fairanchor.tables._load import check_names, check_number_of_groups, groups_of
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy, is_missing, require_columns, split_names

    source = open_table(labels, delimiter=options["delimiter"])
    cluster = options["cluster"]
    require_columns(source, [cluster])
    holder = source
    if options["data"] is not None:
        holder = open_table(options["data"], delimiter=options["delimiter"])
    sensitive = split_names(holder, options["sensitive"])
    table = _joined(source, holder, cluster, sensitive, options["id_column"])
    is_counted = ~is_missing(table.column(cluster))
    policy = MissingPolicy.of(options["missing"])
    if policy.groups == "drop":
        for name in sensitive:
            is_counted &= ~is_missing(table.column(name))
    if not is_counted.any():
        raise ValueError(f"No row of {source.title} has both a cluster and a group.")
    table = table.filter(is_counted)
    check_names(table.column(cluster), cluster)
    cluster_codes, clusters = encode_names(table.select([cluster]))
    groups = groups_of(table, sensitive, policy.missing_groups)
    check_number_of_groups(groups, len(table), sensitive)
    _check_clusters(len(clusters), groups.n_groups, len(table), cluster)
    names = groups.public_names.tolist()
    group_codes = np.argsort(groups.public_order)[groups.codes]
    n_without = int(np.count_nonzero(~is_counted))
    return _Rows(list(clusters), names, cluster_codes, group_codes, sensitive, n_without)


def _check_clusters(n_clusters: int, n_groups: int, n_rows: int, column: str) -> None:
    """Values that are hardly ever equal are no clusters, and their table fills the memory."""
    message = (
        f"The column {quoted(column)} has {n_clusters:,} different values in "
        f"{counted(n_rows, 'row')}: it seems not to name clusters. --cluster names another column."
    )
    if n_clusters * n_groups > MOST_CELLS:
        raise ValueError(message)
    if n_clusters > max(20, n_rows // 2):
        warnings.warn(message, UserWarning, stacklevel=2)


def _joined(
    source: Any, holder: Any, cluster: str, sensitive: list[str], id_column: str | None
) -> Any:
    """One table with the cluster and the sensitive columns, in the order of the labels."""
    from fairanchor.tables._load import ROW_NUMBER
    from fairanchor.tables._roles import require_columns

    if cluster in sensitive:
        raise RequestError(f"The column {quoted(cluster)} cannot be both cluster and group.")
    if holder is source:
        return source.read([cluster, *sensitive], names=[cluster, *sensitive])
    keys = [] if id_column is None else [id_column]
    require_columns(source, keys)
    require_columns(holder, keys)
    if not keys:
        # A column of both tables, such as an id, tells whether the rows are in the same order.
        used = {cluster, ROW_NUMBER, *sensitive}
        keys = [name for name in source.columns if name in holder.columns and name not in used][:1]
    left = source.read([*keys, cluster], names=[*keys, cluster])
    right = holder.read([*keys, *sensitive], names=[*keys, *sensitive])
    if id_column is not None:
        right = right.take(_partners(left.column(id_column), right.column(id_column), holder))
    elif len(left) != len(right):
        raise ValueError(
            f"{source.title} has {counted(len(left), 'row')}, {holder.title} has {len(right):,}: "
            "they cannot be matched by position. Use --id to match them by a column."
        )
    elif keys and not _as_text(left, keys[0]).equals(_as_text(right, keys[0])):
        warnings.warn(
            f"The column {quoted(keys[0])} of {source.title} differs from that of {holder.title}: "
            "rows are matched by position, but seem to be in another order. Use --id "
            f"{typed(keys[0])} to match them by this column.",
            UserWarning,
            stacklevel=2,
        )
    for name in sensitive:
        left = left.append_column(name, right.column(name))
    return left.select([cluster, *sensitive])


def _as_text(table: Any, name: str) -> Any:
    import pyarrow as pa

    return table.column(name).cast(pa.string()).combine_chunks()


def _partners(wanted: Any, present: Any, holder: Any) -> Any:
    """Row of each wanted id; an id that is missing or ambiguous is an error."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted, present = wanted.cast(pa.string()), present.cast(pa.string()).combine_chunks()
    distinct = pc.value_counts(present)
    counts = distinct.field("counts").to_numpy()
    if counts.max() > 1:
        repeated = distinct.field("values")[int(counts.argmax())].as_py()
        raise ValueError(
            f"{holder.title} has {counts.max()} rows with the id {quoted(repeated)}: ids must be "
            "unique to match labels."
        )
    rows = pc.index_in(wanted, value_set=present)
    if rows.null_count:
        position = pc.index(pc.is_null(rows), True).as_py()
        raise ValueError(
            f"{holder.title} lacks {counted(rows.null_count, 'id')} of the labels, the first is "
            f"{quoted(wanted[position].as_py())}."
        )
    return rows


def _constraint(rows: _Rows, options: Options) -> tuple[list[Any] | None, Any]:
    """The constraint that the options state, one entry per attribute, and a sentence about it."""
    separate = options["attributes"] == "separate"
    if options["tolerance"] is None and options["targets"] is None and not separate:
        return None, None
    from fairanchor.metrics import n_clusters_of
    from fairanchor.report._constraints import checks_of_counts, describe_constraint

    tolerance = options["tolerance"] or 0.0
    targets: Any = tolerance
    fairness: Any = "population"
    if options["targets"] is not None:
        shape = len(rows.clusters), len(rows.cluster_codes)
        targets = fairness = targets_of_file(options, rows.columns, rows.groups, *shape)
        by_number = any(n_clusters_of(part) is not None for part in targets)
        if by_number and rows.clusters != list(range(len(rows.clusters))):
            raise ValueError(
                f"The targets number clusters 0..{len(rows.clusters) - 1}, but the clusters of the "
                f"labels are {', '.join(map(str, rows.clusters[:20]))}."
            )
    columns = rows.columns if separate else None
    constraint = checks_of_counts(rows.counts, rows.groups, targets, columns)
    return constraint, describe_constraint(fairness, tolerance, columns or ())


def _summary(labels: str, rows: _Rows, constraint: list[Any] | None, run: Run) -> dict[str, Any]:
    counts = rows.counts
    summary = {
        "command": "audit",
        "input": labels,
        "n_rows": len(rows.cluster_codes),
        "n_rows_not_counted": rows.n_without,
        "clusters": rows.clusters,
        **composition_entries(rows.groups, counts),
        "worst_cell": _worst_cell(counts, rows.clusters, rows.groups),
        "warnings": run.warnings,
    }
    if constraint is not None:
        summary["worst_violation"] = max(check.worst for check in constraint)
        if constraint[0].attribute is not None:
            summary["attributes"] = {
                str(check.attribute): composition_entries(
                    check.groups, check.counts, worst_violation=check.worst
                )
                for check in constraint
            }
    return summary


def _worst_cell(counts: Any, clusters: list[Any], groups: list[Any]) -> dict[str, Any]:
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


def _lines(summary: dict[str, Any], rows: _Rows, constraint: Any, request: Any) -> list[str]:
    cell = summary["worst_cell"]
    lines = [
        *composition_lines(rows.counts, rows.groups, rows.clusters),
        "",
        measures_line(summary),
        f"farthest from proportional: group {show_name(cell['group'])} in cluster "
        f"{show_name(cell['cluster'])}, {cell['share_of_cluster']:.2%} of its rows against "
        f"{cell['share_of_all']:.2%} of all ({counted(cell['rows'], 'row')}, "
        f"{cell['proportional_rows']:,.1f} are proportional)",
    ]
    if constraint is not None:
        from fairanchor.report._constraints import describe_violation

        lines += ["", request, *attribute_lines(summary.get("attributes"))]
        lines.append(describe_violation(constraint, rows.clusters))
    return lines


def _write_report(
    labels: str, rows: _Rows, constraint: Any, request: Any, options: Options, run: Run
) -> None:
    from fairanchor.report import RunSummary, write_report

    summary = RunSummary(
        title=f"Clusters of {show_source(labels)}",
        labels=rows.cluster_codes,
        group_codes=rows.group_codes,
        group_names=rows.groups,
        cluster_names=rows.clusters,
        counts=rows.counts,
        checks=constraint,
        constraint=request,
        n_rows_left_out=rows.n_without,
        left_out_reason="without a cluster or a group",
        warnings=run.warnings,
        command=command_line(),
    )
    write_report(options["report"], summary, force=options["force"])


def _problems(summary: dict[str, Any], least: float | None) -> list[str]:
    """Why the exit code is 3; nothing if it is not."""
    problems = []
    missed = summary.get("worst_violation", 0.0)
    if missed >= 1.0:
        problems.append(f"The constraint is missed by {missed:,.1f} rows.")
    if least is not None and summary["relative_balance"] < least:
        problems.append(
            f"The relative balance {summary['relative_balance']:.4f} is below "
            f"--min-relative-balance {least:g}."
        )
    return problems
