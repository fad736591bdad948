"""What the coordinator saw, as a file, and apart from it the truth: bring your own attack."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from flfl.audit.attack import Case
from flfl.io.files import Writer, write_files


def truth_path(path: str | Path) -> Path:
    """Where the truth goes: ``view.npz`` to ``view.truth.npz``.

    Examples
    --------
    >>> truth_path("view.npz").name
    'view.truth.npz'
    """
    path = Path(path)
    return path.with_name(f"{path.stem}.truth.npz")


def save_view(path: str | Path, case: Case) -> tuple[Path, Path]:
    """Write both files (mode 0600, all or nothing, no pickle); returns their paths.

    The names are explained in ``docs/audit.md``.
    """
    files = {Path(path): seen(case), truth_path(path): truth(case)}
    write_files({target: _writer(arrays) for target, arrays in files.items()}, private=True)
    first, second = files
    return first, second


def seen(case: Case) -> dict[str, np.ndarray]:
    """Everything the coordinator saw."""
    net = case.view.network
    return {
        "z": net.z,
        "numbers": net.numbers,
        "Phi": net.phi,
        "weights": net.weights,
        "P": net.P,
        "r": net.r,
        "A": net.dynamics.A,
        "S": net.dynamics.S,
        "gaps": ~net.known,
        "sigma": np.sqrt(net.sigma2),
        "error": net.error,
        "places": net.places,
        "site": net.site,
        "scale": np.array(net.scale),
        "P_rounds": _rounds([one.P for one in case.view.refits], net.P.shape),
        "r_rounds": _rounds([one.r for one in case.view.refits], net.r.shape),
    }


def _rounds(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Every round's answers, NaN for sensors that came later; a first stretch has fewer factors."""
    out = np.full((len(parts), *shape), np.nan)
    for n, part in enumerate(parts):
        out[n][tuple(slice(size) for size in part.shape)] = part
    return out


def truth(case: Case) -> dict[str, np.ndarray]:
    """What the owners kept."""
    kept, wanted = case.truth, case.wanted
    return {
        "sensors": np.array(kept.ids),
        "readings": kept.raw,
        "clean": np.where(kept.known, kept.clean, np.nan),
        "copies": np.where(case.view.network.known, kept.copies, np.nan),
        "residual": np.where(kept.known, wanted.residual, np.nan),
        "surprise": np.where(kept.known, wanted.surprise, np.nan),
        "offset": kept.offset,
    }


def _writer(arrays: dict[str, np.ndarray]) -> Writer:
    def write(file: BinaryIO) -> None:
        np.savez_compressed(file, allow_pickle=False, **arrays)

    return write
