"""What a finished run leaves behind, so that new slots can join it: kept with the owners, 0600."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from flfl.data.atomic import write_files
from flfl.errors import InputError
from flfl.federation.factors.keeping import SiteMemory
from flfl.federation.factors.program import Published, Settings, State
from flfl.federation.factors.protocol import FactorPlan
from flfl.model.shared.windows import Windows

FORMAT = 2
_SITE = ("P", "predictive", "r", "guard_r", "B", "held", "curve", "without")
_STATE = ("m", "A", "S", "F", "R")


@dataclass(frozen=True)
class Remembered:
    """A finished run: the published model, and what each site keeps to itself.

    Attributes
    ----------
    plan : the run's settings as agreed
    published : the shared model
    sites : each site's sensors and memory, by name
    """

    plan: FactorPlan
    published: Published
    sites: Mapping[str, tuple[tuple[str, ...], SiteMemory]]

    @property
    def n_slots(self) -> int:
        """Slots that the run has seen."""
        return self.published.windows.n_slots


def save_model(path: str | Path, run: Remembered) -> None:
    """Write a run to an ``.npz`` file that only its owner can read. It holds latent vectors."""
    arrays: dict[str, np.ndarray] = {}
    for number, (_, memory) in enumerate(run.sites.values()):
        arrays |= {f"site{number}.{name}": getattr(memory, name) for name in _SITE}
    published = run.published
    arrays |= {f"model.{name}": getattr(published.state, name) for name in _STATE}
    arrays |= {
        "model.w": published.w,
        "model.edges": published.windows.edges,
        "model.released": published.windows.released,
    }
    header = {
        "format": FORMAT,
        "plan": asdict(run.plan),
        "settings": asdict(published.settings),
        "sites": [[name, list(ids)] for name, (ids, _) in run.sites.items()],
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)

    def write(file: BinaryIO) -> None:
        np.savez_compressed(file, allow_pickle=False, **arrays)

    write_files({path: write}, private=True)


def load_model(path: str | Path) -> Remembered:
    """Read what :func:`save_model` wrote.

    Raises
    ------
    InputError
        When the file is not such a model.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise InputError(f"a model of format {header['format']}", where=str(path))
        return _rebuild(header, arrays)
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path)) from None
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "this is not a saved model", where=str(path), remedy="Save one with --save-model"
        ) from None


def _rebuild(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Remembered:
    plan = dict(header["plan"])
    if plan["box"] is not None:
        plan["box"] = tuple(tuple(corner) for corner in plan["box"])
    plan["without"] = tuple(plan.get("without", ()))
    state = State(**{name: arrays[f"model.{name}"] for name in _STATE})
    windows = Windows(arrays["model.edges"], arrays["model.released"])
    published = Published(Settings(**header["settings"]), state, windows, arrays["model.w"])
    sites = {
        name: (
            tuple(ids),
            SiteMemory(**{field: arrays[f"site{number}.{field}"] for field in _SITE}),
        )
        for number, (name, ids) in enumerate(header["sites"])
    }
    return Remembered(FactorPlan(**plan), published, sites)
