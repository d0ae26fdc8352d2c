"""How the annotated functions are used in a program with types; read by mypy, not run."""

from pathlib import Path
from typing import assert_type

from matplotlib.axes import Axes

from fairanchor import FairKMeans
from fairanchor.datasets import fetch_adult, make_fair_blobs
from fairanchor.plotting import plot_balance, plot_embedding, principal_plane
from fairanchor.report import (
    RunSummary,
    render_report,
    summarise_labels,
    summarise_run,
    write_report,
)


def show(folder: Path) -> str:
    """Draw and report."""
    data = make_fair_blobs(500, centers=[[0.0, 0.0], [5.0, 5.0]], random_state=0)
    groups = data.sensitive_features
    model = FairKMeans(data.n_clusters).fit(data.data, sensitive_features=groups)
    ax = plot_embedding(data.data, model.labels_, plane=principal_plane(data.data))
    assert_type(plot_balance(model, ax=ax), Axes)
    run = summarise_run(model, data.data, sensitive_features=groups, plain_labels=None)
    assert_type(summarise_labels([0, 1], sensitive_features=["a", "b"], targets=0.1), RunSummary)
    assert_type(run, RunSummary)
    write_report(folder / "report.html", run, force=True)
    return render_report(run) + ", ".join(fetch_adult(data_home=folder).feature_names)
