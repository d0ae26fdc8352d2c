"""``fairanchor demo``: plain and fair k-means on generated data, in a minute."""

import time

import click

from fairanchor.cli._common import jobs_option


@click.command(
    short_help="Compare plain and fair clusters of generated data.",
    epilog="Example: fairanchor demo --rows 20000 --seed 1",
)
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=100),
              help="Rows to generate.")  # fmt: skip
@click.option("--clusters", "-k", default=5, show_default=True, type=click.IntRange(min=1, max=50),
              help="Number of clusters.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1),
              help="The same seed gives the same rows.")  # fmt: skip
@click.option(
    "--save", type=click.Path(), help="Also write the generated table: .csv, .parquet ..."
)
@click.option("--force", is_flag=True, help="Replace the file that --save names.")
@jobs_option
def demo(rows, clusters, seed, save, force, jobs):
    """Cluster the synthetic Zafar data, with and without fairness, and compare.

    The data are generated: two features, one sensitive attribute of two groups that is
    correlated with them.
    """
    from sklearn.cluster import KMeans

    from fairanchor import FairKMeans
    from fairanchor.datasets import make_zafar

    _check_save(save, force)
    click.echo(f"Zafar data: {rows:,} rows, 2 features, 2 groups (generated, seed {seed})")
    data = make_zafar(rows, variant="original", random_state=seed)
    X, group = data.data, data.sensitive_features
    if save is not None:
        _save(save, X, group, force)
    model = FairKMeans(clusters, random_state=seed, n_jobs=jobs)
    # The first fit of an installation compiles the kernels; they are kept on disk.
    model.fit(X[:2000], sensitive_features=group[:2000])

    start = time.perf_counter()
    plain = KMeans(clusters, n_init=10, random_state=seed).fit(X)
    plain_seconds = time.perf_counter() - start
    start = time.perf_counter()
    model.fit(X, sensitive_features=group)
    fair_seconds = time.perf_counter() - start

    _print_composition("Plain k-means", plain.labels_, group)
    _print_composition("FairKMeans", model.labels_, group)
    _print_comparison(X, group, plain, plain_seconds, model, fair_seconds)


def _check_save(save, force):
    if save is not None:
        from fairanchor._utils._files import check_output
        from fairanchor.tables._write import check_format

        check_format(save)
        check_output(save, force=force)


def _save(path, X, group, force):
    import pyarrow as pa

    from fairanchor.tables import write_table

    table = pa.table({"x": X[:, 0], "y": X[:, 1], "group": group})
    write_table(table, path, force=force)
    click.echo(f"Written: {path} with the columns x, y and group")


def _print_composition(title, labels, group):
    from fairanchor.metrics import contingency_table

    table = contingency_table(labels, sensitive_features=group)
    names = sorted(set(group.tolist()))
    click.echo(f"\n{title}: rows and share of each group, by cluster")
    click.echo("  cluster      rows" + "".join(f"{f'group {name}':>18}" for name in names))
    for cluster, row in [*enumerate(table), ("all", table.sum(axis=0))]:
        cells = "".join(f"{count:>10,.0f} {count / row.sum():>6.2%}" for count in row)
        click.echo(f"  {cluster!s:>7} {row.sum():>9,.0f}{cells}")


def _print_comparison(X, group, plain, plain_seconds, model, fair_seconds):
    from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score

    best = dataset_balance(group)
    click.echo(f"\n{'':24}{'balance':>9}{'relative':>10}{'cost':>12}{'seconds':>9}")
    for title, labels, cost, seconds in [
        ("plain k-means", plain.labels_, plain.inertia_, plain_seconds),
        ("FairKMeans", model.labels_, model.inertia_, fair_seconds),
    ]:
        balance = balance_score(labels, sensitive_features=group)
        relative = relative_balance_score(labels, sensitive_features=group)
        click.echo(f"{title:24}{balance:9.4f}{relative:10.4f}{cost:12.0f}{seconds:9.2f}")
    click.echo(f"{'best possible balance':24}{best:9.4f}")
    click.echo(
        f"\nEvery cell is within {model.worst_violation_:.2f} rows of exact proportionality "
        f"({model.n_iter_} iterations)."
    )
