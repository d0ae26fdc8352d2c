"""Which cells the tables and figures need, and about how long they take."""

from dataclasses import dataclass, replace

from fairanchor.reproduction._cells import Cell
from fairanchor.reproduction._choose import choose
from fairanchor.reproduction._methods import DENSE, METHODS

TABLES = ("2", "3", "4", "5")
FIGURES = ("alpha", "anchors", "convergence")
BLOCKS = ("faithful", "ours")
# The ablation of anchor selection; the last one is the default of the block.
SELECTIONS = {"faithful": ("random", "das", "fdas"), "ours": ("random", "das", "fdas", "kmeans")}
REFINE_STEPS = 20
# The clusterer of the figure of convergence, the paper's first.
CONVERGENCE_METHOD = "spfc"

# Seconds per row and anchor, one core: ADMM with 100 x 50 Frank-Wolfe steps; Newton; and Newton
# on the rows beyond the sample from which large tables start.
FAITHFUL_RATE = 7.5e-6
OURS_RATE = 1.0e-6
OURS_LARGE_RATE = 1.5e-7
SAMPLED_ROWS = 100_000
START_SECONDS = 0.1


@dataclass(frozen=True)
class Request:
    """What is to be reproduced."""

    tables: tuple
    figures: tuple
    datasets: tuple

    def needs_grid(self):
        return bool({"2", "3", "5"} & set(self.tables) or {"alpha", "anchors"} & set(self.figures))


def first_cells(request, shapes, settings):
    """Cells that depend on no result: grids, timed runs, courses of the solver."""
    cells = []
    for name in request.datasets:
        shape = shapes[name]
        if request.needs_grid():
            for block in BLOCKS:
                for method in METHODS:
                    grid = grid_cells(shape, method, block, settings)
                    cells += [cell for cell in grid if _wanted(cell, request, settings)]
        if "convergence" in request.figures:
            cells += convergence_cells(shape, settings)
        if {"2", "4"} & set(request.tables):
            cells += timed_cells(shape)
    return cells


def grid_cells(shape, method, block, settings):
    """The grid over anchors and alpha, without points that have fewer anchors than clusters."""
    rows = _fewer(shape, settings.grid_rows) if block == "faithful" else None
    return [
        Cell(shape.name, method, "framework", block, per_group=per_group, alpha=alpha, rows=rows)
        for per_group in settings.per_group
        for alpha in settings.alphas
        if per_group * shape.n_groups >= shape.n_clusters
    ]


def _wanted(cell, request, settings):
    """Figures alone need only two lines of the grid."""
    if {"2", "3", "5"} & set(request.tables):
        return True
    on_alpha_line = cell.per_group == max(settings.per_group)
    return ("alpha" in request.figures and on_alpha_line) or (
        "anchors" in request.figures and cell.alpha == fixed_alpha(settings)
    )


def fixed_alpha(settings):
    """The alpha at which the number of anchors is varied: the one nearest to 1."""
    return min(settings.alphas, key=lambda alpha: abs(alpha - 1.0))


def timed_cells(shape):
    """Every method alone, inside the framework as in the paper, and as we do it."""
    cells = [Cell(shape.name, DENSE, "alone", "faithful", timed=True)]
    for method in METHODS:
        cells.append(Cell(shape.name, method, "alone", "ours", timed=True))
        for block in BLOCKS:
            cells.append(defaults_cell(shape.name, method, block))
    return cells


def defaults_cell(dataset, method, block):
    """The framework without any choice of ours or of labels."""
    return Cell(dataset, method, "framework", block, timed=True, unconstrained=True)


def convergence_cells(shape, settings):
    """The same graph by ADMM with the paper's targets, with feasible ones, and by Newton."""
    faithful = Cell(
        shape.name,
        CONVERGENCE_METHOD,
        "framework",
        "faithful",
        per_group=max(settings.per_group),
        alpha=fixed_alpha(settings),
        rows=_fewer(shape, settings.grid_rows),
        history=True,
    )
    feasible = replace(faithful, fairness="anchors")
    newton = [
        replace(feasible, solver="newton", alpha=alpha)
        for alpha in dict.fromkeys((fixed_alpha(settings), *settings.alphas))
    ]
    return [faithful, feasible, *newton]


