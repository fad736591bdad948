"""An owner's last result: in its state until its tables stand, and for the nights that follow."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble.recovery import Recovered
from flfl.service.agreement import from_bytes, to_bytes
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot
from flfl.service.night import Night

Array = NDArray[np.float64]
PARTS = tuple(part.name for part in fields(Recovered))


@dataclass(frozen=True)
class Result:
    """What was recovered of a run's readings on all of the network's times, and at which of them
    the network has readings (N,); what the owner is told of the night."""

    run: str
    grid: TimeGrid
    taken: Snapshot
    seen: NDArray[np.bool_]
    recovered: Recovered
    night: Night | None = None

    def to_values(self) -> dict[str, Any]:
        """As values of :mod:`flfl.codec`."""
        parts = {name: getattr(self.recovered, name) for name in PARTS}
        about: dict[str, Any] = {"run": self.run, "grid": to_bytes(self.grid), "seen": self.seen}
        about["night"] = None if self.night is None else vars(self.night)
        return about | {"taken": vars(self.taken), "parts": parts}

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Result:
        """The result back."""
        recovered = Recovered(**{name: values["parts"][name] for name in PARTS})
        grid, taken = from_bytes(TimeGrid, values["grid"]), Snapshot(**values["taken"])
        night = None if (told := values.get("night")) is None else Night(**told)
        return cls(values["run"], grid, taken, values["seen"], recovered, night)

    @property
    def ids(self) -> list[str]:
        """The sensors that have readings, and a result."""
        return [name for name, here in zip(self.taken.ids, self.taken.alive, strict=True) if here]

    def covers(self, taken: Snapshot, grid: TimeGrid) -> bool:
        """Whether all of some readings' sensors have a result here, on the same times."""
        alive = zip(taken.ids, taken.alive, strict=True)
        same = (self.grid.start, self.grid.step) == (grid.start, grid.step)
        return same and {name for name, here in alive if here} <= set(self.ids)

    def before(
        self, first: int, run: str, grid: TimeGrid, taken: Snapshot, seen: NDArray[np.bool_],
        recovered: Recovered,
    ) -> Result:  # fmt: skip
        """A newer result from the slot ``first`` on, with this one before it. Readings are the new
        ones everywhere."""
        ids = [name for name, here in zip(taken.ids, taken.alive, strict=True) if here]
        at = [self.ids.index(name) for name in ids]

        def whole(old: Array, new: Array) -> Array:
            return np.concatenate([old[at][:, :first], new], axis=1)

        parts = (whole(getattr(self.recovered, name), getattr(recovered, name)) for name in PARTS)
        seen = np.concatenate([self.seen[:first], seen[first:]])
        return Result(run, grid, taken, seen, Recovered(*parts))
