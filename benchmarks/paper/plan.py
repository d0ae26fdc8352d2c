"""Which fits are run, in the order of their worth, and how hyper-parameters are chosen."""

from dataclasses import replace
from statistics import median

from data import N_CLUSTERS, N_GROUPS
from fits import Fit

METHODS = {"spfc": "SpFC", "vfc": "VFC", "fmsc": "FMSC", "fairlets": "TFC", "ffc": "FFC"}
REAL = ("law", "credit", "bank", "zafar")  # the census is a stand-in, and comes last
PER_GROUP = tuple(range(2, 21, 2))
ALPHAS = (1e-4, 1e-2, 1.0, 100.0)
# The label-free rule takes the least k-means cost among points that are at least so fair.
RELATIVE_BALANCE_FLOOR = 0.98
# Anchors of our grid: means, and the rows that FDAS selects.
SEARCHED = ("", "fdas")
# Seeds of our block that choose a point of the grid.
SEARCH_SEEDS = 3
# The paper states no rule of its choice: with labels, the point of its grid with the largest sum of
# ACC and NMI, which it both prints, or the largest NMI.
SETTINGS = ("grid_labels", "grid_nmi", "grid_label_free", "defaults")
ABLATIONS = {
    "faithful": ("", "random", "das", "ac"),
    "ours": ("", "random", "das", "fdas", "ac"),
}
EXTENSIONS = ("fdas", "ac", "reconstruction graph", "anchors without masses",
              "targets of the anchors")  # fmt: skip
EARLIER = {"weight 0.25": ("vfc",), "threshold 0.8": ("ffc",), "weight 1, 5 neighbours": ("fmsc",)}
PRINTED = ("printed decay", "minimum of the table", "printed stopping", "first penalty 1",
           "feasible targets")  # fmt: skip
COURSES = ("", "feasible targets", "first penalty 1", "feasible targets, first penalty 1",
           "feasible targets, exact")  # fmt: skip
# What a fit and its seeds share.
IDENTITY = ("dataset", "method", "where", "block", "variant", "scaling", "per_group", "alpha")
SIZES = (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000)


def framework(dataset, method, block, **given):
    return Fit(dataset, method, "framework", block, **given)


def defaults(options, store):
    """Table 2 and 4, our block."""
    return [
        framework(name, method, "ours", seed=seed)
        for seed in range(options.seeds)
        for name in REAL
        for method in METHODS
    ]


def grid(options, store):
    """Our block over the paper's numbers of anchors, means or rows, without alpha."""
    return [
        framework(name, method, "ours", variant=variant, per_group=per_group, seed=seed)
        for seed in range(min(options.seeds, SEARCH_SEEDS))
        for variant in SEARCHED
        for name in REAL
        for method in METHODS
        for per_group in grid_of_anchors(name)
    ]


def alpha_grid(options, store):
    """The paper's grid of anchors and alpha with exact labels: rows of FDAS, its graph.

    Its rows do not depend on the seed, so that one seed searches. Zafar has too many features for
    this graph.
    """
    return [
        framework(name, method, "ours", variant="fdas", per_group=per_group, alpha=alpha)
        for name in REAL
        if name != "zafar"
        for method in METHODS
        for per_group in grid_of_anchors(name)
        for alpha in ALPHAS
    ]


def chosen_points(options, store):
    """The points that were chosen in our grid, with all seeds."""
    fits = []
    for seed in range(options.seeds):
        for name in REAL:
            for method in METHODS:
                for setting in SETTINGS[:-1]:
                    fit = chosen(store, setting, name, method, "ours")
                    if fit is not None:
                        fits.append(replace(fit, seed=seed))
    return fits


def grid_of_anchors(name):
    """The paper's numbers of anchors per group, without those below the number of clusters."""
    return [m for m in PER_GROUP if m * N_GROUPS[name] >= N_CLUSTERS[name]]


def faithful_grid(options, store):
    """The paper's grid, on a sample."""
    return [
        framework(name, method, "faithful", rows=options.grid_rows, per_group=m, alpha=alpha)
        for name in REAL
        for method in METHODS
        for m in grid_of_anchors(name)
        for alpha in ALPHAS
    ]


def faithful(options, store):
    """The faithful block on all rows: the middle of its grid, and the chosen points."""
    fits = []
    for seed in range(options.faithful_seeds):
        for name in REAL:
            for method in METHODS:
                for setting in SETTINGS:
                    fit = chosen(store, setting, name, method, "faithful")
                    if fit is not None:
                        fits.append(replace(fit, rows=0, seed=seed))
    return fits


def ablations(options, store):
    """Tables 3 and 5 by SpFC: samples drawn by the seed (faithful), and the whole table (ours)."""
    fits = []
    for seed in range(options.seeds):
        for name in REAL:
            fit = chosen(store, "grid_labels", name, "spfc", "faithful")
            if fit is not None:
                fit = replace(fit, rows=options.grid_rows, seed=seed)
                fits += [replace(fit, variant=variant) for variant in ABLATIONS["faithful"]]
            ours = framework(name, "spfc", "ours", seed=seed)
            fits += [replace(ours, variant=variant) for variant in ABLATIONS["ours"]]
    return fits


def extensions(options, store):
    """What each of our extensions is worth, all five methods, with 20 anchors per group."""
    return [
        framework(name, method, "ours", variant=variant, per_group=20, seed=seed)
        for seed in range(options.seeds)
        for name in REAL
        for method in METHODS
        for variant in ("", *EXTENSIONS)
        if (variant != "reconstruction graph" or name != "zafar")
        and (variant != "reconstruction graph" or method == "spfc")
    ]


