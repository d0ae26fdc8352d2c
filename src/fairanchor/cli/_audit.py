"""``fairanchor audit``: how fair are given clusters, whoever made them."""

from typing import Any

import click

from fairanchor.cli import _common as common
from fairanchor.cli._common import PATH, SHARE, Options, shared, show_name
from fairanchor.cli._predict import load_with_model
from fairanchor.cli._targets import targets_of_file
from fairanchor.cli._terminal import Run, exit_with, print_json, print_result
from fairanchor.tables._wording import counted, quoted

# Options that are about labels, which a batch has none of, and the other way round.
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
    "position; columns that both have must then agree.",
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
    type=click.Choice(["error", "own-group"]),
    help="Missing sensitive values: error (default); own-group: they are a group.",
)
@click.option("--favourable", multiple=True, metavar="CLUSTERS",
              help="Clusters that are an advantage, separated by commas: their selection rates are "
              "compared. By default those of each cluster.")  # fmt: skip
@click.option("--group-errors", type=click.IntRange(min=0), metavar="N",
              help="Also compute the worst relative balance if the groups of up to N rows are "
              "recorded wrongly. 1, 5 and 10 % of the rows are always computed.")  # fmt: skip
@click.option("--min-relative-balance", type=SHARE,
              help="End with exit code 3 if the relative balance is smaller.")  # fmt: skip
@click.option("--min-impact-ratio", type=SHARE,
              help="End with exit code 3 if an impact ratio is smaller.")  # fmt: skip
@click.option("--min-p-value", type=SHARE,
              help="Batches: end with exit code 3 if the smallest p-value is smaller.")  # fmt: skip
@click.option("--max-far", type=SHARE,
              help="Batches: end with exit code 3 if a larger share of the rows is far from all "
              "centres.")  # fmt: skip
@click.option("--max-unseen", type=SHARE,
              help="Batches: end with exit code 3 if a larger share of the rows belongs to groups "
              "that the model does not know.")  # fmt: skip
@click.option(
    "--tolerance",
    type=SHARE,
    help="Bounds to check: a group's share of a cluster between (1 - tolerance) and 1 / (1 - "
    "tolerance) times its share of all rows.",
)
@shared("targets", "attributes", "delimiter", "report", "json", "force", "quiet")
def audit(labels: str, **options: Any) -> None:
    """Measure the composition of the clusters in LABELS, a table made by any tool.

    Balance is the smallest group over the largest in the worst cluster; relative balance compares
    each group's share of a cluster with its share of all rows (1 is proportional); MNCE is the
    worst cluster's entropy over that of all rows. Rows without a cluster count against the verdict
    and the relative balance. LABELS and --data may be directories of Parquet or Arrow files, such
    as the labels of 'fairanchor fit'.

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
    is_batch = options["model"] is not None
    for name, option in (OF_LABELS if is_batch else OF_BATCHES).items():
        if options[name] not in (None, ()):
            with_model = "labels, and --model audits a batch of rows" if is_batch else "--model"
            raise click.UsageError(f"{option} is for {with_model}.")
    of_input = _of_batch if is_batch else _of_labels
    summary, lines, problems = of_input(run, labels, options)
    # The table is the result, unless --json replaces it.
    if options["as_json"]:
        run.say(*lines)
        print_json(summary | {"warnings": run.warnings})
    else:
        print_result(*lines)
    exit_with(problems)


def _of_labels(
    run: Run, labels: str, options: Options
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Summary, lines to print, and problems of given clusters; writes the report."""
    from fairanchor.report import write_report

    if not options["sensitive"]:
        raise click.UsageError("Missing option '--sensitive': name the columns with the groups.")
    if options["id_column"] is not None and options["data"] is None:
        raise click.UsageError(
            "--id matches rows of LABELS with rows of --data: give --data as well."
        )
    if labels == options["data"] == "-":
        raise click.UsageError("LABELS and --data cannot both be standard input.")
    inputs = {"labels": labels, "data": options["data"], "targets": options["targets"]}
    common.check_outputs(options, options["report"], inputs=list(inputs.values()))
    with run.step("read", f"Reading {common.show_source(labels)}"):
        report = _load(labels, options, run)
    report.warnings = run.warnings
    report.fingerprints = common.file_checksums(inputs) or report.fingerprints
    summary = _summary(labels, report)
    if options["report"] is not None:
        with run.step("report", f"Writing {options['report']}"):
            write_report(options["report"], report, force=options["force"])
        run.say(f"report: {options['report']}")
    missed = summary.get("worst_violation", 0.0)
    problems = [f"The constraint is missed by {missed:,.1f} rows."] if missed >= 1.0 else []
    at_least = {
        "min_relative_balance": "relative_balance_all_rows",
        "min_impact_ratio": "impact_ratio",
    }
    return summary, _lines(summary, report), problems + _crossed(summary, options, at_least, {})


