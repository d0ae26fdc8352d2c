"""Panels on fairness: who is in which cluster, and what that costs.

A panel function returns a `Panel`, or the reason why there is nothing to show.
"""

import numpy as np

from fairanchor.plotting._fairness import (
    balance_of_clusters,
    composition_height,
    plot_balance,
    plot_composition,
)
from fairanchor.plotting._methods import plot_price_of_fairness
from fairanchor.plotting._names import display_name
from fairanchor.plotting._tables import (
    MAX_CLUSTERS,
    MAX_GROUPS,
    clusters_to_show,
    fold_small_groups,
)
from fairanchor.report._parts import (
    Panel,
    Picture,
    Table,
    cell_text,
    count_text,
    figure_text,
    named,
    score_text,
    share_of_best,
)
from fairanchor.report._svg import draw
from fairanchor.report._verdict import cell_closeness, measure
from fairanchor.tables._wording import counted


def composition_panel(scene):
    """Who is in which cluster, against the population."""
    run = scene.run
    ours = scene.composition
    pictures = [
        _composition_picture(scene, ours, "composition", "This clustering"),
    ]
    if scene.plain is not None:
        before = _composition_picture(scene, scene.plain, "plain-composition", "Plain k-means")
        pictures.insert(0, before)
    text = [
        "Each bar is a cluster, split by group. The dashed lines carry the population's shares "
        "down from the first bar: where a bar breaks elsewhere, the cluster has more or less of a "
        "group than the population has."
    ]
    text += _selection_note(ours)
    if run.sample_weight is not None:
        text.append("Rows carry weights: all counts and shares are in weight.")
    return Panel(
        "composition", "Composition of the clusters", text, pictures, [_composition_table(ours)]
    )


def asked_panel(scene):
    """The constraint against what was reached; None if it is the population's shares."""
    run = scene.run
    if run.asked is None:
        return None
    text = [
        run.request or "",
        "Each column is a group: the bounds on its share of a cluster, and its actual share. The "
        "last column is by how many rows the cluster's worst cell, or its size, violates them.",
    ]
    tables = [_asked_table(own, run.cluster_names) for own in run.asked]
    if len(run.asked) > 1:
        tables.insert(0, _attributes_table(run.asked))
    if any(own.counts.shape[1] > MAX_GROUPS for own in run.asked):
        text.append(
            f"If there are more than {MAX_GROUPS} groups, those nearest to a bound or farthest "
            "beyond it are shown; the last column counts all."
        )
    return Panel("asked", "The constraint", [part for part in text if part], [], tables)


def balance_panel(scene):
    """Balance cluster by cluster."""
    fairness = scene.fairness
    shown = len(clusters_to_show(scene.composition.table))
    svg = draw(
        lambda ax: plot_balance(scene.composition, ax=ax),
        "balance",
        "Balance of each cluster",
        f"The least balanced cluster has {score_text(fairness.balance)}, the best possible is "
        f"{score_text(fairness.bound)}.",
        height=1.3 + 0.3 * shown,
    )
    text = [
        "The balance of a cluster is its smallest group over its largest. The worst cluster "
        f"counts: {score_text(fairness.balance)}, "
        f"{share_of_best(fairness.balance, fairness.bound)} of the bound "
        f"{score_text(fairness.bound)}, which is the balance of all rows together. Single clusters "
        "can be above it, but never all of them."
    ]
    rows = [
        ["Balance", score_text(fairness.balance), score_text(fairness.bound)],
        ["Relative balance", score_text(fairness.relative_balance), "1"],
        ["MNCE", score_text(fairness.mnce), "1"],
        ["Farthest cell from exact proportion", f"{fairness.deviation:,.2f} rows", "0 to 1 row"],
    ]
    targets, asked = scene.run.targets, scene.run.asked
    if asked is not None:
        missed = max(own.worst for own in asked)
        rows.append(["Worst violation of the constraint", f"{missed:,.2f} rows", "0 to 1 row"])
    elif targets is not None:
        missed = float(np.abs(scene.run.counts - targets).max())
        rows.append(["Farthest cell from its target", f"{missed:,.2f} rows", "0 to 1 row"])
    table = Table("Measures of fairness", ["Measure", "This clustering", "Best possible"], rows)
    picture = Picture(svg, "Balance of each cluster; the worst one is filled.")
    return Panel("balance", "Balance", text, [picture], [table], beside=True)


def price_panel(scene):
    """Against plain k-means."""
    run = scene.run
    if run.plain_labels is None and run.plain_cost is None:
        return "there is no plain k-means clustering of the same rows to compare with."
    plain = None if scene.plain is None else measure(scene.plain.table)
    rows = _price_rows(scene, plain)
    table = Table(
        "With and without fairness", ["Measure", "Plain k-means", "This clustering"], rows
    )
    text = [
        "Clusters that mirror the population are usually wider than clusters that ignore the "
        "groups. Cost is the k-means cost: the sum of squared distances of the rows to the mean of "
        "their cluster. Plain k-means has no constraint, neither on groups nor on sizes."
    ]
    if scene.moved is not None:
        text.append(
            f"{scene.moved:.1%} of the rows are in another cluster than with plain k-means, after "
            "matching the clusters of both as well as possible."
        )
    pictures = []
    if plain is not None and run.cost is not None and run.plain_cost:
        pictures = [_price_picture(scene, plain)]
    return Panel("price", "The price of fairness", text, pictures, [table], beside=True)


