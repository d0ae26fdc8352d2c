"""From the fits: cells.csv, one CSV file per table, the figures and the page of the documentation.

Nothing here runs a fit, and nothing on the page is typed in that a file could contradict: numbers,
counts and verdicts are computed from the result files.
"""

import csv
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median

import jinja2
import numpy as np
from scipy import stats

import figures
import plan
from data import SCALINGS, STAND_IN, TITLES
from plan import METHODS, REAL, SETTINGS

HERE = Path(__file__).parent
MEASURES = {"acc": "ACC", "nmi": "NMI", "balance": "Balance", "mnce": "MNCE"}
CELL_COLUMNS = ("table", "dataset", "method", "where", "variant", "block", "setting", "metric",
                "seed", "value")  # fmt: skip
# A printed number is known to three digits.
HALF_DIGIT = 0.0005 + 1e-9
# How hyper-parameters are chosen. cells.csv has one rule by labels, the first.
RULES = {"grid_labels": "labels, ACC + NMI", "grid_nmi": "labels, NMI",
         "grid_label_free": "without labels", "defaults": "defaults"}  # fmt: skip
LABELS = ("grid_labels", "grid_nmi")
REACHED, MISSED, BOUNDED, NONE = "reached", "missed", "bounded", "–"


def write(results, page, store):
    """Write all files that follow from the fits."""
    published, facts = read_published(), read_csv(results / "datasets.csv", "dataset")
    cells = all_cells(store)
    shared = [cell for cell in cells if cell[CELL_COLUMNS.index("setting")] != "grid_nmi"]
    write_csv(results / "cells.csv", CELL_COLUMNS, shared)
    medians = medians_of(cells)
    courses = read_courses(results / "convergence.csv")
    for table in "2345":
        write_csv(results / f"table{table}.csv", *table_lines(table, published, medians))
    figures.sensitivity(results / "figure_alpha.svg", store, "alpha")
    figures.sensitivity(results / "figure_anchors.svg", store, "per_group")
    figures.convergence(results / "figure_convergence.svg", courses)
    if scaling_rows(store):
        figures.scaling(results / "figure_scaling.svg", store)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    context = page_context(store, published, facts, medians, courses)
    context["machine"] = json.loads((results / "machine.json").read_text())
    page.write_text(environment.get_template("page.md").render(context), encoding="utf-8")


# Files.


def read_published():
    """The cells of the paper's tables: (table, dataset, method, where, variant, metric) -> line."""
    with (HERE / "published.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    names = ("table", "dataset", "method", "where", "variant", "metric")
    return {
        tuple(line[name] for name in names): (
            float(line["value"]) if line["kind"] == "value" else line["kind"]
        )
        for line in lines
    }


def read_csv(path, key):
    with path.open(encoding="utf-8", newline="") as file:
        return {line[key]: line for line in csv.DictReader(file)}


def write_csv(path, columns, lines):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])


def read_courses(path):
    """Iterations by (dataset, variant, alpha): a dict of arrays."""
    courses = defaultdict(lambda: defaultdict(list))
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            course = courses[line["dataset"], line["variant"], float(line["alpha"])]
            for name, text in line.items():
                if name not in ("dataset", "variant", "alpha"):
                    course[name].append(float(text) if text else np.nan)
    return {key: {k: np.array(v) for k, v in course.items()} for key, course in courses.items()}


def limit_of(result):
    """Seconds at which a fit was ended."""
    return float(result["note"].split()[1])


# Cells.


