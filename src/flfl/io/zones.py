"""Local times without offset, in a zone that the user names: to UTC, or a reason why not."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.times import Place, Times


def in_zone(times: Times, name: str, place: Place) -> Times:
    """The same clock times, read in a zone; ``index`` is then in UTC.

    An hour that the clocks repeat must be there twice: the first is summer time, as the rows go.
    An hour that the clocks skip is refused.

    Examples
    --------
    >>> wall = pd.DatetimeIndex(["2024-10-27 02:00", "2024-10-27 02:00"])
    >>> in_zone(Times(wall, wall), "Europe/Berlin", str).index.hour.tolist()
    [0, 1]
    """
    wall = times.wall
    if not isinstance(wall, pd.DatetimeIndex) or times.zone is not None:
        held = "numbers" if times.zone is None else "offsets of their own"
        raise InputError(
            f"the times have {held}, so they are not local times of {name}",
            where=place(0),
            remedy="Leave time_zone out",
        )
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"there is no time zone {name!r}",
            where="time_zone",
            remedy="Give a name such as Europe/Berlin or UTC",
        ) from None
    early, late = (
        wall.tz_localize(zone, ambiguous=np.full(len(wall), summer), nonexistent="NaT")
        for summer in (True, False)
    )
    _refuse(np.asarray(early.isna()), wall, place, "does not exist: the clocks skip it", name)
    repeated = np.asarray(early != late)
    second = _second(wall, repeated, place, name)
    index = early.where(~second, late).tz_convert("UTC").as_unit("us")
    return Times(index, wall, times.format, name)


def _second(
    wall: pd.DatetimeIndex, repeated: NDArray[np.bool_], place: Place, name: str
) -> NDArray[np.bool_]:
    """Which stamps of a repeated hour are the later ones."""
    if not repeated.any():
        return repeated
    clock = pd.Series(np.arange(len(wall)), index=wall)
    count = clock.groupby(level=0).transform("size").to_numpy()
    _refuse(
        repeated & (count != 2), wall, place, "comes twice, and the rows do not tell which", name
    )
    later = clock.groupby(level=0).cumcount().to_numpy() == 1
    downward = wall[0] > wall[-1]
    return repeated & (later != downward)


def _refuse(
    bad: NDArray[np.bool_], wall: pd.DatetimeIndex, place: Place, why: str, name: str
) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"the local time {wall[row]} in {name} {why}",
            where=place(row),
            remedy="Write the times in UTC or with their offset (2024-10-27T02:00:00+02:00)",
        )
