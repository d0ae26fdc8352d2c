"""Panels on the clusters themselves, and on how they were found.

A panel function returns a `Panel`, the reason why there is nothing to show, or None where the
method has nothing of the kind.
"""

import numpy as np

from fairanchor.plotting._names import display_name
from fairanchor.plotting._rows import (
    MAX_FEATURES,
    cluster_profiles,
    draw_profiles,
    plot_anchors,
    plot_embedding,
)
from fairanchor.plotting._solver import plot_convergence
from fairanchor.plotting._tables import MAX_CLUSTERS, clusters_to_show
from fairanchor.report._parts import Panel, Picture, Table, count_text, figure_text
from fairanchor.report._svg import draw

# Columns of the figure of profiles that can be read in half the page's width.
WIDEST_BESIDE = 7
# Smaller differences from the average are not worth a word.
LEAST_DEVIATION = 0.2
# A longer history is shown by its first and last records.
MAX_RECORDS = 12


def profiles_panel(scene):
    """Which features make a cluster different."""
    run = scene.run
    if run.features is None:
        return "the features of the rows are not known."
    deviations, importance = cluster_profiles(run.features, run.feature_labels, run.n_clusters)
    shown = clusters_to_show(scene.composition.table)
    kept = np.where(np.isin(np.arange(run.n_clusters), shown)[:, None], deviations, np.nan)
    n_shown = int(np.isfinite(kept).all(axis=1).sum())
    n_columns = min(MAX_FEATURES, len(importance))
    names = run.feature_names
    svg = draw(
        lambda ax: draw_profiles(kept, importance, names, run.cluster_names, MAX_FEATURES, ax),
        "profiles",
        "Profile of each cluster",
        "Mean of each feature in each cluster, in standard deviations from the mean of all rows; "
        "the table with it has the largest.",
        width=max(4.0, 1.6 + 0.62 * n_columns),
        height=1.9 + 0.32 * n_shown,
    )
    text = [
        "How far a cluster's mean is from the mean of all rows, in standard deviations: 0 is "
        "average, +1 clearly higher, -1 clearly lower."
    ]
    if len(run.features) < run.n_rows_total:
        text.append(f"Computed from a sample of {len(run.features):,} rows.")
    if len(importance) > n_columns:
        text.append(
            f"The figure shows the {n_columns} of {len(importance)} features in which the clusters "
            "differ most."
        )
    rows = [
        [display_name(run.cluster_names[l]), _stands_out(deviations[l], names)]
        for l in shown
        if np.isfinite(deviations[l]).all()
    ]
    table = Table("What a cluster stands out by", ["Cluster", "Stands out by"], rows)
    picture = Picture(svg, "Red is above the average of all rows, blue below.")
    # Beside the table many columns would be too small to be read.
    beside = n_columns <= WIDEST_BESIDE
    return Panel("profiles", "Profiles of the clusters", text, [picture], [table], beside=beside)


def map_panel(scene):
    """The rows in two dimensions, before and after."""
    run = scene.run
    if run.features is None:
        return "the features of the rows are not known."
    n_drawn = len(scene.drawn_features)
    pictures = [_map_picture(scene, run.labels[scene.drawn_rows], "map", "This clustering")]
    if scene.plain_labels is not None:
        labels = scene.plain_labels[scene.drawn_rows]
        pictures.insert(0, _map_picture(scene, labels, "plain-map", "Plain k-means"))
    text = [
        "The rows in the plane in which they differ most (principal components), coloured by "
        "cluster. Clusters that look mixed here can be apart in other directions."
    ]
    if n_drawn < run.n_rows_total:
        text.append(
            f"{n_drawn:,} of {run.n_rows_total:,} rows are drawn: one from each of equally long "
            f"stretches of {_source(run)}, by a fixed rule."
        )
    if len(pictures) == 1:
        text.append("There is no plain k-means clustering of the same rows to draw beside it.")
    return Panel("map", "The rows on a map", text, pictures)