def all_cells(store):
    """One line per measured value of the paper's tables, as in cells.csv."""
    lines = []

    def add(table, fits, variant, block, setting, metrics):
        for fit in sorted(fits, key=lambda fit: fit.seed):
            for metric in metrics:
                value = f"{fits[fit][metric]:.6g}"
                lines.append((table, fit.dataset, fit.method, fit.where, variant, block, setting,
                              metric, fit.seed, value))  # fmt: skip

    for name in TITLES:
        for method in METHODS:
            alone = store.done(dataset=name, method=method, where="alone", variant="",
                               scaling="z", rows=0)  # fmt: skip
            add("2", alone, "", "ours", "defaults", MEASURES)
            add("4", alone, "", "ours", "defaults", ("seconds",))
            for block in ("faithful", "ours"):
                for setting in SETTINGS:
                    fit = plan.chosen(store, setting, name, method, block)
                    fits = seeds_of(store, fit)
                    if setting == "defaults":
                        add("4", fits, "", block, setting, ("seconds",))
                    add("2", fits or on_samples(store, fit), "", block, setting, MEASURES)
        for table, variant, block, setting, fits in ablation_fits(store, name):
            add(table, fits, variant, block, setting, MEASURES)
    return lines


def seeds_of(store, fit, **changes):
    """The same fit on all rows for every seed that was run."""
    if fit is None:
        return {}
    keys = {name: getattr(fit, name) for name in plan.IDENTITY} | {"rows": 0} | changes
    return store.done(**keys)


def on_samples(store, fit):
    """The same fit on samples that the seeds draw: the largest that were run."""
    if fit is None:
        return {}
    sizes = {f.rows for f in store.done(**{name: getattr(fit, name) for name in plan.IDENTITY})}
    return seeds_of(store, fit, rows=max(sizes)) if sizes else {}


def ablation_fits(store, name):
    """Tables 3 and 5 of a dataset: (table, variant, block, setting, fits)."""
    names = {"3": ("random", "das", "fdas"), "5": ("ac", "fac")}
    for block, setting in (("faithful", "grid_labels"), ("ours", "defaults")):
        fit = plan.chosen(store, setting, name, "spfc", block)
        if fit is None:
            continue
        rows = 0
        if block == "faithful":  # samples that the seeds draw
            rows = max((f.rows for f in store.done(dataset=name, block=block, variant="das")),
                       default=0)  # fmt: skip
        for table, variants in names.items():
            for variant in variants:
                is_block = variant == "fac" or (variant == "fdas" and block == "faithful")
                own = "" if is_block else variant
                fits = seeds_of(store, fit, rows=rows, variant=own)
                if block == "faithful":
                    with_all = {f.seed for f in seeds_of(store, fit, rows=rows, variant="das")}
                    fits = {f: r for f, r in fits.items() if f.seed in with_all}
                yield table, variant, block, setting, fits


def medians_of(cells):
    """Values by (table, dataset, method, where, variant, block, setting, metric)."""
    values = defaultdict(dict)
    for *key, seed, value in cells:
        values[tuple(key)][seed] = float(value)
    return dict(values)


def table_lines(table, published, medians):
    """The file of a table: published values beside medians, spread and number of seeds."""
    columns = [(b, s) for b in ("faithful", "ours") for s in SETTINGS]
    columns = [c for c in columns if any(k[0] == table and k[5:7] == c for k in medians)]
    header = ["dataset", "method", "where", "variant", "metric", "published"]
    for block, setting in columns:
        header += [f"{block} {setting} {part}" for part in ("median", "min", "max", "seeds")]
    lines = []
    for (number, *keys), value in published.items():
        if number != table:
            continue
        line = [*keys, value]
        for column in columns:
            found = list(medians.get((table, *keys[:4], *column, keys[4]), {}).values())
            line += [f"{median(found):.4g}", f"{min(found):.4g}", f"{max(found):.4g}",
                     len(found)] if found else ["", "", "", 0]  # fmt: skip
        lines.append(line)
    return header, lines


# Verdicts.


def verdict(value, published, bound=None):
    """Whether a median reaches a printed number."""
    if value is None or not isinstance(published, float):
        return NONE
    if value >= published - HALF_DIGIT:
        return REACHED
    return BOUNDED if bound is not None and published > bound + HALF_DIGIT else MISSED


