"""``fairanchor report``: the report of a saved model on a table."""

from typing import Any

import click

from fairanchor.cli._common import (
    PATH,
    Run,
    check_outputs,
    command_line,
    file_checksums,
    shared,
    show_source,
)
from fairanchor.cli._predict import composition_of, load_with_model


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
    check_outputs(options, "report", inputs=[source, model])
    with run.step("read", f"Reading {show_source(source)}"):
        options |= {"unknown_groups": "error", "id_column": None}
        estimator, loaded = load_with_model(model, source, options)
        if loaded.groups is None:
            raise ValueError(
                f"{model} was fitted without groups, whose composition the report is about: fit "
                "with --sensitive, or audit the labels of 'fairanchor predict'."
            )
    run.say_dropped(loaded.n_dropped)
    with run.step("report", f"Writing {output}"):
        labels = estimator.predict(loaded.X, sensitive_features=loaded.sensitive_features())
        names, counts = composition_of(loaded.groups, estimator, labels)
        place = {name: code for code, name in enumerate(names)}
        summary = RunSummary(
            title=f"Clusters of {show_source(source)} by {model}",
            labels=labels,
            group_codes=np.array([place[name] for name in loaded.groups.names])[
                loaded.groups.codes
            ],
            group_names=names,
            columns=list(estimator.preprocessing_.sensitive),
            cluster_names=list(range(len(counts))),
            counts=counts,
            features=loaded.X,
            feature_names=loaded.preprocessing.feature_names,
            parameters={"model": model, "estimator": type(estimator).__name__}
            | estimator.get_params(deep=False),
            warnings=run.warnings,
            n_rows_left_out=loaded.n_dropped,
            command=command_line(),
            fingerprints=file_checksums({"model": model, "input": source}),
            uses_sensitive_for_prediction=True,
        )
        write_report(output, summary, force=options["force"])
    run.say(f"report: {output}")
