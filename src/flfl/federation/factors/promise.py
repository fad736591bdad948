"""What a site promises its owner: checked before anything leaves, written down when it has left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flfl.errors import FLFLError
from flfl.federation.factors.order import Order
from flfl.federation.factors.protocol import FactorPlan
from flfl.model.shared import guard, selection, windows
from flfl.privacy.account import Account, Release

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_LARGEST = 1e6
"""Of any number in the shared model, in model units, where readings have a spread of about one."""


class RefusedError(FLFLError):
    """A site will not answer: its own cap would be passed, or a message makes no sense."""


@dataclass
class Promise:
    """One site's checks during one run.

    Attributes
    ----------
    plan, site, sensors : the run's settings, the site's name, its sensors
    order : which question may come now
    stamps : (N,) the slots, as the account knows them
    account : what earlier runs released; :meth:`record` adds to it
    log : plain sentences for the owner
    released : whether readings have left in this run
    """

    plan: FactorPlan
    site: str
    sensors: Sequence[str]
    order: Order
    stamps: Index
    account: Account = field(default_factory=Account)
    log: list[str] = field(default_factory=list)
    released: bool = False

    def refuse(self, why: str) -> RefusedError:
        """The error to raise."""
        return RefusedError(f"{self.site}: {why}")

    def check_question(self, kind: str) -> None:
        """Each question has its time, and none may be asked for ever."""
        if problem := self.order.problem(kind):
            raise self.refuse(problem)

    def check_smoothing(self, length: float, noise: float) -> None:
        """The smoothers are among those that the rules can choose."""
        plan = self.plan
        usual = [selection.smoother(memory, plan.max_exposure) for memory in selection.LENGTHS]
        lengths = {plan.length} if plan.length else {pair[0] for pair in usual}
        noises = {plan.noise} if plan.noise else {pair[1] for pair in usual}
        if length not in lengths or noise not in noises:
            raise self.refuse("the smoother it was sent is none that was agreed on")

    def check_projection(self, rank: int, knots: Array, width: float, *, learned: bool) -> None:
        """The projection follows from the map that was agreed on, and is no richer than allowed."""
        plan = self.plan
        most = plan.n_sensors if not plan.guarded else plan.max_exposure * plan.n_sensors
        if rank < 1 or (plan.n_sensors and rank > most):
            raise self.refuse(f"a rank of {rank} is more than {plan.n_sensors} sensors can shelter")
        agreed, agreed_width = plan.knots(0 if learned else rank)
        if agreed.shape != knots.shape or not np.allclose(agreed, knots):
            raise self.refuse("the knots it was sent are not those of the published map")
        if len(agreed) and not np.isclose(width, agreed_width):
            raise self.refuse("the bumps it was sent are not those of the published map")

    def check_model(self, m: Array, A: Array, S: Array, F: Array, R: Array) -> None:
        """A model that no honest run publishes is not answered."""
        if max(np.abs(x).max(initial=0.0) for x in (m, A)) > _LARGEST:
            raise self.refuse("the model it was sent is beyond all bounds")
        if np.abs(np.linalg.eigvals(A)).max(initial=0.0) > 1.0 + 1e-9:
            raise self.refuse("the dynamics it was sent are not stable")
        for name, X in (("S", S), ("R", R)):
            if not np.allclose(X, X.T, rtol=1e-6, atol=1e-9) or np.linalg.eigvalsh(X)[0] < -1e-9:
                raise self.refuse(f"the matrix {name} it was sent is not a covariance")

    def check_noise(self, total: Array, own: Array) -> None:
        """The network's noise sum holds this site's part, so it cannot be smaller."""
        slack = 1e-6 * max(float(np.trace(own)), 1e-9)
        if not np.allclose(total, total.T, atol=slack) or (
            np.linalg.eigvalsh(total - own)[0] < -slack
        ):
            raise self.refuse("the noise sum it was sent leaves out its own part")

    def check_windows(
        self, edges: Index, released: Index, counts: Array, own: Array, *, learning: bool
    ) -> windows.Windows:
        """The counting rule. ``own`` (N,) are this site's readings at each slot."""
        n = len(own)
        if len(edges) != len(released) + 1 or edges[0] != 0 or edges[-1] != n:
            raise self.refuse("the windows do not cover the slots")
        if (np.diff(edges) < 1).any() or (released < 0).any():
            raise self.refuse("the windows are out of order")
        cut = windows.Windows(edges, released)
        if (counts + 1e-6 < own).any():
            raise self.refuse("the counts leave out this site's readings")
        if self.plan.n_sensors and counts.max(initial=0.0) > self.plan.n_sensors + 1e-6:
            raise self.refuse("the counts are of more sensors than there are")
        rate = windows.numbers_per_reading(counts, cut).max(initial=0.0)
        # While a projection is learned the owners give up the oldest slots; they said so.
        if not learning and rate > self.plan.allowed + 1e-9:
            raise self.refuse(
                f"{rate:.2f} numbers a reading were asked for, more than the"
                f" {self.plan.allowed:.2f} that max_exposure {self.plan.max_exposure} allows"
            )
        self.log.append(f"numbers released for each reading: at most {rate:.3f} in any window")
        return cut

    def refits(self, readings: Array, k: int) -> Array:
        """What all refits of each sensor's latent vector together may carry of its news (M,)."""
        bound = self.plan.refits * k / np.maximum(readings, 1.0)
        return np.asarray(np.minimum(bound, self.plan.refit_share))

    def exposure(self, leverage: Array, refits: Array) -> Array:
        """Of each sensor against the honest rest: through the sums, and through its refits (M,)."""
        return guard.against_coalition(leverage, self.plan.coalition) + refits

    def leverage_cap(self, refits: Array) -> Array:
        """The leverage at which :meth:`exposure` is ``max_exposure`` (M,)."""
        left = np.maximum(self.plan.max_exposure - refits, 1e-6)
        return guard.cap_with_coalition(left, self.plan.coalition)

    def check_exposure(self, exposure: Array) -> None:
        """The last chance to refuse."""
        for sensor, h in zip(self.sensors, exposure, strict=True):
            self.log.append(f"{sensor}: exposure {h:.3f} computed before the first upload")
            if h > self.plan.max_exposure + 1e-6:
                raise self.refuse(
                    f"{sensor} would be exposed by {h:.2f}, above its cap of"
                    f" {self.plan.max_exposure}; nothing of this site's readings was sent"
                )

    def record(
        self, run: str, cut: windows.Windows, counts: Array, span: slice, exposure: Array,
        fingerprint: str, multiplier: float | None = None,
    ) -> None:  # fmt: skip
        """Enter a release into the account, or refuse it: exposure adds up over runs."""
        rates = cut.per_slot(windows.numbers_per_reading(counts, cut))
        stamps = self.stamps[span]
        if multiplier is None and self.account.multipliers(stamps, fingerprint):
            raise self.refuse(
                "readings at these slots left under a privacy budget, which a release without noise"
                " would void"
            )
        before = self.account.released(stamps, fingerprint)
        worst = int(np.argmax(before + rates))
        if (
            multiplier is None
            and before[worst] > 0
            and (before[worst] + rates[worst] > self.plan.allowed + 1e-9)
        ):
            raise self.refuse(
                f"earlier runs have released {before[worst]:.2f} numbers for each reading at some"
                f" of these slots; with the {rates[worst]:.2f} of this one that is more than"
                f" {self.plan.allowed:.2f}. Repeat the earlier run as it was, continue it with"
                " new slots, or raise max_exposure"
            )
        self.account = self.account.with_release(
            Release(
                run,
                tuple(stamps.tolist()),
                tuple(np.round(rates, 6).tolist()),
                fingerprint,
                float(np.max(exposure, initial=0.0)),
                multiplier,
            )
        )
        self.released = True
