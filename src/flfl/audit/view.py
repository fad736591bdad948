"""What an adversary holds after a run, and apart from it the truth that the owners keep.

What the coordinator saw is made from the recorded answers alone, by running its program again.
Attacks are scored against the *residual*, a clean reading minus its best prediction from all other
sensors' clean readings, and the *surprise*, the residual minus its best prediction from the
sensor's own other residuals, before and after.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from flfl import constants
from flfl.estimators.flfl import FLFL
from flfl.estimators.owners import Sites
from flfl.estimators.saved_model import Remembered
from flfl.io.files import write_files
from flfl.io.sensors import Sensors
from flfl.model.state_space import Dynamics, Posterior, smooth
from flfl.model.transforms import BACKWARD, FORWARD, fit_offsets, season_rows
from flfl.protocol.network import Network
from flfl.protocol.owner import digests
from flfl.protocol.server import Coordination
from flfl.protocol.session import Ask, Replies
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_LAGS = 72


class Refit(NamedTuple):
    """One round: the public state, and the answers P (M, k) and r (M,), NaN for sites without."""

    network: Network
    P: Array
    r: Array


@dataclass(frozen=True)
class Case:
    """A run that is attacked. Rows are sensors, in the network's order."""

    # What the coordinator saw: the public state at the end, every round's loadings over all runs,
    # and whether the sites' parts of the sums were hidden.
    network: Network
    refits: tuple[Refit, ...]
    secure: bool
    # What the owners kept, (M, N): readings in their own units, NaN where there is none, and in the
    # network's, 0 where there is none; copies on the transformed scale, or NaN, and their offset.
    ids: tuple[str, ...]
    raw: Array
    clean: Array
    stored: Array
    offset: Array
    seed: int = 0

    @cached_property
    def wanted(self) -> Residuals:
        """What attacks look for."""
        return residuals_of(self)

    @cached_property
    def known(self) -> Mask:
        """Where there are readings (M, N)."""
        return np.isfinite(self.raw)

    @cached_property
    def copies(self) -> Array:
        """The copies that were released, in the network's units, 0 where there is none (M, N)."""
        net = self.network
        return np.where(net.known, (self.stored - self.offset) / net.scale, 0.0)

    def to_raw(self, X: Array) -> Array:
        """The network's units to the readings' own (M, N)."""
        return BACKWARD[self.network.transform](X * self.network.scale + self.offset)


