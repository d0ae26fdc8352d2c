"""``fairanchor compare``: what fairness costs on a table, method by method."""

import time

import click

from fairanchor.cli._common import (
    NOT_CONVERGED,
    PATH,
    Run,
    check_outputs,
    count_rows,
    exit_with,
    load_table,
    measures_of,
    missing_option,
    print_json,
    run_options,
    show_source,
    table_options,
)
from fairanchor.cli._fit import CLUSTERERS

PLAIN, ALONE = "k-means", "fair k-means"
METHODS = (PLAIN, ALONE, *(f"anchors+{name}" for name in CLUSTERERS))
PICTURES = (".png", ".svg", ".pdf")


@click.command(epilog="Example: fairanchor compare people.csv -k 5 --sensitive sex -o compare.png")
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--clusters", "-k", "n_clusters", required=True, type=click.IntRange(min=1),
              help="Number of clusters.")  # fmt: skip
@click.option(
    "--sensitive",
    multiple=True,
    required=True,
    metavar="COLUMNS",
    help="Column, or columns separated by commas: their combinations are the groups.",
)
@click.option(
    "--features",
    multiple=True,
    metavar="COLUMNS",
    help="Columns to cluster by; by default all but the sensitive ones and the id.",
)
@click.option("--exclude", multiple=True, metavar="COLUMNS", help="Columns that are no features.")
@click.option("--id", "id_column", metavar="COLUMN", help="Column that is no feature.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(METHODS),
    default=METHODS,
    help="Only these; repeatable. By default all.",
)
@click.option("--no-scale", is_flag=True, help="Do not standardise numeric columns.")
@click.option("--min-group-size", type=click.IntRange(min=0), default=0, metavar="N",
              help="Merge groups of fewer rows into one, called 'other'.")  # fmt: skip
