"""The report: one HTML file that states whether the clusters are fair, and shows it.

It needs jinja2: ``pip install "fairanchor[report]"``.
"""

import json

from fairanchor._utils._files import check_output, json_beside, write_bytes
from fairanchor._utils._records import json_value
from fairanchor._utils._typing import Path
from fairanchor.report._collect import RunSummary, summarise_labels, summarise_run
from fairanchor.report._render import render_report, report_facts

__all__ = [
    "RunSummary",
    "render_report",
    "report_facts",
    "summarise_labels",
    "summarise_run",
    "write_report",
]


def write_report(path: Path, run: RunSummary, *, force: bool = False) -> None:
    """Write the report of a run, and the same numbers as JSON beside it.

    ``report.html`` is accompanied by ``report.json``, see `report_facts`. Each file is written
    whole or not at all.

    Parameters
    ----------
    path : str or path-like
        The HTML file; its directory must exist.
    run : RunSummary
        Facts about the clustering, see `summarise_run` and `summarise_labels`.
    force : bool, default=False
        Whether an existing file may be replaced; if not, FileExistsError is raised.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairanchor import FairKMeans
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.report import summarise_run, write_report
    >>> data = make_zafar(2000, variant="original", random_state=0)
    >>> groups = data.sensitive_features
    >>> model = FairKMeans(3, random_state=0).fit(data.data, sensitive_features=groups)
    >>> run = summarise_run(model, data.data, sensitive_features=groups, title="Zafar data")
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_report(Path(directory) / "report.html", run)
    ...     sorted(path.name for path in Path(directory).iterdir())
    ['report.html', 'report.json']
    """
    beside = json_beside(path)
    for output in (path, beside):  # before the work, and again when the files are written
        check_output(output, force=force)
    write_bytes(path, render_report(run).encode("utf-8"), force=force)
    facts = json.dumps(json_value(report_facts(run)), indent=2, allow_nan=False)
    write_bytes(beside, f"{facts}\n".encode(), force=force)
