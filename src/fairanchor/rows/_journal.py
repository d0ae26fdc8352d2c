"""What a run over chunks has found out so far, so that it can go on after it was stopped.

The driver is deterministic: given the same results of its passes it takes the same way. So
a checkpoint is the list of these results, as far as they are small. A resumed run reads
them instead of the rows, repeats the few passes whose results are not kept, and ends with
the very same labels.
"""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairanchor._files import replacing

FORMAT = "fairanchor checkpoint 1"
FILE_NAME = "checkpoint.npz"


@dataclass(frozen=True)
class _Pass:
    title: str
    results: list | None


class Journal:
    """Results of passes, in a file of a few kB that is always whole.

    Parameters
    ----------
    folder : str or path-like
        Made if it does not exist.
    run : dict
        What tells this run from others: JSON values only.
    resume : bool
        Whether to go on from what the folder has. Without it, a folder that has
        something is refused.
    """

    def __init__(self, folder, run, *, resume=False):
        self.path = Path(folder) / FILE_NAME
        self.run = json.loads(json.dumps(run))
        self.passes = []
        self.position = 0
        Path(folder).mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            if not resume:
                raise FileExistsError(
                    f"{self.path} is the checkpoint of an earlier run. Use --resume to go on from "
                    "there, or another folder."
                )
            self.passes = _read(self.path, self.run)
        elif resume:
            raise FileNotFoundError(
                f"{self.path} does not exist: there is no run to resume. Leave out --resume to "
                "begin one."
            )
        else:
            self._save()

    def recall(self, title):
        """Results of the next pass, or None if it has to be made."""
        self.position += 1
        if self.position > len(self.passes):
            return None
        known = self.passes[self.position - 1]
        if known.title != title:
            raise ValueError(
                f"{self.path} has the pass {known.title!r} where this run makes {title!r}: it is "
                "the checkpoint of another run."
            )
        return known.results

    def record(self, title, results):
        """Keep the results of the pass that `recall` did not know; None if they are not small."""
        if self.position > len(self.passes):
            self.passes.append(_Pass(title, results))
            self._save()

    def _save(self):
        arrays = []
        passes = [[known.title, _to_plain(known.results, arrays)] for known in self.passes]
        text = json.dumps({"format": FORMAT, "run": self.run, "passes": passes})
        with replacing(self.path, force=True) as file:
            named = {f"array_{k}": array for k, array in enumerate(arrays)}
            np.savez(file, journal=np.frombuffer(text.encode(), dtype=np.uint8), **named)


def _read(path, run):
    try:
        with np.load(path, allow_pickle=False) as stored:
            content = json.loads(bytes(stored["journal"]).decode())
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a checkpoint, or is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(
            f"{path} is of another format than {FORMAT!r}: it cannot be resumed by this version."
        )
    differences = [name for name in run if run[name] != content["run"].get(name)]
    if differences:
        name = differences[0]
        raise ValueError(
            f"{path} belongs to another run: {name} was {_short(content['run'].get(name))}, is "
            f"{_short(run[name])}. Resume with the same command and data, or use another folder."
        )
    return [_Pass(title, _from_plain(plain, arrays)) for title, plain in content["passes"]]


def _short(value, at_most=200):
    text = json.dumps(value)
    return text if len(text) <= at_most else f"{text[:at_most]}…"


def _to_plain(value, arrays):
    """JSON with references to arrays; tuples are told from lists."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_to_plain(item, arrays) for item in value]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"A pass gave a {type(value).__name__}, which a checkpoint cannot keep.")


def _from_plain(plain, arrays):
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "array":
        return arrays[f"array_{content}"]
    items = [_from_plain(item, arrays) for item in content]
    return tuple(items) if kind == "tuple" else items