@missing_option
@table_options
@click.option("--output", "-o", type=PATH, help=f"Picture, {', '.join(PICTURES)}.")
@click.option("--json", "as_json", is_flag=True, help="Table as JSON on standard output.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0, max=2**32 - 1))
@click.option("--jobs", default=-1, show_default=True, type=int, help="Threads; -1: all cores.")
@run_options
def compare(source, output, as_json, methods, force, quiet, **options):
    """Cluster INPUT by plain k-means and by each fair method, and compare.

    Cost is the k-means cost of the labels, relative to plain k-means where it takes part.
    'anchors+NAME' is the anchor framework with that clusterer, as 'fairanchor fit --clusterer
    NAME' runs it. A method that cannot handle the table is listed with its reason, and the exit
    code is then 3.
    """
    run = Run(quiet)
    check_outputs(None, output, force=force)
    _check_picture(output)
    with run.step("read", f"Reading {show_source(source)}"):
        loaded = load_table(source, options)
    run.say(
        f"{show_source(source)}: {count_rows(len(loaded.X))}, {loaded.preprocessing.describe()}."
    )
    if loaded.n_dropped:
        run.say(f"Left out: {count_rows(loaded.n_dropped)} with missing values.")
    with run.step("prepare", "Loading compiled kernels"):
        _warm_up(methods, options["seed"])
    records = []
    for method in dict.fromkeys(methods):
        with run.step(method, f"{method} ({len(records) + 1} of {len(methods)})"):
            records.append(_measured(method, loaded, options))
    _relate_costs(records)
    summary = {
        "command": "compare",
        "input": source,
        "n_rows": len(loaded.X),
        "n_clusters": options["n_clusters"],
        "methods": records,
        "warnings": run.warnings,
    }
    if output is not None:
        with run.step("draw", f"Drawing {output}"):
            _draw(records, output, force)
        run.say(f"picture: {output}")
    _print(summary, as_json)
    exit_with(NOT_CONVERGED if any("error" in record for record in records) else 0)


def _check_picture(output):
    if output is not None and not output.lower().endswith(PICTURES):
        raise click.UsageError(f"-o {output}: expected a picture, {', '.join(PICTURES)}.")


def _clusters_by(method, n_clusters, seed, jobs, missing="error"):
    """A function (rows, names of their groups) -> labels."""
    from sklearn.cluster import KMeans

    from fairanchor import AnchorFairClustering, FairKMeans

    if method == PLAIN:
        plain = KMeans(n_clusters, n_init=10, random_state=seed)
        return lambda X, groups: plain.fit(X).labels_
    if method == ALONE:
        fair = FairKMeans(n_clusters, random_state=seed)
    else:
        fair = AnchorFairClustering(
            n_clusters,
            clusterer=method.removeprefix("anchors+"),
            missing_groups=missing,
            random_state=seed,
            n_jobs=jobs,
        )
    return lambda X, groups: fair.fit(X, sensitive_features=groups).labels_


def _warm_up(methods, seed):
    """Compiled code is loaded at its first use, which is no part of any method's time."""
    from fairanchor.datasets import make_zafar

    data = make_zafar(400, variant="original", random_state=0)
    for method in methods:
        _clusters_by(method, 2, seed, 1)(data.data, data.sensitive_features)


def _measured(method, loaded, options):
    """One row of the comparison."""
    from fairanchor.clusterers._base import count_cells
    from fairanchor.metrics import clustering_cost

    n_clusters, grouping = options["n_clusters"], loaded.grouping
    missing = loaded.preprocessing.groups.missing
    start = time.perf_counter()
    try:
        label = _clusters_by(method, n_clusters, options["seed"], options["jobs"], missing)
        # A missing value is a group like others here, whatever a method calls missing.
        labels = label(loaded.X, grouping.codes)
    except (ValueError, RuntimeError, MemoryError) as error:
        return {"method": method, "error": str(error) or type(error).__name__}
    seconds = time.perf_counter() - start
    counts = count_cells(labels, grouping.codes, n_clusters, len(grouping.names))
    return {
        "method": method,
        "cost": clustering_cost(loaded.X, labels),
        **measures_of(counts),
        "smallest_cluster": int(counts.sum(axis=1).min()),
        "seconds": round(seconds, 4),
    }


def _relate_costs(records):
    plain = next((r["cost"] for r in records if r["method"] == PLAIN and "cost" in r), None)
    for record in records:
        if plain and "cost" in record:
            record["relative_cost"] = record["cost"] / plain


def _print(summary, as_json):
    if as_json:
        print_json(summary)
        return
    records = summary["methods"]
    width = max(len(record["method"]) for record in records) + 2
    heads = ("cost", "/ plain", "balance", "relative", "MNCE", "seconds")
    click.echo(f"{'method':{width}}" + "".join(f"{head:>10}" for head in heads))
    for record in records:
        if "error" in record:
            click.echo(f"{record['method']:{width}}failed: {record['error']}")
            continue
        relative = record.get("relative_cost")
        relative = f"{relative:10.3f}" if relative is not None else f"{'':10}"
        click.echo(
            f"{record['method']:{width}}{record['cost']:10.4g}{relative}{record['balance']:10.4f}"
            f"{record['relative_balance']:10.4f}{record['mnce']:10.4f}{record['seconds']:10.2f}"
        )
    bounds = [record["balance_bound"] for record in records if "balance_bound" in record]
    if bounds:
        click.echo(f"No clustering of these rows has a balance above {bounds[0]:.4f}.")


def _draw(records, output, force):
    """Cost, relative balance and time of each method side by side, in one order."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "The picture needs matplotlib, which is not installed: pip install matplotlib"
        ) from error
    from fairanchor.tables import replacing

    drawn = [record for record in records if "error" not in record][::-1]
    if not drawn:
        raise ValueError("No method succeeded: there is nothing to draw.")
    relative = "relative_cost" in drawn[0]
    cost = ("relative_cost", "cost (plain k-means = 1)", 3) if relative else ("cost", "cost", 0)
    balance = ("relative_balance", "relative balance (1 = proportional)", 3)
    panels = (cost, balance, ("seconds", "seconds", 2))
    figure = Figure(figsize=(10, 1.2 + 0.36 * len(drawn)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (key, title, digits) in zip(figure.subplots(1, 3, sharey=True), panels, strict=True):
        _bars(axes, drawn, key, title, digits)
    # Text stays text, and nothing in the file is drawn by lot.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "compare"}
    with rc_context(settings), replacing(output, force=force) as file:
        suffix = output.rsplit(".", 1)[1].lower()
        figure.savefig(file, format=suffix, dpi=150, metadata=_undated(suffix))


def _bars(axes, drawn, key, title, digits):
    colors = ["#8c8c8c" if record["method"] == PLAIN else "#2a6f97" for record in drawn]
    values = [record[key] for record in drawn]
    bars = axes.barh([record["method"] for record in drawn], values, color=colors)
    axes.bar_label(bars, [f"{value:.{digits}f}" for value in values], padding=3, fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.set_xlim(0, max(values) * 1.18 or 1.0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def _undated(suffix):
    """Metadata without a date: equal comparisons are equal pictures."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
