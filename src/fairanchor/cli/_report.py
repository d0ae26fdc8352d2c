"""``fairanchor report``: the report of a saved model on a table."""

from typing import Any

import click

from fairanchor.cli import _common as common
from fairanchor.cli._common import PATH, shared
from fairanchor.cli._predict import composition_of, load_with_model
from fairanchor.cli._terminal import Run


@click.command(
    short_help="Write the report of a saved model on a table.",
    epilog="Example: fairanchor report people.npz new.csv -o report.html",
)
@click.argument("model", type=PATH)
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--output", "-o", "report", required=True, type=PATH, help="Report, .html.")
@shared("missing", "delimiter", "jobs", "force", "quiet")
def report(model: str, source: str, **options: Any) -> None:
    """Label the rows of INPUT with MODEL, as 'fairanchor predict' does, and report the result.

    'fairanchor fit --report' writes the report of a fit, with its constraint and its price;
    'fairanchor audit --report' that of labels made by any tool.
    """
    import numpy as np

    from fairanchor.report import RunSummary, write_report

    run, output = Run(options["quiet"]), options["report"]
    common.check_outputs(options, output, inputs=[source, model])
    estimator, loaded = load_with_model(run, model, source, options)
    if loaded.groups is None:
        raise ValueError(
            f"{model} was fitted without groups, whose composition the report is about: fit with "
            "--sensitive, or audit the labels of 'fairanchor predict'."
        )
    with run.step("report", f"Writing {output}"):
        labels = estimator.predict(loaded.X, sensitive_features=loaded.sensitive_features())
        names, counts = composition_of(loaded.groups, estimator, labels)
        places = np.array([names.index(name) for name in loaded.groups.names])
        summary = RunSummary(
            title=f"Clusters of {common.show_source(source)} by {model}",
            labels=labels,
            group_codes=places[loaded.groups.codes],
            group_names=names,
            columns=list(estimator.preprocessing_.sensitive),
            counts=counts,
            features=loaded.X,
            feature_names=loaded.preprocessing.feature_names,
            parameters={"model": model, "estimator": type(estimator).__name__}
            | estimator.get_params(deep=False),
            warnings=run.warnings,
            n_rows_left_out=loaded.n_dropped,
            command=common.command_line(),
            fingerprints=common.file_checksums({"model": model, "input": source}),
            uses_sensitive_for_prediction=True,
        )
        write_report(output, summary, force=options["force"])
    run.say(f"report: {output}")
