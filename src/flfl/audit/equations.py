"""What the sums say about the readings, as linear equations: the ground of every solver here.

    z_r,tau = sum_i b_i u_i,tau mean_tau[S_i(v_ir)]      (released components only)

``v_ir`` is what sensor i uploaded in round r about ``y - P m`` of the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from flfl.audit.view import Round, View, known_part
from flfl.model.shared import smoothers

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

REACH = 40
"""A reading's trace in the sums beyond so many slots is ignored."""
SMALLEST = 1e-4
"""So are smaller entries of a smoother's column."""
BEYOND = 20
"""Slots by which the equations reach beyond the readings that are scored."""


@dataclass(frozen=True)
class Stretch:
    """The equations of one stretch of time; readings of all sensors lie end to end.

    Attributes
    ----------
    W : (M n_windows, readings) what each reading adds to each window of its sensor
    sensor, slot : (readings,); inside : whether it lies in the stretch and is scored
    z : (n_windows, R, k) sums of the rounds, zero where nothing is released
    sent : (n_windows, R, k)
    B : (M, R, k)
    x : (readings,) news; v : (readings, R) uploads: the truth
    noise : variance of what was added to each number on purpose (0 without a budget)
    """

    W: sparse.csr_array
    sensor: Index
    slot: Index
    inside: Mask
    z: Array
    sent: Mask
    B: Array
    x: Array
    v: Array
    noise: float = 0.0

    @property
    def n_sensors(self) -> int:
        """M."""
        return len(self.B)

    def forward(self, v: Array) -> Array:
        """Sums (n_windows, R, k) of uploads (readings, R)."""
        M, (n, R, _) = self.n_sensors, self.z.shape
        said = (self.W @ v).reshape(M, n, R)
        return np.einsum("inr,irk->nrk", said, self.B, optimize=True) * self.sent

    def backward(self, alpha: Array) -> Array:
        """The transpose: (n_windows, R, k) to (readings, R)."""
        said = np.einsum("nrk,irk->inr", alpha * self.sent, self.B, optimize=True)
        return np.asarray(self.W.T @ said.reshape(-1, alpha.shape[1]))


def stretch(view: View, rounds: list[Round], first: int, slots: int) -> Stretch:
    """Set up the equations of the windows around ``[first, first + slots)``.

    They reach a little further on both sides: a reading at the edge is told by windows beyond it.
    """
    N, edges = view.J.shape[1], view.windows.edges
    near = (edges[1:] > first - BEYOND) & (edges[:-1] < first + slots + BEYOND)
    windows = np.flatnonzero(near)
    start, stop = edges[windows[0]], edges[windows[-1] + 1]
    low, high = max(start - 2 * REACH, 0), min(stop + 2 * REACH, N)
    sensor, slot = np.nonzero(view.J[:, low:high])
    W = _window_map(view, windows, low, high, sensor, slot)
    slot = slot + low
    sent = np.arange(view.m.shape[1]) < view.windows.released[windows, None]
    sent = np.repeat(sent[:, None], len(rounds), axis=1)
    picture = view.P @ view.m.T
    uploads = [view.uploaded(one) + one.P @ one.m.T - picture for one in rounds]
    system = Stretch(
        W=W,
        sensor=sensor,
        slot=slot,
        inside=(slot >= first) & (slot < first + slots),
        z=np.stack([known_part(view, one)[windows] for one in rounds], axis=1) * sent,
        sent=sent,
        B=np.stack([one.B for one in rounds], axis=1),
        x=view.news[sensor, slot],
        v=np.stack([upload[sensor, slot] for upload in uploads], axis=1),
    )
    added = (system.forward(system.v) - system.z)[sent]
    if getattr(view.plan, "epsilon", None):
        return replace(system, noise=float((added**2).mean()))
    miss = np.linalg.norm(added) / np.linalg.norm(system.z)
    if miss > 0.01:
        raise RuntimeError(f"the sums are not what the sites are believed to upload ({miss:.1%})")
    return system


def rolled(system: Stretch, rng: np.random.Generator) -> Stretch:
    """The same equations about news that are independent between sensors.

    Each sensor's uploads are moved round in time by another step. What is then read of a sensor
    is its own leverage: nothing of it is a local pattern that its neighbours show as well.
    """
    v = system.v.copy()
    for i in range(system.n_sensors):
        own = np.flatnonzero(system.sensor == i)
        if len(own):
            v[own] = np.roll(v[own], rng.integers(len(own)), axis=0)
    return replace(system, v=v, x=v[:, -1], z=system.forward(v))


def _window_map(
    view: View, windows: Index, low: int, high: int, sensor: Index, slot: Index
) -> sparse.csr_array:
    factor = smoothers.smoother(view.J[:, low:high], view.length, view.noise)
    columns = smoothers.impulse_columns(factor, REACH)[sensor, slot].astype(float)
    window = view.windows.per_slot(np.arange(len(view.windows)))[low:high] - windows[0]
    target = slot[:, None] + np.arange(-REACH, REACH + 1)
    ok = (target >= 0) & (target < high - low) & (np.abs(columns) > SMALLEST)
    tau = np.where(ok, window[np.clip(target, 0, high - low - 1)], -1)
    ok &= (tau >= 0) & (tau < len(windows))
    reading, at = np.nonzero(ok)
    tau, i = tau[reading, at], sensor[reading]
    weight = view.u[i, windows[0] + tau] / view.windows.lengths[windows[0] + tau]
    entries = columns[reading, at] * weight
    shape = (len(view.J) * len(windows), len(sensor))
    return sparse.coo_array((entries, (i * len(windows) + tau, reading)), shape=shape).tocsr()
