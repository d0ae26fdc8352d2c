"""``fairanchor demo``: plain and fair k-means on generated data, in a minute."""

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import click

from fairanchor.cli._common import PATH, check_outputs, composition_lines, shared
from fairanchor.tables._wording import counted

REPORT = "demo-report.html"
TABLE = "demo.csv"


@click.command(
    short_help="Compare plain and fair clusters of generated data.",
    epilog="Example: fairanchor demo --rows 20000 --seed 1",
)
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=100),
              help="Rows to generate.")  # fmt: skip
@click.option("--clusters", "-k", default=5, show_default=True, type=click.IntRange(min=1, max=50),
              help="Number of clusters.")  # fmt: skip
@click.option("--save", type=PATH, help="Write the generated table: .csv, .parquet ...")
@click.option("--report", type=PATH,
              help=f"Report, .html. By default {REPORT}, unless that file exists.")  # fmt: skip
@shared("seed", "jobs", "force")
def demo(
    rows: int,
    clusters: int,
    save: str | None,
    report: str | None,
    seed: int,
    jobs: int,
    force: bool,
) -> None:
    """Cluster the synthetic Zafar data, with and without fairness, and compare.

    The data are generated: two features, one sensitive attribute of two groups that is
    correlated with them.
    """
    from sklearn.cluster import KMeans

    from fairanchor import FairKMeans
    from fairanchor.datasets import make_zafar
    from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score
    from fairanchor.tables._write import check_format

    if save is not None:
        check_format(save)
    files = {"output": save, "report": report, "as_json": False, "force": force}
    check_outputs(files, "report")
    click.echo(f"1. Generate {rows:,} rows: 2 features, 2 groups (Zafar data, seed {seed}).")
    data = make_zafar(rows, variant="original", random_state=seed)
    X, group = data.data, data.sensitive_features
    if save is not None:
        _save(save, X, group, force)
    click.echo(f"\n2. Plain k-means with {counted(clusters, 'cluster')}, which ignores the groups.")
    plain = KMeans(clusters, n_init=10, random_state=seed)
    plain_seconds = _seconds(plain.fit, X)
    _print_composition(plain.labels_, group)
    click.echo("\n3. FairKMeans: every cluster has the group shares of all rows.")
    model = FairKMeans(clusters, random_state=seed, n_jobs=jobs)
    # The first fit of an installation compiles the kernels, which is not part of the time.
    model.fit(X[:2000], sensitive_features=group[:2000])
    fair_seconds = _seconds(model.fit, X, sensitive_features=group)
    _print_composition(model.labels_, group)

    click.echo("\n4. Comparison: fairness costs compactness.")
    lines = [f"{'':24}{'balance':>9}{'relative':>10}{'cost':>12}{'seconds':>9}"]
    for title, labels, cost, seconds in [
        ("Plain k-means, 10 starts", plain.labels_, plain.inertia_, plain_seconds),
        ("FairKMeans", model.labels_, model.inertia_, fair_seconds),
    ]:
        balance = balance_score(labels, sensitive_features=group)
        relative = relative_balance_score(labels, sensitive_features=group)
        lines.append(f"{title:24}{balance:9.4f}{relative:10.4f}{cost:12.0f}{seconds:9.2f}")
    lines.append(f"{'best possible balance':24}{dataset_balance(group):9.4f}")
    lines.append(
        f"Every cell is within {model.worst_violation_:.2f} rows of exact proportionality "
        f"({counted(model.n_iter_, 'iteration')})."
    )
    click.echo("\n".join(lines))
    click.echo(f"\n5. {_write_report(report, force, model, plain, X, group)}")
    click.echo(f"\n{_next_commands(save, clusters)}")


def _seconds(function: Any, *arguments: Any, **keywords: Any) -> float:
    start = time.perf_counter()
    function(*arguments, **keywords)
    return time.perf_counter() - start


def _save(path: str, X: Any, group: Any, force: bool) -> None:
    import pyarrow as pa

    from fairanchor.tables import write_table

    table = pa.table({"x": X[:, 0], "y": X[:, 1], "group": group})
    write_table(table, path, force=force)
    click.echo(f"   {path} has the columns x, y and group.")


def _print_composition(labels: Any, group: Any) -> None:
    from fairanchor.metrics import contingency_table

    table = contingency_table(labels, sensitive_features=group)
    names = [f"group {name}" for name in sorted(set(group.tolist()))]
    click.echo("\n".join(composition_lines(table, names)))


def _write_report(path: str | None, force: bool, model: Any, plain: Any, X: Any, group: Any) -> str:
    """Write the report, or state why there is none."""
    from fairanchor._utils._files import json_beside
    from fairanchor.report import summarise_run, write_report

    if path is None:
        path = REPORT
        kept = [str(file) for file in (REPORT, json_beside(REPORT)) if Path(file).exists()]
        if kept and not force:
            return f"No report: {kept[0]} exists already. Use --force to replace it, or --report."
    run = summarise_run(
        model,
        X,
        sensitive_features=group,
        title="Demonstration: generated data",
        feature_names=["x", "y"],
        plain_labels=plain.labels_,
        warnings=[],
    )
    try:
        write_report(path, run, force=force)
    except ImportError as error:
        return f"No report: {error}"
    return f"Report: open {path} in a browser."


def _next_commands(saved: str | None, clusters: int) -> str:
    """Commands to copy, with the program as the user can call it."""
    program = str(click.get_current_context().find_root().info_name)
    if program == "fairanchor" and shutil.which(program) is None:
        is_script = Path(sys.argv[0]).name == program
        program = sys.argv[0] if is_script else "python -m fairanchor"
    table = saved or TABLE
    commands = [] if saved else [f"{program} demo --rows 5000 --save {table}"]
    commands.append(
        f"{program} fit {table} -k {clusters} --sensitive group -o labels.csv --report fit.html"
    )
    return "\n".join(["Next, fit a table from a file, with labels and a report:", *commands])
