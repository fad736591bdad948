"""One sensor's readings, for somebody who knows all the rest.

Adversaries: everybody else together, with all other sensors' copies and clean readings; and one who
also knows the sensor's own other readings. Without the others' part, the sums are its own copy.
"""

from __future__ import annotations

import numpy as np

from flfl.audit.attacks import Guess
from flfl.audit.view import Array, Case, Mask, read_series


def everybody(case: Case, copies: bool) -> Guess:
    """Best linear reading of the own copies in time, given what the others predict."""
    x, seen = own_copies(case, copies)
    wanted, sigma2 = case.wanted, case.network.sigma2
    parts = zip(x - wanted.predicted, sigma2, seen, wanted.laws, strict=True)
    value = np.array([read_series(*part) for part in parts])
    return Guess(np.where(seen, value, np.nan), wanted.predicted)


def all_but_one(case: Case, copies: bool) -> Guess:
    """The own copy of one reading against all that predicts it."""
    x, seen = own_copies(case, copies)
    wanted, sigma2 = case.wanted, case.network.sigma2
    predicted = case.clean - wanted.surprise
    value = wanted.doubt / (wanted.doubt + sigma2) * (x - predicted)
    return Guess(np.where(seen, value, np.nan), predicted)


def own_copies(case: Case, copies: bool) -> tuple[Array, Mask]:
    """Each sensor's copies and where they are seen (M, N): from the store, or from the sums."""
    net, C = case.network, case.copies
    if copies:
        return C, net.known
    used = np.arange(net.z.shape[1]) < net.numbers[:, None]
    B = net.weights[:, None] * net.phi
    rest = np.where(used, net.z - C.T @ B, 0.0)  # zero if the sums are what they are said to be
    power = used @ (B**2).T
    own = np.divide(rest @ B.T, power, out=np.zeros_like(power), where=power > 0).T
    return C + own, net.known & (power > 0).T
