"""The figures of the page."""

from statistics import median

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from data import TITLES
from plan import METHODS, REAL

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLORS = dict(zip(METHODS, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
LINES = {"ours": "-", "faithful": "--"}
COURSES = {
    "": ("faithful", "#D55E00"),
    "feasible targets": ("feasible targets", "#0072B2"),
    "first penalty 1": ("first penalty 1", "#E69F00"),
    "feasible targets, first penalty 1": ("feasible targets, first penalty 1", "#56B4E9"),
}


def line_of(store, name, method, block, varied):
    """Medians of the measures along one hyper-parameter, the other one fixed."""
    fixed = {"alpha": {"per_group": 20}, "per_group": {"alpha": 1.0}}[varied]
    if block == "ours":
        if varied == "alpha":
            return {}
        fixed = {"rows": 0}
    points = {}
    for fit, result in store.done(
        dataset=name, method=method, where="framework", block=block, variant="", scaling="z",
        **fixed,
    ).items():  # fmt: skip
        if block == "ours" or (fit.rows and fit.seed == 0):
            points.setdefault(getattr(fit, varied), []).append(result)
    return {
        value: {m: median(r[m] for r in found) for m in ("nmi", "balance", "acc")}
        for value, found in sorted(points.items())
    }


def sensitivity(path, store, varied):
    """NMI and Balance against alpha or the number of anchors, two panels for every dataset."""
    with _style():
        figure = Figure(figsize=(8.5, 2.4 * len(REAL) + 0.6), layout="constrained")
        for axes, name in zip(figure.subplots(len(REAL), 2), REAL, strict=True):
            for axis, metric in zip(axes, ("nmi", "balance"), strict=True):
                for block, style in LINES.items():
                    for method, color in COLORS.items():
                        line = line_of(store, name, method, block, varied)
                        x = [value for value in line if value]
                        if x:
                            axis.plot(x, [line[v][metric] for v in x], style, color=color,
                                      marker="o", markersize=3, linewidth=1.2)  # fmt: skip
                axis.set_title(f"{TITLES[name]}: {metric.upper()}", fontsize=9)
                axis.set_xlabel("alpha" if varied == "alpha" else "anchors per group")
                if varied == "alpha":
                    axis.set_xscale("log")
        handles = [Line2D([], [], color=c, label=METHODS[m]) for m, c in COLORS.items()]
        handles += [Line2D([], [], color="gray", linestyle=s, label=b) for b, s in LINES.items()]
        _save(figure, path, handles)


def convergence(path, courses):
    """The augmented Lagrangian, as the paper plots it, and the error of the soft mass."""
    with _style():
        figure = Figure(figsize=(8.5, 2.4 * len(REAL) + 0.6), layout="constrained")
        for axes, name in zip(figure.subplots(len(REAL), 2), REAL, strict=True):
            for variant, (_, color) in COURSES.items():
                course = courses.get((name, variant, 1.0))
                if course is None:
                    continue
                sweeps = np.arange(1, len(course["r"]) + 1)
                lagrangian = course["augmented_lagrangian"]
                axes[0].plot(sweeps, lagrangian / course["rows"][0], color=color, linewidth=1.2)
                axes[1].plot(sweeps, np.maximum(course["mass_error"], 1e-3), color=color,
                             linewidth=1.2)  # fmt: skip
            axes[0].set_title(f"{TITLES[name]}: augmented Lagrangian per row", fontsize=9)
            axes[1].set_title(f"{TITLES[name]}: error of the soft mass, rows", fontsize=9)
            axes[1].set_yscale("log")
            for axis in axes:
                axis.set_xlabel("iteration")
        handles = [Line2D([], [], color=color, label=label) for label, color in COURSES.values()]
        _save(figure, path, handles)


def scaling_points(store, method, where, block):
    """Rows, seconds and megabytes of the fits on samples of the census, by size."""
    fits = store.done(dataset="census", method=method, where=where, block=block, variant="", seed=0)
    return sorted(
        (fit.rows or 2_458_285, result["seconds"], result["peak_mb"])
        for fit, result in fits.items()
    )


def scaling(path, store):
    """Time and memory against the number of rows."""
    with _style():
        figure = Figure(figsize=(8.5, 7.0), layout="constrained")
        axes = figure.subplots(2, 3, sharex=True)
        blocks = (("framework", "ours"), ("framework", "faithful"), ("alone", "ours"))
        for column, (where, block) in enumerate(blocks):
            for method, color in COLORS.items():
                points = scaling_points(store, method, where, block)
                if points:
                    n, *values = zip(*points, strict=True)
                    for axis, found in zip(axes[:, column], values, strict=True):
                        axis.plot(n, found, color=color, marker="o", markersize=3, linewidth=1.2)
            title = "alone" if where == "alone" else f"framework, {block}"
            axes[0, column].set_title(f"{title}: seconds", fontsize=9)
            axes[1, column].set_title(f"{title}: memory of the process, MB", fontsize=9)
            for axis in axes[:, column]:
                axis.set_xscale("log")
                axis.set_yscale("log")
            axes[1, column].set_xlabel("rows")
        _save(figure, path, [Line2D([], [], color=c, label=METHODS[m]) for m, c in COLORS.items()])


def _style():
    return matplotlib.rc_context({"svg.hashsalt": "fairanchor", "font.size": 9, "axes.grid": True,
                                  "grid.alpha": 0.3})  # fmt: skip


def _save(figure, path, handles):
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8)
    figure.savefig(path, format="svg", metadata={"Date": None})
