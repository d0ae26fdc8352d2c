"""``fairanchor demo``: plain and fair k-means on generated data, in a minute."""

import os
import shutil
import sys
import time
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

    if save == "-":
        raise click.UsageError("--save needs a file: standard output has the comparison.")
    check_outputs({"report": report, "force": force}, report, table=save)
    click.echo(f"1. Generate {rows:,} rows: 2 features, 2 groups (Zafar data, seed {seed}).")
    data = make_zafar(rows, variant="original", random_state=seed)
    X, group = data.data, data.sensitive_features
    if save is not None:
        import pyarrow as pa

        from fairanchor.tables._write import write_table

        table = pa.table({"x": X[:, 0], "y": X[:, 1], "group": group})
        write_table(table, save, force=force)
        click.echo(f"   {save} has the columns x, y and group.")
    click.echo(f"\n2. Plain k-means with {counted(clusters, 'cluster')}, which ignores the groups.")
    # The first fit of each estimator loads libraries and compiles kernels, and is not timed.
    KMeans(clusters, n_init=1, random_state=seed).fit(X[:2000])
    start = time.perf_counter()
    plain = KMeans(clusters, n_init=10, random_state=seed).fit(X)
    plain_seconds = time.perf_counter() - start
    _print_composition(plain.labels_, group)
    click.echo("\n3. FairKMeans: every cluster has the group shares of all rows.")
    model = FairKMeans(clusters, random_state=seed, n_jobs=jobs)
    model.fit(X[:2000], sensitive_features=group[:2000])
    start = time.perf_counter()
    model.fit(X, sensitive_features=group)
    fair_seconds = time.perf_counter() - start
    _print_composition(model.labels_, group)

    click.echo("\n4. Comparison: fairness costs compactness.")
    click.echo(f"{'':24}{'balance':>9}{'relative':>10}{'cost':>12}{'seconds':>9}")
    for title, fitted, seconds in [
        ("Plain k-means, 10 starts", plain, plain_seconds),
        ("FairKMeans", model, fair_seconds),
    ]:
        balance = balance_score(fitted.labels_, sensitive_features=group)
        relative = relative_balance_score(fitted.labels_, sensitive_features=group)
        click.echo(f"{title:24}{balance:9.4f}{relative:10.4f}{fitted.inertia_:12.0f}{seconds:9.2f}")
    click.echo(f"{'best possible balance':24}{dataset_balance(group):9.4f}")
    click.echo(
        f"Every cell is within {model.worst_violation_:.2f} rows of exact proportionality "
        f"({counted(model.n_iter_, 'iteration')})."
    )
    click.echo(f"\n5. {_write_report(report, force, model, plain, X, group)}")
    click.echo("\nNext, fit a table from a file, with labels and a report:")
    program = str(click.get_current_context().find_root().info_name)
    if program == "fairanchor" and shutil.which(program) is None:  # not on the path
        is_script = os.path.basename(sys.argv[0]) == program
        program = sys.argv[0] if is_script else "python -m fairanchor"
    if save is None:
        click.echo(f"{program} demo --rows 5000 --save {TABLE}")
    table = save or TABLE
    options = f"-k {clusters} --sensitive group -o labels.csv --report fit.html"
    click.echo(f"{program} fit {table} {options}")


def _print_composition(labels: Any, group: Any) -> None:
    from fairanchor.metrics import contingency_table

    counts = contingency_table(labels, sensitive_features=group)
    names = [f"group {name}" for name in sorted(set(group.tolist()))]
    click.echo("\n".join(composition_lines(counts, names)))


def _write_report(path: str | None, force: bool, model: Any, plain: Any, X: Any, group: Any) -> str:
    """Write the report, or state why there is none."""
    from fairanchor.report import summarise_run, write_report

    if path is None and os.path.exists(REPORT) and not force:
        return f"No report: {REPORT} exists already. Use --force to replace it, or --report."
    summary = summarise_run(
        model,
        X,
        sensitive_features=group,
        title="Demonstration: generated data",
        feature_names=["x", "y"],
        plain_labels=plain.labels_,
        warnings=[],
    )
    try:
        write_report(path or REPORT, summary, force=force)
    except ImportError as error:
        return f"No report: {error}"
    return f"Report: open {path or REPORT} in a browser."