def bounds_of(facts, name):
    """Largest values of an exactly proportional clustering, where they are known."""
    if name not in facts:
        return dict.fromkeys(MEASURES)
    line = facts[name]
    nmi = float(line["largest_nmi"]) if line["largest_nmi"] else None
    return {"acc": float(line["largest_acc"]), "nmi": nmi, "balance": float(line["balance"]),
            "mnce": 1.0}  # fmt: skip


def middle(values):
    return median(values.values()) if values else None


def shown(value, digits=3):
    if value is None:
        return "–"
    if isinstance(value, str):
        return {"over 30 minutes": "> 30 min", "not supported": "–"}.get(value, value)
    return f"{value:.{digits}f}"


def with_spread(values, digits=3):
    """Median and range."""
    if not values:
        return "–"
    text = shown(middle(values), digits)
    low, high = min(values.values()), max(values.values())
    if len(values) > 1 and high - low >= 10**-digits:
        text += f" ({low:.{digits}f} to {high:.{digits}f})"
    return text


def quad(get):
    """Four measures in one entry of a table."""
    values = [get(metric) for metric in MEASURES]
    return "–" if all(v is None for v in values) else " / ".join(map(shown, values))


def is_sampled(store, name, method):
    """Whether the faithful block has no fit of all rows at the point that labels choose."""
    return not seeds_of(store, plan.chosen(store, "grid_labels", name, method, "faithful"))


def table2_rows(store, published, medians, facts, where="framework"):
    """The cells of Table 2: printed, measured, and a verdict for each of the four measures."""
    rows = []
    for name in TITLES:
        for method in METHODS:
            key = ("2", name, method, where, "")

            def get(block, setting, metric, key=key):
                return middle(medians.get((*key, block, setting, metric)))

            printed = {metric: published[(*key, metric)] for metric in MEASURES}
            bound = bounds_of(facts, name)
            row = {
                "dataset": name,
                "method": method,
                "sampled": is_sampled(store, name, method),
                "stand_in": name not in facts or facts[name]["origin"] == STAND_IN,
                "published": quad(printed.get) if isinstance(printed["acc"], float)
                else shown(printed["acc"]),
                "verdicts": {
                    (block, setting): {
                        m: verdict(
                            get(block, setting, m), printed[m],
                            bound[m] if block == "ours" and where == "framework" else None,
                        )
                        for m in MEASURES
                    }
                    for block in ("faithful", "ours") for setting in SETTINGS
                },
                "seeds": {
                    (block, setting): len(medians.get((*key, block, setting, "acc"), ()))
                    for block in ("faithful", "ours") for setting in SETTINGS
                },
            }  # fmt: skip
            for block in ("faithful", "ours"):
                for setting in SETTINGS:
                    row[block, setting] = quad(lambda m, b=block, s=setting: get(b, s, m))
            row["printed"], row["get"] = printed, get
            row["values"] = lambda b, s, m, key=key: medians.get((*key, b, s, m), {})
            rows.append(row)
    return rows


def counts_of(rows, block, setting):
    """How many printed cells are reached, by measure; stand-ins do not count."""
    counted = [r for r in rows if not r["stand_in"] and isinstance(r["printed"]["acc"], float)]
    found = {}
    for metric in MEASURES:
        verdicts = [r["verdicts"][block, setting][metric] for r in counted]
        found[metric] = {v: verdicts.count(v) for v in (REACHED, BOUNDED, MISSED, NONE)}
    return found, len(counted)


def misses(rows, settings, causes):
    """Every measure of every cell that ours does not reach in a setting: the worst first."""
    found = []
    for row in rows:
        for metric in MEASURES if not row["stand_in"] else ():
            states = [row["verdicts"]["ours", setting][metric] for setting in settings]
            if not {MISSED, BOUNDED} & set(states):
                continue
            values = [row["values"]("ours", setting, metric) for setting in settings]
            found.append({
                "dataset": TITLES[row["dataset"]], "method": METHODS[row["method"]],
                "measure": MEASURES[metric], "published": shown(row["printed"][metric]),
                "faithful": with_spread(row["values"]("faithful", settings[0], metric)),
                "ours": [with_spread(v) for v in values], "verdict": " / ".join(states),
                "lack": max(row["printed"][metric] - middle(v) for v in values),
                "seeds": len(values[0]),
                "cause": causes.get((row["dataset"], row["method"], metric))
                or causes.get((row["dataset"], row["method"], "")) or "",
            })  # fmt: skip
    return sorted(found, key=lambda m: (MISSED not in m["verdict"], -m["lack"]))


