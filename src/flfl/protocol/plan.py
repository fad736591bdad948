"""What the parties of a network agree on before a run. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import product

import numpy as np

from flfl.constants import PILOT_SHARE
from flfl.errors import InputError
from flfl.model.basis import Box
from flfl.model.transforms import TRANSFORMS, Transform


@dataclass(frozen=True)
class Plan:
    """Public settings of a network.

    Where transform or season is None the sites vote, on the season ``period`` or none, in slots.
    """

    added_error: float = 1.0  # the network's wish, a multiple; an owner's own setting is a floor
    share: float = 0.5  # numbers released for each reading
    rank: int = 20  # factors, at the most
    rounds: int = 5  # a fixed number tells nothing
    pilot: float = PILOT_SHARE  # of the slots is released first, to learn how little noise will do
    transform: Transform | None = None
    season: int | None = None
    period: int = 0
    box: Box | None = None  # corners of the published map
    late: bool = False  # what comes after its slot's release is released as rows of its own

    def __post_init__(self) -> None:
        box = () if self.box is None else np.ravel(self.box).tolist()
        good = {
            "added_error": 0 <= self.added_error < np.inf,
            "share": 0 < self.share <= 1,
            "rank": self.rank >= 1,
            "rounds": self.rounds >= 1,
            "pilot": 0 <= self.pilot < 1,
            "transform": self.transform is None or self.transform in TRANSFORMS,
            "season": self.season is None or self.season >= 0,
            "period": self.period >= 0,
            "box": self.box is None or (len(box) == 4 and np.isfinite(box).all()),
        }
        bad = [f"{name} = {getattr(self, name)!r}" for name, fits in good.items() if not fits]
        if bad:
            raise InputError(f"a plan cannot have {', '.join(bad)}")

    def units(self) -> list[tuple[Transform, int]]:
        """Pairs of transform and season among which the sites vote.

        Examples
        --------
        >>> Plan(transform="sqrt", period=24).units()
        [('sqrt', 0), ('sqrt', 24)]
        """
        transforms = TRANSFORMS if self.transform is None else (self.transform,)
        seasons = (0, self.period) if self.season is None else (self.season,)
        return list(product(transforms, dict.fromkeys(seasons)))


class Fit(IntEnum):
    """What a run that adds slots does with the loadings of the run before."""

    KEPT = 0  # they stay, but for sensors whose owners have not fitted them yet
    ONWARD = 1  # one round from where they were
    ANEW = 2  # as many rounds as a first run, from the start


@dataclass(frozen=True)
class Addition:
    """How slots are added to an earlier run, by numbers of slots: those before ``keep`` are
    forgotten, those before ``first`` are not looked at again, but where all is fitted anew."""

    keep: int = 0
    first: int = 0
    fit: Fit = Fit.ONWARD


@dataclass(frozen=True)
class Pin:
    """How a sensor's readings are copied, the same for ever: another way gives second copies. So is
    the season: errors in time without one season and without another tell about the readings."""

    transform: str
    step_seconds: int
    origin_seconds: int = 0
    season: int = 0

    def __post_init__(self) -> None:
        if self.step_seconds <= 0:
            raise InputError(f"a step must be longer than {self.step_seconds} s")
        # Grids that differ by whole steps are one grid.
        object.__setattr__(self, "origin_seconds", self.origin_seconds % self.step_seconds)