def _load(labels: str, options: Options, run: Run) -> Any:
    """Everything that is known about the labels, as `RunSummary`."""
    import numpy as np

    from fairanchor.audit._selection import rates_of_counts
    from fairanchor.groups._groups import encode_names
    from fairanchor.report import RunSummary
    from fairanchor.tables._load import (
        AUDIT_ADVICE,
        check_names,
        check_number_of_groups,
        groups_of,
    )
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy, is_missing, require_columns, split_names

    source = open_table(labels, delimiter=options["delimiter"])
    cluster = options["cluster"]
    require_columns(source, [cluster])
    holder, advice = source, " --data names a table that has the sensitive columns."
    if options["data"] is not None:
        holder, advice = open_table(options["data"], delimiter=options["delimiter"]), ""
    columns = split_names(holder, options["sensitive"], advice)
    if cluster in columns:
        raise click.UsageError(f"The column {quoted(cluster)} cannot be both cluster and group.")
    table = _joined(source, holder, cluster, columns, options["id_column"], run)
    check_names(table.column(cluster), cluster)
    kept = ~is_missing(table.column(cluster))
    if not kept.any():
        raise ValueError(f"No row of {source.title} has a cluster.")
    codes, clusters = encode_names(table.filter(kept).select([cluster]))
    if len(clusters) > max(20, len(table) // 2):
        raise ValueError(
            f"The column {quoted(cluster)} has {len(clusters):,} different values in "
            f"{counted(len(table), 'row')}: it seems not to name clusters. --cluster names another "
            "column."
        )
    # Groups that have no row in any cluster are groups all the same.
    policy = MissingPolicy.of(options["missing"])
    groups = groups_of(table, columns, policy.groups, advice=AUDIT_ADVICE)
    check_number_of_groups(groups, columns)
    group_codes = np.argsort(groups.public_order)[groups.codes]
    unassigned = np.bincount(group_codes[~kept], minlength=groups.n_groups)
    favourable = _favourable(clusters, options["favourable"])
    report = RunSummary(
        title=f"Clusters of {common.show_source(labels)}",
        labels=codes,
        group_codes=group_codes[kept],
        group_names=groups.public_names.tolist(),
        cluster_names=clusters,
        columns=columns,
        unassigned=None if kept.all() else unassigned,
        favourable=favourable is not None,
        n_errors=options["group_errors"],
        n_rows_left_out=int(unassigned.sum()),
        command=common.command_line(),
    )
    names = report.group_names
    report.selection = rates_of_counts(
        report.counts, unassigned, names, clusters, columns, favourable
    )
    _state_constraint(report, options)
    return report


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
        # The number of a row in its file, which fit writes where there is no id.
        names.append(ROW_NUMBER)
        right = right.append_column(ROW_NUMBER, [holder.row_numbers(len(right))])
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
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from fairanchor.tables._roles import is_missing

    equal = pc.equal(_text(left), _text(right))
    try:  # 1 and 1.0 are the same; beyond 2**53 different ids would be the same number
        numbers, others = left.cast(pa.float64()), right.cast(pa.float64())
        same = pc.and_(pc.equal(numbers, others), pc.less(pc.abs(numbers), 2.0**53))
        equal = pc.or_(equal, same)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    are_missing = is_missing(left) & is_missing(right)
    different = np.flatnonzero(~(pc.fill_null(equal, False).to_numpy() | are_missing))
    if len(different):
        row = int(different[0])
        first = f"{quoted(left[row].as_py())} and {quoted(right[row].as_py())}"
        raise ValueError(
            f"The column {quoted(name)} differs in {counted(len(different), 'row')} between "
            f"{source.title} and {holder.title}, first in row {row}: {first}. Rows cannot be "
            "matched by position; --id names a column that identifies them in both files."
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
    unknown = labelled.filter(pc.is_null(pc.index_in(labelled, value_set=present)))
    if len(unknown):
        raise ValueError(
            f"{holder.title} lacks {counted(len(unknown), 'id')} of the labels, the first is "
            f"{quoted(unknown[0].as_py())}."
        )
    return pc.index_in(present, value_set=labelled)


def _state_constraint(report: Any, options: Options) -> None:
    """Let a report judge by the constraint that the options state."""
    from fairanchor.metrics import n_clusters_of
    from fairanchor.report._constraints import checks_of_counts, describe_constraint

    clusters, columns = report.cluster_names, report.columns
    separate = columns if options["attributes"] == "separate" else None
    if options["tolerance"] is None and options["targets"] is None and not separate:
        return
    tolerance = options["tolerance"] or 0.0
    targets: Any = tolerance
    fairness: Any = "population"
    if options["targets"] is not None:
        shape = len(clusters), len(report.labels)
        targets = fairness = targets_of_file(options, columns, report.group_names, *shape)
        by_number = any(n_clusters_of(part) is not None for part in targets)
        if by_number and list(clusters) != list(range(len(clusters))):
            raise ValueError(
                f"The targets number clusters 0..{len(clusters) - 1}, but the clusters of the "
                f"labels are {', '.join(map(str, clusters[:20]))}."
            )
    report.checks = checks_of_counts(
        report.counts, report.group_names, targets, separate, unassigned=report.unassigned
    )
    report.constraint = describe_constraint(fairness, tolerance, separate or ())


def _favourable(clusters: list[Any], items: tuple[str, ...]) -> list[Any] | None:
    """Clusters that ``--favourable`` names: text has no types."""
    from fairanchor.tables._load import spelling

    if not items:
        return None
    by_spelling = {spelling(name): name for name in clusters}
    wanted = [
        part.strip()
        for item in items
        for part in ([item] if item in by_spelling else item.split(","))
    ]
    unknown = [name for name in wanted if name not in by_spelling]
    if unknown:
        known = ", ".join(list(by_spelling)[:20])
        raise ValueError(
            f"--favourable {','.join(items)}: {quoted(unknown[0])} is not a cluster of the labels, "
            f"which are {known}."
        )
    return [by_spelling[name] for name in wanted]


def _summary(labels: str, report: Any) -> dict[str, Any]:
    from fairanchor.audit._remarks import group_remarks
    from fairanchor.report._render import certificate_of
    from fairanchor.report._verdict import judge

    counts, certificate = report.counts.astype(int), certificate_of(report)
    population = counts.sum(axis=0) + (0 if report.unassigned is None else report.unassigned)
    composition = report.composition
    l, r = composition.worst_cell
    summary = {
        "command": "audit",
        "input": labels,
        "n_rows": len(report.labels),
        "n_rows_without_cluster": report.n_rows_left_out,
        "clusters": report.cluster_names,
        **common.composition_entries(report.group_names, counts),
        "relative_balance_all_rows": report.relative_balance,
        "answer": judge(report).answer,
        # The cell farthest from proportional, by ratio.
        "worst_cell": {
            "cluster": report.cluster_names[l],
            "group": report.group_names[r],
            "rows": int(counts[l, r]),
            "proportional_rows": float(composition.expected[l, r]),
            "share_of_cluster": float(composition.shares[l, r]),
            "share_of_all": float(composition.population[r]),
        },
        "impact_ratio": report.selection.impact_ratio,
        "p_value": report.selection.p_value,
        "selection": report.selection.records,
        "breakdown_errors": certificate["breakdown"],
        "worst_relative_balance": certificate["stated"],
        "remarks": group_remarks(report.group_names, population),
    }
    if report.checks is not None:
        summary["worst_violation"] = max(check.worst for check in report.checks)
        if report.checks[0].attribute is not None:
            summary["attributes"] = {
                str(check.attribute): common.composition_entries(
                    check.groups, check.counts, worst_violation=check.worst
                )
                for check in report.checks
            }
    return summary


def _lines(summary: dict[str, Any], report: Any) -> list[str]:
    import numpy as np

    from fairanchor.report._constraints import describe_violation
    from fairanchor.report._verdict import judge

    verdict = judge(report)
    counts, clusters = report.counts, report.cluster_names
    if report.unassigned is not None:
        counts, clusters = np.vstack([counts, report.unassigned]), [*clusters, "no cluster"]
    stated = ", ".join(
        f"{line['relative_balance']:.4f} with {line['n_errors']:,}"
        for line in summary["worst_relative_balance"]
    )
    number, cell = summary["breakdown_errors"], summary["worst_cell"]
    lines = [
        *common.composition_lines(counts, report.group_names, clusters),
        "",
        f"{verdict.question} {verdict.answer}. {verdict.sentence}",
        *(verdict.details if report.n_rows_left_out else ()),
        common.measures_line(summary),
        f"farthest from proportional: group {show_name(cell['group'])} in cluster "
        f"{show_name(cell['cluster'])}, {cell['share_of_cluster']:.2%} of its rows against "
        f"{cell['share_of_all']:.2%} of all",
        f"smallest impact ratio {summary['impact_ratio']:.4f} (lowest selection rate over "
        f"highest), smallest p-value {summary['p_value']:.3g}",
        f"wrong group records, at worst: relative balance {stated}; fewest that can push it below "
        f"0.8: {'none' if number is None else f'{number:,}'}",
        *_selection_lines(report),
        *(f"Note: {remark}" for remark in summary["remarks"]),
    ]
    if report.checks is not None:
        lines += ["", report.constraint, *common.attribute_lines(summary.get("attributes"))]
        lines.append(describe_violation(report.checks, report.cluster_names))
    return lines


def _selection_lines(report: Any) -> list[str]:
    """Selection rates of the clusters that are marked as favourable."""
    lines = []
    for table in report.selection.tables if report.favourable else ():
        clusters = ", ".join(show_name(name) for name in table.clusters)
        lines += [
            "",
            f"{show_name(table.attribute)}: in cluster {clusters} (p-value {table.p_value:.3g}, "
            f"{table.test})",
        ]
        for record in table.records:
            low, high = record["rate_interval"]
            ratio = record["impact_ratio"]
            lines.append(
                f"  {show_name(record['group'])}: {record['selected']:,} of {record['rows']:,}, "
                f"{record['rate']:.2%} ({low:.2%} to {high:.2%})"
                + ("" if ratio is None else f", impact ratio {ratio:.3f}")
                + (", below four fifths" if record["below_four_fifths"] else "")
                + (", less than 2 % of the rows" if record["small"] else "")
            )
    return lines


def _crossed(
    summary: dict[str, Any], options: Options, at_least: dict[str, str], at_most: dict[str, str]
) -> list[str]:
    """Thresholds that are crossed, by option and entry of the summary."""
    problems = []
    for name, key in (at_least | at_most).items():
        value, threshold = summary[key], options[name]
        if threshold is None:
            continue
        what = key.removesuffix("_all_rows").replace("_", " ")
        limit = f"--{name.replace('_', '-')} {threshold:g}"
        if value is None:
            problems.append(f"The {what} is not known, so that {limit} is not met.")
        elif value < threshold if name in at_least else value > threshold:
            relation = "below" if name in at_least else "above"
            problems.append(f"The {what} {value:.4g} is {relation} {limit}.")
    return problems


# Batches of rows without labels: does a saved model still describe them.


def _of_batch(
    run: Run, source: str, options: Options
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Summary, lines to print, and problems of the rows of a file compared with the model."""
    from fairanchor.audit import audit_batch
    from fairanchor.audit._selection import rates_of_counts
    from fairanchor.metrics import breakdown_of_table

    estimator, loaded = load_with_model(run, options["model"], source, options)
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
        "p_value": audit.p_value if audit.counts.any() else None,
        "impact_ratio": None,
        "breakdown_errors": None,
        "n_rows_far": len(audit.far_rows),
        "share_far": audit.share_far,
        "unseen_groups": {show_name(name): n for name, n in audit.unseen_groups.items()},
        "share_unseen": audit.share_unseen,
    }
    if audit.counts.sum():
        columns = estimator.preprocessing_.sensitive
        clusters = list(range(len(audit.counts)))
        nothing = 0 * audit.counts.sum(axis=0)
        rates = rates_of_counts(audit.counts, nothing, audit.groups, clusters, columns)
        summary["impact_ratio"] = rates.impact_ratio
        summary["breakdown_errors"] = breakdown_of_table(audit.counts)
    lines = [
        "Composition of the batch, each row labelled by itself, against that of the model:",
        f"{'cluster':>7}{'rows':>13}{'p-value':>10}  farthest group: share in the batch (model)",
    ]
    lines += [
        f"{record['cluster']:>7}{record['rows']:>13,}{record['p_value']:>10.3g}  "
        f"{show_name(record['group'])}: {record['share']:.2%} ({record['model_share']:.2%})"
        for record in audit.records
    ]
    unseen = ", ".join(f"{name} ({n:,})" for name, n in summary["unseen_groups"].items())
    lines += [
        "",
        "far from every centre, more than 3 times the usual distance: "
        f"{counted(len(audit.far_rows), 'row')} ({audit.share_far:.2%})",
        f"groups that the model does not know: {unseen or 'none'} ({audit.share_unseen:.2%} of the "
        "rows)",
        f"relative balance against the model {audit.relative_balance:.4f}, smallest p-value "
        + (f"{audit.p_value:.3g}" if audit.counts.any() else "unknown"),
    ]
    at_least = {
        "min_relative_balance": "relative_balance",
        "min_p_value": "p_value",
        "min_impact_ratio": "impact_ratio",
    }
    at_most = {"max_far": "share_far", "max_unseen": "share_unseen"}
    return summary, lines, _crossed(summary, options, at_least, at_most)