def read_causes():
    """What was tried, and the cause where it is known: (dataset, method, measure) -> text."""
    with (HERE / "causes.csv").open(encoding="utf-8", newline="") as file:
        return {(r["dataset"], r["method"], r["metric"]): r["cause"] for r in csv.DictReader(file)}


def differences(first, second):
    """Paired differences by seed: median, interval of the median, and Wilcoxon's test.

    The interval is between order statistics and has a coverage of at least 95 %, whatever the
    distribution; it is empty with fewer than six seeds.
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        return None
    d = np.sort([first[seed] - second[seed] for seed in seeds])
    k = int(stats.binom.ppf(0.025, len(d), 0.5))
    interval = (d[k - 1], d[len(d) - k]) if k >= 1 else None
    p = float(stats.wilcoxon(d).pvalue) if np.any(d != 0) else 1.0
    return {"median": float(np.median(d)), "interval": interval, "p": p, "n": len(d)}


def difference_text(found):
    if found is None:
        return "–"
    text = f"{found['median']:+.3f}"
    if found["interval"] is not None:
        text += f" [{found['interval'][0]:+.3f}, {found['interval'][1]:+.3f}]"
    return text


def ablation_rows(table, pairs, published, medians):
    """Direction of an ablation: the published difference, and ours with intervals."""
    rows = []
    for name in REAL:
        for first, second in pairs:
            for metric in MEASURES:
                printed = [published[table, name, "spfc", "framework", v, metric]
                           for v in (first, second)]  # fmt: skip
                row = {"dataset": TITLES[name], "pair": f"{first.upper()} − {second.upper()}",
                       "measure": MEASURES[metric],
                       "published": f"{printed[0] - printed[1]:+.3f}"}  # fmt: skip
                for block, setting in (("faithful", "grid_labels"), ("ours", "defaults")):
                    keys = [(table, name, "spfc", "framework", v, block, setting, metric)
                            for v in (first, second)]  # fmt: skip
                    found = differences(*(medians.get(key, {}) for key in keys))
                    row[block] = difference_text(found)
                    row[f"{block}_found"] = found
                row["sign"] = np.sign(round(printed[0] - printed[1], 3))
                rows.append(row)
    return rows


def agreement(rows, block):
    """How many signs of the published differences hold, and how many are significant."""
    compared = [r for r in rows if r[f"{block}_found"] is not None and r["sign"] != 0]
    same = [r for r in compared if np.sign(r[f"{block}_found"]["median"]) == r["sign"]]
    sure = [r for r in same if r[f"{block}_found"]["p"] < 0.05]
    against = [r for r in compared if r not in same and r[f"{block}_found"]["p"] < 0.05]
    return {"compared": len(compared), "same": len(same), "sure": len(sure),
            "against": len(against)}  # fmt: skip


def time_rows(store, published, medians):
    """Table 4."""
    rows = []
    for name in TITLES:
        for method in METHODS:

            def get(where, block, name=name, method=method):
                key = ("4", name, method, where, "", block, "defaults", "seconds")
                return middle(medians.get(key))

            printed = {w: published["4", name, method, w, "", "seconds"]
                       for w in ("alone", "framework")}  # fmt: skip
            alone, faithful, ours = (
                get("alone", "ours"), get("framework", "faithful"), get("framework", "ours"),
            )  # fmt: skip
            ended = [r for f, r in store.results.items() if r["status"] in ("time", "memory")
                     and (f.dataset, f.method, f.where, f.rows, f.variant)
                     == (name, method, "alone", 0, "")]  # fmt: skip
            rows.append({
                "dataset": TITLES[name], "method": METHODS[method],
                "published_alone": shown(printed["alone"]),
                "published": shown(printed["framework"]),
                "alone": shown(alone, 2) if alone is not None
                else (ended[0]["note"] if ended else "not run"),
                "faithful": shown(faithful, 2), "ours": shown(ours, 2),
                "faster": ours is not None and isinstance(printed["framework"], float)
                and ours <= printed["framework"],
                "ratio": f"{printed['framework'] / ours:.0f}" if ours and
                isinstance(printed["framework"], float) else "–",
                "gain": f"{alone / ours:.1f}" if ours and alone else "–",
                "faithful_gain": f"{alone / faithful:.1f}" if faithful and alone else "–",
            })  # fmt: skip
    return rows


def sensitivity_rows(store):
    """Where NMI peaks over m, how it changes with alpha, and what Balance does meanwhile."""
    rows = []
    for name in REAL:
        for block in ("faithful", "ours"):
            for method in METHODS:
                by_m = figures.line_of(store, name, method, block, "per_group")
                by_alpha = figures.line_of(store, name, method, block, "alpha")
                if not any(by_m):
                    continue
                row = {"dataset": TITLES[name], "name": name, "block": block,
                       "method": METHODS[method], "alpha": None}  # fmt: skip
                for metric in ("nmi", "balance"):
                    values = {m: v[metric] for m, v in by_m.items() if m}
                    best = max(values, key=values.get)
                    row[metric] = f"{best}r ({values[best]:.3f})"
                    row[f"best_{metric}"] = best
                if len(by_alpha) == len(plan.ALPHAS):
                    ends = [by_alpha[a] for a in (plan.ALPHAS[0], plan.ALPHAS[-1])]
                    row["alpha"] = ends[1]["nmi"] - ends[0]["nmi"]
                    balances = [v["balance"] for v in by_alpha.values()]
                    row["alpha_balance"] = max(balances) - min(balances)
                rows.append(row)
    return rows


def course_rows(courses):
    """How often the augmented Lagrangian rises, and where the solvers end."""
    rows = []
    for (name, variant, alpha), course in courses.items():
        lagrangian = course["augmented_lagrangian"]
        rises = int((np.diff(lagrangian) > 0).sum()) if np.isfinite(lagrangian).all() else None
        rows.append({
            "dataset": TITLES[name], "variant": variant or "faithful", "alpha": f"{alpha:g}",
            "rows": f"{int(course['rows'][0]):,}", "iterations": len(lagrangian),
            "rises": "–" if rises is None else f"{rises} of {len(lagrangian) - 1}",
            "first_rise": "–" if not rises else int(np.argmax(np.diff(lagrangian) > 0)) + 2,
            "mass_error": f"{course['mass_error'][-1]:,.3g}",
        })  # fmt: skip
    return rows


def variant_rows(store, block, variants, metrics, **keys):
    """Paired differences of variants from their block, by dataset."""
    rows = []
    for variant in variants:
        for name in REAL:
            own = store.done(dataset=name, block=block, variant=variant, **keys)
            row = {"variant": variant, "dataset": TITLES[name], "seeds": len(own), "n": len(own)}
            if not own:
                continue
            for metric in metrics:
                first, second = {}, {}
                for fit, result in own.items():
                    base = store.results.get(plan.without_variant(fit))
                    if base is not None and base["status"] == "done" and metric in base:
                        pair = (fit.method, fit.seed)
                        first[pair], second[pair] = result[metric], base[metric]
                row[metric] = difference_text(differences(first, second))
            for extra in ("n_anchors", "n_iter"):
                values = [r[extra] for r in own.values() if extra in r]
                row[extra] = f"{median(values):g}" if values else "–"
            rows.append(row)
    return rows


def preprocessing_rows(store, published):
    """Printed rows of Table 2 that a preprocessing matches in all four measures."""
    matches = []
    for (table, name, method, where, _, metric), value in published.items():
        if table != "2" or metric != "acc" or not isinstance(value, float) or name not in REAL:
            continue
        printed = {m: published["2", name, method, where, "", m] for m in MEASURES}
        for scaling in SCALINGS:
            best = None
            for fit, result in store.done(
                dataset=name, scaling=scaling, rows=0, variant=""
            ).items():
                # Any method: coincidences say which preprocessing a printed row comes from.
                gap = max(abs(result[m] - printed[m]) for m in MEASURES)
                if best is None or gap < best[0]:
                    best = (gap, fit)
            if best is None:
                continue
            gap, fit = best
            line = {
                "dataset": TITLES[name],
                "row": f"{METHODS[method]}{'-AF' if where == 'framework' else ''}",
                "printed": quad(printed.get), "scaling": SCALINGS[scaling], "gap": gap,
                "fit": f"{METHODS[fit.method]} {fit.where}, {fit.block}"
                + (f", {fit.per_group}r" if fit.per_group else ""),
            }  # fmt: skip
            if gap < 0.0015:
                matches.append(line)
    return sorted(matches, key=lambda m: m["gap"])


def scaling_rows(store):
    """Fitted exponents of time and memory, and the largest size that was run."""
    rows = []
    for method in METHODS:
        for where, block in (("framework", "ours"), ("framework", "faithful"), ("alone", "ours")):
            points = figures.scaling_points(store, method, where, block)
            if len(points) < 3:
                continue
            used = points[-4:] if where == "alone" or block == "faithful" else points
            n, seconds, memory = (np.log([p[i] for p in used]) for i in range(3))
            ended = [r["note"] for f, r in store.results.items() if f.method == method
                     and (f.dataset, f.where, f.block, f.variant) == ("census", where, block, "")
                     and f.rows and r["status"] in ("time", "memory")]  # fmt: skip
            rows.append({
                "method": METHODS[method],
                "where": "alone" if where == "alone" else f"framework, {block}",
                "largest": f"{points[-1][0]:,}", "seconds": f"{points[-1][1]:.2f}",
                "memory": f"{points[-1][2]:,.0f}",
                "exponent": f"{np.polyfit(n, seconds, 1)[0]:.2f}",
                "memory_exponent": f"{np.polyfit(n, memory, 1)[0]:.2f}",
                "ended": ended[0] if ended else "",
            })  # fmt: skip
    return rows


def page_context(store, published, facts, medians, courses):
    """Everything that page.md shows."""
    rows, alone = (table2_rows(store, published, medians, facts, w) for w in ("framework", "alone"))
    causes = read_causes()
    table3 = ablation_rows("3", (("fdas", "das"), ("fdas", "random")), published, medians)
    table5 = ablation_rows("5", (("fac", "ac"),), published, medians)
    times = time_rows(store, published, medians)
    sampled = {f.rows for f in store.done(block="faithful") if f.dataset in REAL}
    paired = {}
    for setting in SETTINGS:
        for metric in ("acc", "nmi"):
            both = [(r["get"]("ours", setting, metric), r["printed"][metric]) for r in rows
                    if not r["stand_in"] and isinstance(r["printed"][metric], float)]  # fmt: skip
            both = [pair for pair in both if pair[0] is not None]
            if len(both) > 5:
                d = [a - b for a, b in both]
                paired[setting, metric] = (median(d), float(stats.wilcoxon(d).pvalue), len(d))
    return {
        "titles": TITLES, "methods": METHODS, "measures": MEASURES, "real": REAL,
        "settings": SETTINGS, "blocks": ("faithful", "ours"), "scalings": SCALINGS,
        "facts": list(facts.values()), "any_stand_in": any(
            line["origin"] == STAND_IN for line in facts.values()),
        "has_census": "census" in facts,
        "n_printed": sum(isinstance(v, float) for v in published.values()),
        "n_limit": sum(v == "over 30 minutes" for v in published.values()),
        "n_dash": sum(v == "not supported" for v in published.values()),
        "n_fits": len(store.results), "floor": plan.RELATIVE_BALANCE_FLOOR,
        "rows": rows, "alone": alone, "paired": paired,
        "counts": {(b, s): counts_of(rows, b, s) for b in ("faithful", "ours") for s in SETTINGS},
        "misses": {group: misses(rows, group, causes) for group in (LABELS, ("defaults",))},
        "labels": LABELS, "rules": RULES,
        "alone_misses": misses(alone, ("defaults",), {}),
        "alone_counts": counts_of(alone, "ours", "defaults"),
        "table3": table3, "table5": table5,
        "agree": {(t, b): agreement(r, b) for t, r in (("3", table3), ("5", table5))
                  for b in ("faithful", "ours")},
        "with_graph": [TITLES[name] for name in REAL
                       if any(f.alpha for f in store.done(dataset=name, block="ours"))],
        "bank": bank_rows(store), "bank_fact": facts.get("bank"), "alphas": plan.ALPHAS,
        "times": times, "sampled": max(sampled, default=0),
        "sensitivity": sensitivity_rows(store), "courses": course_rows(courses),
        "printed_variants": variant_rows(
            store, "faithful", plan.PRINTED, ("acc", "nmi", "balance"), alpha=1.0, per_group=20,
            method="spfc"),
        "extensions": variant_rows(
            store, "ours", plan.EXTENSIONS, tuple(MEASURES), per_group=20, alpha=0.0,
            where="framework"),
        "earlier": variant_rows(
            store, "ours", tuple(plan.EARLIER), (*MEASURES, "cost"), per_group=0),
        **generated_rows(),
        "matches": preprocessing_rows(store, published),
        "unit": unit_rows(store), "scaling": scaling_rows(store),
        "errors": error_rows(store), "shown": shown, "with_spread": with_spread,
    }  # fmt: skip


def bank_rows(store):
    """Our labels on Bank with 2r rows of FDAS and the paper's graph, by method and alpha."""
    rows = []
    for method in METHODS:
        point = plan.framework("bank", method, "ours", variant="fdas", per_group=2)
        results = [store.results.get(replace(point, alpha=alpha), {}) for alpha in plan.ALPHAS]
        values = [f"{r['acc']:.3f} / {r['nmi']:.3f}" if "acc" in r else "–" for r in results]
        notes = {r["note"] for r in results if "note" in r}
        rows.append({"method": METHODS[method], "values": values, "notes": sorted(notes)})
    return rows


