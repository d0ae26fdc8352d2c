"""What the paper prints, as far as it is known to us: ``published.csv``, and nothing else."""

import csv
from dataclasses import dataclass
from importlib.resources import files

COLUMNS = ("table", "dataset", "method", "where", "variant", "metric", "value", "kind", "source")
# "value": a printed number; "limit": a run that the paper reports as over its time limit;
# "largest": known as the largest of several rows only; "not reported": a dash in the paper.
KINDS = ("value", "limit", "largest", "not reported")


@dataclass(frozen=True)
class Published:
    """One printed number. ``method`` and ``dataset`` can be "any", ``value`` can be None."""

    table: str
    dataset: str
    method: str
    where: str
    variant: str
    metric: str
    value: float | None
    kind: str
    source: str

    @property
    def is_cell(self):
        """Whether it belongs to one cell of a table, rather than to several."""
        return self.kind != "largest" and "any" not in (self.method, self.dataset)


def read_published():
    """All known printed numbers.

    Returns
    -------
    numbers : list of Published
    """
    text = files("fairanchor.reproduction").joinpath("published.csv").read_text("utf-8")
    return [
        Published(**(line | {"value": float(line["value"]) if line["value"] else None}))
        for line in csv.DictReader(text.splitlines())
    ]
