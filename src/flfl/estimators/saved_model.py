"""What a finished run leaves behind, so that new slots and sensors can join it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from flfl.codec import CodecError, pack, unpack
from flfl.errors import InputError, explained
from flfl.io.files import write_files
from flfl.protocol.copy_store import Block, CopyStore
from flfl.protocol.network import Network
from flfl.protocol.plan import Pin, Plan
from flfl.protocol.schema import network_from_arrays, network_to_arrays

FORMAT = 6


@dataclass(frozen=True)
class Kept:
    """The copies of one site's sensors, as its store has them: ``copies`` and their added errors
    ``sigmas`` (m, N), NaN where there is none, at ``instants`` (N,), UTC seconds.

    ``held`` (m, 5) are the numbers from their readings that the sensors are held to.
    """

    ids: tuple[str, ...]
    instants: NDArray[np.int64]
    copies: NDArray[np.float64]
    sigmas: NDArray[np.float64]
    held: NDArray[np.float64]


@dataclass(frozen=True)
class Remembered:
    """A finished run: all that is public, each site's copies by its name, seconds of a slot."""

    network: Network
    sites: Mapping[str, Kept]
    step: int

    def store(self, site: str) -> CopyStore:
        """A store that holds the site's copies."""
        store, kept, network = CopyStore(), self.sites.get(site), self.network
        if kept is None:
            return store
        pin = Pin(network.transform, self.step, int(kept.instants[0]), network.season)
        for i, sensor in enumerate(kept.ids):
            there = np.isfinite(kept.copies[i])
            if there.any():
                copies, sigmas = kept.copies[i, there], kept.sigmas[i, there]
                tags = np.zeros(len(copies), np.uint64)
                last = copies[-1], sigmas[-1] ** 2
                store.pin(sensor, pin, kept.held[i])
                store.append(sensor, Block(kept.instants[there], copies, sigmas, tags, *last))
        return store


def save_model(path: str | Path, run: Remembered) -> None:
    """Write a run to a file that only its owner can read. It holds noisy copies."""
    plan, box = asdict(run.network.plan), run.network.plan.box
    plan["box"] = None if box is None else np.array(box)
    saved = {
        "format": FORMAT,
        "plan": plan,
        "network": network_to_arrays(run.network),
        "step": run.step,
        "sites": {name: vars(kept) | {"ids": list(kept.ids)} for name, kept in run.sites.items()},
    }

    def write(file: BinaryIO) -> None:
        file.write(pack(saved))

    write_files({path: write}, private=True)


def load_model(path: str | Path) -> Remembered:
    """Read what :func:`save_model` wrote; anything else is an `InputError`."""
    with explained("the model cannot be read", where=str(path), remedy="Check the name"):
        content = Path(path).read_bytes()
    try:
        saved = unpack(content)
        if saved["format"] != FORMAT:
            raise CodecError(f"it has format {saved['format']}, this version reads {FORMAT}")
        given, box = saved["plan"], saved["plan"]["box"]
        plan = Plan(**given | {"box": None if box is None else tuple(map(tuple, box.tolist()))})
        sites = {
            name: Kept(**kept | {"ids": tuple(kept["ids"])})
            for name, kept in saved["sites"].items()
        }
        return Remembered(network_from_arrays(saved["network"], plan), sites, int(saved["step"]))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = f" ({error})" if isinstance(error, CodecError) else ""
        raise InputError(
            f"this is not a saved model{why}",
            where=str(path),
            remedy="Fit anew and save it with --save-model",
        ) from None