def convergence_panel(scene):
    """Error or cost by iteration; None if the labels were not found iteratively."""
    run = scene.run
    records = list(run.history or [])
    if not records or ("cost" in records[0] and len(records) == 1):
        return None
    if "mass_error" in records[0]:
        number, measures = "sweep", {"mass_error": "Error, in rows", "objective": "Objective"}
        text = (
            "The anchor graph gives each cluster its mass of each group. The error is the largest "
            "difference of a mass from its target, in rows."
        )
    else:
        number, measures = "iteration", {"cost": "Cost"}
        text = (
            "Each iteration moves the centres and assigns the rows again. The cost is the sum of "
            "squared distances of the rows to their centres."
        )
    key, title = next(iter(measures.items()))
    first, last = records[0][key], records[-1][key]
    svg = draw(
        lambda ax: plot_convergence(records, ax=ax),
        "convergence",
        "Convergence",
        f"{title}: from {first:.5g} to {last:.5g} in {len(records)} records.",
        height=3.0,
    )
    state = "converged" if run.converged else "did not converge"
    rows = [
        [f"{record.get(number, i + 1)}", *[figure_text(record.get(key)) for key in measures]]
        for i, record in _ends(records)
    ]
    table = Table(
        "Iterations" if len(records) <= MAX_RECORDS else "First and last iterations",
        [number.capitalize(), *measures.values()],
        rows,
    )
    picture = Picture(svg, f"{title}, by {number}.")
    text = [f"{text} The iterations {state}."]
    return Panel("convergence", "Convergence", text, [picture], [table], beside=True)


def anchors_panel(scene):
    """The anchors and the rows that they represent; None if there are none."""
    run = scene.run
    if run.anchors is None:
        return None
    svg = draw(
        lambda ax: plot_anchors(
            run.anchors,
            run.anchor_labels,
            run.anchor_masses,
            X=scene.drawn_features,
            plane=scene.plane,
            ax=ax,
        ),
        "anchors",
        "The anchors",
        f"{len(run.anchors)} anchors in the plane of the map, coloured by cluster.",
        height=4.6,
    )
    text = [
        f"{len(run.anchors):,} anchors represent all rows. They were clustered first; every row "
        "was then connected to the anchors and labelled by them, within the constraint."
    ]
    caption = "Anchors, coloured by cluster."
    if run.anchor_masses is not None:
        caption = "Anchors, coloured by cluster; a larger area represents more rows."
    picture = Picture(svg, caption)
    return Panel("anchors", "The anchors", text, [picture], _anchor_tables(run), beside=True)


def _source(run):
    if len(run.features) == run.n_rows_total:
        return "the table"
    return f"a sample of {len(run.features):,} rows"


def _map_picture(scene, labels, key, title):
    names = scene.all_cluster_names
    svg = draw(
        lambda ax: plot_embedding(
            scene.drawn_features, labels, plane=scene.plane, cluster_names=names, ax=ax
        ),
        key,
        f"{title}: the rows on a map",
        f"Rows in the plane of the first two principal components, in {len(np.unique(labels))} "
        "clusters.",
        height=4.6,
    )
    return Picture(svg, f"{title}: a colour and a number per cluster.")


def _stands_out(deviations, names):
    order = np.argsort(-np.abs(deviations), kind="stable")[:3]
    words = [
        f"{'higher' if deviations[j] > 0 else 'lower'} {display_name(names[j], 60)} "
        f"({deviations[j]:+.1f})"
        for j in order
        if abs(deviations[j]) >= LEAST_DEVIATION
    ]
    return ", ".join(words) or "nothing: close to the average in every feature"


def _ends(records):
    numbered = list(enumerate(records))
    return (
        numbered
        if len(records) <= MAX_RECORDS
        else numbered[: MAX_RECORDS // 2] + numbered[-MAX_RECORDS // 2 :]
    )


def _anchor_tables(run):
    if run.anchor_labels is None:
        return []
    labels = np.asarray(run.anchor_labels)
    masses = None if run.anchor_masses is None else np.asarray(run.anchor_masses, dtype=float)
    rows = []
    for l in np.unique(labels)[:MAX_CLUSTERS]:
        own = labels == l
        mass = [] if masses is None else [count_text(masses[own].sum())]
        rows.append([display_name(run.cluster_names[l]), f"{own.sum()}", *mass])
    header = ["Cluster", "Anchors"] + ([] if masses is None else ["Rows represented"])
    return [Table("Anchors by cluster", header, rows)]
