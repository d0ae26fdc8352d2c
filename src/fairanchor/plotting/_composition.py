"""Figures of the groups in each cluster, and the table behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor._utils._sklearn_compat import check_weights
from fairanchor.groups._columns import columns_of
from fairanchor.groups._groups import Attributes, count_cells, encode_names
from fairanchor.metrics import balance_of_table, mnce_of_table, relative_balance_of_table
from fairanchor.plotting._names import plot_name
from fairanchor.plotting._style import (
    DASHES,
    INK,
    SURFACE,
    axes_or_new,
    legend_above,
    legend_columns,
    series_color,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairanchor._utils._typing import Clustering, Table, Weights

MAX_CLUSTERS = 40
MAX_GROUPS = 8
# Narrower parts of a bar hold no number.
LEAST_LABELLED_SHARE = 0.1


@dataclass(frozen=True)
class Composition:
    """Rows, or weight, of each cluster and group, with the names of both."""

    table: np.ndarray
    clusters: list[Any]
    groups: list[Any]

    @property
    def population(self) -> np.ndarray:
        """Share of each group in all rows."""
        return self.table.sum(axis=0) / self.table.sum()

    @property
    def shares(self) -> np.ndarray:
        """Share of each group in each cluster; an empty cluster has zeros."""
        sizes = self.table.sum(axis=1, keepdims=True)
        return np.divide(self.table, sizes, out=np.zeros(self.table.shape), where=sizes > 0)

    @property
    def balances(self) -> np.ndarray:
        """Balance of each cluster; NaN for an empty one."""
        table = self.table[:, self.table.sum(axis=0) > 0]
        with np.errstate(invalid="ignore"):
            return table.min(axis=1) / table.max(axis=1)

    @property
    def balance(self) -> float:
        return balance_of_table(self.table)

    @property
    def bound(self) -> float:
        """Balance of all rows: the largest that any clustering of them can have."""
        return balance_of_table(self.table.sum(axis=0, keepdims=True))

    @property
    def relative_balance(self) -> float:
        return relative_balance_of_table(self.table)

    @property
    def mnce(self) -> float:
        return mnce_of_table(self.table)

    @property
    def entries(self) -> dict[str, Any]:
        """Counts and measures, for a summary."""
        return {
            "groups": self.groups,
            "counts": self.table,
            "balance": self.balance,
            "balance_bound": self.bound,
            "relative_balance": self.relative_balance,
            "mnce": self.mnce,
        }

    @property
    def expected(self) -> np.ndarray:
        """Rows of each cell in exact proportion."""
        return np.outer(self.table.sum(axis=1), self.table.sum(axis=0)) / self.table.sum()

    @property
    def deviation(self) -> float:
        """Largest distance of a cell from exact proportion, in rows."""
        return float(np.abs(self.table - self.expected).max())

    @property
    def closeness(self) -> np.ndarray:
        """Share over the population's share, or its inverse, whichever is below 1."""
        smaller = np.minimum(self.table, self.expected)
        larger = np.maximum(self.table, self.expected)
        # Cells of empty clusters and groups are never the farthest.
        return np.divide(smaller, larger, out=np.full(larger.shape, np.inf), where=larger > 0)

    @property
    def worst_cell(self) -> tuple[int, int]:
        """Cluster and group of the cell whose share is farthest from the population's."""
        l, r = np.unravel_index(self.closeness.argmin(), self.table.shape)
        return int(l), int(r)

    def by_column(self, columns: Iterable[Any]) -> list[tuple[Any, Composition]]:
        """Each of several sensitive columns, whose combinations are the groups, by itself."""
        parts = Attributes.of_names(list(columns), self.groups)
        return [
            (
                column,
                Composition(self.table @ np.eye(len(names))[codes], self.clusters, list(names)),
            )
            for column, names, codes in zip(parts.columns, parts.names, parts.joint.T, strict=True)
        ]

    def clusters_to_show(self) -> np.ndarray:
        """Numbers of the non-empty clusters, or of those farthest from the population."""
        present = np.flatnonzero(self.table.sum(axis=1) > 0)
        if len(present) <= MAX_CLUSTERS:
            return present
        closeness = self.closeness[present].min(axis=1)
        return np.sort(present[np.argsort(closeness, kind="stable")[:MAX_CLUSTERS]])

    def with_few_groups(self) -> Composition:
        """The non-empty groups; if there are many, the smaller ones added up as the last."""
        sizes = self.table.sum(axis=0)
        present = np.flatnonzero(sizes > 0)
        order = present[np.argsort(-sizes[present], kind="stable")]
        n_kept = MAX_GROUPS if len(present) <= MAX_GROUPS else MAX_GROUPS - 1
        kept, folded = np.sort(order[:n_kept]), order[n_kept:]
        table, names = self.table[:, kept], [self.groups[r] for r in kept]
        if len(folded):
            table = np.column_stack([table, self.table[:, folded].sum(axis=1)])
            names.append(f"{len(folded)} smaller groups")
        return Composition(table, self.clusters, names)