def watch(
    readings: pd.DataFrame,
    sensors: Sensors | None = None,
    *,
    sites: Sites | None = None,
    nights: int = 0,
    to_the_end: bool = False,
    **settings: Any,
) -> tuple[FLFL, Case | None]:
    """Run the network and look on. There is no case where nothing was released.

    Parameters
    ----------
    readings : time x sensor
    nights : the last slots are released in so many stretches, each of at most 24 slots, and no more
        than half of the table in all
    to_the_end : also finish at home, so that the model can fill gaps
    settings : of :class:`~flfl.estimators.flfl.FLFL`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.standard_normal((150, 4)) + rng.standard_normal((150, 1)).cumsum(0))
    >>> _, case = watch(X)
    >>> case.network.z.shape, case.copies.shape, len(case.refits)
    ((150, 2), (4, 150), 5)
    """
    model = FLFL(**{"effort": "quick", **settings})
    length = int(np.clip(len(readings) // (2 * nights), 1, 24)) if nights else 0
    network: Network | None = None
    refits: list[Refit] = []
    for left in range(nights, -1, -1):
        heard: list[tuple[Ask, Replies]] = []
        model.fit(
            readings.iloc[: len(readings) - left * length],
            sensors=sensors,
            sites=sites,
            warm_start=None if network is None else model.remembered_,
            witness=lambda *both, heard=heard: heard.append(both),
            finish=to_the_end,
        )
        if not heard:
            break
        # The coordinator's program again, on what it received.
        again = Coordination(model.network_.plan, model.network_.positions, Traffic(), network)
        program = again.program()
        next(program)
        for ask, replies in heard:
            if ask.kind in ("begin", "refit") and again.network is not None:
                refits.append(_refit(again.network, replies))
            with suppress(StopIteration):
                program.send(replies)
        network = again.network
    if network is None or model.remembered_ is None or not network.numbers.any():
        return model, None
    kept = truth_of(network, model.remembered_, readings)
    return model, Case(network, tuple(refits), model.secure_, *kept, seed=model.random_state)


def _refit(net: Network, replies: Replies) -> Refit:
    P, r = np.full_like(net.P, np.nan), np.full_like(net.r, np.nan)
    for name, body in replies.by_site.items():
        P[net.rows(name)], r[net.rows(name)] = body["P"], body["r"]
    return Refit(net, P, r)


def truth_of(
    network: Network, run: Remembered, readings: pd.DataFrame
) -> tuple[tuple[str, ...], Array, Array, Array, Array]:
    """What the owners of a finished run keep: ids, raw, clean, stored, offset of a case."""
    N, M = network.n_slots, len(network.error)
    ids, raw, stored = [""] * M, np.full((M, N), np.nan), np.full((M, N), np.nan)
    row_of = {row.tobytes(): n for n, row in enumerate(network.sensors)}
    column_of = {str(name).strip(): n for n, name in enumerate(readings.columns)}
    values = readings.to_numpy(dtype=float)
    for kept in run.sites.values():
        for name, digest, copies in zip(kept.ids, digests(kept.ids), kept.copies, strict=True):
            row = row_of[digest.tobytes()]
            ids[row], raw[row], stored[row] = name, values[:N, column_of[name]], copies[:N]
    offset, known = offsets_of(network, stored, network), np.isfinite(raw)
    X = FORWARD[network.transform](np.where(known, raw, 0.0))
    clean = np.where(known, (X - offset) / network.scale, 0.0)
    return tuple(ids), raw, clean, np.where(network.known, stored, np.nan), offset


def offsets_of(then: Network, stored: Array, now: Network) -> Array:
    """Centre and season of copies (M, N) on the transformed scale, as their owners computed them
    for the network ``then``, at all slots of ``now``."""
    rows = season_rows(then.positions, then.season)[:, : stored.shape[1]]
    stored = stored[: len(then.units_stop), : rows.shape[1]]
    J = np.isfinite(stored) & (np.arange(rows.shape[1]) < then.units_stop[:, None])
    fitted = fit_offsets(np.where(J, stored, 0.0), J.astype(float), rows)
    return fitted @ season_rows(now.positions, now.season)[:, : now.n_slots]


class Law(NamedTuple):
    """How a residual behaves in time: states (d,) of some memory and variance, and white noise."""

    memory: Array
    variance: Array
    white: float

    @property
    def simple(self) -> tuple[float, float]:
        """One state instead of several: its memory and variance."""
        v = float(self.variance.sum())
        return (float(self.memory @ self.variance) / v, v) if v > 0 else (0.5, 0.0)

    def states(self, x: Array, noise: Array) -> Posterior:
        """The states given a series (N,) seen with noise of some variance, infinite if unseen."""
        a, d = self.memory, len(self.memory)
        information = np.broadcast_to(1.0 / noise[:, None, None], (len(x), d, d)).copy()
        dynamics = Dynamics(np.diag(a), np.diag((1 - a**2) * self.variance))
        return smooth(information, np.repeat((1.0 / noise * x)[:, None], d, axis=1), dynamics)


def law_of(e: Array, known: Mask) -> Law:
    """The law of a series (N,): its autocovariance as a sum of powers, none of them negative."""
    N, e, J = len(e), np.where(known, e, 0.0), known.astype(float)
    lags = np.arange(min(_LAGS, max(N // 4, 1)) + 1)
    pairs = np.array([J[: N - lag] @ J[lag:] for lag in lags])
    cov = np.array([e[: N - lag] @ e[lag:] for lag in lags]) / np.maximum(pairs, 1.0)
    trust = np.sqrt(pairs / max(pairs[0], 1.0))
    powers = np.column_stack([lags == 0.0, *(a**lags for a in constants.AUDIT_MEMORIES)])
    weights, _ = nnls(powers * trust[:, None], cov * trust)
    kept = weights[1:] > 1e-3 * max(cov[0], 1e-300)
    white = max(float(weights[0]), constants.AUDIT_WHITE * float(cov[0]), 1e-12)
    return Law(np.array(constants.AUDIT_MEMORIES)[kept], weights[1:][kept], white)


def read_series(x: Array, sigma2: Array, seen: Mask, law: Law) -> Array:
    """Best linear reading of a residual (N,) from a series seen with added noise of its own.

    Examples
    --------
    >>> law = Law(np.empty(0), np.empty(0), 1.0)
    >>> read_series(np.array([2.0, 0.0]), np.ones(2), np.array([True, False]), law)
    array([1., 0.])
    """
    noise, x = np.where(seen, law.white + sigma2, np.inf), np.where(seen, x, 0.0)
    slow = law.states(x, noise).mean.sum(axis=1) if len(law.memory) else np.zeros(len(x))
    return slow + np.where(seen, law.white / noise * (x - slow), 0.0)


def without_itself(e: Array, known: Mask, law: Law) -> tuple[Array, Array]:
    """Each entry of a series (N,) from all the others, exactly, and the variance of its error."""
    if not len(law.memory):
        return np.zeros(len(e)), np.full(len(e), law.white)
    post = law.states(np.where(known, e, 0.0), np.where(known, law.white, np.inf))
    x, v = post.mean.sum(axis=1), post.cov.sum(axis=(1, 2))
    h = np.where(known, np.minimum(v / law.white, 0.999), 0.0)
    return np.where(known, x - h * (e - x) / (1 - h), x), v / (1 - h) + law.white


class Residuals(NamedTuple):
    """What attacks look for, (M, N) each, in the network's units; zero where there is no reading:
    a reading is ``predicted`` by the others plus its ``residual``; the ``surprise`` is what the
    sensor's own other readings leave of that, ``doubt`` the variance it was expected to have."""

    predicted: Array
    residual: Array
    surprise: Array
    doubt: Array
    laws: tuple[Law, ...]


def residuals_of(case: Case) -> Residuals:
    """The truth to score against."""
    net, Y, J = case.network, case.clean, case.known.astype(float)
    P, r = net.P, net.r
    (M, N), k = Y.shape, P.shape[1]
    own = P[:, :, None] * P[:, None, :] / r[:, None, None]
    information = (J.T @ own.reshape(M, -1)).reshape(N, k, k)
    vector = (J * Y / r[:, None]).T @ P
    predicted = np.zeros((M, N))
    for i in range(M):
        # The smoother without the sensor, and its loadings refitted to that.
        without = information - J[i, :, None, None] * own[i]
        rest = vector - (J[i] * Y[i] / r[i])[:, None] * P[i]
        m = np.column_stack([smooth(without, rest, net.dynamics).mean, np.ones(N)])
        H = m.T @ (J[i, :, None] * m) + r[i] * np.eye(k + 1)
        predicted[i] = m @ np.linalg.solve(H, m.T @ (J[i] * Y[i]))
    e = np.where(case.known, Y - predicted, 0.0)
    laws = tuple(law_of(row, known) for row, known in zip(e, case.known, strict=True))
    own_part, doubt = np.array(list(map(without_itself, e, case.known, laws))).swapaxes(0, 1)
    return Residuals(predicted, e, np.where(case.known, e - own_part, 0.0), doubt, laws)


def truth_path(path: str | Path) -> Path:
    """Where the truth goes: ``view.npz`` to ``view.truth.npz``."""
    return Path(path).with_suffix(".truth.npz")


def save_view(path: str | Path, case: Case) -> tuple[Path, Path]:
    """Write what the coordinator saw and, apart from it, the truth: mode 0600, all or nothing, no
    pickle; returns both paths. ``docs/audit.md`` explains the names."""
    net, known, wanted = case.network, case.known, case.wanted
    # Rounds of a first stretch may have fewer sensors and factors: NaN for the rest.
    P_rounds, r_rounds = (np.full((len(case.refits), *X.shape), np.nan) for X in (net.P, net.r))
    for n, (_, P, r) in enumerate(case.refits):
        P_rounds[n, : P.shape[0], : P.shape[1]], r_rounds[n, : len(r)] = P, r
    seen = {
        "z": net.z, "numbers": net.numbers, "Phi": net.phi, "weights": net.weights,
        "P": net.P, "r": net.r, "A": net.dynamics.A, "S": net.dynamics.S, "gaps": ~net.known,
        "sigma": np.sqrt(net.sigma2), "error": net.error, "places": net.places, "site": net.site,
        "scale": np.array(net.scale), "P_rounds": P_rounds, "r_rounds": r_rounds,
    }  # fmt: skip
    kept = {
        "sensors": np.array(case.ids), "readings": case.raw, "offset": case.offset,
        "clean": np.where(known, case.clean, np.nan),
        "copies": np.where(net.known, case.copies, np.nan),
        "residual": np.where(known, wanted.residual, np.nan),
        "surprise": np.where(known, wanted.surprise, np.nan),
    }  # fmt: skip
    save: Any = np.savez_compressed
    files = {Path(path): seen, truth_path(path): kept}
    write_files({name: partial(save, **arrays) for name, arrays in files.items()}, private=True)
    return Path(path), truth_path(path)
