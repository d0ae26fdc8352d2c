"""The paper's figures: sensitivity to alpha and to the number of anchors, and convergence.

All are drawn from results; nothing is fitted here. Files are SVG and, for the same results, equal
to the byte.
"""

import io

from fairanchor.reproduction._data import TITLES
from fairanchor.reproduction._methods import METHODS
from fairanchor.reproduction._plan import BLOCKS, convergence_cells, fixed_alpha, grid_cells

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLORS = dict(zip(METHODS, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
LINES = {"ours": "-", "faithful": "--"}
COURSES = (
    ("ADMM, the paper's targets", "#D55E00"),
    ("ADMM, feasible targets", "#E69F00"),
    ("Newton, feasible targets", "#0072B2"),
)


def draw(name, request, settings, outcome):
    """A figure as SVG bytes.

    Parameters
    ----------
    name : {"alpha", "anchors", "convergence"}
    request : Request
    settings : Settings
    outcome : Outcome

    Returns
    -------
    svg : bytes
    """
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "fairanchor", "font.size": 9}):
        figure, axes = _panels(len(request.datasets))
        for row, dataset in zip(axes, request.datasets, strict=True):
            shape = outcome.shapes[dataset]
            if name == "convergence":
                _draw_convergence(row, shape, settings, outcome.results)
            else:
                _draw_sensitivity(row, name, shape, settings, outcome.results)
        _add_legend(figure, name)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _panels(n_rows):
    """A figure that belongs to no window system, with two panels for every dataset."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 2.4 * n_rows + 0.6), layout="constrained")
    return figure, figure.subplots(n_rows, 2, squeeze=False)


def _draw_sensitivity(axes, name, shape, settings, results):
    for axis, metric, title in zip(axes, ("nmi", "balance"), ("NMI", "Balance"), strict=True):
        for block in BLOCKS:
            for method in METHODS:
                points = sensitivity(name, shape, method, block, settings, results)
                done = [(x, result[metric]) for x, result in points if result["status"] == "done"]
                if done:
                    axis.plot(
                        *zip(*done, strict=True), LINES[block],
                        color=COLORS[method], marker="o", markersize=3, linewidth=1.2,
                    )  # fmt: skip
        axis.set_title(f"{TITLES[shape.name]}: {title}", fontsize=9)
        axis.set_xlabel("alpha" if name == "alpha" else "anchors per group")
        if name == "alpha":
            axis.set_xscale("log")
        axis.grid(alpha=0.3)
    bound = min(shape.group_sizes) / max(shape.group_sizes)
    axes[1].axhline(bound, color="black", linewidth=0.8, linestyle=":")
    axes[1].set_ylim(bottom=0)


def sensitivity(name, shape, method, block, settings, results):
    """The points of one line: values of the parameter and results.

    Alpha is varied at the largest number of anchors, anchors at the alpha nearest to 1.
    """
    varied = "alpha" if name == "alpha" else "per_group"
    points = []
    for cell in grid_cells(shape, method, block, settings):
        on_line = (
            cell.per_group == max(settings.per_group)
            if name == "alpha"
            else cell.alpha == fixed_alpha(settings)
        )
        if on_line and cell in results:
            points.append((getattr(cell, varied), results[cell]))
    return points


def _draw_convergence(axes, shape, settings, results):
    cells = convergence_cells(shape, settings)[: len(COURSES)]
    for cell, (_, color) in zip(cells, COURSES, strict=True):
        course = results.get(cell, {}).get("history", [])
        if not course:
            continue
        sweeps = list(range(1, len(course) + 1))
        # Few sweeps would be invisible without their points.
        style = {"color": color, "linewidth": 1.2, "marker": "o" if len(course) < 20 else None}
        objective = [record["objective"] / results[cell]["rows"] for record in course]
        errors = [max(record["mass_error"], 1e-9) for record in course]
        axes[0].plot(sweeps, objective, markersize=3, **style)
        axes[1].plot(sweeps, errors, markersize=3, **style)
        for name, line in (("r", "--"), ("s", ":")):
            if name in course[0]:
                residuals = [max(record[name], 1e-9) for record in course]
                axes[1].plot(sweeps, residuals, line, color=color, linewidth=1.0)
    axes[0].set_title(f"{TITLES[shape.name]}: objective per row", fontsize=9)
    axes[1].set_title(f"{TITLES[shape.name]}: error of soft mass (samples), residuals", fontsize=9)
    axes[1].set_yscale("log")
    for axis in axes:
        axis.set_xlabel("sweep over the rows")
        axis.set_xscale("log")
        axis.grid(alpha=0.3)


def _add_legend(figure, name):
    from matplotlib.lines import Line2D

    if name == "convergence":
        handles = [Line2D([], [], color=color, label=title) for title, color in COURSES]
        handles += [
            Line2D([], [], color="gray", linestyle=line, label=label)
            for line, label in (("--", "primal residual"), (":", "dual residual"))
        ]
    else:
        handles = [Line2D([], [], color=COLORS[m], label=METHODS[m]) for m in METHODS]
        handles += [
            Line2D([], [], color="gray", linestyle=LINES[block], label=block) for block in LINES
        ]
        handles.append(Line2D([], [], color="black", linestyle=":", label="Balance of the dataset"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8)
