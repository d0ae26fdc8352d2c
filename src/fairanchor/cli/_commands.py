"""The commands and their options; the work of a command is in a module that it imports."""

import sys
from collections.abc import Callable
from typing import Any

import click

from fairanchor import __version__
from fairanchor.cli._terminal import Run, errors_as_one_line

CLUSTERERS = ("fair_kmeans", "spfc", "vfc", "fmsc", "fairlets", "ffc", "bounded", "consensus")
PLAIN, ALONE = "k-means", "fair k-means"
METHODS = (PLAIN, ALONE, *(f"anchors+{name}" for name in CLUSTERERS[1:]))

PATH = click.Path(path_type=str, allow_dash=True)
SHARE = click.FloatRange(0, 1)
COUNT = click.IntRange(min=1)


class Commands(click.Group):
    """Commands in the order of their definition, whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if hasattr(sys.stdout, "reconfigure"):
            # Letters that the terminal's encoding does not have are shown by their numbers.
            sys.stdout.reconfigure(errors="backslashreplace")
        with errors_as_one_line():
            return super().invoke(ctx)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0: done; 1: invalid data or file, or error at run time; 2: invalid "
        "command-line arguments; 3: finished, but not converged, a target missed by a row or more, "
        "or a threshold crossed; 130: interrupted. With FAIRANCHOR_TRACEBACK=1 in the environment "
        "errors show a traceback."
    ),
)
@click.version_option(__version__, prog_name="fairanchor")
def main() -> None:
    """Fair clustering at scale: clusters with the group composition that you specify."""


def _delimiter(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value in ("tab", "\\t"):
        return "\t"
    if value is not None and not (len(value) == 1 and value.isascii()):
        raise click.BadParameter("expected one ASCII character, or 'tab'.")
    return value


# Options that several commands have.
SHARED = {
    "source": click.argument("source", metavar="INPUT", type=PATH),
    "clusters": click.option("--clusters", "-k", "n_clusters", required=True, type=COUNT,
                             help="Number of clusters."),
    "sensitive": click.option("--sensitive", multiple=True, metavar="COLUMNS",
                              help="Column, or columns separated by commas, whose combinations "
                              "are the groups."),
    "features": click.option("--features", multiple=True, metavar="COLUMNS",
                             help="Columns to cluster by; by default all but the sensitive ones "
                             "and the id."),
    "exclude": click.option("--exclude", multiple=True, metavar="COLUMNS",
                            help="Columns that are not features."),
    "id": click.option("--id", "id_column", metavar="COLUMN",
                       help="Column that identifies a row. It is copied to the output and is "
                       "not a feature."),
    "tolerance": click.option("--tolerance", type=SHARE,
                              help="By how much shares may deviate: a group's share of a cluster "
                              "is between (1 - tolerance) and 1 / (1 - tolerance) times its share "
                              "of all rows."),
    "attributes": click.option("--attributes", type=click.Choice(["intersection", "separate"]),
                               default="intersection", show_default=True,
                               help="Several sensitive columns: their combinations are the groups, "
                               "or each column is constrained separately."),
    "targets": click.option("--targets", metavar="FILE",
                            type=click.Path(exists=True, dir_okay=False, path_type=str),
                            help="Table of shares, bounds and sizes: columns named like the "
                            "sensitive ones, cluster, share, lower, upper, min_size, max_size; an "
                            "empty cluster means all."),
    "missing": click.option("--missing", multiple=True, default=["error"],
                            type=click.Choice(["error", "own-group", "impute", "drop-rows"]),
                            help="Missing values: raise an error (default); own-group: missing "
                            "sensitive values are a group; impute: features get the mean or the "
                            "most frequent category; drop-rows: such rows get no cluster, and "
                            "their number is printed. Repeatable."),
    "delimiter": click.option("--delimiter", callback=_delimiter,
                              help="Delimiter of CSV files, such as ';' or 'tab'."),
    "labels": click.option("--output", "-o", type=PATH,
                           help="Labels, .csv, .tsv, .parquet or .arrow; - for standard output."),
    "report": click.option("--report", type=PATH, help="Report, .html."),
    "json": click.option("--json", "as_json", is_flag=True,
                         help="Summary as JSON on standard output."),
    "seed": click.option("--seed", default=0, show_default=True,
                         type=click.IntRange(min=0, max=2**32 - 1),
                         help="Seed of all random numbers; the same seed gives the same result."),
    "jobs": click.option("--jobs", type=COUNT, metavar="N",
                         callback=lambda context, parameter, n: n or -1,
                         help="Threads, or workers of a Dask cluster that is started; by default "
                         "one per core."),
    "force": click.option("--force", is_flag=True, help="Replace existing files."),
    "quiet": click.option("--quiet", "-q", is_flag=True, help="Print errors and warnings only."),
}  # fmt: skip


def shared(*names: str) -> Callable[[Any], Any]:
    """Add arguments and options of `SHARED` to a command, in this order."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            command = SHARED[name](command)
        return command

    return decorate


