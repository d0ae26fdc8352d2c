"""From a fitted estimator, or from labels made by any tool, to a `RunSummary`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fairanchor._utils._typing import Table, Weights
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._columns import attribute_names, in_fitted_order
from fairanchor.groups._groups import codes_of_known_groups, columns_of, encode_names
from fairanchor.metrics import clustering_cost
from fairanchor.plotting._tables import fitted
from fairanchor.report._asked import (
    asked_of,
    asked_of_counts,
    request_in_words,
    request_of,
)
from fairanchor.report._repeat import python_of_estimator
from fairanchor.report._summary import RunSummary

# Starts of the k-means run that clusterings are compared with, wherever it is shown.
PLAIN_STARTS = 10


def summarise_run(
    estimator: Any,
    X: Table,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    title: str | None = None,
    feature_names: Sequence[Any] | None = None,
    plain_labels: Literal["fit"] | ArrayLike | None = "fit",
    timings: Mapping[str, float] | None = None,
    warnings: list[str] | None = None,
    n_rows_left_out: int = 0,
) -> RunSummary:
    """What a report needs to know of a fitted estimator.

    Parameters
    ----------
    estimator : fitted estimator
        `FairKMeans`, `AnchorFairClustering` or any other clusterer of this library.
    X : array-like of shape (n_samples, n_features)
        The rows that it was fitted on.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Their groups.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights, if it was fitted with weights.
    title : str, default=None
        Heading; by default the estimator's name and the number of rows.
    feature_names : sequence of length n_features, default=None
        By default the columns of ``X`` if it has any, else "feature 0" and so on.
    plain_labels : "fit", None or array-like of shape (n_samples,), default="fit"
        Labels of plain k-means to compare with: "fit" runs it now, with 10 starts; None leaves
        the comparison out.
    timings : dict, default=None
        Seconds by step.
    warnings : list of str, default=None
        Warnings of the run; None means that they are not known.
    n_rows_left_out : int, default=0
        Rows that were there and were not clustered.

    Returns
    -------
    run : RunSummary
        For `write_report`.
    """
    labels = np.asarray(fitted(estimator, "labels_"))
    names = list(estimator.groups_)
    if feature_names is None:
        feature_names = getattr(X, "column_names", getattr(X, "columns", None))
    X = np.asarray(X, dtype=np.float64)
    if len(X) != len(labels):
        raise ValueError(
            f"X has {len(X)} rows, the estimator was fitted on {len(labels)}: a report is "
            "about the rows of the fit."
        )
    parameters = {"estimator": type(estimator).__name__, **estimator.get_params(deep=False)}
    if isinstance(plain_labels, str):
        if plain_labels != "fit":
            raise ValueError(f"plain_labels={plain_labels!r}, expected 'fit', None or labels.")
        plain = plain_kmeans(estimator)
        parameters["plain k-means"] = plain_setting(plain)
        plain_labels = plain.fit(X, sample_weight=sample_weight).labels_
    return RunSummary(
        title=title or f"{type(estimator).__name__}: {len(X):,} rows",
        labels=labels,
        group_codes=_known_codes(sensitive_features, names, len(X), estimator),
        group_names=names,
        sample_weight=None if sample_weight is None else np.asarray(sample_weight),
        counts=estimator.counts_,
        targets=getattr(estimator, "targets_", None),
        asked=asked_of(estimator),
        request=request_of(estimator),
        features=X,
        feature_names=None if feature_names is None else list(feature_names),
        centers=getattr(estimator, "cluster_centers_", None),
        cost=clustering_cost(X, labels, sample_weight=sample_weight),
        plain_labels=None if plain_labels is None else np.asarray(plain_labels),
        plain_cost=_cost(X, plain_labels, sample_weight),
        anchors=getattr(estimator, "anchors_", None),
        anchor_labels=getattr(estimator, "anchor_labels_", None),
        anchor_masses=getattr(estimator, "anchor_masses_", None),
        history=history_of(estimator),
        parameters=parameters,
        code=python_of_estimator(estimator, weighted=sample_weight is not None),
        warnings=warnings,
        n_rows_left_out=n_rows_left_out,
        converged=bool(getattr(estimator, "converged_", True)),
        timings=dict(timings or {}),
        uses_sensitive_for_prediction=hasattr(estimator, "predict"),
    )


def summarise_labels(
    labels: ArrayLike,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    targets: float | FairnessTargets | Sequence[float | FairnessTargets] | None = None,
    attributes: Literal["intersection", "separate"] = "intersection",
    title: str = "Audit of given labels",
    missing: Literal["error", "drop"] = "error",
) -> RunSummary:
    """What a report needs to know of labels that any tool made.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row: numbers or names.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    targets : float, FairnessTargets, or list of these, default=None
        The constraint by which the report then judges: a tolerance around the shares of the data,
        or targets; a list has one entry for each column and goes with
        ``attributes="separate"``. Targets that differ between clusters are in the sorted order of
        their names. None means the shares of the data, by the report's own thresholds.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns are one attribute or each is one, which needs ``targets``.
    title : str, default="Audit of given labels"
        Heading.
    missing : {"error", "drop"}, default="error"
        Whether rows whose label is missing (None or NaN) raise an error, or are left out, which
        the report then states.

    Returns
    -------
    run : RunSummary
        For `write_report`.
    """
    if missing not in ("error", "drop"):
        raise ValueError(f"missing={missing!r}, expected 'error' or 'drop'.")
    group_codes, groups = encode_names(sensitive_features)
    codes, clusters = encode_names(labels, missing="own_group")
    if len(codes) != len(group_codes):
        raise ValueError(
            f"sensitive_features has {len(group_codes)} rows, labels has {len(codes)}: every row "
            "needs exactly one group."
        )
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    kept = _labelled(codes, list(clusters), missing)
    run = RunSummary(
        title=title,
        labels=codes[kept],
        cluster_names=[name for name in clusters if name is not None],
        group_codes=group_codes[kept],
        group_names=groups,
        sample_weight=None if weights is None else weights[kept],
        n_rows_left_out=int(np.count_nonzero(~kept)),
        left_out_reason="without a label",
    )
    return _with_request(run, sensitive_features, targets, attributes)


def _with_request(run, sensitive_features, targets, attributes):
    """The run of given labels, with its constraint."""
    if attributes not in ("intersection", "separate"):
        raise ValueError(f"attributes={attributes!r} should be 'intersection' or 'separate'.")
    if targets is None:
        if attributes == "separate":
            raise ValueError(
                "attributes='separate' needs targets: a tolerance or FairnessTargets for each "
                "column, 0.0 for exact proportions."
            )
        return run
    titles = None
    if attributes == "separate":
        titles = attribute_names(sensitive_features, len(columns_of(sensitive_features)))
    asked = asked_of_counts(run.counts, run.group_names, targets, titles)
    each = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    if all(isinstance(own, Real) and own == each[0] for own in each):
        request = request_in_words("population", each[0], titles or ())
    else:
        request = request_in_words(_as_targets(each), 0.0, titles or ())
    return replace(run, asked=asked, request=request)


def _as_targets(each):
    return [FairnessTargets.proportional(t) if isinstance(t, Real) else t for t in each]


def plain_kmeans(estimator):
    """The k-means that a fitted estimator is compared with: as many clusters, and its seed."""
    from sklearn.cluster import KMeans

    seed = getattr(estimator, "random_state", None)
    seed = seed if isinstance(seed, (int, np.integer)) else 0
    # n_clusters=None is a number that the clusterer found.
    n_clusters = estimator.n_clusters or len(estimator.counts_)
    return KMeans(n_clusters, n_init=PLAIN_STARTS, random_state=seed)


def history_of(estimator):
    """Records of the iterations that made the labels; None if there are none."""
    if hasattr(estimator, "history_"):
        return estimator.history_
    costs = getattr(estimator, "cost_path_", None)
    if costs is None:
        return None
    return [{"iteration": i, "cost": float(cost)} for i, cost in enumerate(costs)]


def plain_setting(plain):
    """In a few words, what `plain_kmeans` was made with."""
    return f"n_init={plain.n_init}, random_state={plain.random_state}"


def _labelled(codes, clusters, missing):
    """Which rows have a label; those without raise an error if ``missing`` is "error"."""
    # The missing name, if there is one, is the last.
    kept = codes != clusters.index(None) if None in clusters else np.ones(len(codes), dtype=bool)
    n_missing = int(np.count_nonzero(~kept))
    if n_missing and (missing == "error" or not kept.any()):
        raise ValueError(
            f"labels has {n_missing} missing value(s) in {len(codes)} rows, the first in row "
            f"{int(np.argmin(kept))}: a row without a label is in no cluster. Give missing='drop' "
            "to leave such rows out; at least one must remain."
        )
    return kept


def _known_codes(sensitive_features, names, n_rows, estimator):
    if sensitive_features is None and len(names) == 1:
        return np.zeros(n_rows, dtype=np.int64)
    missing = getattr(estimator, "missing_groups", None)
    sensitive_features = in_fitted_order(estimator, sensitive_features)
    codes, unknown = codes_of_known_groups(sensitive_features, names, n_rows, missing=missing)
    if unknown:
        raise ValueError(
            f"sensitive_features has groups that the estimator was not fitted with: "
            f"{list(unknown)[:5]}. A report is about the rows of the fit."
        )
    return codes


def _cost(X, labels, sample_weight):
    return None if labels is None else clustering_cost(X, labels, sample_weight=sample_weight)
