"""What an attack is, what it is given, and how it is scored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.audit.view import View
from flfl.data.sensors import Sensors
from flfl.estimators.base import BaseRecoverer

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLOSE = 0.01
"""A reading counts as exposed when it is guessed within this share of its sensor's deviation."""
FEWEST = 20
"""A sensor with fewer guessed readings has no R^2."""


@dataclass(frozen=True)
class Against:
    """One figure against two ways of guessing that need no attack.

    ``mean``: the sensor's mean. ``factors``: the common picture ``P m``.
    """

    mean: float
    factors: float


@dataclass(frozen=True)
class Finding:
    """What one attack read. None where the attack is not about that.

    Attributes
    ----------
    name, adversary, knows : which attack, by whom, and what it is assumed to know
    readings_exposed : share of the readings guessed within 1 % of the sensor's deviation
    guessing_exposes : the same share for guesses that need no attack
    relative_error : root mean square error over that of guesses that need no attack
    news_read_max, news_read_median : R^2 of the sensors' news, worst and median sensor
    worst_sensor : whose news was read best
    sentence : what it means, for a person
    judged : whether a configuration that calls itself private must withstand it
    figures : further figures of this attack by name
    """

    name: str
    adversary: str
    knows: str
    sentence: str = ""
    readings_exposed: float | None = None
    guessing_exposes: Against | None = None
    relative_error: Against | None = None
    news_read_max: float | None = None
    news_read_median: float | None = None
    worst_sensor: str | None = None
    judged: bool = True
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Effort:
    """How hard to look.

    Attributes
    ----------
    slots : length of the stretch that the solvers look at
    splits : half-splits of a read-out
    coalitions : coalitions of each size that are tried
    known : readings of a sensor that the known-sample adversary has
    reruns : whether differencing also runs the network through another projection
    """

    slots: int = 1000
    splits: int = 5
    coalitions: int = 3
    known: int = 300
    reruns: bool = True


QUICK = Effort(splits=2, coalitions=1, reruns=False)


@dataclass(frozen=True)
class Case:
    """One run and everything an attack may need to run another.

    Attributes
    ----------
    view : of the run; None where nothing was shared, or where uploads are plain
    readings, sensors, settings : what the run was given
    secure : whether the coordinator saw totals only
    """

    view: View
    model: BaseRecoverer
    readings: pd.DataFrame
    sensors: Sensors
    settings: Mapping[str, Any]
    secure: bool = False
    effort: Effort = field(default_factory=Effort)
    seed: int = 0

    def rng(self, name: str) -> np.random.Generator:
        """A stream of its own for every attack."""
        return np.random.default_rng([self.seed, *name.encode()])


@dataclass(frozen=True)
class Attack:
    """An attack of the registry.

    Attributes
    ----------
    knows : the adversary's assumptions, in words
    run : from the case to findings
    """

    name: str
    adversary: str
    knows: str
    run: Callable[[Any, Attack], Sequence[Finding]]

    def __call__(self, case: Any) -> list[Finding]:
        """Run it; the time is shared out over its findings."""
        start = time.perf_counter()
        findings = list(self.run(case, self))
        seconds = (time.perf_counter() - start) / max(len(findings), 1)
        return [replace(one, seconds=seconds) for one in findings]

    def finding(self, variant: str = "", **fields: Any) -> Finding:
        """A finding under this attack's name."""
        name = f"{self.name} ({variant})" if variant else self.name
        return Finding(**{"name": name, "adversary": self.adversary, "knows": self.knows} | fields)

    def read(
        self,
        view: View,
        news: Array,
        at: Mask,
        variant: str = "",
        scores: Array | None = None,
        sentence: str = "{max:.0%} of the worst sensor's news, {median:.0%} of the median one's.",
        **fields: Any,
    ) -> Finding:
        """A finding from a guess of the news (M, N) at some readings; see :func:`score_guess`.

        ``scores`` (M,) replaces the R^2 of that guess where it was found in a better way.
        """
        found = score_guess(view, news, at)
        by_sensor = found.pop("by_sensor") if scores is None else scores
        found.pop("by_sensor", None)
        found |= worst_and_median(by_sensor, view.names)
        best, middle = found["news_read_max"], found["news_read_median"]
        if best is not None:
            fields.setdefault("sentence", sentence.format(max=max(best, 0), median=max(middle, 0)))
        return self.finding(variant, **found, **fields)


def worst_and_median(scores: Array, names: Sequence[str]) -> dict[str, Any]:
    """The fields of a finding that sum up an R^2 of each sensor (M,), NaN for none."""
    if not np.isfinite(scores).any():
        return {"news_read_max": None, "news_read_median": None, "worst_sensor": None}
    at = int(np.nanargmax(scores))
    return {
        "news_read_max": float(scores[at]),
        "news_read_median": float(np.nanmedian(scores)),
        "worst_sensor": str(names[at]),
    }


def score_guess(view: View, news: Array, at: Mask) -> dict[str, Any]:
    """How good guesses of readings are.

    Parameters
    ----------
    news : (M, N) guessed news in model units; the picture ``P m`` is added to it
    at : (M, N) which readings were guessed
    """
    known = at & (view.J > 0) & np.isfinite(view.raw)
    by_sensor = np.array(
        [r_squared(view.news[i, k], news[i, k]) for i, k in enumerate(known)], dtype=float
    )
    if not known.any():
        return {"by_sensor": by_sensor}
    ways = {
        "attack": view.to_raw(view.picture + np.where(known, news, 0.0)),
        "mean": np.nanmean(view.raw, axis=1, keepdims=True) + np.zeros(view.raw.shape),
        "factors": view.to_raw(view.picture),
    }
    return {"by_sensor": by_sensor} | compare(view.raw, ways, known)


def compare(raw: Array, ways: Mapping[str, Array], known: Mask) -> dict[str, Any]:
    """Guesses of readings in their own units: the attack's beside those that need none.

    Parameters
    ----------
    raw : (M, N) readings, NaN where there is none
    ways : guesses (M, N) by name: ``attack``, ``mean``, ``factors``
    known : (M, N) which of them count

    Examples
    --------
    >>> raw = np.array([[1.0, 3.0]])
    >>> ways = {"attack": raw, "mean": np.full((1, 2), 2.0), "factors": np.full((1, 2), 2.0)}
    >>> found = compare(raw, ways, np.ones((1, 2), bool))
    >>> found["readings_exposed"], found["relative_error"].mean
    (1.0, 0.0)
    """
    deviation = np.maximum(np.nanstd(raw, axis=1), 1e-12)[np.nonzero(known)[0]]
    miss = {name: np.abs(guess[known] - raw[known]) / deviation for name, guess in ways.items()}
    close = {name: float((error <= CLOSE).mean()) for name, error in miss.items()}
    rms = {name: float(np.sqrt((error**2).mean())) for name, error in miss.items()}
    return {
        "readings_exposed": close["attack"],
        "guessing_exposes": Against(close["mean"], close["factors"]),
        "relative_error": Against(
            *(rms["attack"] / max(rms[name], 1e-12) for name in ("mean", "factors"))
        ),
    }


def r_squared(truth: Array, guess: Array, fewest: int = FEWEST) -> float:
    """``1 - SSE / SST``; NaN for too few readings.

    Examples
    --------
    >>> r_squared(np.array([1.0, -1.0]), np.array([1.0, -1.0]), fewest=2)
    1.0
    """
    if len(truth) < fewest:
        return float("nan")
    total = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((truth - guess) ** 2).sum()) / max(total, 1e-12)
