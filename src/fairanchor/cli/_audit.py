"""``fairanchor audit``: how fair are given clusters, whoever made them."""

from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.audit import audit_batch
from fairanchor.audit._selection import rates_of_counts
from fairanchor.cli import _common as common
from fairanchor.cli._common import Options, show_name
from fairanchor.cli._predict import load_with_model
from fairanchor.cli._targets import targets_of_file
from fairanchor.cli._terminal import Run, exit_with
from fairanchor.metrics import breakdown_of_table, n_clusters_of
from fairanchor.plotting._composition import encode_labels
from fairanchor.report import RunSummary, report_facts, summarise_labels, write_report
from fairanchor.report._constraints import describe_violation
from fairanchor.tables._load import (
    AUDIT_ADVICE,
    ROW_NUMBER,
    check_names,
    check_number_of_groups,
    groups_of,
    spelling,
)
from fairanchor.tables._read import open_table
from fairanchor.tables._roles import MissingPolicy, is_missing, require_columns, split_names
from fairanchor.tables._wording import counted, quoted
from fairanchor.tables._write import spreadsheet_safe

# Options that are about labels, which a batch has none of, and the other way round.
OF_LABELS = {"data": "--data", "id_column": "--id", "targets": "--targets", "report": "--report",
             "tolerance": "--tolerance", "sensitive": "--sensitive"}  # fmt: skip
OF_BATCHES = {"min_p_value": "--min-p-value", "max_far": "--max-far", "max_unseen": "--max-unseen"}
# Entries of the facts of a report that the summary has as well.
ROBUSTNESS = ("breakdown_errors", "worst_relative_balance", "remarks")
# Entries of the summary that thresholds are about.
THRESHOLDS = {
    "min_relative_balance": "relative_balance",
    "min_impact_ratio": "impact_ratio",
    "min_p_value": "p_value",
    "max_far": "share_far",
    "max_unseen": "share_unseen",
}

# Summary, and lines to print.
Audit = tuple[dict[str, Any], list[str]]


def run_audit(run: Run, options: Options) -> None:
    """Audit labels or a batch, print the result, and end with code 3 where it asks for that."""
    is_batch = options["model"] is not None
    for name, option in (OF_LABELS if is_batch else OF_BATCHES).items():
        if options[name] not in (None, ()):
            with_model = "labels, and --model audits a batch of rows" if is_batch else "--model"
            raise click.UsageError(f"{option} is for {with_model}.")
    summary, lines = (_of_batch if is_batch else _of_labels)(run, options)
    # The table is the result, unless --json replaces it.
    if options["as_json"]:
        run.say(*lines)
        common.print_json(summary | {"warnings": run.warnings})
    else:
        common.print_result(*lines)
    missed = summary.get("worst_violation") or 0.0
    problems = [f"The constraint is missed by {missed:,.1f} rows."] if missed >= 1.0 else []
    exit_with(problems + _crossed(summary, options))


def _crossed(summary: dict[str, Any], options: Options) -> list[str]:
    """Thresholds that are crossed."""
    problems = []
    for name, key in THRESHOLDS.items():
        threshold = options[name]
        if threshold is None:
            continue
        # Of labels, rows without a cluster count against the relative balance.
        value, what = summary.get(f"{key}_all_rows", summary[key]), key.replace("_", " ")
        limit = f"--{name.replace('_', '-')} {threshold:g}"
        if value is None:
            problems.append(f"The {what} is not known, so that {limit} is not met.")
        elif name.startswith("min") and value < threshold:
            problems.append(f"The {what} {value:.4g} is below {limit}.")
        elif name.startswith("max") and value > threshold:
            problems.append(f"The {what} {value:.4g} is above {limit}.")
    return problems


def _of_labels(run: Run, options: Options) -> Audit:
    """Summary and lines of given clusters; writes the report."""
    labels = options["source"]
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
        report = _summarised(*_load(options, run), options)
    report.warnings, report.command = run.warnings, common.command_line()
    report.fingerprints = common.file_checksums(inputs) or report.fingerprints
    facts = report_facts(report)
    summary = {
        "command": "audit",
        "input": labels,
        "n_rows": report.n_rows_total,
        "n_rows_without_cluster": report.n_rows_left_out,
        **facts["met"],
        **{name: facts["robustness"][name] for name in ROBUSTNESS},
    }
    if options["report"] is not None:
        with run.step("report", f"Writing {options['report']}"):
            write_report(options["report"], report, force=options["force"])
        run.say(f"report: {options['report']}")
    return summary, _lines(summary, report)