def second_cells(request, shapes, settings, results):
    """Cells at the hyper-parameters that the grids have chosen, and the ablations around them."""
    cells = []
    for name in request.datasets:
        for method in METHODS:
            for block in BLOCKS:
                cells += _chosen_cells(request, shapes[name], method, block, settings, results)
    return list(dict.fromkeys(cells))


def _chosen_cells(request, shape, method, block, settings, results):
    cells = []
    if {"2", "3", "5"} & set(request.tables):
        for rule in ("grid_labels", "grid_label_free"):
            cell = chosen_cell(rule, shape, method, block, settings, results)
            if cell is not None:
                cells.append(cell)
                if block == "ours" and rule == "grid_labels":
                    cells.append(replace(cell, refine=REFINE_STEPS))
    if "2" in request.tables and block == "ours":
        cells.append(refined_defaults_cell(shape.name, method))
    if "3" in request.tables:
        cells += ablation_cells(shape, method, block, settings, results).values()
    if "5" in request.tables and block == "ours":
        cells.append(untimed_defaults_cell(shape.name, method))
    return cells


def chosen_cell(rule, shape, method, block, settings, results):
    """The rule's choice, fitted to as many rows as the block can afford."""
    grid = grid_cells(shape, method, block, settings)
    chosen = choose(rule, [(cell, results[cell]) for cell in grid if cell in results])
    if chosen is None:
        return None
    rows = chosen.rows if shape.n_rows > settings.full_rows else None
    return replace(chosen, rows=rows, unconstrained=True)


def untimed_defaults_cell(dataset, method):
    """Our defaults, where only labels matter."""
    return Cell(dataset, method, "framework", "ours", unconstrained=True)


def refined_defaults_cell(dataset, method):
    """Our defaults and fair Lloyd steps after propagation."""
    return replace(untimed_defaults_cell(dataset, method), refine=REFINE_STEPS)


def ablation_cells(shape, method, block, settings, results):
    """One cell for every way to select anchors, all else equal; empty if nothing was chosen."""
    base = untimed_defaults_cell(shape.name, method)
    if block == "faithful":
        base = chosen_cell("grid_labels", shape, method, block, settings, results)
        if base is None:
            return {}
    *others, own = SELECTIONS[block]
    return {name: replace(base, anchors=name) for name in others} | {own: base}


def _fewer(shape, limit):
    return limit if shape.n_rows > limit else None


def estimated_seconds(cell, shape, settings):
    """About how long a cell takes on one core; for a method alone at most the limit, so None."""
    if cell.where == "alone":
        return None
    n_rows = min(cell.rows or shape.n_rows, shape.n_rows)
    per_group = cell.per_group or 20
    n_anchors = per_group * shape.n_groups
    if cell.block == "faithful" and cell.solver is None:
        return START_SECONDS + FAITHFUL_RATE * n_rows * n_anchors
    wider = 1.0 + shape.n_features / 100
    few, more = min(n_rows, SAMPLED_ROWS), max(n_rows - SAMPLED_ROWS, 0)
    return START_SECONDS + (OURS_RATE * few + OURS_LARGE_RATE * more) * n_anchors * wider


def choices_bound(request, shapes, settings):
    """Most seconds of one core for the cells that the outcome of the grids decides.

    As if every rule chose the largest number of anchors.
    """
    wanted = set(request.tables)
    chosen = 2 if {"2", "3", "5"} & wanted else 0
    counts = {
        "faithful": chosen + 2 * ("3" in wanted),
        "ours": chosen
        + (chosen > 0)
        + ("2" in wanted)
        + 3 * ("3" in wanted)
        + bool({"3", "5"} & wanted),
    }
    total = 0.0
    for name in request.datasets:
        shape = shapes[name]
        sample = _fewer(shape, settings.grid_rows) if shape.n_rows > settings.full_rows else None
        for block, count in counts.items():
            largest = Cell(
                name, "spfc", "framework", block, per_group=max(*settings.per_group, 20),
                rows=sample if block == "faithful" else None,
            )  # fmt: skip
            total += len(METHODS) * count * estimated_seconds(largest, shape, settings)
    return total
