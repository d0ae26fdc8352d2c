"""``fairanchor audit``: how fair are given clusters, whoever made them."""

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
    file_checksums,
    measures_line,
    print_json,
    print_result,
    shared,
    show_name,
    show_source,
)
from fairanchor.cli._predict import load_with_model
from fairanchor.cli._targets import check_targets_options, targets_of_file
from fairanchor.tables._wording import RequestError, counted, quoted

# Options that are about labels, which a batch has none of.
OF_LABELS = {"data": "--data", "id_column": "--id", "targets": "--targets", "report": "--report",
             "tolerance": "--tolerance", "sensitive": "--sensitive"}  # fmt: skip
OF_BATCHES = {"min_p_value": "--min-p-value", "max_far": "--max-far", "max_unseen": "--max-unseen"}


@click.command(
    short_help="Measure the fairness of given clusters, or compare a batch with a model.",
    epilog=(
        "Example: fairanchor audit labels.csv --data people.csv --id person --sensitive sex "
        "--favourable 2,3 --min-relative-balance 0.9"
    ),
)
@click.argument("labels", metavar="LABELS", type=PATH)
@click.option("--sensitive", multiple=True, metavar="COLUMNS",
              help="Column, or columns separated by commas: their combinations are the groups. "
              "Required for labels.")  # fmt: skip
@click.option("--cluster", default="cluster", show_default=True, metavar="COLUMN",
              help="Column of LABELS that names the cluster.")  # fmt: skip
@click.option(
    "--data",
    type=PATH,
    help="Table with the sensitive columns, if LABELS has none. Rows are matched by --id, or by "
    "position; columns that both files have must then agree.",
)
@click.option("--id", "id_column", metavar="COLUMN", help="Identifies a row in LABELS and --data.")
@click.option(
    "--model",
    type=PATH,
    help="Model file: LABELS is then a batch of new rows without labels, which is compared with "
    "the model.",
)
@click.option(
    "--missing",
    multiple=True,
    default=["error"],
    type=click.Choice(["error", "own-group", "drop-rows"]),
    help="Missing sensitive values: error (default); own-group: they are a group; drop-rows: "
    "they belong to no group, and count against the verdict.",
)
@click.option("--favourable", multiple=True, metavar="CLUSTERS",
              help="Clusters that are an advantage, separated by commas: their selection rates are "
              "compared. By default those of each cluster.")  # fmt: skip
@click.option("--group-errors", type=click.IntRange(min=0), metavar="N",
              help="Also compute the worst relative balance if the groups of up to N rows are "
              "recorded wrongly. 1, 5 and 10 % of the rows are always computed.")  # fmt: skip
@click.option(
    "--min-relative-balance",
    type=Share(),
    help="End with exit code 3 if the relative balance is smaller.",
)
@click.option("--min-impact-ratio", type=Share(),
              help="End with exit code 3 if an impact ratio is smaller.")  # fmt: skip
@click.option("--min-p-value", type=Share(),
              help="Batches: end with exit code 3 if the smallest p-value is smaller.")  # fmt: skip
@click.option("--max-far", type=Share(),
              help="Batches: end with exit code 3 if a larger share of the rows is far from all "
              "centres.")  # fmt: skip
