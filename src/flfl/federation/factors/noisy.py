"""The coordinator's part where the readings leave in one noisy release (a privacy budget)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flfl.federation.coordinator import Program
from flfl.federation.factors import release
from flfl.federation.factors.program import (
    Array,
    Coordination,
    Published,
    Settings,
    State,
    first_state,
    sight_of,
)
from flfl.model.shared import selection, windows
from flfl.model.shared.single import fit_single
from flfl.privacy.budget import noise_multiplier

_MOST_RANK = 5
"""Most factors of a noisy release: each adds noise to all."""


class OneRelease(Coordination):
    """A run with a budget: nothing else that is sent depends on readings."""

    def program(self) -> Program:
        """One noisy release is all that depends on readings; the rest is the coordinator's."""
        plan = self.plan
        self._phase = "selection"
        total = (yield self._ask("enrol")).total
        n_sensors, n_sites = float(total["sensors"]), float(total["sites"])
        self.sizes["slots"] = self.n_slots
        length, noise = selection.smoother(selection.LENGTHS[0], plan.max_exposure)
        smoothing = {"length": plan.length or length, "noise": plan.noise or noise}
        scale = release.public_scale(plan)
        replies = yield self._ask("span", slots=self.n_slots, scale=scale, **smoothing)
        counts = replies.total["counts"]
        chosen = self._noisy_plan(counts, replies.total["speakers"], n_sensors)
        rank = chosen.rank
        self.settings = settings = Settings(
            trial=0, transform=plan.transform or "none", period=0, scale=scale, gain=plan.gain,
            rank=rank, least=chosen.least, rounds=1, inner=chosen.inner, allowed=chosen.allowed,
            **smoothing,
        )  # fmt: skip
        if rank < 1:
            yield self._ask_alone(n_sensors)
        else:
            self._phase = "guard"
            cut = windows.cut(counts, rank, settings.allowed, settings.least)
            self.sizes.update(rank=rank, windows=len(cut))
            self.windows, self.ledger.numbers = cut, int(cut.released.sum())
            noise_sum, turn, _ = yield from self._project(cut, counts, n_sensors, False)
            replies = yield self._ask("weigh", turn=turn)
            w = sight_of(replies, cut).w
            start = first_state(self.n_slots, rank, float(replies.total["power"]) / n_sensors)
            self._phase = "fit"
            sums = (yield self._ask("open", w=w, noise=noise_sum, gain=plan.gain)).total
            self.ledger.rounds = 1
            variance = self._noise_variance(cut, settings, n_sites, int(counts.sum()))
            m, A, S, R = fit_single(
                sums["g"], sums["F"], sums["R"], w, variance, cut, start.A, start.S
            )
            yield self._ask("finish", m=m, A=A, S=S, F=sums["F"], R=R)
            state = State(m, A, S, sums["F"], R)
            self.published = Published(settings, state, cut, w)
        self._phase = "heads"
        yield self._ask("choose")

    def _noisy_plan(self, counts: Array, speakers: Array, n_sensors: float) -> selection.Plan:
        """The rules without readings: every number costs noise for all, so they are few."""
        chosen = selection.plan(counts, speakers, round(n_sensors), self.plan.allowed / 0.6)
        most = min(self._most_rank(n_sensors, np.inf), _MOST_RANK)
        rank = min(self.plan.rank or chosen.rank, most)
        return replace(chosen, rank=rank, least=min(chosen.least, rank))

    def _noise_variance(
        self, cut: windows.Windows, settings: Settings, n_sites: float, readings: int
    ) -> float:
        """Variance of the noise in the release: public, as everything that decides it is."""
        plan = self.plan
        assert plan.epsilon is not None
        assert plan.delta is not None
        bound = release.sensitivity(
            plan, settings.scale, (settings.length, settings.noise), cut, settings.rank
        )
        sigma = noise_multiplier(plan.epsilon, plan.delta) * bound
        self.ledger.notes.append(
            f"one reading's part in the release is hidden with epsilon {plan.epsilon:g}, delta"
            f" {plan.delta:.1g}; many readings of a sensor together are not"
        )
        return sigma**2 * n_sites / plan.noise_sites
