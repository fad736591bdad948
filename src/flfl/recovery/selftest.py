"""Score a method on readings that were hidden from it, beside what each sensor does alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.ensemble.holdout import draw_holdout
from flfl.estimators.base import BaseRecoverer
from flfl.io.table import Table
from flfl.methods import create
from flfl.paper.scaling import Scaling
from flfl.protocol.traffic import Traffic
from flfl.recovery import scores
from flfl.recovery.rules import Rules, gap_lengths
from flfl.recovery.scores import GapScore, SensorScore

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Fit = Callable[[pd.DataFrame], BaseRecoverer]
Stage = Callable[[str], None]

SHARE = 0.1
COVERAGE = 0.9


@dataclass(frozen=True)
class SelfTest:
    """What was found on the hidden readings; empty where none were hidden.

    ``width`` holds half widths of an interval by sensor, ``traffic`` what travelled where the test
    was a run of its own.
    """

    overall: dict[str, dict[str, float]]
    by_gap_length: tuple[GapScore, ...]
    by_sensor: tuple[SensorScore, ...]
    width: Array | None = None
    traffic: Traffic | None = None

    @classmethod
    def none(cls, table: Table, label: str) -> SelfTest:
        """Nothing was hidden."""
        nothing = np.full((1, len(table.sensor_ids)), np.nan)
        errors = dict.fromkeys((label, *scores.ALONE), nothing)
        return cls({}, (), scores.by_sensor(errors, table.sensor_ids, label))


@dataclass(frozen=True)
class Tester:
    """Tests one method on one table.

    ``fit`` fits the method to a part of the readings; ``alone`` what each site could do by itself
    to all of them, None where that is not asked.
    """

    table: Table
    method: str
    seed: int
    rules: Rules
    fit: Fit
    alone: Fit | None
    stage: Stage | None = None

    @property
    def label(self) -> str:
        """Under which name the method's scores go: each site alone is no rival of itself."""
        if self.method == "alone":
            return scores.SITE
        return "flfl" if self.method.startswith("flfl") else self.method

    def test(self, model: BaseRecoverer) -> SelfTest:
        """Scores on readings hidden from the method; none where there are too few to spare any.

        A method that holds readings out by itself (``holdout_``: scattered, and in runs like the
        table's own gaps; see :func:`~flfl.ensemble.holdout.draw_holdout`) is tested on those.
        Any other is fitted again without such readings.
        """
        if hasattr(model, "holdout_"):
            hidden = ~np.isnan(model.holdout_)
            by_site = self._each_site_alone(model)
            if by_site is not None:
                # Spikes are not held out, and with the network other readings look like spikes.
                hidden &= ~np.isnan(by_site)
            if not hidden.any():
                return SelfTest.none(self.table, self.label)
            inside = float(model.inside_[hidden].mean())
            return self._score(hidden, model.holdout_, inside, by_site)
        hidden = draw_holdout(self.table.known.T, np.random.default_rng(self.seed), share=SHARE).T
        if not hidden.any():
            return SelfTest.none(self.table, self.label)
        self._begin("self-test: the method without the hidden readings")
        again = self.fit(self.table.values.mask(hidden))
        return self._score(hidden, again.estimates_, None, None, again.traffic_)

    def _begin(self, what: str) -> None:
        if self.stage is not None:
            self.stage(what)

    def _each_site_alone(self, model: BaseRecoverer) -> Array | None:
        """Estimates of each owner from its own sensors and nothing shared, on held-out readings.

        None where that is no question: one owner, or one sensor each, or a run that goes on.
        """
        sites = model.partition_.sites
        if self.alone is None or not 1 < len(set(sites)) < len(sites):
            return None
        self._begin("self-test: each site by itself")
        held: Array = self.alone(self.table.values).holdout_
        return held

    def _score(
        self,
        hidden: Mask,
        estimates: Array,
        coverage: float | None,
        by_site: Array | None,
        traffic: Traffic | None = None,
    ) -> SelfTest:
        values = self.table.values.to_numpy()

        def error(estimates: Array) -> Array:
            return np.where(hidden, self.rules.clip(estimates) - values, np.nan)

        self._begin("self-test: each sensor alone")
        # The same readings are hidden from each sensor alone.
        seen = self.table.values.mask(hidden)
        errors = {self.label: error(estimates)}
        for name, method in scores.ALONE.items():
            errors.setdefault(name, error(create(method).fit(seen).estimates_))
        if by_site is not None:
            errors[scores.SITE] = error(by_site)
        overall = {name: scores.overall(found) for name, found in errors.items()}
        spread = Scaling.fit(values.T).scale
        relative = (np.abs(errors[self.label]) / spread)[hidden]
        overall[self.label]["coverage"] = (
            _cross_coverage(relative, self.seed) if coverage is None else coverage
        )
        lengths = gap_lengths(self.table.known & ~hidden, self.table.positions)
        return SelfTest(
            overall,
            scores.by_gap_length(errors, lengths),
            scores.by_sensor(errors, self.table.sensor_ids, self.label),
            np.quantile(relative, COVERAGE) * spread,
            traffic,
        )


def _cross_coverage(error: Array, seed: int) -> float:
    """Share of errors inside the quantile that the *other* half gives."""
    if len(error) < 2:
        return float("nan")
    halves = np.array_split(np.random.default_rng(seed).permutation(error), 2)
    inside = [
        np.mean(mine <= np.quantile(other, COVERAGE)) for mine, other in (halves, halves[::-1])
    ]
    return float(np.mean(inside))