def generated_rows():
    """Adjusted Rand indices on generated data, on which defaults were chosen: medians."""
    path = HERE.parent / "results" / "clusterer_defaults.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    n_seeds = min(len(v) for by_title in found.values() for v in by_title.values())
    rows = {name: {t: median(v[:n_seeds]) for t, v in by_title.items()}
            for name, by_title in found.items()}  # fmt: skip
    return {"generated": rows, "generated_seeds": n_seeds}


def unit_rows(store):
    """Our block at its defaults with both preprocessings."""
    rows = []
    for name in REAL:
        for method in METHODS:
            row = {"dataset": TITLES[name], "method": METHODS[method]}
            for scaling in SCALINGS:
                fits = store.done(dataset=name, method=method, where="framework", block="ours",
                                  variant="", scaling=scaling, rows=0, per_group=0)  # fmt: skip
                row[scaling] = quad(lambda m, f=fits: median(r[m] for r in f.values())
                                    if f else None)  # fmt: skip
                row[f"{scaling}_seeds"] = len(fits)
            rows.append(row)
    return rows


def error_rows(store):
    """Fits without a result: how many, and why."""
    found = defaultdict(int)
    for fit, result in store.results.items():
        if result["status"] != "done":
            note = result.get("note", "")
            key = (TITLES[fit.dataset], METHODS[fit.method], fit.where, fit.block,
                   result["status"], note)  # fmt: skip
            found[key] += 1
    return sorted((*key, n) for key, n in found.items())
