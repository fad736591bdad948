"""What a site does alone with the shared model, and the sums by which the network chooses.

Every candidate estimates an entry *without that entry itself*, so its errors on held-out
readings tell how it will do in the gaps. What leaves is, for each class of distance to the
nearest reading, the sum of products of the candidates' errors.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.data.scaling import Scaling
from flfl.errors import FLFLError
from flfl.federation.coordinator import Ask, Replies
from flfl.federation.factors.choosing import LEAST_KNEE, choose
from flfl.federation.factors.protocol import FactorPlan
from flfl.federation.site import Reply
from flfl.model.heads import candidates as local
from flfl.model.heads import intervals, mixing
from flfl.model.shared.units import Units

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


_SUMS = {True: 3, False: 2}
"""Sums of products of errors that a site gives in a run, with the boosted head and without, at
most: each tells more about the errors."""
HEADS = ("heads", "mix", "boost", "settle", "publish")
"""The questions that are answered here."""


@dataclass(frozen=True)
class Recovered:
    """A site's result in the readings' units, each (m, N).

    ``holdout`` holds the estimates of the held-out readings (NaN elsewhere), made with weights
    that were fitted on the other half of them; ``inside`` tells whether the reading lay in an
    interval calibrated on the other half (NaN elsewhere).
    """

    estimate: Array
    lower: Array
    upper: Array
    holdout: Array
    inside: Array


class LocalHeads:
    """Candidates, their mixture and the intervals of one site.

    Parameters
    ----------
    Y : (m, N) known readings in model units; known, held : (m, N)
    curve, without : the shared curve ``p . m``, and what it would be without the reading itself
    sizes : the site's message sizes, kept up to date here
    fall : how a reading's pull on the curve falls off in time, see ``candidates``
    """

    def __init__(
        self,
        *,
        Y: Array,
        known: Mask,
        held: Mask,
        curve: Array,
        without: Array,
        raw: Array,
        units: Units,
        positions: Array,
        plan: FactorPlan,
        rng: np.random.Generator,
        sizes: MutableMapping[str, int],
        fall: local.Fall | None = None,
    ) -> None:
        # A spike is no evidence about its neighbours, and no fair test either.
        calm = ~local.spikes(Y, known, curve)
        self.Y, self.gaps = Y, ~known
        self.known, self.held = known & calm, held & calm
        self.raw, self.units, self.plan, self.rng, self.sizes = raw, units, plan, rng, sizes
        self.phase = local.phase(positions, plan.candidate_period)
        used = self.known & ~self.held
        self.fit = local.candidates(Y, used, curve, without, None, fall)
        self.final = local.candidates(Y, self.known, curve, without, self.fit.dynamics, fall)
        for made in (self.fit, self.final):
            made.leave_out(plan.without)
        # The boosted head corrects a mixture of leave-one-out estimates; the others join later.
        first = len(local.LEAVE_ONE_OUT if plan.boost else local.NAMES)
        self.X, self.Z = self.fit.values[:first], self.final.values[:first]
        self.at = np.nonzero(self.held)
        self.near = self.fit.bins[self.at]
        self.lengths = mixing.run_lengths(*self.at)
        self.runs = 2 * self.lengths - 1
        self.sizes["candidates"] = len(self.X)
        self._detail = self._asked = 0
        self._recovered: Recovered | None = None

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one of the last questions of the protocol."""
        return getattr(self, f"_{kind}")(**body)

    def choose_alone(self) -> float:
        """The same questions and sums with this site as the whole network: nothing is sent.

        Returns the mean absolute error on held-out readings, in model units.
        """
        sizes = dict(self.sizes)
        steps = choose(self.plan, sizes, lambda kind, **body: Ask(kind, body))
        ask = next(steps)
        while True:
            body = {name: np.asarray(value) for name, value in ask.body.items()}
            reply = self.answer(ask.kind, body)
            total = {name: np.asarray(value, dtype=float) for name, value in reply.items()}
            try:
                ask = steps.send(Replies(total, {}))
            except StopIteration:
                break
        return float(np.abs(self.Y[self.at] - self._honest).mean()) if self.near.size else np.inf

    @property
    def done(self) -> bool:
        """Whether nothing more is to be asked."""
        return self._recovered is not None

    def recovered(self) -> Recovered:
        """The result, once the run has ended."""
        assert self._recovered is not None, "the run has not finished"
        return self._recovered

    @property
    def errors(self) -> Array:
        """Held-out errors of the candidates (C, n), in model units, spikes reined in."""
        return np.clip(self._at_held(self.X) - self.Y[self.at], -5.0, 5.0)

    def _at_held(self, values: Array) -> Array:
        """Held-out entries (C, n) of a stack (C, m, N)."""
        return values[:, self.at[0], self.at[1]]

    def _sums(self, weight: Array, mixed: Array) -> Reply:
        size = self.sizes["bins"]
        G = mixing.error_sums(self.errors, weight, self.bins, size)
        self._asked += self._detail > 0
        if self._asked > _SUMS[self.plan.boost]:
            raise FLFLError(f"asked for sums of products of held-out errors {self._asked} times")
        if self._detail < 2:
            G *= self._detail * np.eye(G.shape[-1])
        return {
            "errors": G,
            "weight": float(weight.sum()),
            "absolute": float(np.abs(mixed).sum()),
            "entries": np.bincount(self.bins, minlength=size).astype(float),
            "runs": np.bincount(self.bins, self.runs, size),
        }

    def _heads(self, groups: np.ndarray, detail: np.ndarray) -> Reply:
        """Sums for each group of distance bins; with ``detail`` 0 only how many are held out."""
        steps = np.diff(groups)
        if len(groups) != mixing.BINS or groups[0] != 0 or not ((steps == 0) | (steps == 1)).all():
            raise FLFLError("the groups of distance bins make no sense")
        if int(detail) not in (0, 1, 2):
            raise FLFLError("there is no such detail of the products of errors")
        self.groups, self._detail = groups, int(detail)
        self.bins, self.sizes["bins"] = groups[self.near], int(groups[-1]) + 1
        return self._all()

    def _all(self) -> Reply:
        return self._sums(np.ones(len(self.bins)), self.errors.mean(axis=0))

    def _mixed(self, weights: Array) -> Array:
        return mixing.combine(self.errors, weights, self.bins)

    def _mix(self, weights: np.ndarray, knee: np.ndarray) -> Reply:
        # Weights off the simplex and a tiny knee would let one reading outweigh all others.
        if weights.min() < -1e-9 or not np.allclose(weights.sum(axis=1), 1.0):
            raise FLFLError("the weights of the heads are no shares")
        if not float(knee) >= LEAST_KNEE:
            raise FLFLError("the knee is smaller than any honest one")
        mixed = self._mixed(weights)
        return self._sums(mixing.robust_weight(mixed, float(knee)), mixed)

    def _boost(self, weights: np.ndarray) -> Reply:
        """Add the boosted head, which corrects the mixture so far, to the candidates."""
        bases = (
            mixing.combine(self.X, weights, self.groups[self.fit.bins]),
            mixing.combine(self.Z, weights, self.groups[self.final.bins]),
        )
        held, gaps = local.boosted(
            self.fit,
            self.final,
            bases,
            self.Y,
            (self.known & ~self.held, self.held, self.gaps),
            self.phase,
            self.rng,
        )
        self.X = np.concatenate([self.fit.values, held[None]])
        self.Z = np.concatenate([self.final.values, gaps[None]])
        self.sizes["candidates"] = len(self.X)
        return self._all()

    def _settle(
        self,
        weights: np.ndarray,
        knee: np.ndarray,
        scale: np.ndarray,
        mean_weight: np.ndarray,
        spread: np.ndarray,
    ) -> Reply:
        """Deviations of the site and of its sensors from the network's weights, shrunk."""
        sensor = self.at[0]
        weight = mixing.robust_weight(self._mixed(weights), float(knee)) / float(mean_weight)

        def deviate(chosen: Mask) -> Array:
            return mixing.local_weights(
                self.errors[:, chosen],
                weight[chosen],
                self.bins[chosen],
                sensor[chosen],
                len(self.Y),
                weights,
                float(scale) * spread,
                site_strength=20.0,
                sensor_strength=40.0,
            )

        everything = np.ones(len(sensor), dtype=bool)
        rows = np.arange(len(self.Y))[:, None]
        bins = self.groups[self.final.bins]
        self._estimate = mixing.combine(self.Z, deviate(everything), rows, bins)
        # Honest errors for the intervals: each half of time judged by weights from the other.
        self._honest = np.empty(len(sensor))
        for train, use in self._halves():
            W = deviate(train)
            self._honest[use] = mixing.combine(
                self._at_held(self.X)[:, use], W, sensor[use], self.bins[use]
            )
        self._steps = mixing.resolutions(self.raw, self.known)
        # In units of each sensor's spread, so that the sums fit whatever the readings are.
        spread = Scaling.fit(np.where(self.known, self.raw, np.nan)).scale[sensor]
        estimate = self.units.back_at(self._honest, *self.at) / spread
        truth = self.raw[self.at] / spread
        return {"snap": mixing.snap_sums(estimate, self._steps[sensor] / spread, truth)}

    def _halves(self) -> list[tuple[Mask, Mask]]:
        """Held-out entries to fit on and to judge, twice; no run of slots is split much."""
        half = (self.at[1] // 48) % 2 == 0
        return [(half, ~half), (~half, half)]

    def _inside(self, features: Array, error: Array) -> Array:
        """Whether each held-out reading lies in an interval calibrated on the other half."""
        inside = np.empty(len(error))
        for train, use in self._halves():
            calibration = intervals.calibrate(
                features[:, train], error[train], self.near[train], mixing.BINS,
                level=self.plan.coverage, runs=self.lengths[train],
            )  # fmt: skip
            low, high = intervals.interval(
                np.zeros(int(use.sum())), features[:, use], self.near[use], calibration
            )
            inside[use] = (low <= error[use]) & (error[use] <= high)
        return inside

    def _publish(self, snap: np.ndarray) -> Reply:
        """Intervals and the way back to the readings' units; nothing more is asked."""
        error = self.Y[self.at] - self._honest
        features = self._at_held(local.scale_features(self.fit, self.X))
        calibration = intervals.calibrate(
            features, error, self.near, mixing.BINS, level=self.plan.coverage, runs=self.lengths
        )
        lower, upper = intervals.interval(
            self._estimate, local.scale_features(self.final, self.Z), self.final.bins, calibration
        )
        holdout, inside = (np.full(self.Y.shape, np.nan) for _ in range(2))
        inside[self.at] = self._inside(features, error)
        width, steps = float(snap), self._steps[:, None]
        held = self.units.back_at(self._honest, *self.at)
        holdout[self.at] = mixing.snap(held, self._steps[self.at[0]], width)
        self._recovered = Recovered(
            mixing.snap(self.units.back(self._estimate), steps, width),
            self.units.back(lower),
            self.units.back(upper),
            holdout,
            inside,
        )
        return {}