def plot_composition(
    clustering: Clustering,
    sensitive_features: Table | None = None,
    *,
    sample_weight: Weights = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the composition of each cluster, below that of the population.

    Dashed lines mark the population's boundaries: in a proportional clustering all bars break
    there. More than 8 groups are drawn as the 7 largest and the rest; of more than 40
    clusters, the 40 farthest from the population are drawn.

    Parameters
    ----------
    clustering : fitted estimator or array-like of shape (n_samples,)
        An estimator of this library, or labels made by any tool.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
        Group of each row; required with labels. By default the groups that the estimator was
        fitted with.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, with ``sensitive_features``.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor.plotting import plot_composition
    >>> ax = plot_composition([0, 0, 1, 1, 1], ["a", "b", "a", "b", "b"])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['all: 5 rows', '0: 2 rows', '1: 3 rows']
    """
    whole = composition_of(clustering, sensitive_features, sample_weight)
    shown = whole.clusters_to_show()
    drawn = whole.with_few_groups()
    legend_lines = -(-len(drawn.groups) // legend_columns(drawn.groups))
    ax = axes_or_new(ax, height=0.8 + 0.28 * (len(shown) + 1.5) + 0.2 * legend_lines)

    shares = np.vstack([drawn.population, drawn.shares[shown]])
    places = np.concatenate([[0.0], np.arange(len(shown)) + 1.5])
    starts = np.cumsum(shares, axis=1) - shares
    handles = []
    for r, (widths, left) in enumerate(zip(shares.T, starts.T, strict=True)):
        bars = ax.barh(places, widths, 0.8, left, color=series_color(r), edgecolor=SURFACE,
                       linewidth=0.5)  # fmt: skip
        numbers = [f"{width:.1%}" if width >= LEAST_LABELLED_SHARE else "" for width in widths]
        for text in ax.bar_label(bars, numbers, label_type="center", fontsize="small"):
            text.set(color=SURFACE, in_layout=False)
        handles.append(bars[0])
    for boundary in np.cumsum(drawn.population)[:-1]:
        ax.axvline(boundary, color=INK, linewidth=1.0, linestyle=DASHES)

    unit = "rows" if np.array_equal(whole.table, np.round(whole.table)) else "weight"
    sizes = [whole.table.sum(), *whole.table[shown].sum(axis=1)]
    names = ["all", *[plot_name(whole.clusters[l], 20) for l in shown]]
    ax.set_yticks(
        places, [f"{name}: {count_text(n)} {unit}" for name, n in zip(names, sizes, strict=True)]
    )
    ax.set_ylim(places[-1] + 0.55, -0.55)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter("{x:.0%}")
    ax.set_xlabel("share of the cluster")
    legend_above(ax, handles, drawn.groups)
    return tidy(ax)


def plot_balance(
    clustering: Clustering,
    sensitive_features: Table | None = None,
    *,
    sample_weight: Weights = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the balance of each cluster and the largest possible balance.

    The balance of a cluster is its smallest group over its largest; that of the clustering is
    the balance of its worst cluster, which is drawn filled.

    Parameters
    ----------
    clustering : fitted estimator or array-like of shape (n_samples,)
        An estimator of this library, or labels made by any tool.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
        Group of each row; required with labels. By default the groups that the estimator was
        fitted with.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, with ``sensitive_features``.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor.plotting import plot_balance
    >>> ax = plot_balance([0, 0, 1, 1, 1], ["a", "b", "a", "b", "b"])
    >>> ax.get_xlabel()
    'balance (smallest group / largest group)'
    """
    whole = composition_of(clustering, sensitive_features, sample_weight)
    shown = whole.clusters_to_show()
    values = whole.balances[shown]
    ax = axes_or_new(ax, height=1.2 + 0.3 * len(shown))
    color = series_color(0)
    ax.hlines(np.arange(len(shown)), 0, values, color=color, linewidth=1.2)
    for place, value in enumerate(values):
        face = color if place == np.argmin(values) else SURFACE
        ax.plot(value, place, "o", color=color, markerfacecolor=face)
    line = ax.axvline(whole.bound, color=INK, linewidth=1.2, linestyle=DASHES)
    name = f"best possible for the worst cluster: {whole.bound:.4f}"
    legend_above(ax, [line], [name], at_most=60)
    ax.set_yticks(np.arange(len(shown)), [plot_name(whole.clusters[l], 20) for l in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, 1.1 * max(whole.bound, values.max()))
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("balance (smallest group / largest group)")
    ax.set_ylabel("cluster")
    return tidy(ax, grid="x")


def composition_of(
    clustering: Any, sensitive_features: Any = None, sample_weight: Any = None
) -> Composition:
    """Composition of a fitted estimator, or of labels and groups."""
    if sensitive_features is None:
        if not hasattr(clustering, "fit") or sample_weight is not None:
            raise ValueError(
                "sensitive_features is None: labels and sample_weight need the group of each row. "
                "A fitted estimator of this library has counts in the weights of its fit."
            )
        table = np.asarray(fitted(clustering, "counts_"))
        return Composition(table, list(range(len(table))), list(clustering.groups_))
    if hasattr(clustering, "fit"):
        clustering = fitted(clustering, "labels_")
    labels, clusters, _ = encode_labels(clustering)
    codes, groups = encode_names(sensitive_features, len(labels))
    weights = check_weights(sample_weight, labels)
    table = count_cells(labels, codes, len(clusters), len(groups), weights)
    return Composition(table, clusters, groups)


def encode_labels(
    labels: Any, *, drop_missing: bool = False
) -> tuple[np.ndarray, list[Any], np.ndarray]:
    """Codes of the labelled rows, names of the clusters, and which rows have a label."""
    if len(columns_of(labels)) != 1 or len(labels) == 0:
        raise ValueError(
            f"labels has shape {np.shape(labels)}, expected (n_rows,), at least one row."
        )
    codes, clusters = encode_names(labels, missing="own_group")
    # The missing name, if there is one, is the last.
    kept = codes < len(clusters) - (None in clusters)
    if not kept.any() or (not drop_missing and not kept.all()):
        raise ValueError(
            f"labels has {np.count_nonzero(~kept)} missing value(s) in {len(codes)} rows, the "
            f"first in row {int(np.argmin(kept))}. Leave such rows out (summarise_labels has "
            "missing='drop'); at least one row needs a label."
        )
    return codes[kept], [name for name in clusters if name is not None], kept


def fitted(estimator: Any, attribute: str) -> Any:
    """An attribute that ``fit`` sets; an error if it is not there."""
    if not hasattr(estimator, attribute):
        raise ValueError(
            f"{type(estimator).__name__} has no {attribute}: it is not fitted, or it is not an "
            "estimator that sets it. Pass arrays instead."
        )
    return getattr(estimator, attribute)


def check_rows_of_fit(estimator: Any, n_rows: int) -> int:
    """The number of rows of the fit; an error if X has another."""
    expected = len(fitted(estimator, "labels_"))
    if n_rows != expected:
        raise ValueError(
            f"X has {n_rows} rows, the estimator was fitted on {expected}: expected the rows of "
            "the fit."
        )
    return expected


def share_text(value: float) -> str:
    """A share in percent with one decimal; tiny ones keep two digits, so that none looks empty."""
    return f"{100 * value:.2g}%" if 0 < value < 0.001 else f"{value:.1%}"


def count_text(value: float) -> str:
    """A number of rows, or a weight."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
