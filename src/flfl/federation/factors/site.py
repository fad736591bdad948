"""A site's part of the shared fit. Nothing here leaves the site except through the named sums."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from flfl.federation.factors import release
from flfl.federation.factors.heads import HEADS, LocalHeads
from flfl.federation.factors.keeping import Custody, Sensing, SiteMemory
from flfl.federation.factors.order import Order
from flfl.federation.factors.promise import Promise
from flfl.federation.factors.protocol import STOP, FactorPlan
from flfl.federation.paper import sensor_stream
from flfl.federation.site import Reply
from flfl.model.heads.candidates import Fall, spikes
from flfl.model.heads.holdout import draw_holdout
from flfl.model.shared import (
    directions,
    dynamics,
    guard,
    loo,
    projection,
    selection,
    sensor_step,
    smoothers,
    windows,
)
from flfl.model.shared.units import Units, periodic_mean, to_units
from flfl.privacy.account import fingerprint
from flfl.privacy.noise import SecretStream, normals_at

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

_AIM = 0.7
"""Where the guard aims, as a share of the cap: the iteration nears its aim slowly, from above."""
_CUT = 5.0
"""A held-out reading counts as missed by so many spreads at the most."""
_FAR = 0.2
"""Share of the held-out readings that a model may miss by more, beyond those that zero misses."""
_ALONE_STEPS = 5
"""Steps in which a sensor fits its latent vector to a finished model."""


class FactorSite:
    """Answers the questions of :data:`~flfl.federation.factors.protocol.PROTOCOL`.

    After the run ``recover`` gives the site's own series; ``exposure`` and ``promise.log`` tell
    what it computed about its exposure before its first upload.
    """

    def __init__(
        self,
        sensing: Sensing,
        plan: FactorPlan,
        seed: int,
        memory: SiteMemory | None = None,
        custody: Custody | None = None,
    ) -> None:
        self.sensing, self.plan, self.memory = sensing, plan, memory
        self.rng = sensor_stream(seed, "site " + " ".join(sensing.ids))
        self.held = draw_holdout(sensing.known, plan.holdout, self.rng)
        if memory is not None:
            self.held[:, : memory.held.shape[1]] = memory.held
        self.used, self._judged = sensing.known & ~self.held, self.held
        self._learning = False
        self.sizes: dict[str, int] = {"trials": len(plan.trials())}
        self.exposure = np.zeros(len(sensing.ids))
        self.custody = custody or Custody()
        stamps = np.arange(self.used.shape[1]) if sensing.stamps is None else sensing.stamps
        order = Order.of(plan, later=memory is not None)
        self.promise = Promise(plan, sensing.name, sensing.ids, order, stamps, self.custody.account)
        self._secret = self.custody.secret or secrets.token_bytes(32)
        self._members = tuple(self.custody.cohort)
        self.heads: LocalHeads | None = None
        self._learned: Array | None = None

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one question."""
        self.promise.check_question(kind)
        if kind in HEADS:
            if self.heads is None:
                raise self.promise.refuse(f"asked for {kind!r} before the fit")
            return self.heads.answer(kind, body)
        return getattr(self, f"_{kind}")(**body)

    def joined(self, sites: tuple[str, ...]) -> None:
        """Told who is in the sum for which the guard is computed."""
        honest = math.ceil((1 - self.plan.collusion) * len(sites))
        if self._noisy and self.plan.noise_sites > honest:
            raise self.promise.refuse(
                f"the noise counts on {self.plan.noise_sites} sites, and {honest} honest ones are"
                " in the sum"
            )
        self._members = sites

    @property
    def finished(self) -> bool:
        """Whether the last question was answered: the site's own result is there."""
        return self.heads is not None and self.heads.done

    def recover(self) -> Array:
        """This site's estimates, in the readings' units."""
        assert self.heads is not None, "the run has not finished"
        return self.heads.recovered().estimate

    # --- selection ---------------------------------------------------------------------------

    def _trial(self) -> Reply:
        s = self.sensing
        J = self.used.astype(float)
        errors = [
            selection.local_errors(s.raw, J, transform, period, s.positions)
            for transform, period in self.plan.trials()
        ]
        return {"errors": np.array(errors)}

    def _units(self, trial: np.ndarray) -> Reply:
        trials = self.plan.trials()
        if not 0 <= int(trial) < len(trials):
            raise self.promise.refuse(f"there is no trial {int(trial)}")
        transform, period = trials[int(trial)]
        s, J = self.sensing, self.used.astype(float)
        calm, units = to_units(s.raw, J, transform, period, s.positions)
        # A glitch says nothing about anyone, not even about its sensor's mean, and is no fair test.
        guess = sensor_step.others_guess(calm, J, smoothers.smoother(J, 3.0, 0.1))
        if len(J) == 1:  # nobody else to ask: its own neighbours in time
            guess = sensor_step.median_guess(calm, J)
        glitches = spikes(units.forward(s.raw, s.known), s.known, guess)
        self.used, self._judged = self.used & ~glitches, self.held & ~glitches
        J = self.used.astype(float)
        self._calm, self.units = to_units(s.raw, J, transform, period, s.positions)
        spread = np.sqrt((self._calm**2).sum(axis=1) / np.maximum(J.sum(axis=1), 1.0))
        level = np.abs(self.units.centre[:, 0])
        # Rounding alone gives a constant sensor a spread of about 1e-16 of its level.
        varying = spread > 1e-9 * np.maximum(level, 1e-300)
        return {
            "sensors": len(self.sensing.ids),
            "varying": float(varying.sum()),
            "log_scale": float(np.log(spread[varying]).sum()),
            "memory": selection.memory_likelihood(self._calm, J),
        }

    def _span(
        self, slots: np.ndarray, scale: np.ndarray, length: np.ndarray, noise: np.ndarray
    ) -> Reply:
        n, N = int(slots), self.used.shape[1]
        # Only a learned projection may look at some of the slots without the guard: the oldest,
        # as many as the owners agreed to give up.
        self._learning = self.plan.projection == "learned" and n == self.plan.learning_slots(N)
        if n != N and not self._learning:
            raise self.promise.refuse(f"asked for {n} of {N} slots")
        self.promise.check_smoothing(float(length), float(noise))
        self._set_span(slice(0, n), float(scale), float(length), float(noise))
        return self._counts()

    def _enrol(self) -> Reply:
        """Before a noisy release nothing may depend on readings: not even the choice of units."""
        self._calm, self.units = release.bounded_units(
            self.sensing.raw, self.used.astype(float), self.plan
        )
        return {"sensors": len(self.sensing.ids), "sites": 1.0}

    def _set_span(self, span: slice, scale: float, length: float, noise: float) -> None:
        if not (scale > 0 and length > 0 and noise > 0):
            raise self.promise.refuse("the span it was sent makes no sense")
        self._span_slots = span
        self.sizes["slots"] = span.stop - span.start
        self.units = Units(self.units.transform, self.units.centre, self.units.season, scale)
        self.J = self.used[:, span].astype(float)
        self.Y = self._calm[:, span] / scale
        self.smoother = smoothers.smoother(self.J, length, noise)
        self._smoothing = length, noise
        self._series: Array | None = None

    def _counts(self) -> Reply:
        return {
            "counts": self.J.sum(axis=0),
            "speakers": smoothers.response(self.smoother).sum(axis=0),
            "sensors": len(self.J),
        }

    # --- projection and guard ----------------------------------------------------------------

    def _basis(
        self, rank: np.ndarray, learned: np.ndarray, knots: np.ndarray, width: np.ndarray
    ) -> Reply:
        k = int(rank)
        self.promise.check_projection(k, knots, float(width), learned=bool(learned))
        self.sizes["rank"] = k
        if learned:
            if self._learned is None:
                raise self.promise.refuse("no projection was learned")
            self.B = self._learned
        elif self.sensing.plane is None:
            self.B = projection.keyed_vectors(self.sensing.ids, k, b"flfl")
        elif k < 2:
            self.B = np.ones((len(self.sensing.ids), 1))
        else:
            self.B = projection.bumps(self.sensing.plane, knots, float(width))
        self._start_at_projection = not learned
        return {"gram": projection.gram(self.B)}

    def _whiten(
        self, W: np.ndarray, edges: np.ndarray, released: np.ndarray, counts: np.ndarray
    ) -> Reply:
        self._set_windows(edges, released, counts)
        self.B = self.B @ W
        if self._noisy:
            self.B = self.B * release.room(self.B, self.J, self.windows, self._smoothing)[:, None]
            self.r = self._guard_r = np.ones(len(self.B))
        else:
            self.r = self._guard_r = sensor_step.first_noise(self.Y, self.J, self.smoother)
        self._whitened = self.B
        self._refits = 0
        if self._start_at_projection:
            self.P = self.B
        self._scale = np.ones(len(self.B))
        self.u = np.ones((len(self.B), len(self.windows)))
        # The leverage needs the network's noise sum, which comes with the next question.
        return self._noise(over=len(self.B))

    def _set_windows(self, edges: np.ndarray, released: np.ndarray, counts: np.ndarray) -> None:
        self.windows = self.promise.check_windows(
            edges, released, counts, self.J.sum(axis=0), learning=self._learning
        )
        self.sizes["windows"] = len(self.windows)
        self._network_counts = counts

    def _noise(self, over: int) -> Reply:
        """The noise sum, and how many of this site's sensors stood above the cap."""
        return {"noise": guard.noise_sum(self.B, self.r), "over": float(over)}

    def _leverage(self, noise: np.ndarray) -> tuple[Array, Array]:
        """Leverage of each sensor in the sums, and what its refits may add."""
        self.promise.check_noise(noise, guard.noise_sum(self.B, self._guard_r))
        refits = self.promise.refits(self.J.sum(axis=1), self.B.shape[1])
        return guard.leverage(self.B, self._guard_r, noise), np.zeros_like(refits) if (
            self._noisy
        ) else refits

    def _guard(self, noise: np.ndarray) -> Reply:
        h, refits = self._leverage(noise)
        over = self.promise.exposure(h, refits) > STOP * self.plan.max_exposure
        aim = self.promise.leverage_cap(refits)
        self._scale = guard.rescale(self._scale, h, _AIM * aim)
        self.B = self._whitened * self._scale[:, None]
        return self._noise(over=int(over.sum()))

    def _local(self, turn: np.ndarray) -> Reply:
        self._turned = np.sqrt(self.r)[:, None] * (self.B @ turn)
        self._response = sensor_step.window_response(self.smoother, self.windows)
        return {"energy": guard.window_energy(self._turned, self.u * self._response)}

    def _window(self, energy: np.ndarray) -> Reply:
        strength = self.u * self._response
        h = guard.window_leverage(self._turned, strength, energy)
        cap = guard.cap_with_coalition(self.plan.max_exposure, self.plan.coalition)
        self.u = guard.rescale(self.u, h, cap)
        return {"energy": guard.window_energy(self._turned, self.u * self._response)}

    def _weigh(self, turn: np.ndarray) -> Reply:
        response = sensor_step.window_response(self.smoother, self.windows)
        shares = directions.axis_shares(np.sqrt(self._guard_r)[:, None] * (self.B @ turn))
        return {
            "w": (self.u * response).T @ shares,
            "axes": shares.sum(axis=0),
            "power": float((self.P**2).sum()),
            "sensors": len(self.P),
        }

    # --- the rounds --------------------------------------------------------------------------

    def _open(self, w: np.ndarray, noise: np.ndarray, gain: np.ndarray) -> Reply:
        """The upload of readings; the last chance to refuse it."""
        self.w, self.gain = w, float(gain)
        self._before = self.P, self.r
        if not self._learning:
            self._release(noise)
        m = np.zeros((self.sizes["slots"], self.sizes["rank"]))
        reply = self._sums(m, *self._spoken())
        return self._with_noise(reply) if self._noisy else reply

    def _release(self, noise: np.ndarray) -> None:
        """Check the cap, write the release down, and let go."""
        if self.promise.released:
            # The order of questions rules it out; each new projection is k new equations.
            raise self.promise.refuse("its readings were already projected")
        leverage, refits = self._leverage(noise)
        self.exposure = self.promise.exposure(leverage, refits)
        multiplier = None
        if self.plan.guarded:
            self.promise.check_exposure(self.exposure)
        series, _ = self._spoken()
        plan, budget = self.plan, None
        if self._noisy:
            budget = plan.epsilon, plan.delta, plan.bounds, plan.noise_sites
        name = fingerprint(
            series, self.J, self.B, self.u, self.windows.edges, self.windows.released,
            self._smoothing, sorted(self._members), budget,
        )  # fmt: skip
        if self._noisy:
            readings = int(self._network_counts.sum())
            multiplier = release.multiplier(
                self.plan, self.promise, self._span_slots, name, readings
            )
            self._noise_source = multiplier, SecretStream(self._secret, f"release {name}")
        self.promise.record(
            self.custody.run, self.windows, self._network_counts, self._span_slots,
            self.exposure, name, multiplier,
        )  # fmt: skip
        if self.custody.keep is not None:
            self.custody.keep(self.promise.account)

    @property
    def _noisy(self) -> bool:
        """Whether the readings leave in one release with a privacy budget."""
        return self.plan.epsilon is not None

    def _with_noise(self, reply: Reply) -> Reply:
        """The one release: noise on ``g``, and nothing else that depends on readings."""
        multiplier, stream = self._noise_source
        bound = release.sensitivity(
            self.plan, self.units.scale, self._smoothing, self.windows, self.B.shape[1]
        )
        g = release.noisy(
            np.asarray(reply["g"]), self.windows, multiplier * bound, self.plan.noise_sites, stream
        )
        return {**reply, "g": g, "held": 0.0, "held_n": 0.0}

    def _round(
        self,
        m: np.ndarray,
        A: np.ndarray,
        S: np.ndarray,
        F: np.ndarray,
        R: np.ndarray,
        back: np.ndarray,
    ) -> Reply:
        self.promise.check_model(m, A, S, F, R)
        if self._noisy:
            raise self.promise.refuse("asked for a round where one noisy release is all there is")
        if back:
            self.P, self.r = self._before
        else:
            self._before = self.P, self.r
            self._refit(m, A, S, F, R)
        if self.plan.projection == "adaptive" or self._learning:
            self.B = projection.adaptive(self.P, self.r)
        if self._once:
            # The readings are in the first upload and in no other: this is the model's part.
            return self._sums(m, np.zeros_like(self.Y), np.inf)
        return self._sums(m, *self._spoken())

    def _refit(self, m: Array, A: Array, S: Array, F: Array, R: Array) -> None:
        """New latent vectors for the sums. Each is k numbers about one sensor, so they are counted:
        after a few, and for a sensor with few readings sooner, the vector stays as it is."""
        P, r, plan = self.P, self.r, self.plan
        if not self._once or self.memory is not None:
            self._fit_sensors(m, A, S, F, R)
            return
        self._refits += 1
        bound = self._refits * m.shape[1] / np.maximum(self.J.sum(axis=1), 1.0)
        over = (bound > plan.refit_share) | (self._refits > plan.refits)
        self._fit_sensors(m, A, S, F, R, plan.influence)
        self.P = np.where(over[:, None], P, self.P)
        self.r = np.where(over, r, self.r)

    def _fit_sensors(
        self, m: Array, A: Array, S: Array, F: Array, R: Array, most: float = np.inf
    ) -> Array:
        """Latent vectors and noise anew; returns the mean influence of each sensor's readings."""
        plan = self.plan
        self.cov = dynamics.published_covariances(A, S, F, R, self.w, self.gain, self.windows)
        if self.memory is not None:
            # Latent vectors stay as they are: new slots teach the network about q only.
            return np.zeros(len(self.P))
        self.P, self.r, influence = sensor_step.sensor_step(
            self.Y, self.J, self.P, self.r, m, self.cov, plan.ridge, plan.dof, most
        )
        return influence

    @property
    def _once(self) -> bool:
        """Whether readings are released in one upload only, through one projection."""
        return self.plan.guarded and not self._learning

    def _sums(self, m: np.ndarray, Y: Array, clip: float) -> Reply:
        """``g`` about the series Y: the one place where readings enter a message."""
        g = sensor_step.news_sum(
            Y, self.J, self.P, self.B, self.u, m, self.smoother, self.windows, clip
        )
        held = self._judged[:, self._span_slots]
        truth = self.model_units()[:, self._span_slots]
        miss = np.abs(truth - self.P @ m.T)[held]
        far, usual = (miss > _CUT).sum(), (np.abs(truth[held]) > _CUT).sum()
        if far > usual + _FAR * len(miss):
            # Where nearly all misses are cut to the same, the sum would show the rest one by one.
            raise self.promise.refuse("the model it was sent is far from all that it observed")
        return {
            "g": g,
            "F": self.B.T @ self.P,
            "R": guard.noise_sum(self.B, self.r),
            # A spike among the held-out readings must not steer the network.
            "held": float(np.minimum(miss, _CUT).sum()),
            "held_n": float(held.sum()),
        }

    def _spoken(self) -> tuple[Array, float]:
        """The series that enters the sums, and where its news is still to be clipped.

        Under the guard the spikes are cut once, before the one upload that holds readings, against
        what the site itself can guess. Cutting anew against every round's residual would tell the
        coordinator which readings were cut, and by how much.
        """
        if self._noisy:
            return self.Y, np.inf
        if not self._once:
            return self.Y, self.plan.clip
        if self._series is None:
            tamed = sensor_step.tame(self.Y, self.J, self.smoother, self.plan.clip)
            self._series = tamed + self._blur()
        return self._series, np.inf

    def _blur(self) -> Array:
        """Noise on the readings that speak: drawn once for each reading, whatever the run."""
        if not self.plan.blur:
            return np.zeros_like(self.Y)
        spread = np.sqrt(sensor_step.interpolation_variance(self.Y, self.J))
        stamps = self.promise.stamps[self._span_slots]
        # Another level or another transform has other noise: two of them do not cancel.
        level = f"{self.plan.blur!r} {self.units.transform} "
        noise = np.stack(
            [normals_at(self._secret, level + name, stamps) for name in self.sensing.ids]
        )
        return self.plan.blur * spread[:, None] * self.J * noise

    def model_units(self) -> Array:
        """Every known reading in model units, unclipped; zero where unknown (m, N)."""
        return self.units.forward(self.sensing.raw, self.sensing.known)

    def _finish(
        self, m: np.ndarray, A: np.ndarray, S: np.ndarray, F: np.ndarray, R: np.ndarray
    ) -> Reply:
        """Keep the shared model; the last word on ``p`` and ``r`` is the site's own."""
        self.promise.check_model(m, A, S, F, R)
        if self._learning:
            self._learned = projection.adaptive(self.P, self.r)
            return {}
        for _ in range(_ALONE_STEPS if self._noisy else 1):
            self._fit_sensors(m, A, S, F, R)
        P, curve, without, fall = self._without_itself(m, A, S, F, R)
        if (memory := self.memory) is not None:
            curve = np.hstack([memory.curve, curve])
            without = np.hstack([memory.without, without])
            earlier = np.zeros((*memory.without.shape, fall.shape[2]), np.float32)
            fall = np.concatenate([earlier, fall], axis=1)
        self.remembered = SiteMemory(
            self.P, P, self.r, self._guard_r, self.B, self.held, curve, without
        )
        self._start_heads(curve, without, fall)
        return {}

    def _without_itself(
        self, m: Array, A: Array, S: Array, F: Array, R: Array
    ) -> tuple[Array, Array, Array, Fall]:
        """``p_i`` for gaps, the shared curve, the same as it would be without the reading itself,
        and how a reading's part falls off in time."""
        E = self.J * (self.Y - self.P @ m.T)
        seen = dynamics.observe(F, R, self.windows.released)
        level = self.gain * float(np.minimum(self.windows.per_slot(self.w), 1.0).mean())
        if self.memory is not None:
            P = self.memory.predictive
        elif "predictive step" in self.plan.without:
            P = self.P
        else:
            P = self._predictive(E, m, A, S, seen, level)
        spread = loo.own_spread(self.u, self.smoother, self.windows)
        fall = loo.own_fall(spread, P, self.B, self.windows, seen, A, S, level, self.gain)
        K = loo.own_gain(spread, self.B, self.windows, seen, A, S, self.cov, level, self.gain)
        own = np.clip(np.einsum("ik,itk->it", self.P, K, optimize=True), 0.0, 0.9)
        curve = P @ m.T
        without = curve - np.einsum("ik,itk->it", P, K, optimize=True) * E / (1 - own)
        return P, curve, without, fall

    def _predictive(
        self, E: Array, m: Array, A: Array, S: Array, seen: dynamics.Observation, level: float
    ) -> Array:
        """``p_i`` against q without the sensor's own readings: the one that is right in a gap."""
        own = loo.without_sensor(
            E, self.J, self.P, self.B, self.u, self.smoother, self.windows, seen, A, S, level,
            self.gain,
        )  # fmt: skip
        P, _ = sensor_step.predictive_step(
            self.Y, self.J, self.P, self.r, m - own, self.plan.ridge, self.plan.dof
        )
        # With few readings stay near the joint fit, which is worth ten readings a component.
        readings = self.J.sum(axis=1, keepdims=True)
        trust = readings / (readings + 10.0 * m.shape[1])
        return trust * P + (1 - trust) * self.P

    # --- new slots, new sensors --------------------------------------------------------------

    def _resume(
        self,
        trial: np.ndarray,
        first: np.ndarray,
        scale: np.ndarray,
        length: np.ndarray,
        noise: np.ndarray,
        rank: np.ndarray,
    ) -> Reply:
        """Only slots that no earlier run has seen: nothing is released a second time."""
        memory, N = self.memory, self.used.shape[1]
        if memory is None or int(first) != memory.held.shape[1] or not int(first) < N - 1:
            raise self.promise.refuse("there is no earlier run that ends there")
        if memory.P.shape[1] != int(rank):
            raise self.promise.refuse("the earlier run had another rank")
        self._units(trial)
        self._set_span(slice(int(first), N), float(scale), float(length), float(noise))
        self.sizes["rank"] = int(rank)
        self.P, self.r, self.B, self._guard_r = memory.P, memory.r, memory.B, memory.guard_r
        return self._counts()

    def _rewindow(self, edges: np.ndarray, released: np.ndarray, counts: np.ndarray) -> Reply:
        self._set_windows(edges, released, counts)
        self._refits = 0
        self.u = np.ones((len(self.B), len(self.windows)))
        return {"noise": guard.noise_sum(self.B, self._guard_r), "over": 0.0}

    def _adopt(
        self,
        trial: np.ndarray,
        scale: np.ndarray,
        gain: np.ndarray,
        w: np.ndarray,
        edges: np.ndarray,
        released: np.ndarray,
        **model: np.ndarray,
    ) -> Reply:
        """Fit new sensors to a finished model: nothing of their readings leaves."""
        m = model["m"]
        if len(m) != self.used.shape[1] or len(w) + 1 != len(edges):
            raise self.promise.refuse("the model has other slots than the readings")
        self._units(trial)
        self._set_span(slice(0, len(m)), float(scale), 1.0, 1.0)
        self.w, self.gain, self.windows = w, float(gain), windows.Windows(edges, released)
        self.P = np.zeros((len(self.used), m.shape[1]))
        self.r = np.maximum((self.Y**2).sum(axis=1) / np.maximum(self.J.sum(axis=1), 1.0), 1e-8)
        for _ in range(_ALONE_STEPS):
            self._fit_sensors(m, model["A"], model["S"], model["F"], model["R"])
        curve = self.P @ m.T
        # The readings had no part in m, so the curve is already without them.
        self._start_heads(curve, curve)
        return {}

    def _alone(self) -> Reply:
        self.sizes["slots"] = self.used.shape[1]
        nothing = np.zeros(self.used.shape)
        self._start_heads(nothing, nothing)
        return {}

    def _choose(self) -> Reply:
        """Choose among the heads alone, with and without the shared curve: a noisy one may do harm
        where the site's own sensors know better."""
        if self.heads is None:
            raise self.promise.refuse("asked to choose before the fit")
        shared, error = self.heads, self.heads.choose_alone()
        self._alone()
        if error < self.heads.choose_alone():
            self.heads = shared
        else:
            self.promise.log.append("the shared model did not help: this site works alone")
        return {}

    def _own_season(self, Y: Array, curve: Array) -> Array:
        """What a season of this site's own explains of what the curve leaves (m, N).

        Only where no season could be agreed on, as before a noisy release.
        """
        s, plan = self.sensing, self.plan
        J = self.used.astype(float)
        if not self._noisy or not plan.candidate_period:
            return np.zeros_like(curve)
        trials = [(self.units.transform, period) for period in (0, plan.candidate_period)]
        errors = [selection.local_errors(s.raw, J, *trial, s.positions) for trial in trials]
        if selection.choose_trial(np.array(errors), trials) == 0:
            return np.zeros_like(curve)
        return periodic_mean(J * (Y - curve), J, plan.candidate_period, s.positions)

    def _start_heads(self, curve: Array, without: Array, fall: Fall | None = None) -> None:
        s, Y = self.sensing, self.model_units()
        season = self._own_season(Y, curve)
        self.heads = LocalHeads(
            Y=Y,
            known=s.known,
            held=self.held,
            curve=curve + season,
            without=without + season,
            raw=s.raw,
            units=self.units,
            positions=s.positions,
            plan=self.plan,
            rng=self.rng,
            sizes=self.sizes,
            fall=fall,
        )
