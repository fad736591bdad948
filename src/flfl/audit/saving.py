"""What the coordinator saw, as a file, and apart from it the truth: bring your own attack."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from flfl.audit.view import View
from flfl.data.atomic import Writer, write_files


def truth_path(path: str | Path) -> Path:
    """Where the truth goes: ``view.npz`` to ``view.truth.npz``.

    Examples
    --------
    >>> truth_path("view.npz").name
    'view.truth.npz'
    """
    path = Path(path)
    return path.with_name(f"{path.stem}.truth.npz")


def save_view(path: str | Path, view: View) -> tuple[Path, Path]:
    """Write both files (mode 0600, all or nothing, no pickle); returns their paths.

    The names are explained in ``docs/attack-us.md``.
    """
    files = {Path(path): seen(view), truth_path(path): truth(view)}
    write_files({target: _writer(arrays) for target, arrays in files.items()}, private=True)
    first, second = files
    return first, second


def seen(view: View) -> dict[str, np.ndarray]:
    """Everything the coordinator saw, and what counts as public: gaps apart, coordinates and b."""
    sums = np.stack([one.g for one in view.rounds])
    arrays = {
        "g": np.stack([view.windows.per_slot(g) for g in sums]),
        "g_windows": sums,
        "F": np.stack([one.F for one in view.rounds]),
        "R": np.stack([one.R for one in view.rounds]),
        "Q": view.m,
        "Q_rounds": np.stack([one.m for one in view.rounds]),
        "A": view.A,
        "S": view.S,
        "w": view.w,
        "b": view.rounds[-1].B,
        "b_rounds": np.stack([one.B for one in view.rounds]),
        "u": view.u,
        "edges": view.windows.edges,
        "released": view.windows.released,
        "length": np.array(view.length),
        "noise": np.array(view.noise),
        "gain": np.array(view.gain),
        "scale": np.array(view.scale),
        "sensors": np.array(view.names),
        "sites": np.array(view.sites),
    }
    if view.plane is not None:
        arrays["coordinates"] = view.plane
    for kind, name in (("span", "counts"), ("span", "speakers"), ("window", "energy")):
        last = view.last(kind)
        if last is not None:
            arrays[name] = last.total[name]
    return arrays


def truth(view: View) -> dict[str, np.ndarray]:
    """What the sites kept: where they observed, the final news, the readings, latent vectors."""
    return {
        "observed": view.J.astype(np.uint8),
        "residual": view.news,
        "readings": view.raw,
        "sensors": np.array(view.names),
        "P": view.P,
        "r": view.r,
    }


def _writer(arrays: dict[str, np.ndarray]) -> Writer:
    def write(file: BinaryIO) -> None:
        np.savez_compressed(file, allow_pickle=False, **arrays)

    return write
