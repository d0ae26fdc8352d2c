"""``fairanchor audit --model``: does a saved model still describe a new batch of rows."""

from typing import Any

import click

from fairanchor.cli._common import (
    Options,
    Run,
    exit_with,
    print_json,
    print_result,
    show_name,
    show_source,
)
from fairanchor.tables._wording import counted

# Options that are about labels, which a batch has none of.
OF_LABELS = {"data": "--data", "id_column": "--id", "targets": "--targets", "report": "--report",
             "tolerance": "--tolerance", "sensitive": "--sensitive"}  # fmt: skip
OF_BATCHES = {"min_p_value": "--min-p-value", "max_far": "--max-far", "max_unseen": "--max-unseen"}


def check_kind(options: Options) -> None:
    """Raise an error for options of labels with ``--model``, and of batches without it."""
    is_batch = options["model"] is not None
    for name, option in (OF_LABELS if is_batch else OF_BATCHES).items():
        if options[name] not in (None, ()):
            with_model = "labels, and --model audits a batch of rows" if is_batch else "--model"
            raise click.UsageError(f"{option} is for {with_model}.")


def audit_file(run: Run, source: str, options: Options) -> None:
    """Compare the rows of a file with the model, print the result and end with code 0 or 3."""
    from fairanchor.audit import audit_batch
    from fairanchor.audit._selection import rates_of_counts
    from fairanchor.cli._predict import load_with_model
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
    lines = _lines(audit)
    if options["as_json"]:
        run.say(*lines)
        print_json(summary)
    else:
        print_result(*lines)
    exit_with(_problems(summary, options))


def _lines(audit: Any) -> list[str]:
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


def _problems(summary: dict[str, Any], options: Options) -> list[str]:
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
