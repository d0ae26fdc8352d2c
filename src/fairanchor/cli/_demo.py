"""``fairanchor demo``: plain and fair k-means on generated data, in a minute."""

import time
from typing import Any

import click

from fairanchor.cli._common import composition_lines, shared
from fairanchor.tables._wording import counted


@click.command(
    short_help="Compare plain and fair clusters of generated data.",
    epilog="Example: fairanchor demo --rows 20000 --seed 1",
)
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=100),
              help="Rows to generate.")  # fmt: skip
@click.option("--clusters", "-k", default=5, show_default=True, type=click.IntRange(min=1, max=50),
              help="Number of clusters.")  # fmt: skip
@click.option("--save", type=click.Path(), help="Write the generated table: .csv, .parquet ...")
@shared("seed", "jobs", "force")
def demo(rows: int, clusters: int, save: str | None, seed: int, jobs: int, force: bool) -> None:
    """Cluster the synthetic Zafar data, with and without fairness, and compare.

    The data are generated: two features, one sensitive attribute of two groups that is
    correlated with them.
    """
    from sklearn.cluster import KMeans

    from fairanchor import FairKMeans
    from fairanchor._utils._files import check_output
    from fairanchor.datasets import make_zafar
    from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score
    from fairanchor.tables._write import check_format

    if save is not None:
        check_format(save)
        check_output(save, force=force)
    click.echo(f"Zafar data: {rows:,} rows, 2 features, 2 groups (generated, seed {seed})")
    data = make_zafar(rows, variant="original", random_state=seed)
    X, group = data.data, data.sensitive_features
    if save is not None:
        _save(save, X, group, force)
    model = FairKMeans(clusters, random_state=seed, n_jobs=jobs)
    # The first fit of an installation compiles the kernels; they are kept on disk.
    model.fit(X[:2000], sensitive_features=group[:2000])

    lines = [f"\n{'':24}{'balance':>9}{'relative':>10}{'cost':>12}{'seconds':>9}"]
    plain = KMeans(clusters, n_init=10, random_state=seed)
    for title, estimator, fit in [
        ("Plain k-means", plain, lambda: plain.fit(X)),
        ("FairKMeans", model, lambda: model.fit(X, sensitive_features=group)),
    ]:
        start = time.perf_counter()
        fit()
        seconds = time.perf_counter() - start
        _print_composition(title, estimator.labels_, group)
        balance = balance_score(estimator.labels_, sensitive_features=group)
        relative = relative_balance_score(estimator.labels_, sensitive_features=group)
        cost = f"{estimator.inertia_:12.0f}{seconds:9.2f}"
        lines.append(f"{title:24}{balance:9.4f}{relative:10.4f}{cost}")
    lines.append(f"{'best possible balance':24}{dataset_balance(group):9.4f}")
    lines.append(
        f"\nEvery cell is within {model.worst_violation_:.2f} rows of exact proportionality "
        f"({counted(model.n_iter_, 'iteration')})."
    )
    click.echo("\n".join(lines))


def _save(path: str, X: Any, group: Any, force: bool) -> None:
    import pyarrow as pa

    from fairanchor.tables import write_table

    table = pa.table({"x": X[:, 0], "y": X[:, 1], "group": group})
    write_table(table, path, force=force)
    click.echo(f"Written: {path} with the columns x, y and group")


def _print_composition(title: str, labels: Any, group: Any) -> None:
    from fairanchor.metrics import contingency_table

    table = contingency_table(labels, sensitive_features=group)
    names = [f"group {name}" for name in sorted(set(group.tolist()))]
    click.echo(f"\n{title}: rows and share of each group, by cluster")
    click.echo("\n".join(composition_lines(table, names)))
