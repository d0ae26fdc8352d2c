"""From a table that the command line clustered to a `RunSummary`."""

from fairanchor._utils._sampling import spread_sample
from fairanchor.report._asked import asked_of, request_of
from fairanchor.report._collect import history_of, plain_kmeans, plain_setting
from fairanchor.report._repeat import python_of_table
from fairanchor.report._summary import RunSummary

# Enough rows for the report's figures and profiles.
SAMPLE_ROWS = 20_000


def summarise_table_run(estimator, loaded, *, source, options, command, warnings, timings):
    """What a report needs to know of ``fairanchor fit``.

    Parameters
    ----------
    estimator : FairKMeans or AnchorFairClustering
        Fitted to the table's rows.
    loaded : fairanchor.tables._load.LoadedTable
    source : str
        The table's path; ``-`` is standard input.
    options : dict
        Options of the command that say how the table was read.
    command : str
        The command line.
    warnings : list of str
        Warnings of the run, so far.
    timings : dict
        Seconds by step.

    Returns
    -------
    run : RunSummary
    """
    X, preprocessing = loaded.X, loaded.preprocessing
    plain = plain_kmeans(estimator).fit(X)
    sample = spread_sample(len(X), SAMPLE_ROWS)
    title = "standard input" if source == "-" else source
    return RunSummary(
        title=f"Fair clusters of {title}",
        labels=estimator.labels_,
        group_codes=loaded.grouping.codes_among(estimator.groups_),
        group_names=list(estimator.groups_),
        counts=estimator.counts_,
        targets=estimator.targets_,
        asked=asked_of(estimator),
        request=request_of(estimator),
        features=X[sample],
        sample_rows=sample,
        feature_names=preprocessing.feature_names,
        centers=estimator.cluster_centers_,
        cost=float(estimator.inertia_),
        plain_cost=float(plain.inertia_),
        plain_labels=plain.labels_,
        anchors=getattr(estimator, "anchors_", None),
        anchor_labels=getattr(estimator, "anchor_labels_", None),
        anchor_masses=getattr(estimator, "anchor_masses_", None),
        history=history_of(estimator),
        parameters=_table_parameters(source, loaded, options)
        | {"estimator": type(estimator).__name__}
        | estimator.get_params(deep=False)
        | {"plain k-means": plain_setting(plain)},
        command=command,
        code=python_of_table(estimator, source, loaded, options),
        warnings=list(warnings),
        n_rows_left_out=loaded.n_dropped,
        timings=dict(timings),
        converged=bool(estimator.converged_),
        uses_sensitive_for_prediction=True,
    )


def _table_parameters(source, loaded, options):
    """How the table was read, under the names of the command's options."""
    preprocessing = loaded.preprocessing
    return {
        "input": source,
        "sensitive columns": ", ".join(preprocessing.groups.columns),
        "feature columns": ", ".join(preprocessing.inputs),
        "standardised": preprocessing.scaled,
        "missing values": ", ".join(options["missing"]),
        "groups merged below": options["min_group_size"],
        "delimiter": options["delimiter"] or "found in the file",
        "texts for missing": ", ".join(options["null_values"]) or "the usual ones",
    }