@click.option("--max-unseen", type=Share(),
              help="Batches: end with exit code 3 if a larger share of the rows belongs to groups "
              "that the model does not know.")  # fmt: skip
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
    worst cluster's entropy over that of all rows. Rows without a cluster or a group count against
    the verdict and the relative balance.

    Selection rates are the shares of each group that are in a cluster, with the ratio to the
    highest rate, a p-value and intervals. The breakdown number is the least number of wrongly
    recorded groups that can push the relative balance below 0.8.

    --tolerance, --targets and --attributes separate state a constraint, as in 'fairanchor fit'.
    The violation is then printed, and the report judges by it. Exit code 3: the constraint is
    missed by a row or more, or a threshold is crossed.

    With --model, LABELS is a batch of new rows: its composition, as 'fairanchor predict' would
    label the rows one by one, is compared with that of the model, and rows far from every centre
    and unknown groups are counted: fairanchor audit --model people.npz batch.csv --max-far 0.01
    """
    run = Run(options["quiet"])
    _check_kind(options)
    if options["model"] is not None:
        _audit_rows(run, labels, options)
        return
    if not options["sensitive"]:
        raise click.UsageError("Missing option '--sensitive': name the columns with the groups.")
    check_targets_options(options)
    check_outputs(options, "report", inputs=[labels, options["data"], options["targets"]])
    if options["id_column"] is not None and options["data"] is None:
        raise click.UsageError(
            "--id matches rows of LABELS with rows of --data: give --data as well."
        )
    if labels == options["data"] == "-":
        raise click.UsageError("LABELS and --data cannot both be standard input.")
    with run.step("read", f"Reading {show_source(labels)}"):
        rows = _load(labels, options, run)
    report = _report(labels, rows, options, run)
    summary = _summary(labels, rows, report, run)
    lines = _lines(summary, rows, report)
    # The table is the result, unless --json replaces it.
    if options["as_json"]:
        run.say(*lines)
    else:
        print_result(*lines)
    if options["report"] is not None:
        from fairanchor.report import write_report

        with run.step("report", f"Writing {options['report']}"):
            write_report(options["report"], report, force=options["force"])
        run.say(f"report: {options['report']}")
    if options["as_json"]:
        print_json(summary)
    exit_with(_problems(summary, rows, options))


@dataclass(frozen=True)
class _Rows:
    """Rows with a cluster and a group, and how many rows lack one of them.

    ``unassigned`` has the rows of each group without a cluster, ``ungrouped`` those of each cluster
    without a group, ``neither`` the number of rows without both.
    """

    clusters: list[Any]
    groups: list[Any]
    cluster_codes: Any
    group_codes: Any
    columns: list[str]
    unassigned: Any
    ungrouped: Any
    neither: int

    @property
    def n_without(self) -> int:
        return int(self.unassigned.sum() + self.ungrouped.sum()) + self.neither

    @property
    def counts(self) -> Any:
        from fairanchor.groups._groups import count_cells

        shape = len(self.clusters), len(self.groups)
        return count_cells(self.cluster_codes, self.group_codes, *shape)


def _load(labels: str, options: Options, run: Run) -> _Rows:
    import numpy as np

    from fairanchor.groups._groups import encode_names
    from fairanchor.tables._load import check_names, check_number_of_groups, groups_of
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy, is_missing, require_columns, split_names

    source = open_table(labels, delimiter=options["delimiter"])
    cluster = options["cluster"]
    require_columns(source, [cluster])
    holder, advice = source, " --data names a table that has the sensitive columns."
    if options["data"] is not None:
        holder, advice = open_table(options["data"], delimiter=options["delimiter"]), ""
    sensitive = split_names(holder, options["sensitive"], advice)
    table = _joined(source, holder, cluster, sensitive, options["id_column"], run)
    check_names(table.column(cluster), cluster)
    has_cluster = ~is_missing(table.column(cluster))
    has_group = np.ones(len(table), dtype=bool)
    policy = MissingPolicy.of(options["missing"])
    if policy.groups == "drop":
        for name in sensitive:
            has_group &= ~is_missing(table.column(name))
    if not (has_cluster & has_group).any():
        raise ValueError(f"No row of {source.title} has both a cluster and a group.")
    codes, clusters = encode_names(table.filter(has_cluster).select([cluster]))
    # Groups that have no row in any cluster are groups all the same.
    groups = groups_of(table.filter(has_group), sensitive, policy.missing_groups)
    check_number_of_groups(groups, int(has_group.sum()), sensitive)
    if len(clusters) > max(20, len(table) // 2):
        raise ValueError(
            f"The column {quoted(cluster)} has {len(clusters):,} different values in "
            f"{counted(len(table), 'row')}: it seems not to name clusters. --cluster names another "
            "column."
        )
    group_codes = np.argsort(groups.public_order)[groups.codes]
    both_c, both_g = has_group[has_cluster], has_cluster[has_group]
    return _Rows(
        list(clusters),
        groups.public_names.tolist(),
        codes[both_c],
        group_codes[both_g],
        sensitive,
        np.bincount(group_codes[~both_g], minlength=groups.n_groups),
        np.bincount(codes[~both_c], minlength=len(clusters)),
        int(np.count_nonzero(~has_cluster & ~has_group)),
    )


def _joined(
    source: Any,
    holder: Any,
    cluster: str,
    sensitive: list[str],
    id_column: str | None,
    run: Run,
) -> Any:
    """One table with the cluster and the sensitive columns of every row of the data."""
    from fairanchor.tables._load import ROW_NUMBER
    from fairanchor.tables._roles import require_columns

    if cluster in sensitive:
        raise RequestError(f"The column {quoted(cluster)} cannot be both cluster and group.")
    if holder is source:
        return source.read([cluster, *sensitive], names=[cluster, *sensitive])
    if id_column is not None:
        require_columns(source, [id_column])
        require_columns(holder, [id_column])
        left = source.read([id_column, cluster], names=[id_column, cluster])
        names = list(dict.fromkeys([id_column, *sensitive]))
        right = holder.read(names, names=names)
        partners = _partners(left.column(id_column), right.column(id_column), source, holder)
        return right.select(sensitive).append_column(cluster, left.column(cluster).take(partners))
    names = [name for name in source.columns if name in holder.columns and name != cluster]
    right = holder.read(list(dict.fromkeys([*names, *sensitive])), names=[*names, *sensitive])
    if ROW_NUMBER in source.columns and ROW_NUMBER not in holder.columns:
        # The number of a row, which fit writes where there is no id.
        names.append(ROW_NUMBER)
        right = right.append_column(ROW_NUMBER, [range(len(right))])
    left = source.read([*names, cluster], names=[*names, cluster])
    if len(left) != len(right):
        raise ValueError(
            f"{source.title} has {counted(len(left), 'row')}, {holder.title} has {len(right):,}: "
            "they cannot be matched by position. Use --id to match them by a column."
        )
    for name in names:
        _check_same(left.column(name), right.column(name), name, source, holder)
    if not names:
        run.say(
            f"{source.title} and {holder.title} have no column in common: rows are matched by "
            "position."
        )
    return right.select(sensitive).append_column(cluster, left.column(cluster))


def _check_same(left: Any, right: Any, name: str, source: Any, holder: Any) -> None:
    """Raise an error where a column of both tables differs: rows would be matched wrongly."""

    def value(text: str) -> Any:
        try:  # 1 and 1.0 are the same number
            return float(text)
        except (TypeError, ValueError):
            return text

    pairs = zip(_text(left).to_pylist(), _text(right).to_pylist(), strict=True)
    different = [(row, a, b) for row, (a, b) in enumerate(pairs) if a != b and value(a) != value(b)]
    if different:
        row, of_labels, of_data = different[0]
        raise ValueError(
            f"The column {quoted(name)} differs in {counted(len(different), 'row')} between "
            f"{source.title} and {holder.title}, first in row {row}: {quoted(of_labels)} and "
            f"{quoted(of_data)}. Rows cannot be matched by position; --id names a column that "
            "identifies them in both files."
        )


def _text(column: Any) -> Any:
    """Values as text, as a file of labels has them."""
    import pyarrow as pa

    from fairanchor.tables._write import spreadsheet_safe

    return spreadsheet_safe(column.cast(pa.string()))


def _partners(labelled: Any, present: Any, source: Any, holder: Any) -> Any:
    """Row of the labels for each id of the data, or null; ids of the labels must be there."""
    import pyarrow.compute as pc

    labelled, present = _text(labelled).combine_chunks(), _text(present).combine_chunks()
    for ids, title in ((present, holder.title), (labelled, source.title)):
        distinct = pc.value_counts(ids)
        counts = distinct.field("counts").to_numpy()
        if counts.max(initial=0) > 1:
            repeated = distinct.field("values")[int(counts.argmax())].as_py()
            raise ValueError(
                f"{title} has {counts.max()} rows with the id {quoted(repeated)}: ids must be "
                "unique to match labels."
            )
    unknown = pc.is_null(pc.index_in(labelled, value_set=present))
    n_unknown = pc.sum(unknown).as_py()
    if n_unknown:
        first = labelled[pc.index(unknown, True).as_py()].as_py()
        raise ValueError(
            f"{holder.title} lacks {counted(n_unknown, 'id')} of the labels, the first is "
            f"{quoted(first)}."
        )
    return pc.index_in(present, value_set=labelled)


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
    constraint = checks_of_counts(
        rows.counts, rows.groups, targets, columns, unassigned=rows.unassigned
    )
    return constraint, describe_constraint(fairness, tolerance, columns or ())


def _report(labels: str, rows: _Rows, options: Options, run: Run) -> Any:
    """Everything that is known about the labels, as `RunSummary`."""
    from fairanchor.report import RunSummary

    constraint, request = _constraint(rows, options)
    favourable = _favourable(rows, options["favourable"])
    inputs = {"labels": labels, "data": options["data"], "targets": options["targets"]}
    return RunSummary(
        title=f"Clusters of {show_source(labels)}",
        labels=rows.cluster_codes,
        group_codes=rows.group_codes,
        group_names=rows.groups,
        cluster_names=rows.clusters,
        columns=rows.columns,
        counts=rows.counts,
        unassigned=rows.unassigned if rows.n_without else None,
        ungrouped=rows.ungrouped if rows.n_without else None,
        checks=constraint,
        constraint=request,
        selection=_selection(rows, favourable),
        favourable=favourable is not None,
        n_errors=options["group_errors"],
        n_rows_left_out=rows.n_without,
        warnings=run.warnings,
        command=command_line(),
        fingerprints=file_checksums(inputs),
    )


def _selection(rows: _Rows, favourable: list[Any] | None) -> Any:
    """Selection rates; rows without a group are a group without a name."""
    import numpy as np

    from fairanchor.audit._selection import rates_of_counts

    counts, without, groups = rows.counts, rows.unassigned, rows.groups
    if rows.ungrouped.any() or rows.neither:
        unknown = (None,) * len(rows.columns) if len(rows.columns) > 1 else None
        counts = np.column_stack([counts, rows.ungrouped])
        without, groups = np.append(without, rows.neither), [*groups, unknown]
    return rates_of_counts(counts, without, groups, rows.clusters, rows.columns, favourable)


def _favourable(rows: _Rows, items: tuple[str, ...]) -> list[Any] | None:
    """Clusters that ``--favourable`` names: text has no types."""
    from fairanchor.tables._load import spelling

    if not items:
        return None
    by_spelling = {spelling(name): name for name in rows.clusters}
    wanted = [
        part.strip()
        for item in items
        for part in ([item] if item in by_spelling else item.split(","))
        if part.strip()
    ]
    unknown = [name for name in wanted if name not in by_spelling]
    if unknown or not wanted:
        known = ", ".join(list(by_spelling)[:20])
        raise ValueError(
            f"--favourable {','.join(items)}: {quoted(unknown[0] if unknown else '')} is not "
            f"a cluster of the labels, which are {known}."
        )
    return [by_spelling[name] for name in wanted]


def _summary(labels: str, rows: _Rows, report: Any, run: Run) -> dict[str, Any]:
    from fairanchor.audit._remarks import group_remarks
    from fairanchor.report._render import certificate_of
    from fairanchor.report._verdict import judge

    counts, verdict = rows.counts, judge(report)
    certificate = certificate_of(report)
    totals = counts.sum(axis=0) + rows.unassigned
    summary = {
        "command": "audit",
        "input": labels,
        "n_rows": len(rows.cluster_codes),
        "n_rows_not_counted": rows.n_without,
        "n_rows_without_cluster": int(rows.unassigned.sum()) + rows.neither,
        "n_rows_without_group": int(rows.ungrouped.sum()) + rows.neither,
        "clusters": rows.clusters,
        **composition_entries(rows.groups, counts),
        "relative_balance_all_rows": report.relative_balance,
        "answer": verdict.answer,
        "worst_cell": _worst_cell(report),
        "impact_ratio": report.selection.impact_ratio,
        "p_value": report.selection.p_value,
        "selection": report.selection.records,
        "breakdown_errors": certificate["breakdown"],
        "worst_relative_balance": certificate["stated"],
        "remarks": group_remarks(rows.groups, totals),
        "warnings": run.warnings,
    }
    if report.checks is not None:
        missed = max(check.worst for check in report.checks)
        # Rows without a group may be of any.
        summary["worst_violation"] = missed + float(rows.ungrouped.max())
        if report.checks[0].attribute is not None:
            summary["attributes"] = {
                str(check.attribute): composition_entries(
                    check.groups, check.counts, worst_violation=check.worst
                )
                for check in report.checks
            }
    return summary


def _worst_cell(report: Any) -> dict[str, Any]:
    """The cell farthest from proportional, by ratio."""
    composition = report.composition
    l, r = composition.worst_cell
    return {
        "cluster": report.cluster_names[l],
        "group": report.group_names[r],
        "rows": int(report.counts[l, r]),
        "proportional_rows": float(composition.expected[l, r]),
        "share_of_cluster": float(composition.shares[l, r]),
        "share_of_all": float(composition.population[r]),
    }


def _lines(summary: dict[str, Any], rows: _Rows, report: Any) -> list[str]:
    import numpy as np

    from fairanchor.report._constraints import describe_violation
    from fairanchor.report._verdict import judge

    cell, verdict = summary["worst_cell"], judge(report)
    counts, clusters = rows.counts, rows.clusters
    if rows.unassigned.any():
        counts, clusters = np.vstack([counts, rows.unassigned]), [*clusters, "no cluster"]
    lines = [
        *composition_lines(counts, rows.groups, clusters),
        "",
        f"{verdict.question} {verdict.answer}. {verdict.sentence}",
        *(verdict.details if rows.n_without else ()),
        measures_line(summary),
        f"farthest from proportional: group {show_name(cell['group'])} in cluster "
        f"{show_name(cell['cluster'])}, {cell['share_of_cluster']:.2%} of its rows against "
        f"{cell['share_of_all']:.2%} of all ({counted(cell['rows'], 'row')}, "
        f"{cell['proportional_rows']:,.1f} are proportional)",
        f"smallest impact ratio {summary['impact_ratio']:.4f} (lowest selection rate over "
        f"highest), smallest p-value {summary['p_value']:.3g}",
        _certificate_line(summary),
        *_selection_lines(report),
        *(f"note: {remark}" for remark in summary["remarks"]),
    ]
    if report.checks is not None:
        lines += ["", report.constraint, *attribute_lines(summary.get("attributes"))]
        lines.append(describe_violation(report.checks, rows.clusters))
    return lines


def _certificate_line(summary: dict[str, Any]) -> str:
    stated = ", ".join(
        f"{line['relative_balance']:.4f} with {line['n_errors']:,}"
        for line in summary["worst_relative_balance"]
    )
    number = summary["breakdown_errors"]
    fewest = "none" if number is None else f"{number:,}"
    return (
        f"wrong records: relative balance at least {stated}; fewest that can push it below 0.8: "
        f"{fewest}"
    )


def _selection_lines(report: Any) -> list[str]:
    """Selection rates of the clusters that are marked as favourable."""
    lines = []
    for table in report.selection.tables if report.favourable else ():
        column = show_name(table.attribute)
        clusters = ", ".join(show_name(name) for name in table.clusters)
        lines += [
            "",
            f"{column}: in cluster {clusters} (p-value {table.p_value:.3g}, {table.test})",
        ]
        for record in table.records:
            low, high = record["rate_interval"]
            ratio = record["impact_ratio"]
            flags = [
                text
                for text, applies in (
                    ("below four fifths", record["below_four_fifths"]),
                    ("less than 2 % of the rows", record["small"]),
                )
                if applies
            ]
            lines.append(
                f"  {show_name(record['group'])}: {record['selected']:,} of {record['rows']:,}, "
                f"{record['rate']:.2%} ({low:.2%} to {high:.2%})"
                + ("" if ratio is None else f", impact ratio {ratio:.3f}")
                + "".join(f", {flag}" for flag in flags)
            )
    return lines


def _problems(summary: dict[str, Any], rows: _Rows, options: Options) -> list[str]:
    """Why the exit code is 3; nothing if it is not."""
    problems = []
    missed = summary.get("worst_violation", 0.0)
    if missed >= 1.0:
        problems.append(f"The constraint is missed by {missed:,.1f} rows.")
    for key, option in (
        ("relative_balance_all_rows", "min_relative_balance"),
        ("impact_ratio", "min_impact_ratio"),
    ):
        if options[option] is not None and summary[key] < options[option]:
            name = key.removesuffix("_all_rows").replace("_", " ")
            without = ""
            if rows.n_without and key != "impact_ratio":
                without = f", {counted(rows.n_without, 'row')} without a cluster or a group counted"
            problems.append(
                f"The {name} {summary[key]:.4f}{without} is below --{option.replace('_', '-')} "
                f"{options[option]:g}."
            )
    return problems


# Batches of rows without labels: does a saved model still describe them.


def _check_kind(options: Options) -> None:
    """Raise an error for options of labels with ``--model``, and of batches without it."""
    is_batch = options["model"] is not None
    for name, option in (OF_LABELS if is_batch else OF_BATCHES).items():
        if options[name] not in (None, ()):
            with_model = "labels, and --model audits a batch of rows" if is_batch else "--model"
            raise click.UsageError(f"{option} is for {with_model}.")


def _audit_rows(run: Run, source: str, options: Options) -> None:
    """Compare the rows of a file with the model, print the result and end with code 0 or 3."""
    from fairanchor.audit import audit_batch
    from fairanchor.audit._selection import rates_of_counts
    from fairanchor.metrics import breakdown_of_table

    with run.step("read", f"Reading {show_source(source)}"):
        known = options | {"unknown_groups": "error", "id_column": None, "jobs": -1}
        estimator, loaded = load_with_model(options["model"], source, known)
    run.say_dropped(loaded.n_dropped)
    with run.step("audit", f"Comparing {counted(len(loaded.X), 'row')} with the model"):
        groups = loaded.sensitive_features()
        audit = audit_batch(estimator, loaded.X, sensitive_features=groups)
    summary = {
        "command": "audit",
        "input": source,
        "model": options["model"],
        "n_rows": audit.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        "groups": audit.groups,
        "counts": audit.counts,
        "clusters": audit.records,
        "relative_balance": audit.relative_balance,
        "p_value": audit.p_value,
        "impact_ratio": None,
        "breakdown_errors": None,
        "n_rows_far": len(audit.far_rows),
        "share_far": audit.share_far,
        "unseen_groups": {show_name(name): n for name, n in audit.unseen_groups.items()},
        "share_unseen": audit.share_unseen,
        "warnings": run.warnings,
    }
    if audit.counts.sum():
        columns = estimator.preprocessing_.sensitive
        clusters = list(range(len(audit.counts)))
        nothing = 0 * audit.counts.sum(axis=0)
        rates = rates_of_counts(audit.counts, nothing, audit.groups, clusters, columns)
        summary["impact_ratio"] = rates.impact_ratio
        summary["breakdown_errors"] = breakdown_of_table(audit.counts)
    lines = _batch_lines(audit)
    if options["as_json"]:
        run.say(*lines)
        print_json(summary)
    else:
        print_result(*lines)
    exit_with(_batch_problems(summary, options))


def _batch_lines(audit: Any) -> list[str]:
    lines = [
        "Composition of the batch, each row labelled by itself, against that of the model:",
        f"{'cluster':>7}{'rows':>13}{'p-value':>10}  farthest group: share in the batch (model)",
    ]
    for record in audit.records:
        farthest = (
            f"{show_name(record['group'])}: {record['share']:.2%} ({record['model_share']:.2%})"
        )
        lines.append(
            f"{record['cluster']:>7}{record['rows']:>13,}{record['p_value']:>10.3g}  {farthest}"
        )
    far = counted(len(audit.far_rows), "row")
    unseen = ", ".join(f"{show_name(name)} ({n:,})" for name, n in audit.unseen_groups.items())
    return [
        *lines,
        "",
        f"far from every centre, more than 3 times the usual distance: {far} "
        f"({audit.share_far:.2%})",
        f"groups that the model does not know: {unseen or 'none'} ({audit.share_unseen:.2%} of the "
        "rows)",
        f"relative balance against the model {audit.relative_balance:.4f}, smallest p-value "
        f"{audit.p_value:.3g}",
    ]


def _batch_problems(summary: dict[str, Any], options: Options) -> list[str]:
    """Thresholds that are crossed; nothing if none is."""
    at_least = {"min_relative_balance": "relative_balance", "min_p_value": "p_value"}
    at_most = {"max_far": "share_far", "max_unseen": "share_unseen"}
    problems = []
    for option, key in (at_least | at_most).items():
        value, threshold = summary[key], options[option]
        if threshold is None:
            continue
        if value < threshold if option in at_least else value > threshold:
            relation = "below" if option in at_least else "above"
            name = option.replace("_", "-")
            problems.append(f"{key} is {value:.4g}, {relation} --{name} {threshold:g}.")
    return problems
