"""``fairanchor demo``: plain and fair k-means on generated data, in a minute."""

import os
import shutil
import sys
from typing import Any

import click
import numpy as np
import pyarrow as pa

from fairanchor.cli import _common as common
from fairanchor.cli._commands import ALONE, PLAIN
from fairanchor.cli._common import Options
from fairanchor.cli._compare import fitted_and_measured, load_kernels, method_lines
from fairanchor.datasets import make_zafar
from fairanchor.report import summarise_run, write_report
from fairanchor.tables._wording import counted
from fairanchor.tables._write import write_table

REPORT = "demo-report.html"
TABLE = "demo.csv"


def run_demo(options: Options) -> None:
    """Generate rows, cluster them with and without fairness, and print the comparison."""
    rows, save, force = options["rows"], options["save"], options["force"]
    if save == "-":
        raise click.UsageError("--save needs a file: standard output has the comparison.")
    common.check_outputs(options, options["report"], table=save)
    click.echo(
        f"1. Generate {rows:,} rows: 2 features, 2 groups (Zafar data, seed {options['seed']})."
    )
    data = make_zafar(rows, variant="original", random_state=options["seed"])
    X, group = data.data, data.sensitive_features
    if save is not None:
        table = pa.table({"x": X[:, 0], "y": X[:, 1], "group": group})
        write_table(table, save, force=force)
        click.echo(f"   {save} has the columns x, y and group.")
    n_clusters = counted(options["n_clusters"], "cluster")
    click.echo(f"\n2. Plain k-means with {n_clusters}, which ignores the groups.")
    plain, of_plain = _fitted(PLAIN, X, group, options)
    click.echo("\n3. FairKMeans: every cluster has the group shares of all rows.")
    fair, of_fair = _fitted(ALONE, X, group, options)
    click.echo("\n4. Comparison: fairness costs compactness.")
    for record in (of_plain, of_fair):
        record["relative_cost"] = record["cost"] / of_plain["cost"]
    click.echo("\n".join(method_lines([of_plain, of_fair])))
    click.echo(
        f"Every cell is within {fair.worst_violation_:.2f} rows of exact proportionality "
        f"({counted(fair.n_iter_, 'iteration')})."
    )
    click.echo(f"\n5. {_write_report(options, fair, plain, X, group)}")
    click.echo("\nNext, fit a table from a file, with labels and a report:")
    program = str(click.get_current_context().find_root().info_name)
    if program == "fairanchor" and shutil.which(program) is None:  # not on the path
        is_script = os.path.basename(sys.argv[0]) == program
        program = sys.argv[0] if is_script else "python -m fairanchor"
    if save is None:
        click.echo(f"{program} demo --rows 5000 --save {TABLE}")
    outputs = "-o labels.csv --report fit.html"
    click.echo(
        f"{program} fit {save or TABLE} -k {options['n_clusters']} --sensitive group {outputs}"
    )


def _fitted(method: str, X: np.ndarray, group: np.ndarray, options: Options) -> Any:
    """The estimator of a method and its row of the comparison; prints the composition."""
    load_kernels(method)
    estimator, record = fitted_and_measured(method, X, group, options)
    names = [f"group {name}" for name in record["groups"]]
    click.echo("\n".join(common.composition_lines(record["counts"], names)))
    return estimator, record


def _write_report(options: Options, fair: Any, plain: Any, X: np.ndarray, group: np.ndarray) -> str:
    """Write the report, or state why there is none."""
    path, force = options["report"], options["force"]
    if path is None and os.path.exists(REPORT) and not force:
        return f"No report: {REPORT} exists already. Use --force to replace it, or --report."
    summary = summarise_run(
        fair,
        X,
        sensitive_features=group,
        title="Demonstration: generated data",
        feature_names=["x", "y"],
        plain_labels=plain.labels_,
    )
    summary.warnings = []
    try:
        write_report(path or REPORT, summary, force=force)
    except ImportError as error:
        return f"No report: {error}"
    return f"Report: open {path or REPORT} in a browser."