@main.command(
    short_help="Compute fair clusters of a table.",
    epilog="Example: fairanchor fit people.csv -k 5 --sensitive sex,race --id person -o labels.csv "
    "--model people.npz",
)
@shared("source", "clusters", "sensitive", "features", "exclude", "id")
@click.option("--clusterer", type=click.Choice(CLUSTERERS), default=CLUSTERERS[0],
              show_default=True,
              help="fair_kmeans clusters all rows by fair k-means. Any other clusters anchors, and "
              "the anchor framework labels the rows: spfc (fair spectral), vfc (variational), fmsc "
              "(one-stage spectral), fairlets, ffc (fairness first), bounded (linear programming), "
              "consensus.")  # fmt: skip
@shared("tolerance")
@click.option("--max-share", type=SHARE, metavar="SHARE",
              help="Largest share that any group may have of a cluster, such as 0.2. Alone it is "
              "the only constraint; with --tolerance, both apply.")  # fmt: skip
@shared("targets", "attributes")
@click.option("--min-size", "min_cluster_size", metavar="N", type=COUNT,
              help="Smallest number of rows of a cluster.")  # fmt: skip
@click.option("--max-size", metavar="N", type=COUNT, help="Largest number of rows of a cluster.")
@shared("missing", "delimiter", "labels")
@click.option("--model", type=PATH, help="Model file for 'fairanchor predict', .npz.")
@shared("report", "json", "seed", "jobs")
@click.option("--engine", type=click.Choice(("memory", "stream", "dask")),
              help="For a directory: stream (default) reads chunks, memory all rows, dask uses a "
              "cluster. All give the same labels.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS",
              help="Address of a Dask scheduler; by default a cluster is started on this "
              "machine.")  # fmt: skip
@click.option("--checkpoint", type=click.Path(file_okay=False), metavar="DIRECTORY",
              help="Directory for intermediate results (a few kB) for --resume.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the run of --checkpoint.")
@shared("force", "quiet")
def fit(**options: Any) -> None:
    """Cluster the rows of INPUT so that every cluster mirrors the groups.

    The default tolerance is 0, exact shares; it is 1, no bound, with --max-share or with bounds in
    --targets. --min-size and --max-size bound the sizes of the clusters. They can be combined with
    --sensitive, or used without it.

    INPUT is CSV or TSV, which may be compressed by gzip, Parquet or Arrow (Feather), by its suffix;
    - is standard input, as CSV. A directory of Parquet or Arrow files is read chunk by chunk, and
    its labels are a directory. Numeric columns are standardised and text columns become columns of
    0 and 1. Sensitive columns are features only if --features names them.

    The labels keep the order of the rows: the id, or the row's number from 0, and the column
    'cluster'. Without -o they go to standard output, unless --json, --model or --report is
    given.

    Exit code 3: the labels are written, but the fit did not converge, or a cell misses its target
    by a row or more; the message states which.
    """
    from fairanchor.cli._fit import run_fit

    run_fit(Run(options["quiet"]), options)


@main.command(
    short_help="Label new rows with a saved model.",
    epilog="Example: fairanchor predict people.npz new.csv --id person -o new-labels.csv",
)
@click.argument("model", type=PATH)
@shared("source", "labels", "id")
@click.option("--unknown-groups", type=click.Choice(["error", "blind"]), default="error",
              show_default=True,
              help="Groups that the model has not seen, or rows without groups: raise an error, or "
              "label them by the average dual variables of the population.")  # fmt: skip
@shared("missing", "delimiter", "json", "jobs", "force", "quiet")
def predict(**options: Any) -> None:
    """Label the rows of INPUT with MODEL, a file that 'fairanchor fit --model' wrote.

    INPUT needs the columns that the model was fitted to, the sensitive ones included: a row's
    cluster depends on its group. With --unknown-groups blind it may lack all sensitive columns;
    then sizes are printed. Rows are labelled one by one: a fair composition of new rows is likely,
    not guaranteed, so it is printed.

    The labels go to standard output without -o, unless --json is given. A directory of Parquet or
    Arrow files is read piece by piece, and its labels are a directory.
    """
    from fairanchor.cli._predict import run_predict

    run_predict(Run(options["quiet"]), options)


@main.command(
    short_help="Measure the fairness of given clusters, or compare a batch with a model.",
    epilog="Example: fairanchor audit labels.csv --data people.csv --id person --sensitive sex "
    "--favourable 2,3 --min-relative-balance 0.9",
)
@click.argument("source", metavar="LABELS", type=PATH)
@shared("sensitive")
@click.option("--cluster", default="cluster", show_default=True, metavar="COLUMN",
              help="Column of LABELS that names the cluster.")  # fmt: skip
@click.option("--data", type=PATH,
              help="Table with the sensitive columns, if LABELS has none. Rows are matched by "
              "--id, or by position; columns that both have must then agree.")  # fmt: skip
