"""What is fitted: a cell is one fit, and a request for tables and figures is a list of cells."""

from dataclasses import asdict, dataclass, replace

TABLES = ("2", "3", "4", "5")
FIGURES = ("alpha", "anchors", "convergence")
BLOCKS = ("faithful", "ours")
# Keys of the library's clusterers, and the paper's names.
METHODS = {"spfc": "SpFC", "vfc": "VFC", "fmsc": "FMSC", "fairlets": "TFC", "ffc": "FFC"}
# Alone, SpFC also runs on all pairs of rows with a dense eigensolver; the default is sparse.
DENSE = "spfc_dense"
METHOD_TITLES = METHODS | {DENSE: "SpFC, dense"}
# The ablation of anchor selection; the last one is the default of the block.
SELECTIONS = {"faithful": ("random", "das", "fdas"), "ours": ("random", "das", "fdas", "kmeans")}
# Smallest relative balance of a grid point that the label-free rule accepts.
RELATIVE_BALANCE_FLOOR = 0.98
RULES = {
    "grid_labels": "the grid point with the largest ACC + NMI, which needs the true classes "
    "(the paper does not state its rule)",
    "grid_label_free": "the grid point with the least k-means cost among those with a relative "
    f"balance of at least {RELATIVE_BALANCE_FLOOR}; if there is none, the largest relative balance",
}
# Sizes of a quick run, which takes two minutes.
QUICK = {
    "max_rows": 160,
    "per_group": (5, 10),
    "alphas": (1e-2, 1.0, 100.0),
    "own_per_group": (5, 10),
}


@dataclass(frozen=True)
class Cell:
    """One fit; ``None`` stands for the default of the block.

    The block is "faithful" (the paper's setting, with its reconstruction graph) or "ours" (the
    library's defaults except for the clusterer; alpha and solver do not apply to the local graph).
    A timed cell runs in a process of its own, with all cores and under the limits.
    """

    dataset: str
    method: str
    where: str  # "alone" or "framework"
    block: str
    per_group: int | None = None  # anchors per group
    alpha: float | None = None
    anchors: str | None = None
    fairness: str | None = None
    solver: str | None = None
    rows: int | None = None  # size of the sample to fit
    timed: bool = False
    unconstrained: bool = False  # also measure the labels without the group constraint
    history: bool = False  # also keep the iterations of the solver

    def settings(self):
        """The fields that are set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}


@dataclass(frozen=True)
class Settings:
    """What all cells of a run share."""

    data_dir: str | None = None
    max_rows: int | None = None
    per_group: tuple = (2, 5, 10, 15, 20)
    alphas: tuple = (1e-4, 1e-2, 1.0, 100.0)
    own_per_group: tuple = (5, 20, 50, 100, 300)  # of our block, which has no alpha
    grid_rows: int = 20_000  # the faithful block searches its grid on at most so many rows
    full_rows: int = 200_000  # and fits its choice to all rows of tables up to this size
    time_limit: float = 1800.0  # seconds
    patience: float = 5400.0  # seconds; a fit that a pilot expects to take longer is not run
    memory_limit: float = 16.0  # GB
    seed: int = 0
    jobs: int = 1

    @property
    def fixed_alpha(self):
        """The alpha at which the number of anchors varies: the one nearest to 1."""
        return min(self.alphas, key=lambda alpha: abs(alpha - 1.0))


@dataclass(frozen=True)
class Request:
    """The tables, figures and datasets to run."""

    tables: tuple
    figures: tuple
    datasets: tuple

    @property
    def needs_choices(self):
        return bool({"2", "3", "5"} & set(self.tables))


def first_cells(request, shapes, settings):
    """Cells that depend on no result: grids, iterations of the solver, timed fits."""
    cells = []
    for name in request.datasets:
        shape = shapes[name]
        for block in BLOCKS:
            for method in METHODS:
                grid = grid_cells(shape, method, block, settings)
                cells += [cell for cell in grid if _wanted(cell, request, settings)]
        if "convergence" in request.figures:
            cells += convergence_cells(shape, settings)
        if {"2", "4"} & set(request.tables):
            for method in METHODS:
                cells += alone_cells(name, method)
                cells += [defaults_cell(name, method, block) for block in BLOCKS]
    return cells


def second_cells(request, shapes, settings, results):
    """Cells at the hyper-parameters that the grids have chosen, and the ablations around them."""
    cells = []
    for shape in (shapes[name] for name in request.datasets):
        for method in METHODS:
            for block in BLOCKS:
                if request.needs_choices:
                    selected = selections(shape, method, block, settings, results)
                    cells += [cell for name, cell in selected.items() if "defaults" not in name]
                if "3" in request.tables:
                    cells += ablation_cells(shape, method, block, settings, results).values()
            if "5" in request.tables:
                cells.append(untimed_cell(shape.name, method))
    return cells


def grid_cells(shape, method, block, settings):
    """The grid over anchors and, in the paper's graph, alpha.

    Points that have fewer anchors than clusters are left out.
    """
    if block == "faithful":
        rows = _at_most(settings.grid_rows, shape)
        points = [(m, alpha) for m in settings.per_group for alpha in settings.alphas]
    else:
        rows, points = None, [(m, None) for m in settings.own_per_group]
    return [
        Cell(shape.name, method, "framework", block, per_group=per_group, alpha=alpha, rows=rows)
        for per_group, alpha in points
        if per_group * shape.n_groups >= shape.n_clusters
    ]


def _wanted(cell, request, settings):
    """Tables need the whole grid, a figure one line of it."""
    return request.needs_choices or any(on_line(cell, f, settings) for f in request.figures)


def on_line(cell, figure, settings):
    """Whether a figure shows this grid point: alpha varies at the largest number of anchors."""
    if figure == "alpha":
        return cell.alpha is not None and cell.per_group == max(settings.per_group)
    return figure == "anchors" and cell.alpha in (None, settings.fixed_alpha)


def alone_cells(dataset, method):
    """The method on all rows, without the framework."""
    cells = [Cell(dataset, DENSE, "alone", "faithful", timed=True)] if method == "spfc" else []
    return [*cells, Cell(dataset, method, "alone", "ours", timed=True)]


def defaults_cell(dataset, method, block):
    """The framework with the defaults of the block, timed."""
    return Cell(dataset, method, "framework", block, timed=True, unconstrained=True)


def untimed_cell(dataset, method):
    """The library's defaults, where only the labels matter."""
    return Cell(dataset, method, "framework", "ours", unconstrained=True)


