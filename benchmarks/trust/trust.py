"""What the library promises when things go wrong, tried many times: a table of figures.

    python benchmarks/trust/trust.py
    python benchmarks/trust/trust.py --quick
    python benchmarks/trust/trust.py --only kills --kills 200

The parts: ``inputs`` (tables of every kind for every estimator), ``tables``, ``models`` and
``checkpoints`` (damaged and forged files), ``kills`` (SIGKILL at random moments of ``fairanchor
fit``), ``resumed`` (runs that are killed and resumed), ``disk`` (too
little of it). Every violation is printed, and the exit code is 1 if there is one.
"""

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import _fuzz as fuzzing
import _inputs as inputs
import _interruptions as interruptions
import numpy as np
from _interruptions import Tally
from _tiny_disk import CannotMountError, tiny_disk
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from _common import claim, finish, parsed, parser_of, print_table, progress, read_json, write_whole

SCRIPT = "python benchmarks/trust/trust.py --only"
# Number of cases of each part: quick, and full.
SIZES = {
    "inputs": (40, 400),
    "tables": (20, 400),
    "models": (40, 1000),
    "checkpoints": (40, 500),
    "kills": (6, 200),
    "resumed": (1, 10),
    "disk": (4, 40),
}


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES))
    for name, (_, full) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"number, by default {full}")
    parser.add_argument("--page", type=Path, metavar="FILE",
                        help="only put the table of the results into a page")  # fmt: skip
    options = parsed(parser, arguments)
    if options.page is not None:
        return write_page(options)
    records = []
    for name in options.only:
        number = getattr(options, name) or SIZES[name][0 if options.quick else 1]
        progress(f"{name}: {number}")
        with tempfile.TemporaryDirectory() as folder:
            records += PARTS[name](Path(folder), number)
    report(records)
    records = earlier(options) + records
    return finish("trust", options, settings={"sizes": SIZES}, records=records,
                  checks=checks_of(records))  # fmt: skip


def earlier(options):
    """Records of the parts that are not run now, from the result file."""
    path = options.results / "trust.json"
    known = read_json(path)["records"] if path.exists() else []
    return [one for one in known if one["part"] not in options.only]


def record(part, what, tally, number):
    """One line of the table."""
    return {
        "part": part,
        "what": what,
        "tried": tally.tried,
        "endings": dict(sorted(tally.endings.items())),
        "violations": len(tally.violations),
        "first_violations": tally.violations[:5],
        "command": f"{SCRIPT} {part} --{part} {number}",
    }


def checks_of(records):
    for one in records:
        found = one["first_violations"] or f"0 in {one['tried']}"
        yield claim(f"no violation: {one['what']}", one["violations"] == 0, found)


def report(records):
    print_table(
        ("what was tried", "times", "how it ended", "violations"),
        [
            (
                one["what"],
                f"{one['tried']:,}",
                ", ".join(f"{number:,} {ending}" for ending, number in one["endings"].items()),
                one["violations"],
            )
            for one in records
        ],
    )
    for one in records:
        for violation in one["first_violations"]:
            print(f"{one['what']}: {violation}", file=sys.stderr)


BEGIN, END = "<!-- table of figures -->", "<!-- end of table -->"


def page_table(records):
    """The results as a table of Markdown."""
    lines = [
        "| what was tried | times | how it ended | violations | again by |",
        "|---|--:|---|--:|---|",
    ]
    for one in records:
        endings = ", ".join(f"{number:,} {ending}" for ending, number in one["endings"].items())
        lines.append(
            f"| {one['what']} | {one['tried']:,} | {endings} | {one['violations']} | "
            f"`{one['command'].removeprefix(SCRIPT).strip()}` |"
        )
    return "\n".join(lines)


def write_page(options):
    """Replace the table in a page by that of the results."""
    text = options.page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = page_table(read_json(options.results / "trust.json")["records"])
    content = f"{before}{BEGIN}\n\n{table}\n\n{END}{after}".encode()
    write_whole(options.page, lambda file: file.write(content))
    return 0


# The parts.


def try_inputs(folder, number):
    for name in inputs.ESTIMATORS:
        tally = Tally.empty()
        run_cases(name, number, tally)
        yield record("inputs", f"tables for {name}", tally, number)


