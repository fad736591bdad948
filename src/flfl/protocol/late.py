"""Copies of readings that came after their slot's release: each is a row of its own.

A late copy is an observation ``c = p_i . q_t + e`` of its slot, with ``var e = r_i + sigma^2``,
beside the sums that were released in time, in which it has no part. What it tells of the factors
adds to what they tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flfl.model import Array, Index, Mask


def _whole() -> Index:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Late:
    """n late copies in the network's units: rows of their sensors, slots of the network, copies and
    the variances of their added errors, all (n,)."""

    rows: Index = field(default_factory=_whole)
    slots: Index = field(default_factory=_whole)
    copies: Array = field(default_factory=lambda: np.empty(0))
    sigma2: Array = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, wanted: Mask) -> Late:
        """Some of them."""
        return Late(*(array[wanted] for array in vars(self).values()))

    def with_more(self, *others: Late) -> Late:
        """These and others."""
        parts = [vars(part).values() for part in (self, *others)]
        return Late(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def dense(self, n_sensors: int, slots: slice) -> tuple[Array, Array, Mask]:
        """Copies, variances and where there are any, of all sensors at some slots (M, n)."""
        near = self.where((self.slots >= slots.start) & (self.slots < slots.stop))
        at = near.rows, near.slots - slots.start
        copies, sigma2 = np.zeros((2, n_sensors, slots.stop - slots.start))
        there = np.zeros(copies.shape, bool)
        copies[at], sigma2[at], there[at] = near.copies, near.sigma2, True
        return copies, sigma2, there

    def information(self, P: Array, r: Array, slots: slice) -> tuple[Array, Array]:
        """What they tell about the factors of some slots, given all sensors' loadings P (M, k) and
        residual variances r (M,): ``sum p p' / v`` (n, k, k) and ``sum p c / v`` (n, k)."""
        copies, sigma2, there = self.dense(len(P), slots)
        weights, k = there / (r[:, None] + sigma2), P.shape[1]
        squares = (P[:, :, None] * P[:, None, :]).reshape(len(P), -1)
        return (weights.T @ squares).reshape(-1, k, k), (weights * copies).T @ P
