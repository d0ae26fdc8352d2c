"""Results of the passes over chunks, kept so that a stopped run can be resumed.

A fit is deterministic: given the same results of its passes it continues in the same way. A
checkpoint is a directory with one small archive per finished pass, and one that identifies the
run. A resumed run reads these results instead of the rows, repeats the few passes whose results
are too large to keep, and ends with the same labels.
"""

import json
from itertools import count, takewhile
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

import fairanchor
from fairanchor._utils._archive import ArchiveError, pack, unpack
from fairanchor._utils._files import write_bytes
from fairanchor._utils._typing import Path as PathName

FORMAT, RUN = "fairanchor checkpoint 4", "run.npz"
# Results of a pass are kept up to this size.
MOST_KEPT_BYTES = 2**23


def identity_of_run(parameters: dict, fingerprint: dict, chunk_rows: int) -> dict:
    """What a resumed run must share with the stopped one, as JSON values.

    ``parameters`` are those of the estimator, ``fingerprint`` identifies the rows.
    """
    seed = parameters["random_state"]
    if not isinstance(seed, Integral):
        raise ValueError(
            f"random_state={seed!r}, expected an integer: a run with a checkpoint has to draw the "
            "same numbers when it is resumed."
        )
    # The result does not depend on the number of threads.
    described = {name: _described(value) for name, value in parameters.items() if name != "n_jobs"}
    return {
        "fairanchor": fairanchor.__version__,
        "chunk_rows": int(chunk_rows),
        "parameters": described,
        **fingerprint,
    }


def _described(value: Any) -> Any:
    """A parameter as JSON that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "get_params"):
        parameters = {name: _described(v) for name, v in value.get_params(deep=False).items()}
        return {"class": f"{type(value).__module__}.{type(value).__qualname__}", **parameters}
    if hasattr(value, "__array__"):
        return _described(np.asarray(value).tolist())
    if isinstance(value, (list, tuple)):
        return [_described(item) for item in value]
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else repr(value).split(" at 0x")[0]


class Checkpoint:
    """Results of passes in a directory.

    Parameters
    ----------
    directory : str or path-like
        Created if it does not exist.
    run : dict
        Identifies the run: JSON values only.
    resume : bool
        Whether to continue from what the directory holds. Without it, a directory that holds a
        checkpoint raises an error.
    """

    def __init__(self, directory: PathName, run: dict, *, resume: bool = False) -> None:
        self.directory = Path(directory)
        self.run = json.loads(json.dumps(run))
        self.passes: list[tuple[str, Any]] = []
        self.position = 0
        path = self.directory / RUN
        if not resume and any(self.directory.glob("*.npz")):
            raise FileExistsError(
                f"{self.directory} holds the checkpoint of an earlier run. Use --resume to "
                "continue it, or another directory."
            )
        if resume and not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: there is no run to resume. Leave out --resume to start "
                "one."
            )
        if resume:
            self._check_run(path)
            paths = takewhile(Path.exists, map(self._path, count()))
            self.passes = [_read(path) for path in paths]
        else:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_bytes(path, pack({"format": FORMAT, "run": self.run}, {}))

    def recall(self, title: str) -> Any:
        """Result of the next pass, or None if it has to be computed."""
        self.position += 1
        if self.position > len(self.passes):
            return None
        known, result = self.passes[self.position - 1]
        if known != title:
            raise ValueError(
                f"{self.directory} has the pass {known!r} where this run has {title!r}: it is the "
                "checkpoint of another run."
            )
        return result

    def record(self, title: str, result: Any) -> None:
        """Keep the result of the pass that `recall` did not know; a large one is computed again."""
        if self.position <= len(self.passes):
            return
        arrays: dict[str, np.ndarray] = {}
        plain = _to_plain(result, arrays)
        if sum(array.nbytes for array in arrays.values()) > MOST_KEPT_BYTES:
            plain, arrays = None, {}
        content = pack({"title": title, "result": plain}, arrays)
        write_bytes(self._path(len(self.passes)), content, force=True)
        self.passes.append((title, None))

    def _path(self, number: int) -> Path:
        return self.directory / f"pass-{number:04d}.npz"

    def _check_run(self, path: Path) -> None:
        stored, _ = _unpack(path)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise ValueError(
                f"{path} is of another format than {FORMAT!r}: this version cannot resume it."
            )
        difference = _first_difference(stored.get("run"), self.run)
        if difference is not None:
            name, was, now = difference
            raise ValueError(
                f"{path} belongs to another run: {name} was {_short(was)}, is {_short(now)}. "
                "Resume with the same command and data, or use another directory."
            )


def _unpack(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    try:
        return unpack(path.read_bytes())
    except ArchiveError as error:
        raise ValueError(f"{path} is not a checkpoint, or is damaged: {error}.") from error


def _read(path: Path) -> tuple[str, Any]:
    """Title and result of a pass."""
    stored, arrays = _unpack(path)
    try:
        return str(stored["title"]), _from_plain(stored["result"], arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: its result is invalid ({error}).") from error


def _first_difference(was: Any, now: Any, name: str = "run") -> tuple[str, Any, Any] | None:
    """Name and values of the first thing that two runs do not share, or None."""
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return None if was == now else (name, was, now)
    for key in {**now, **was}:
        inner = key if name in ("run", "parameters", "files") else f"{key} of {name}"
        difference = _first_difference(was.get(key), now.get(key), inner)
        if difference is not None:
            return difference
    same_order = list(was) == list(now)
    return None if same_order else (f"the order of {name}", list(was), list(now))


def _short(value: Any, at_most: int = 200) -> str:
    text = json.dumps(value)
    return text if len(text) <= at_most else f"{text[:at_most]}…"


def _to_plain(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON with references to arrays; tuples are lists."""
    if isinstance(value, np.ndarray):
        arrays[f"array_{len(arrays)}"] = value
        return {"array": f"array_{len(arrays) - 1}"}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"A pass returned a {type(value).__name__}, which a checkpoint cannot keep.")


def _from_plain(plain: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(plain, list):
        return [_from_plain(item, arrays) for item in plain]
    return arrays[plain["array"]] if isinstance(plain, dict) else plain
