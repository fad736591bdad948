"""What a site holds: its sensors, what belongs to it beyond one run, its memory of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flfl.privacy.account import Account

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Sensing:
    """What a site knows of its own sensors.

    Attributes
    ----------
    name : of the site
    ids : names of the sensors
    raw : (m, N) readings in their units, anything where unknown
    known : (m, N)
    plane : (m, 2) places on the published map, None without coordinates
    positions : (N,) elapsed steps of the slots
    stamps : (N,) whole numbers by which slots are known over runs: their times
    """

    name: str
    ids: Sequence[str]
    raw: Array
    known: Mask
    plane: Array | None
    positions: Array
    stamps: Index | None = None


@dataclass(frozen=True)
class Custody:
    """What belongs to a site beyond one run, and never leaves it.

    Attributes
    ----------
    secret : source of the site's noise; None takes one from the run's seed, which is for
        simulations only, since a seed may be guessed
    account : what earlier runs released
    keep : is given the account *before* a release leaves, to write it down
    cohort : the sites of this run; run : its name
    """

    secret: bytes | None = None
    account: Account = field(default_factory=Account)
    keep: Callable[[Account], None] | None = None
    cohort: Sequence[str] = ()
    run: str = "run"

    def __repr__(self) -> str:
        return f"Custody(run={self.run!r})"


@dataclass(frozen=True)
class SiteMemory:
    """What a site keeps of a run, so that new slots can be added to it. It never leaves.

    Attributes
    ----------
    P, predictive : (m, k) latent vectors of the joint fit, and those used in gaps
    r, guard_r : (m,) noise, and the noise the guard was computed with
    B : (m, k) the projection with its scaling: new slots go through the same one
    held : (m, N) readings kept out of the fit
    curve, without : (m, N) the shared curve, and what it is without the reading itself
    """

    P: Array
    predictive: Array
    r: Array
    guard_r: Array
    B: Array
    held: Mask
    curve: Array
    without: Array
