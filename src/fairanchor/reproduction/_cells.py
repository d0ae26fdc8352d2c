"""A cell: one fit and what is measured on it. Its fingerprint names the file that keeps it."""

import hashlib
import json
from dataclasses import asdict, dataclass

from fairanchor import __version__


@dataclass(frozen=True)
class Cell:
    """One fit. ``None`` means the default of the block.

    Attributes
    ----------
    dataset, method : str
    where : {"alone", "framework"}
    block : {"faithful", "ours"}
        The paper's setting, or the library's defaults but for the clusterer.
    per_group : int or None
        Anchors per group.
    alpha : float or None
    anchors, fairness, solver : str or None
    refine : int or None
    rows : int or None
        Fit on a sample of so many rows.
    timed : bool
        Run in a process of its own, with all cores and under the limits.
    unconstrained : bool
        Also measure the labels that the same anchors give without the group constraint.
    history : bool
        Also keep the course of the solver.
    """

    dataset: str
    method: str
    where: str
    block: str
    per_group: int | None = None
    alpha: float | None = None
    anchors: str | None = None
    fairness: str | None = None
    solver: str | None = None
    refine: int | None = None
    rows: int | None = None
    timed: bool = False
    unconstrained: bool = False
    history: bool = False

    def settings(self):
        """The fields that are set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}

    def title(self):
        parts = [self.dataset, self.method, self.where, self.block]
        if self.per_group is not None:
            parts.append(f"{self.per_group} anchors per group")
        if self.alpha is not None:
            parts.append(f"alpha {self.alpha:g}")
        parts += [value for value in (self.anchors, self.fairness, self.solver) if value]
        if self.refine:
            parts.append(f"{self.refine} refinements")
        return ", ".join(parts)


@dataclass(frozen=True)
class Settings:
    """What all cells of a run share.

    Attributes
    ----------
    data_dir : str or None
        Folder of the public tables.
    max_rows : int or None
        At most so many rows of every dataset.
    per_group : tuple of int
        The grid of anchors per group.
    alphas : tuple of float
        The grid of alpha.
    grid_rows : int
        The faithful block searches its grid on at most so many rows.
    full_rows : int
        Up to so many rows the faithful block then fits its choice to all of them.
    time_limit, memory_limit : float
        Seconds and GB of a timed cell.
    patience : float
        What a pilot expects to take so many seconds is not run: methods alone, the paper's solver.
    seed : int
    jobs : int
        Cells at a time (timed ones run alone).
    """

    data_dir: str | None = None
    max_rows: int | None = None
    per_group: tuple = (2, 5, 10, 15, 20)
    alphas: tuple = (1e-4, 1e-2, 1.0, 100.0)
    grid_rows: int = 20_000
    full_rows: int = 200_000
    time_limit: float = 1800.0
    patience: float = 5400.0
    memory_limit: float = 16.0
    seed: int = 0
    jobs: int = 1


# A run is left out when a pilot says that it would take so many times the limit.
HOPELESS = 3.0
# Small enough for two minutes in all, large enough for every method and table.
QUICK = {"max_rows": 160, "per_group": (5, 10), "alphas": (1e-2, 1.0, 100.0)}


def fingerprint(cell, shape, settings):
    """Hexadecimal name of a cell: other data, settings or library version give another."""
    content = {
        "cell": asdict(cell),
        "data": shape.digest,
        "seed": settings.seed,
        "version": __version__,
    }
    if cell.timed:
        content["limits"] = [settings.time_limit, settings.patience, settings.memory_limit]
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
