"""Print the README's tables from the result files, so that no figure is typed by hand.

    python benchmarks/readme_figures.py
    python benchmarks/readme_figures.py --only census scaling

A result file that is not there is named on stderr and left out. Files of a run with ``--quick`` are
refused unless ``--quick`` is given here as well: their figures mean nothing.
"""

import sys

from _common import number, parsed, parser_of, read_json, shown


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    options = parsed(parser, arguments)
    for name in options.only:
        path = options.results / f"{name}.json"
        if not path.exists():
            print(f"{shown(path)} is not there: run benchmarks/{name}.py", file=sys.stderr)
            continue
        document = read_json(path)
        if document["quick"] and not options.quick:
            print(
                f"{shown(path)} comes from a run with --quick, whose figures mean nothing: run "
                f"benchmarks/{name}.py without it",
                file=sys.stderr,
            )
            return 1
        print("\n".join([f"<!-- {name} -->", *TABLES[name](document), ""]))
    return 0


def census_table(document):
    titles = ["table", "method", "seconds", "x KMeans", "cost", "balance (bound)",
              "relative balance", "extra memory"]  # fmt: skip
    lines = []
    for record in document["records"]:
        if "skipped" in record:
            continue
        title = f"{record['table']}, {record['rows']:,} x {record['features']}"
        for name, result in record["methods"].items():
            lines.append([
                title, name, number(result["median_seconds"]), number(result["time_over_kmeans"]),
                number(result["cost_over_kmeans"], "{:.3f}"),
                f"{result['balance']:.3f} ({record['bound']:.3f})",
                number(result["relative_balance"], "{:.4f}"), megabytes(result["extra_mb"]),
            ])  # fmt: skip
            title = ""
    skipped = [f"{r['table']}: {r['skipped']}." for r in document["records"] if "skipped" in r]
    return [*markdown(titles, lines), *skipped, "", on_machine(document), *claims(document)]


def fair_kmeans_table(document):
    titles = ["blobs", "FairKMeans(n_init=1)", "KMeans(n_init=10)", "time ratio",
              "relative balance", "cost, KMeans = 1", "cost, one fair assignment = 1"]  # fmt: skip
    lines = [
        [
            f"{record['data']}, {record['rows']:,} rows", f"{record['median_seconds']:.2f} s",
            f"{record['kmeans_median_seconds']:.2f} s", number(record["time_over_kmeans"]),
            f"{record['relative_balance']:.4f} ({record['kmeans_relative_balance']:.3f})",
            number(record["cost_over_kmeans"], "{:.3f}"),
            number(record["cost_over_one_assignment"], "{:.3f}"),
        ]
        for record in document["records"]
    ]  # fmt: skip
    note = "In brackets: relative balance of plain k-means."
    return [*markdown(titles, lines), "", note, on_machine(document), *claims(document)]


def scaling_table(document):
    modules = document["settings"]["modules"]
    titles = ["rows", "seconds", "t(n) / t(n/4)", "KMeans(n_init=1)", *modules, "extra memory",
              "table"]  # fmt: skip
    lines = [
        [
            f"{record['rows']:,}", number(record["median_seconds"]),
            number(record.get("time_over_quarter")), number(record["kmeans_median_seconds"]),
            *[number(record["modules"][name]) for name in modules],
            megabytes(record["extra_mb"]), megabytes(record["table_mb"]),
        ]
        for record in document["records"]
        if "note" not in record
    ]  # fmt: skip
    return [*markdown(titles, lines), "", on_machine(document), *claims(document)]


def kernels_table(document):
    records = document["records"]
    solvers = [record for record in records if record["kernel"] == "row solvers"]
    names = list(solvers[0]["microseconds"])
    lines = [
        [
            record["features"], record["anchors"], f"{record['alpha']:g}",
            number(record["mean_support"], "{:.0f}"),
            *[number(record["microseconds"][name]) for name in names], record["chosen"],
            number(record["product_microseconds"]),
        ]
        for record in solvers
    ]  # fmt: skip
    titles = ["d", "m", "alpha", "support", *names, "chosen", "the product alone"]
    others = [
        f"{record['kernel']} ({shape_of(record)}): {record['microseconds']:.3f}"
        for record in records
        if record["kernel"] != "row solvers"
    ]
    text = f"CPU microseconds per row, one thread. {'; '.join(others)}."
    return [*markdown(titles, lines), "", text, on_machine(document), *claims(document)]


