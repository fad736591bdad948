"""Shamir's secret sharing over the prime field of order 2^256 + 297."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from flfl.secagg.keys import SecureSumError

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
NOISE_BYTES = 48
"""Random bytes of a coefficient: taken modulo the prime, they are uniform to 2^-127."""


def split(
    secret: bytes, threshold: int, points: Sequence[int], noise: bytes | None = None
) -> list[bytes]:
    """Shares of a secret of 32 bytes, one for each point (positive, small, distinct).

    The secret is the value at 0 of a random polynomial of degree ``threshold - 1``, made from
    ``noise``: :data:`NOISE_BYTES` for each degree, the operating system's where none are given. Any
    ``threshold`` shares give the secret back (:func:`join`); fewer are independent of it.

    Examples
    --------
    >>> shares = split(bytes(31) + b"!", 2, [1, 2, 3])
    >>> join({1: shares[0], 3: shares[2]}, 2) == bytes(31) + b"!"
    True
    """
    if len(secret) != SECRET_BYTES or threshold < 1 or threshold > len(points):
        raise SecureSumError(f"cannot share a secret among {len(points)} by {threshold}")
    noise = os.urandom(NOISE_BYTES * (threshold - 1)) if noise is None else noise
    coefficients = [
        int.from_bytes(noise[NOISE_BYTES * i : NOISE_BYTES * (i + 1)]) % PRIME
        for i in range(threshold - 1)
    ]
    constant = int.from_bytes(secret)
    shares = []
    for x in points:
        value = 0
        # The points are small: one reduction at the end is cheaper than one a step.
        for coefficient in coefficients:
            value = (value + coefficient) * x
        shares.append(((value + constant) % PRIME).to_bytes(SHARE_BYTES))
    return shares


@lru_cache(maxsize=1024)
def weights_at_zero(points: tuple[int, ...]) -> list[int]:
    """Lagrange's weights of the values for f(0): ``weights[j] = prod_{m != j} x_m / (x_m - x_j)``.

    Examples
    --------
    >>> weights_at_zero((1, 2)) == [2, PRIME - 1]
    True
    """
    above = math.prod(points) % PRIME
    below = [x * math.prod(other - x for other in points if other != x) % PRIME for x in points]
    # Montgomery's trick: one inverse, of the product of all, gives the inverse of each.
    before = list(accumulate(below, lambda a, b: a * b % PRIME, initial=above))
    inverse, weights = pow(before[-1], -1, PRIME) * above % PRIME, []
    for value, product in zip(reversed(below), reversed(before[:-1]), strict=True):
        weights.append(inverse * product % PRIME)
        inverse = inverse * value % PRIME
    return weights[::-1]


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from the first ``threshold`` of the shares by point; refuses fewer, and shares
    that do not belong to a secret of 32 bytes."""
    if len(shares) < threshold:
        raise SecureSumError(f"{len(shares)} shares do not make a secret shared by {threshold}")
    points = tuple(sorted(shares)[:threshold])
    weights = weights_at_zero(points)
    value = sum(int.from_bytes(shares[x]) * w for x, w in zip(points, weights, strict=True)) % PRIME
    if value >> (8 * SECRET_BYTES):
        raise SecureSumError("the shares do not belong together")
    return value.to_bytes(SECRET_BYTES)