@click.option("--id", "id_column", metavar="COLUMN", help="Identifies a row in LABELS and --data.")
@click.option("--model", type=PATH,
              help="Model file: LABELS is then a batch of new rows without labels, which is "
              "compared with the model.")  # fmt: skip
@click.option("--missing", multiple=True, default=["error"],
              type=click.Choice(["error", "own-group"]),
              help="Missing sensitive values: error (default); own-group: they are a "
              "group.")  # fmt: skip
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
@shared("tolerance", "targets", "attributes", "delimiter", "report", "json", "force", "quiet")
def audit(**options: Any) -> None:
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
    from fairanchor.cli._audit import run_audit

    run_audit(Run(options["quiet"]), options)


@main.command(
    short_help="Compare plain and fair methods on a table.",
    epilog="Example: fairanchor compare people.csv -k 5 --sensitive sex -o compare.png",
)
@shared("source", "clusters", "sensitive", "features", "exclude", "id")
@click.option("--method", "methods", multiple=True, type=click.Choice(METHODS),
              help="Method to compare; repeatable. By default all.")  # fmt: skip
@click.option("--path", is_flag=True,
              help="Compare tolerances of fair k-means instead of methods.")  # fmt: skip
@click.option("--tolerance", "tolerances", multiple=True, type=SHARE,
              help="With --path: tolerance to compare; repeatable. By default 0, 0.05, 0.1, 0.2, "
              "0.5 and 1.")  # fmt: skip
@shared("attributes", "missing", "delimiter")
@click.option("--output", "-o", "figure", type=PATH, help="Figure, .png, .svg or .pdf.")
@shared("json", "seed", "jobs", "force", "quiet")
def compare(**options: Any) -> None:
    """Cluster INPUT by plain k-means and by each fair method, and compare.

    Cost is the k-means cost of the labels, relative to plain k-means if it is compared. 'fair
    k-means' is what 'fairanchor fit' runs by default, 'anchors+NAME' the anchor framework of
    'fairanchor fit --clusterer NAME'. Exit code 3: a method failed, did not converge, or misses
    proportional clusters by a row or more; the table states which.

    With --path the table has a row for each tolerance: a group's share of a cluster is between
    (1 - tolerance) p and p / (1 - tolerance), where p is its share of all rows. 'violation' is by
    how many rows the worst cell misses these bounds. With --attributes separate the bounds hold for
    each sensitive column by itself.
    """
    from fairanchor.cli._compare import run_compare

    run_compare(Run(options["quiet"]), options)


@main.command(
    short_help="Write the report of a saved model on a table.",
    epilog="Example: fairanchor report people.npz new.csv -o report.html",
)
@click.argument("model", type=PATH)
@shared("source")
@click.option("--output", "-o", "report", required=True, type=PATH, help="Report, .html.")
@shared("missing", "delimiter", "jobs", "force", "quiet")
def report(**options: Any) -> None:
    """Label the rows of INPUT with MODEL, as 'fairanchor predict' does, and report the result.

    'fairanchor fit --report' writes the report of a fit, with its constraint and its price;
    'fairanchor audit --report' that of labels made by any tool.
    """
    from fairanchor.cli._predict import run_report

    run_report(Run(options["quiet"]), options)


@main.command(
    short_help="Compare plain and fair clusters of generated data.",
    epilog="Example: fairanchor demo --rows 20000 --seed 1",
)
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=100),
              help="Rows to generate.")  # fmt: skip
@click.option("--clusters", "-k", "n_clusters", default=5, show_default=True,
              type=click.IntRange(min=1, max=50), help="Number of clusters.")  # fmt: skip
@click.option("--save", type=PATH, help="Write the generated table: .csv, .parquet ...")
@click.option("--report", type=PATH,
              help="Report, .html. By default demo-report.html, unless that file "
              "exists.")  # fmt: skip
@shared("seed", "jobs", "force")
def demo(**options: Any) -> None:
    """Cluster the synthetic Zafar data, with and without fairness, and compare.

    The data are generated: two features, one sensitive attribute of two groups that is
    correlated with them.
    """
    from fairanchor.cli._demo import run_demo

    run_demo(options)


@main.command(
    "warm-up", short_help="Compile the numerical kernels.", epilog="Example: fairanchor warm-up"
)
@shared("quiet")
def warm_up(quiet: bool) -> None:
    """Compile all numerical kernels, and keep them on disk.

    fairanchor compiles its kernels when it uses them for the first time on a machine, which can
    take longer than the fit. Run this command when you build a container image, and on every
    machine of a Dask cluster: it runs small fits of all methods, in one to two minutes. If all
    kernels are on disk already, it takes a few seconds.

    Numba keeps compiled code in the directory that the environment variable NUMBA_CACHE_DIR names,
    else in the directory of the package. Processes that cannot write to that directory do not use
    it, and code that was compiled for one type of processor does not serve another.
    """
    from fairanchor.cli._warm_up import run_warm_up

    run_warm_up(Run(quiet))