def run_cases(name, number, tally):
    """Random cases by hypothesis; those that fail are counted, not shrunk."""
    settings_of = inputs.SETTINGS if name == "AnchorFairClustering" else [{}]

    @seed(0)
    @settings(max_examples=number, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(inputs.cases(), st.sampled_from(settings_of))
    def run(case, setting):
        try:
            ending = inputs.check_fit(name, case, **setting)
            inputs.check_metrics(case, np.random.default_rng(0))
        except Exception as error:  # whatever it is, it is not what was promised
            tally.violations.append(f"{case}, {setting}: {type(error).__name__}: {error}")
            ending = "violation"
        tally.count(ending)

    run()


def try_tables(folder, number):
    table = fuzzing.example_table(np.random.default_rng(0))
    for name, content in fuzzing.example_files(table).items():
        tally = fuzzing.fuzz(fuzzing.read_table, folder / name, name, content, number)
        yield record("tables", f"damaged {name}", tally, number)
    tally = Tally.empty()
    for name, content in fuzzing.forged_tables(folder / "trap"):
        forge(fuzzing.read_table, folder, name, [content], tally)
    yield record("tables", "forged tables: pickles", tally, number)


def forge(read, folder, name, contents, tally):
    """Files that must all be refused, without running what is in them."""
    fuzzing.read_all(read, folder, name, list(contents), tally)
    accepted = tally.endings.get("read", 0)
    if accepted:
        tally.violations.append(f"{name}: {accepted} forged files were accepted")
    if (folder / "trap").exists():
        tally.violations.append(f"{name}: a program in a file was run")


def saved_model(folder):
    """Bytes of a model file."""
    from fairanchor import AnchorFairClustering
    from fairanchor.datasets import make_zafar

    data = make_zafar(400, variant="original", random_state=0)
    model = AnchorFairClustering(3, random_state=0)
    model.fit(data.data, sensitive_features=data.sensitive_features).save(folder / "good.npz")
    return (folder / "good.npz").read_bytes()


def try_models(folder, number):
    content = saved_model(folder)
    tally = fuzzing.fuzz(fuzzing.read_model, folder / "bad", "model.npz", content, number)
    yield record("models", "damaged model files", tally, number)
    tally = Tally.empty()
    forged = fuzzing.forged_models(content, folder / "trap")
    forge(fuzzing.read_model, folder, "forged.npz", forged, tally)
    yield record("models", "forged model files: pickles, bombs, absurd shapes", tally, number)


def try_checkpoints(folder, number):
    from fairanchor.rows._checkpoint import RUN, Checkpoint

    name = "pass-0000.npz"
    for directory in ("good", "bad"):
        checkpoint = Checkpoint(folder / directory, {"a": 1})
    (folder / RUN).write_bytes((folder / "bad" / RUN).read_bytes())
    checkpoint.recall("one")
    checkpoint.record("one", (np.arange(30.0), np.ones((3, 2)), 0.5))
    content = (folder / "bad" / name).read_bytes()
    tally = fuzzing.fuzz(fuzzing.read_checkpoint, folder / "bad", name, content, number)
    yield record("checkpoints", "damaged checkpoints", tally, number)
    tally = Tally.empty()
    forged = fuzzing.forged_checkpoints(folder / "trap")
    forge(fuzzing.read_checkpoint, folder, name, forged, tally)
    yield record("checkpoints", "forged checkpoints: pickles, bombs", tally, number)


def try_kills(folder, number):
    tally = interruptions.kills(interruptions.Scene(folder, rows=40_000), number)
    yield record("kills", "SIGKILL during fairanchor fit", tally, number)


def try_resumed(folder, number):
    tally = interruptions.resumed_runs(folder, number, rows=4_000)
    yield record("resumed", "runs killed and resumed", tally, number)


def try_disk(folder, number):
    tally = interruptions.full_disks(interruptions.Scene(folder, rows=5_000), number)
    yield record("disk", "disk full during fairanchor fit", tally, number)
    yield record(
        "disk", "a full file system during fairanchor fit", on_tiny_disk(folder, number), number
    )


def on_tiny_disk(folder, number):
    """Runs whose outputs are on a file system of a megabyte, if one may be mounted."""
    try:
        with tiny_disk(folder / "tiny") as outputs:
            (folder / "full").mkdir()
            scene = interruptions.Scene(folder / "full", rows=5_000, outputs=outputs)
            return interruptions.full_file_systems(scene, number)
    except CannotMountError as reason:
        progress(f"skipped, no file system to fill: {reason}")
        return Tally(0, {f"skipped: {reason}": 0}, [])


PARTS = {
    "inputs": try_inputs,
    "tables": try_tables,
    "models": try_models,
    "checkpoints": try_checkpoints,
    "kills": try_kills,
    "resumed": try_resumed,
    "disk": try_disk,
}


if __name__ == "__main__":
    sys.exit(main())
