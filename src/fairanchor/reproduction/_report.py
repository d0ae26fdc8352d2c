"""Everything that a run leaves behind: CSV files, pictures, records, the page, the findings."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import fairanchor
from fairanchor import __version__
from fairanchor.reproduction._figures import draw
from fairanchor.reproduction._findings import render_findings
from fairanchor.reproduction._page import render_page
from fairanchor.reproduction._records import all_records
from fairanchor.reproduction._store import MARKER, write_bytes, write_text
from fairanchor.reproduction._tables import table_csv

# Folders whose code shows results, or asks for them, but does not make them.
NOT_MEASURED = ("cli", "report", "reproduction")


def write_report(folder, request, settings, outcome):
    """Write all files of a run; each is complete or absent.

    Parameters
    ----------
    folder : path-like
    request : Request
    settings : Settings
    outcome : Outcome

    Returns
    -------
    records : list of dict
    written : list of Path
    """
    folder = Path(folder)
    records = all_records(request, settings, outcome)
    pictures = {name: draw(name, request, settings, outcome) for name in request.figures}
    texts = {f"table{table}.csv": table_csv(records, table) for table in request.tables}
    for table in ("grid", "evidence"):
        if any(record["table"] == table for record in records):
            texts[f"{table}.csv"] = _flat_csv(records, table)
    texts["results.json"] = json.dumps(records, indent=1) + "\n"
    texts["index.html"] = render_page(request, settings, outcome, records, pictures)
    texts["findings.md"] = render_findings(settings, outcome, records)
    written = []
    for name, text in texts.items():
        write_text(folder / name, text)
        written.append(folder / name)
    for name, content in pictures.items():
        write_bytes(folder / f"figure_{name}.svg", content)
        written.append(folder / f"figure_{name}.svg")
    return records, written


def write_marker(folder, settings):
    """Say what made the folder, before anything else is in it.

    Returns
    -------
    other_source : bool
        Whether finished cells in the folder were measured with other code of the same version.
    """
    path = Path(folder) / MARKER
    source = source_digest()
    sources = [source]
    if path.exists():
        known = json.loads(path.read_text()).get("sources", [])
        sources = list(dict.fromkeys([*known, source]))
    shared = {key: value for key, value in asdict(settings).items() if key != "data_dir"}
    content = {
        "made_by": "fairanchor reproduce",
        "version": __version__,
        "sources": sources,
        "settings": shared,
    }
    write_text(path, json.dumps(content, indent=1) + "\n")
    return len(sources) > 1


def source_digest():
    """Digest of all code that a measurement can depend on."""
    package = Path(fairanchor.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in NOT_MEASURED:
            digest.update(f"{name.as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _flat_csv(records, table):
    """Records that have no printed counterpart, one line each."""
    import csv
    import io

    chosen = [record for record in records if record["table"] == table]
    names = list(dict.fromkeys(key for record in chosen for key in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(chosen)
    return out.getvalue()
