"""What a run over chunks has found out so far, so that it can go on after it was stopped.

The driver is deterministic: given the same results of its passes it takes the same way. So
a checkpoint is the list of these results, as far as they are small. A resumed run reads
them instead of the rows, repeats the few passes whose results are not kept, and ends with
the very same labels.
"""

import json
import struct
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np

from fairanchor._utils._files import replacing

FORMAT = "fairanchor checkpoint 2"
FILE_NAME = "checkpoint.npz"
# What an archive whose bytes make no sense can raise.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def identity_of_run(parameters, fingerprint, chunk_rows):
    """What a run that is resumed must share with the one that was stopped.

    Parameters
    ----------
    parameters : dict
        Of the estimator.
    fingerprint : dict
        Of the rows.
    chunk_rows : int

    Returns
    -------
    run : dict
        JSON values only.
    """
    from fairanchor import __version__

    seed = parameters["random_state"]
    if not isinstance(seed, Integral):
        raise ValueError(
            f"random_state={seed!r}, expected an integer: a run with a checkpoint has to draw the "
            "same numbers when it is resumed."
        )
    # The result does not depend on the number of threads.
    described = {name: _described(own) for name, own in parameters.items() if name != "n_jobs"}
    return {
        "fairanchor": __version__,
        "chunk_rows": int(chunk_rows),
        "parameters": described,
        **fingerprint,
    }


def _described(value):
    """A parameter as JSON that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "get_params"):
        given = {name: _described(own) for name, own in value.get_params(deep=False).items()}
        return {"class": f"{type(value).__module__}.{type(value).__qualname__}", **given}
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return _described(np.asarray(value).tolist())
    if isinstance(value, (list, tuple)):
        return [_described(item) for item in value]
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else repr(value).split(" at 0x")[0]


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
            Path(folder).mkdir(parents=True, exist_ok=True)
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
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            _check_sizes(stored.zip, path.stat().st_size)
            content = json.loads(bytes(stored["journal"]).decode())
            arrays = {name: stored[name] for name in stored.files}
    except DAMAGE as error:
        raise ValueError(f"{path} is not a checkpoint, or is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(
            f"{path} is of another format than {FORMAT!r}: it cannot be resumed by this version."
        )
    difference = _first_difference(content.get("run"), run)
    if difference is not None:
        name, was, now = difference
        raise ValueError(
            f"{path} belongs to another run: {name} was {_short(was)}, is {_short(now)}. Resume "
            "with the same command and data, or use another folder."
        )
    try:
        return [_Pass(title, _from_plain(plain, arrays)) for title, plain in content["passes"]]
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged: its passes make no sense ({error}).") from error


def _check_sizes(archive, n_file_bytes):
    """Refuse what would be larger in memory than on the disk: a checkpoint is not packed."""
    n_bytes = sum(entry.file_size for entry in archive.infolist())
    if n_bytes > n_file_bytes:
        raise ValueError(f"its {n_file_bytes:,} bytes would unpack to {n_bytes:,}")


def _first_difference(was, now, name="run"):
    """Name and values of the first thing that two runs do not share, or None."""
    if was == now and not (isinstance(was, dict) and list(was) != list(now)):
        return None
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return name, was, now
    for key in {**now, **was}:
        inner = key if name in ("run", "parameters", "files") else f"{key} of {name}"
        found = _first_difference(was.get(key), now.get(key), inner)
        if found is not None:
            return found
    return f"the order of {name}", list(was), list(now)


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