def _load(options: Options, run: Run) -> tuple[pa.Table, list[str]]:
    """A table with the cluster and the sensitive columns of every row, and the latter's names."""
    source = open_table(options["source"], delimiter=options["delimiter"])
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
    if is_missing(table.column(cluster)).all():
        raise ValueError(f"No row of {source.title} has a cluster.")
    n_clusters = pc.count_distinct(table.column(cluster)).as_py()
    if n_clusters > max(20, len(table) // 2):
        raise ValueError(
            f"The column {quoted(cluster)} has {n_clusters:,} different values in "
            f"{counted(len(table), 'row')}: it seems not to name clusters. --cluster names another "
            "column."
        )
    return table, columns


def _summarised(table: pa.Table, columns: list[str], options: Options) -> RunSummary:
    """Everything that is known about the labels."""
    labels = table.column(options["cluster"])
    # Groups that have no row in any cluster are groups all the same.
    missing = MissingPolicy.of(options["missing"]).groups
    groups = groups_of(table, columns, missing, advice=AUDIT_ADVICE)
    check_number_of_groups(groups, columns)
    clusters, targets = encode_labels(labels, drop_missing=True)[1], options["tolerance"]
    if options["targets"] is not None:
        shape = len(clusters), len(table) - int(is_missing(labels).sum())
        targets = targets_of_file(options, columns, groups.public_names, *shape)
        by_number = any(n_clusters_of(part) is not None for part in targets)
        if by_number and clusters != list(range(len(clusters))):
            raise ValueError(
                f"The targets number clusters 0..{len(clusters) - 1}, but the clusters of the "
                f"labels are {', '.join(map(str, clusters[:20]))}."
            )
    elif targets is None and options["attributes"] == "separate":
        targets = 0.0
    report = summarise_labels(
        labels,
        sensitive_features=table.select(columns),
        targets=targets,
        attributes=options["attributes"],
        favourable=_favourable(clusters, options["favourable"]),
        title=f"Clusters of {common.show_source(options['source'])}",
        missing="drop",
        missing_groups=missing,
    )
    report.n_errors = options["group_errors"]
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
    return spreadsheet_safe(column.cast(pa.string()))


def _partners(labelled: Any, present: Any, source: Any, holder: Any) -> Any:
    """Row of the labels for each id of the data, or null; ids of the labels must be there."""
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


def _favourable(clusters: list[Any], items: tuple[str, ...]) -> list[Any] | None:
    """Clusters that ``--favourable`` names: text has no types."""
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


def _lines(summary: dict[str, Any], report: RunSummary) -> list[str]:
    everyone, cell = report.everyone, summary["worst_cell"]
    clusters = ["no cluster" if name is None else name for name in everyone.clusters]
    lines = [
        *common.composition_lines(everyone.table, report.group_names, clusters),
        "",
        f"{summary['question']} {summary['answer']}. {summary['sentence']}",
        *(summary["details"] if report.n_rows_left_out else ()),
        *common.measures_lines(summary | {"attributes": None}),
        f"farthest from proportional: group {show_name(cell['group'])} in cluster "
        f"{show_name(cell['cluster'])}, {cell['share_of_cluster']:.2%} of its rows against "
        f"{cell['share_of_all']:.2%} of all",
        f"smallest impact ratio {summary['impact_ratio']:.4f} (lowest selection rate over "
        f"highest), smallest p-value {summary['p_value']:.3g}",
    ]
    if summary["worst_relative_balance"] is not None:
        number = summary["breakdown_errors"]
        stated = ", ".join(
            f"{line['relative_balance']:.4f} with {line['n_errors']:,}"
            for line in summary["worst_relative_balance"]
        )
        lines.append(
            f"wrong group records, at worst: relative balance {stated}; fewest that can push it "
            f"below 0.8: {'none' if number is None else f'{number:,}'}"
        )
    lines += [*_selection_lines(report), *(f"Note: {remark}" for remark in summary["remarks"])]
    if report.checks is not None:
        lines += ["", str(report.constraint), *common.measures_lines(summary)[1:]]
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


# Batches of rows without labels: does a saved model still describe them.


def _of_batch(run: Run, options: Options) -> Audit:
    """Summary and lines of the rows of a file compared with the model."""
    estimator, loaded = load_with_model(run, options)
    with run.step("audit", f"Comparing {counted(len(loaded.X), 'row')} with the model"):
        groups = loaded.sensitive_features()
        audit = audit_batch(estimator, loaded.X, sensitive_features=groups)
    summary = {
        "command": "audit",
        "input": options["source"],
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
    return summary, lines