def _composition_picture(scene, composition, key, title):
    fairness = measure(composition.table)
    n_shown = len(clusters_to_show(composition.table))
    svg = draw(
        lambda ax: plot_composition(composition, ax=ax),
        key,
        f"{title}: composition of each cluster",
        f"Share of each group in {counted(n_shown, 'cluster')}, below that of the population. "
        f"Farthest from it: {named('group', composition.groups[fairness.worst_group])} is "
        f"{fairness.share:.1%} of "
        f"{named('cluster', composition.clusters[fairness.worst_cluster])} and "
        f"{fairness.population_share:.1%} of the population.",
        height=composition_height(composition),
    )
    return Picture(svg, f"{title}: share of each group in each cluster.")


def _attributes_table(asked):
    rows = []
    for own in asked:
        fairness = measure(own.counts)
        rows.append(
            [
                display_name(own.title, 60),
                f"{own.worst:,.2f} rows",
                score_text(fairness.relative_balance),
                score_text(fairness.balance),
                score_text(fairness.bound),
            ]
        )
    header = ["Attribute", "Violation", "Relative balance", "Balance", "Best possible balance"]
    return Table("Each attribute by itself", header, rows)


def _asked_table(own, cluster_names):
    """Clusters × groups: bounds and actual shares."""
    sizes = own.counts.sum(axis=1)
    shares = own.counts / np.where(sizes > 0, sizes, 1.0)[:, None]
    room = np.minimum(shares - own.lower, own.upper - shares).min(axis=0)
    chosen = np.sort(np.argsort(room, kind="stable")[:MAX_GROUPS])
    rows = []
    same = own.is_same_for_all
    if same:
        rows.append(["Bounds", "", *[own.range_text(0, r) for r in chosen], ""])
    for l in clusters_to_show(own.counts):
        size = f"{count_text(sizes[l])} {_in_brackets(own.size_text(l))}".strip()
        cells = [
            f"{shares[l, r]:.2%}" + ("" if same else f" {_in_brackets(own.range_text(l, r))}")
            for r in chosen
        ]
        missed = max(own.missed[l].max(), own.size_missed[l])
        rows.append([display_name(cluster_names[l], 80), size, *cells, f"{missed:,.2f}"])
    groups = [display_name(own.groups[r], 60) for r in chosen]
    caption = "Bounds and actual shares"
    if own.title is not None:
        caption += f": {display_name(own.title, 60)}"
    return Table(caption, ["Cluster", "Rows", *groups, "Violation"], rows)


def _in_brackets(text):
    return f"({text})" if text else ""


def _composition_table(composition):
    shown = clusters_to_show(composition.table)
    folded = fold_small_groups(composition)
    closeness, shares = cell_closeness(composition.table), composition.shares()
    balances = balance_of_clusters(composition)
    total = composition.table.sum(axis=0)
    population = [cell_text(n, n / total.sum()) for n in folded.table.sum(axis=0)]
    bound = total[total > 0].min() / total.max()
    rows = [["All rows", count_text(total.sum()), *population, score_text(bound), ""]]
    for l in shown:
        worst = closeness[l].argmin()
        size = composition.table[l].sum()
        rows.append(
            [
                display_name(composition.clusters[l], 80),
                count_text(size),
                *[cell_text(n, n / size) for n in folded.table[l]],
                score_text(balances[l]),
                f"{display_name(composition.groups[worst], 40)}: {shares[l, worst]:.2%} against "
                f"{composition.population[worst]:.2%}",
            ]
        )
    groups = [display_name(name, 60) for name in folded.groups]
    header = ["Cluster", "Rows", *groups, "Balance", "Farthest from the population"]
    return Table("Rows and share of each group, by cluster", header, rows)


def _selection_note(composition):
    notes = []
    n_present = int(np.count_nonzero(composition.table.sum(axis=1)))
    n_empty = len(composition.table) - n_present
    if n_present > MAX_CLUSTERS:
        notes.append(
            f"The {MAX_CLUSTERS} of {n_present} clusters farthest from the population are shown; "
            "all measures are those of all clusters."
        )
    if n_empty:
        notes.append(f"Not shown: {counted(n_empty, 'cluster')} without a row.")
    if fold_small_groups(composition).groups != composition.groups:
        n_groups = int(np.count_nonzero(composition.table.sum(axis=0)))
        notes.append(
            f"There are {n_groups} groups. Smaller ones are drawn as one; all measures, and the "
            "last column of the table, take each by itself."
        )
    return notes


def _price_rows(scene, plain):
    ours, run = scene.fairness, scene.run

    def pair(name, attribute):
        before = "–" if plain is None else score_text(getattr(plain, attribute))
        return [name, before, score_text(getattr(ours, attribute))]

    rows = [
        pair(f"Balance (at most {score_text(ours.bound)})", "balance"),
        pair("Relative balance (at most 1)", "relative_balance"),
        pair("MNCE (at most 1)", "mnce"),
        ["Cost", figure_text(run.plain_cost), figure_text(run.cost)],
    ]
    if run.cost is not None and run.plain_cost:
        rows.append(["Cost, plain k-means = 1", "1.0000", f"{run.cost / run.plain_cost:.4f}"])
    return rows


def _price_picture(scene, plain):
    run, ours = scene.run, scene.fairness
    extra = run.cost / run.plain_cost - 1
    svg = draw(
        lambda ax: plot_price_of_fairness(
            [run.plain_cost, run.cost],
            [plain.balance, ours.balance],
            names=["plain k-means", "this clustering"],
            bound=ours.bound,
            ax=ax,
        ),
        "price",
        "Extra cost against balance",
        f"Plain k-means has a balance of {score_text(plain.balance)}, this clustering "
        f"{score_text(ours.balance)} at {extra:+.1%} of cost; the best possible balance is "
        f"{score_text(ours.bound)}.",
        height=3.2,
    )
    return Picture(svg, "Extra cost against balance; the dashed line is the best possible balance.")
