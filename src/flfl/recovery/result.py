"""What ``recover`` gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from flfl.estimators.saved_model import Remembered
from flfl.io.table import FLAGS
from flfl.io.write import Provenance
from flfl.protocol.added_error import best_guess, epsilon, gaussian_dp
from flfl.protocol.traffic import Traffic
from flfl.recovery.rules import Rules, count_reasons
from flfl.recovery.scores import GapScore, SensorScore, SiteScore, by_site


@dataclass(frozen=True)
class Recovery:
    """A filled table.

    The tables have the rows and columns that were given: same order, same index, same names (a
    time column of the DataFrame is left out).

    Attributes
    ----------
    values : time x sensor; observed values as they were, recovered ones filled in, refused NaN
    flags : time x sensor, ``observed``, ``recovered`` or ``refused``
    reasons : time x sensor, why a cell was refused; empty text elsewhere
    lower, upper : bounds of the interval of each recovered value (the value itself where
        observed, NaN where refused)
    scores : the self-test: errors on readings that were hidden, against each sensor alone
        (``alone``: pchip; ``linear``) and against each site alone (``site``, where sites have
        several sensors)
    by_gap_length : the self-test by length of the gap in which a hidden reading lay
    by_sensor : the self-test by sensor, in column order. A few hidden readings say little of one
    verdict : what the self-test says, in plain sentences; empty without one
    added_error : standard deviation of the noise in each sensor's copies at its median reading, in
        the readings' units; NaN for a sensor of which nothing left
    unit : of the readings, where the file names one
    traffic : what travelled, a self-test that is a run of its own included
    sites : owner of each sensor; empty where a sensor without readings has none
    method : the name of the method that recovered
    rules : what was not to be filled, and the limits of what was
    run_id : the same for the same readings, settings and version
    remembered : the finished run, for ``warm_start`` and :func:`~flfl.save_model` (``flfl`` only)
    published : time x sensor, filled from noisy copies, without a clean reading (``flfl`` only)
    secure : whether the sites' sums were hidden from the coordinator
    notes : what was understood and decided, in plain sentences
    """

    values: pd.DataFrame
    flags: pd.DataFrame
    reasons: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    scores: Mapping[str, Mapping[str, float]]
    by_gap_length: tuple[GapScore, ...]
    by_sensor: tuple[SensorScore, ...]
    verdict: str
    added_error: pd.Series
    traffic: Traffic
    seconds: float
    sites: tuple[str, ...]
    method: str
    rules: Rules
    run_id: str
    unit: str | None = None
    remembered: Remembered | None = None
    published: pd.DataFrame | None = None
    secure: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def provenance(self) -> Provenance:
        """What a file says of every cell besides its value and its interval."""
        return Provenance(self.reasons, self.method, self.run_id, self.rules.limits)

    def count(self, flag: str) -> int:
        """How many cells carry the flag."""
        return int((self.flags.to_numpy() == flag).sum())

    def refusals(self) -> dict[str, int]:
        """How many cells were refused for each reason."""
        return count_reasons(self.reasons.to_numpy())

    def by_site(self) -> tuple[SiteScore, ...]:
        """The self-test and the added error by owner, in the order of the columns."""
        return by_site(self.by_sensor, self.sites, self.added_error.to_numpy())

    def summary(self) -> dict[str, Any]:
        """The figures of the run, ready for JSON."""
        observed = self.count("observed")
        tested = sum(score.count > 0 for score in self.by_sensor)
        gaining = sum(score.gains for score in self.by_sensor)
        losing = sum(score.loses for score in self.by_sensor)
        return {
            "run_id": self.run_id,
            "method": self.method,
            "sensors": self.values.shape[1],
            "slots": self.values.shape[0],
            "sites": len(set(self.sites) - {""}),
            **{flag: self.count(flag) for flag in FLAGS},
            "refusals": self.refusals(),
            "rounds": self.traffic.rounds,
            "exchanges": dict(self.traffic.exchanges),
            "seconds": round(self.seconds, 3),
            "numbers_per_reading": self.traffic.numbers_per_reading(observed),
            "added_error": {"median": float(self.added_error.median()), "unit": self.unit},
            "guarantee": guarantee(float(self.added_error.median())),
            "secure": self.secure,
            "bytes_up": self.traffic.bytes_up,
            "bytes_down": self.traffic.bytes_down,
            "bytes_raw": 8 * observed,
            "self_test": {name: dict(scores) for name, scores in self.scores.items()},
            "by_gap_length": [asdict(score) for score in self.by_gap_length],
            "by_sensor": [
                asdict(score) | {"gains": score.gains, "loses": score.loses}
                for score in self.by_sensor
            ],
            "by_site": [asdict(score) for score in self.by_site()],
            "sensors_gaining": gaining,
            "sensors_losing": losing,
            "sensors_too_close": tested - gaining - losing,
            "verdict": self.verdict,
            "notes": [*self.notes, *self.traffic.notes],
        }


DELTA = 1e-5
"""For which (epsilon, delta) is reported."""
_CHANGES = ((1.0, 1), (2.0, 1), (3.0, 1), (1.0, 10), (1.0, 100))
"""Changes for which the guarantee is reported: how many added errors, at how many readings."""


def guarantee(added_error: float) -> list[dict[str, float]]:
    """What an added error means for changes of some sizes; empty where there is none.

    Examples
    --------
    >>> [(row["change"], row["readings"], round(row["told_apart"], 2)) for row in guarantee(4.0)]
    [(4.0, 1, 0.69), (8.0, 1, 0.84), (12.0, 1, 0.93), (4.0, 10, 0.94), (4.0, 100, 1.0)]
    """
    if not added_error > 0:
        return []
    rows = []
    for multiple, readings in _CHANGES:
        mu = gaussian_dp(multiple, 1.0, readings)
        rows.append(
            {
                "change": multiple * added_error,
                "readings": readings,
                "told_apart": best_guess(multiple, 1.0, readings),
                "gaussian_dp": mu,
                "epsilon": epsilon(mu, DELTA),
                "delta": DELTA,
            }
        )
    return rows