def shape_of(record):
    names = ("features", "centres", "clusters", "groups")
    return ", ".join(f"{record[name]} {name}" for name in names if name in record)


def streaming_table(document):
    titles = ["engine", "rows", "seconds", "µs per row", "peak memory"]
    lines = [
        [
            record["engine"], f"{record['rows']:,}", number(record["seconds"], "{:.1f}"),
            number(1e6 * record["seconds"] / record["rows"]), megabytes(record["peak_mb"]),
        ]
        for record in document["records"]
    ]  # fmt: skip
    return [*markdown(titles, lines), "", on_machine(document), *claims(document)]


def peers_table(document):
    titles = ["rows", "method", "seconds", "cost per row", "balance (bound)", "relative balance"]
    lines, notes = [], {}
    for record in document["records"]:
        name = f"{record['method']} {record.get('setting', '')}".rstrip()
        if "note" in record:
            notes.setdefault(record["note"], []).append(f"{name}, {record['rows']:,} rows")
            continue
        lines.append([
            f"{record['rows']:,}", name, number(record["seconds"]),
            number(record["cost_per_row"], "{:.3f}"),
            f"{record['balance']:.3f} ({record['bound']:.3f})",
            number(record["relative_balance"], "{:.3f}"),
        ])  # fmt: skip
    data = f"Data: {document['settings']['data']}."
    missing = [f"No result ({note}): {'; '.join(runs)}." for note, runs in notes.items()]
    return [*markdown(titles, lines), "", data, *missing, on_machine(document)]


def tolerance_table(document):
    titles = ["table", "tolerance", "rows moved", "ms", "x BoundedFairAssignment's program",
              "x all rows in one program", "gap"]  # fmt: skip
    lines = [
        [
            record["table"], f"{record['tolerance']:g}", f"{record['moved']:.1%}",
            f"{1000 * record['seconds']:.0f}", number(record["times_faster"], "{:.1f}"),
            number(record["times_faster_than_whole"], "{:.1f}"), f"{record['gap']:.1e}",
        ]
        for record in document["records"]
    ]  # fmt: skip
    return [*markdown(titles, lines), "", on_machine(document), *claims(document)]


def attributes_table(document):
    titles = ["method", "attributes", "s", "column", "violation, rows", "relative balance",
              "smallest cell"]  # fmt: skip
    lines = [
        [
            record["method"], record["attributes"], f"{record['seconds']:.1f}", column,
            f"{own['violation']:.2f}", f"{own['relative_balance']:.4f}", own["smallest_cell"],
        ]
        for record in document["records"]
        for column, own in record["columns"].items()
    ]  # fmt: skip
    return [*markdown(titles, lines), "", on_machine(document), *claims(document)]


def markdown(titles, lines):
    rows = [titles, ["---"] * len(titles), *lines]
    return ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def megabytes(value):
    return f"{value:,.0f} MB"


def on_machine(document):
    machine = document["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['cores']} cores; Python {machine['python']}, {versions}."


def claims(document):
    """Checks and goals that do not hold; a table must not hide them."""
    missed = [c for kind in ("checks", "goals") for c in document[kind] if not c["holds"]]
    return [f"**Missed**: {entry['claim']} ({entry['found']})." for entry in missed]


TABLES = {
    "census": census_table,
    "fair_kmeans": fair_kmeans_table,
    "scaling": scaling_table,
    "kernels": kernels_table,
    "streaming": streaming_table,
    "peers": peers_table,
    "tolerance": tolerance_table,
    "attributes": attributes_table,
}


if __name__ == "__main__":
    sys.exit(main())
