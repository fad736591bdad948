"""What a finished run leaves behind, so that new slots and sensors can join it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.atomic import write_files
from flfl.protocol.copy_store import Block, CopyStore, Pin
from flfl.protocol.plan import Plan
from flfl.protocol.public import Network
from flfl.protocol.state import network_from_arrays, network_to_arrays

FORMAT = 4


@dataclass(frozen=True)
class Kept:
    """The copies of one site's sensors, as its store has them: (m, N), NaN where there is none.

    ``held`` are the numbers from their readings that the sensors are held to (m, 5).
    """

    ids: tuple[str, ...]
    instants: NDArray[np.int64]
    copies: NDArray[np.float64]
    sigmas: NDArray[np.float64]
    held: NDArray[np.float64]


@dataclass(frozen=True)
class Remembered:
    """A finished run: the public state, and each site's copies.

    Attributes
    ----------
    network : all that is public
    sites : each site's copies, by name
    step : seconds of a slot
    """

    network: Network
    sites: Mapping[str, Kept]
    step: int

    @property
    def plan(self) -> Plan:
        """The run's settings as agreed."""
        return self.network.plan

    @property
    def n_slots(self) -> int:
        """Slots that the run has released."""
        return self.network.n_slots

    def store(self, site: str) -> CopyStore:
        """A store that holds the site's copies."""
        store, kept, network = CopyStore(), self.sites.get(site), self.network
        for i, sensor in enumerate(kept.ids if kept is not None else ()):
            assert kept is not None
            there = np.isfinite(kept.copies[i])
            if there.any():
                last = kept.copies[i, there][-1], kept.sigmas[i, there][-1] ** 2
                tags = np.zeros(int(there.sum()), np.uint64)
                pin = Pin(network.transform, self.step, int(kept.instants[0]), network.season)
                store.pin(sensor, pin, kept.held[i])
                store.append(
                    sensor,
                    Block(
                        kept.instants[there],
                        kept.copies[i, there],
                        kept.sigmas[i, there],
                        tags,
                        *last,
                    ),
                )
        return store


def save_model(path: str | Path, run: Remembered) -> None:
    """Write a run to an ``.npz`` file that only its owner can read. It holds noisy copies."""
    arrays: dict[str, np.ndarray] = {
        f"network.{name}": array for name, array in network_to_arrays(run.network).items()
    }
    for number, kept in enumerate(run.sites.values()):
        arrays |= {
            f"site{number}.instants": kept.instants,
            f"site{number}.copies": kept.copies,
            f"site{number}.sigmas": kept.sigmas,
            f"site{number}.held": kept.held,
        }
    header = {
        "format": FORMAT,
        "plan": asdict(run.plan),
        "step": run.step,
        "sites": [[name, list(kept.ids)] for name, kept in run.sites.items()],
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
            raise InputError(
                f"a model of format {header['format']}, made by another version",
                where=str(path),
                remedy="Fit anew and save it with this version",
            )
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
    given = dict(header["plan"])
    if given["box"] is not None:
        given["box"] = tuple(tuple(corner) for corner in given["box"])
    network = network_from_arrays(
        {name: arrays[f"network.{name}"] for name in ("head", "numbers", "arrays")}, Plan(**given)
    )
    sites = {
        name: Kept(
            tuple(ids),
            arrays[f"site{number}.instants"],
            arrays[f"site{number}.copies"],
            arrays[f"site{number}.sigmas"],
            arrays[f"site{number}.held"],
        )
        for number, (name, ids) in enumerate(header["sites"])
    }
    return Remembered(network, sites, int(header["step"]))
