"""What the parties of a network agree on before a run. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from flfl.errors import InputError
from flfl.model.transforms import TRANSFORMS, Transform

Box = tuple[tuple[float, float], tuple[float, float]]

COMPONENTS = 64
"""Numbers that a slot releases at the most, however many sensors there are."""


@dataclass(frozen=True)
class Plan:
    """Public settings of a network.

    Attributes
    ----------
    added_error : the network's wish, a multiple of each sensor's own error in time; an owner's own
        setting is a floor
    share : numbers released for each reading
    rank : factors at the most
    rounds : of the shared fit; their number is fixed, so it tells nothing
    pilot : share of the slots that are released first, to learn how little noise is enough; 0: none
    transform, season : None lets the sites vote; ``season`` is a number of slots, 0 for none
    period : the season to vote on
    box : corners of the published map; None without positions
    """

    added_error: float = 1.0
    share: float = 0.5
    rank: int = 20
    rounds: int = 5
    pilot: float = 0.1
    transform: Transform | None = None
    season: int | None = None
    period: int = 0
    box: Box | None = None

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

    def trials(self) -> list[tuple[Transform, int]]:
        """Pairs of transform and season among which the sites vote.

        Examples
        --------
        >>> Plan(transform="sqrt", period=24).trials()
        [('sqrt', 0), ('sqrt', 24)]
        """
        transforms = TRANSFORMS if self.transform is None else (self.transform,)
        seasons = (0, self.period) if self.season is None else (self.season,)
        return list(product(transforms, dict.fromkeys(seasons)))