def earlier(options, store):
    """What was the default before, at the default number of anchors."""
    return [
        framework(name, method, "ours", variant=variant, seed=seed)
        for seed in range(options.seeds)
        for name in REAL
        for variant, methods in EARLIER.items()
        for method in methods
    ]


def printed(options, store):
    """What is printed where the faithful block differs, and where the paper leaves it open."""
    return [
        framework(
            name,
            "spfc",
            "faithful",
            variant=variant,
            rows=options.grid_rows,
            per_group=20,
            alpha=1.0,
            seed=seed,
        )
        for seed in range(options.seeds)
        for name in REAL
        for variant in ("", *PRINTED)
    ]


def convergence(options, store):
    """The course of the solvers; their histories go into a file of their own."""
    return [
        framework(
            name,
            "spfc",
            "faithful",
            variant=variant,
            rows=options.grid_rows,
            per_group=20,
            alpha=alpha,
        )
        for name in REAL
        for variant in COURSES
        for alpha in ([1.0] if "exact" not in variant else ALPHAS)
    ]


def preprocessing(options, store):
    """Rows of unit length: our block at its defaults, and the methods alone."""
    fits = []
    for seed in range(options.seeds):
        for name in REAL:
            for method in METHODS:
                fits.append(framework(name, method, "ours", scaling="unit", seed=seed))
                if method in ("vfc", "ffc"):
                    fits.append(Fit(name, method, "alone", "ours", scaling="unit", seed=seed))
    return fits


def alone(options, store):
    """The methods on all rows, without the framework."""
    return [
        Fit(name, method, "alone", "ours", seed=seed)
        for seed in range(options.seeds)
        for name in REAL
        for method in METHODS
    ]


def census(options, store):
    """The census, or its stand-in."""
    return [
        framework("census", method, "ours", seed=seed)
        for seed in range(options.census_seeds)
        for method in METHODS
    ]


def scaling(options, store):
    """Time and memory against the number of rows, on samples of the stand-in of the census."""
    fits = []
    for rows in SIZES:
        for method in METHODS:
            for where, block in (("framework", "ours"), ("framework", "faithful"),
                                 ("alone", "ours")):  # fmt: skip
                fit = Fit("census", method, where, block, variant="", rows=rows)
                if not slower_ones_ended(fit, store):
                    fits.append(fit)
    return fits


def slower_ones_ended(fit, store):
    """Whether a smaller sample already exceeded the limit of time or memory."""
    return any(
        other == replace(fit, rows=other.rows)
        and 0 < other.rows < fit.rows
        and result["status"] not in ("done", "error")
        for other, result in list(store.results.items())  # other threads add to them
    )


STAGES = {
    "defaults": defaults,
    "grid": grid,
    "alpha_grid": alpha_grid,
    "chosen_points": chosen_points,
    "faithful_grid": faithful_grid,
    "ablations": ablations,
    "convergence": convergence,
    "printed": printed,
    "faithful": faithful,
    "preprocessing": preprocessing,
    "alone": alone,
    "extensions": extensions,
    "earlier": earlier,
    "census": census,
    "scaling": scaling,
}


# Choices.


def chosen(store, setting, name, method, block):
    """The fit of a cell of Table 2 by how its hyper-parameters were chosen, with seed 0."""
    if setting == "defaults":
        if block == "ours":
            return framework(name, method, block)
        return framework(name, method, block, per_group=20, alpha=1.0)
    points = grid_points(store, name, method, block)
    return min(points, key=lambda fit: loss_of(setting, points[fit], fit), default=None)


def grid_points(store, name, method, block):
    """Results by point of the grid: our block on all rows, the faithful one on samples.

    Only the first seeds take part: the others judge the chosen point, and do not choose it.
    """
    points = {}
    fits = store.done(dataset=name, method=method, where="framework", block=block, scaling="z")
    for fit, result in fits.items():
        in_grid = fit.per_group in grid_of_anchors(name)
        if block == "ours":
            is_default = fit == framework(name, method, "ours", seed=fit.seed)
            searched = fit.rows == 0 and (
                (fit.variant in SEARCHED and fit.alpha == 0)
                or (fit.variant == "fdas" and fit.alpha in ALPHAS)
            )
            if (is_default or (in_grid and searched)) and fit.seed < SEARCH_SEEDS:
                points.setdefault(replace(fit, seed=0), []).append(result)
        elif in_grid and fit.rows and fit.seed == 0 and not fit.variant and fit.alpha in ALPHAS:
            points.setdefault(fit, []).append(result)
    return points


def loss_of(setting, results, fit):
    """What a setting minimises over the points of a grid, and how ties are broken."""
    names = ("nmi", "acc", "cost", "relative_balance")
    value = {name: median(result[name] for result in results) for name in names}
    ties = (fit.variant, fit.per_group, fit.alpha)
    if setting == "grid_labels":
        return (-value["acc"] - value["nmi"], *ties)
    if setting == "grid_nmi":
        return (-value["nmi"], *ties)
    fair = value["relative_balance"]
    is_fair = fair >= RELATIVE_BALANCE_FLOOR
    return (not is_fair, value["cost"] if is_fair else -fair, *ties)


def without_variant(fit):
    """The fit of the block itself that a variant is compared with."""
    return replace(fit, variant="")
