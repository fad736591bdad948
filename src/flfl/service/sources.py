"""An owner's readings on the network's times: from a file, a folder, or a database."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.files import write_files
from flfl.service.grid import TimeGrid

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """Readings as they were when a run began: an interrupted run goes on with the same.

    Attributes
    ----------
    ids : names of the sensors
    values : (m, N), NaN = missing
    coordinates : (m, 2) or None; geography : ``latlon``, ``metric`` or empty
    """

    ids: tuple[str, ...]
    values: Array
    coordinates: Array | None
    geography: str
    notes: tuple[str, ...] = ()

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which sensors have a reading at all (m,)."""
        return np.asarray(~np.isnan(self.values).all(axis=1))

    def save(self, path: Path) -> None:
        """Write it, readable by the owner only; all of it or nothing."""
        header = {"ids": self.ids, "geography": self.geography, "notes": self.notes}
        arrays = {
            "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
            "values": self.values,
            "coordinates": np.zeros((0, 2)) if self.coordinates is None else self.coordinates,
        }
        save_arrays(path, arrays)

    @classmethod
    def load(cls, path: Path) -> Snapshot:
        """Read it back."""
        arrays = load_arrays(path)
        header = json.loads(arrays["header"].tobytes())
        places = arrays["coordinates"] if len(arrays["coordinates"]) else None
        return cls(
            tuple(header["ids"]),
            arrays["values"],
            places,
            header["geography"],
            tuple(header["notes"]),
        )


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Arrays into a private file with checksums; all of it or nothing."""

    def write(file: BinaryIO) -> None:
        np.savez(file, allow_pickle=False, **arrays)

    write_files({path: write}, private=True)


def folder_name(run: str) -> str:
    """A run's name as a folder's: whatever was announced, it is one folder and no path.

    Examples
    --------
    >>> folder_name("../north-1")
    '___north-1'
    >>> folder_name("n\xf6rd")
    'n_rd'
    """
    plain = (c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in run)
    return "".join(plain)[:120] or "_"


def save_text(path: Path, text: bytes) -> None:
    """A small private file; all of it or nothing."""

    def write(file: BinaryIO) -> None:
        file.write(text)

    write_files({path: write}, private=True)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays back; a damaged file is refused."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"the file is damaged ({error})", where=str(path)) from None


def align(times: Any, columns: Array, ids: tuple[str, ...], grid: TimeGrid, where: str) -> Array:
    """Readings (times x m) at their slots (m, N)."""
    slots = grid.slots_of(np.asarray(times, dtype=np.int64), where)
    inside = slots >= 0
    if not inside.any():
        raise InputError(
            f"no reading lies within the network's times, {grid.slots} slots of {grid.step} from"
            f" {grid.start}",
            where=where,
            remedy="Check the times (UTC), or agree on another grid",
        )
    values = np.full((len(ids), grid.slots), np.nan)
    values[:, slots[inside]] = columns[inside].T
    return values
