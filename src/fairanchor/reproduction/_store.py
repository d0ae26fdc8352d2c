"""Finished cells as small JSON files, and files that are never half written."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path

from fairanchor import _files
from fairanchor.reproduction._cells import fingerprint

# Present in every folder that the command has made, so that it can tell its own files.
MARKER = "reproduction.json"


class CellStore:
    """Keep the results of cells in a folder.

    Parameters
    ----------
    folder : path-like
    settings : Settings
    recompute : bool
        Whether results of earlier runs are ignored (and replaced).
    """

    def __init__(self, folder, settings, *, recompute=False):
        self.folder = Path(folder)
        self.settings = settings
        self._usable = set() if recompute else None

    def get(self, cell, shape):
        """Result of the cell, or None."""
        path = self._path(cell, shape)
        if not path.exists() or (self._usable is not None and path.name not in self._usable):
            return None
        try:
            return json.loads(path.read_text())["result"]
        except (json.JSONDecodeError, KeyError) as error:
            warnings.warn(f"{path} cannot be read ({error}): measured again.", stacklevel=2)
            return None

    def put(self, cell, shape, result):
        """Keep a result; it is on disk when this returns."""
        path = self._path(cell, shape)
        content = {"cell": asdict(cell), "result": result}
        write_text(path, json.dumps(content, indent=1) + "\n")
        if self._usable is not None:
            self._usable.add(path.name)

    def _path(self, cell, shape):
        name = fingerprint(cell, shape, self.settings)
        return self.folder / f"{cell.dataset}-{cell.method}-{cell.block}-{name}.json"


def write_text(path, text):
    """Write a file that is either the old or the new one, never a part."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path, content):
    """As `write_text`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _files.write_bytes(path, content, force=True)


def check_folder(folder, *, force=False):
    """Refuse to write into a folder that holds anything that is not ours."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file, expected a folder for the results.")
    ours = not folder.exists() or (folder / MARKER).exists() or not any(folder.iterdir())
    if not ours and not force:
        raise FileExistsError(
            f"{folder} is not empty and holds no {MARKER}, so it was not made by this command: "
            "choose another folder, or use --force to write into it."
        )
    folder.mkdir(parents=True, exist_ok=True)