def convergence_cells(shape, settings):
    """The same graph by ADMM with the paper's targets, with feasible ones, and by Newton."""
    faithful = Cell(
        shape.name, "spfc", "framework", "faithful", per_group=max(settings.per_group),
        alpha=settings.fixed_alpha, rows=_at_most(settings.grid_rows, shape), history=True,
    )  # fmt: skip
    feasible = replace(faithful, fairness="anchors")
    alphas = dict.fromkeys((settings.fixed_alpha, *settings.alphas))
    newton = [replace(feasible, solver="newton", alpha=alpha) for alpha in alphas]
    return [faithful, feasible, *newton]


def selections(shape, method, block, settings, results):
    """The cells of Table 2 in the framework, by how their hyper-parameters were chosen."""
    cells = {"defaults": defaults_cell(shape.name, method, block)}
    for rule in RULES:
        cell = chosen_cell(rule, shape, method, block, settings, results)
        if cell is not None:
            cells[rule] = cell
    return cells


def ablation_cells(shape, method, block, settings, results):
    """One cell for every way to select anchors, all else equal; empty if nothing was chosen."""
    base = untimed_cell(shape.name, method)
    if block == "faithful":
        base = chosen_cell("grid_labels", shape, method, block, settings, results)
        if base is None:
            return {}
    *others, own = SELECTIONS[block]
    return {name: replace(base, anchors=name) for name in others} | {own: base}


def chosen_cell(rule, shape, method, block, settings, results):
    """The rule's choice, fitted to as many rows as the block can afford; None without results."""
    grid = grid_cells(shape, method, block, settings)
    chosen = choose(rule, {cell: results[cell] for cell in grid if cell in results})
    if chosen is None:
        return None
    rows = chosen.rows if shape.n_rows > settings.full_rows else None
    return replace(chosen, rows=rows, unconstrained=True)


def choose(rule, results):
    """The chosen cell of a grid; ties go to fewer anchors, then to the smaller alpha."""
    done = {cell: result for cell, result in results.items() if result["status"] == "done"}
    if not done:
        return None

    def loss(cell):
        result = done[cell]
        if rule == "grid_labels":
            return (-result["acc"] - result["nmi"],)
        fair = result["relative_balance"] >= RELATIVE_BALANCE_FLOOR
        return (not fair, result["cost"] if fair else -result["relative_balance"])

    return min(done, key=lambda cell: (*loss(cell), cell.per_group, cell.alpha or 0.0))


def _at_most(limit, shape):
    return limit if shape.n_rows > limit else None
