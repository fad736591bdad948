"""Noise that an adversary cannot draw again: from a site's own secret, never from a public seed.

Two kinds. *Blur* belongs to a reading: the same secret, sensor and time give the same number in
every run, so that reruns do not average it out. *Discrete Gaussian* noise belongs to one release:
whole numbers, so that it survives fixed point and secure sums.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_CHUNK = 2**16


def _key(secret: bytes, purpose: str) -> bytes:
    """A 256-bit key for one purpose."""
    return hashlib.blake2b(purpose.encode(), key=secret[:64], digest_size=32).digest()


def _unit(words: NDArray[np.uint64]) -> Array:
    """Uniform numbers strictly between 0 and 1 from 64-bit words."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals_at(secret: bytes, name: str, stamps: Index) -> Array:
    """One standard normal number for each (name, stamp), (N,).

    Guarantees: the same secret, name and stamp give the same number whatever else is asked for;
    without the secret the numbers look independent (AES-256 as a keyed function of the stamp).

    Examples
    --------
    >>> x = normals_at(b"secret", "a", np.arange(5))
    >>> bool(np.array_equal(x[2:], normals_at(b"secret", "a", np.arange(2, 5))))
    True
    """
    blocks = np.zeros((len(stamps), 2), dtype="<i8")
    blocks[:, 0] = stamps
    # One block a number, all different: a keyed permutation, not a mode to hide text with.
    cipher = Cipher(algorithms.AES(_key(secret, f"blur {name}")), modes.ECB()).encryptor()
    words = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8").reshape(-1, 2)[:, 0]
    return np.asarray(ndtri(_unit(words)))


class SecretStream:
    """Uniform numbers from a stream cipher. A secret is used for one stream only."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        cipher = Cipher(algorithms.AES(_key(secret, purpose)), modes.CTR(bytes(16)))
        self._cipher = cipher.encryptor()

    def __repr__(self) -> str:
        return "SecretStream(...)"

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next n 64-bit words."""
        return np.frombuffer(self._cipher.update(bytes(8 * n)), dtype="<u8")

    def uniform(self, n: int) -> Array:
        """The next n numbers between 0 and 1, neither included."""
        return _unit(self.words(n))


def discrete_gaussian(stream: SecretStream, sigma: float, size: int) -> Index:
    """Whole numbers with probabilities proportional to ``exp(-x^2 / 2 sigma^2)``, (size,).

    Rejection from a two-sided geometric of scale ``t = floor(sigma) + 1``: a proposal x is kept
    with probability ``exp(-(|x| - sigma^2 / t)^2 / 2 sigma^2)``. Acceptance is computed in float64,
    so probabilities are exact to about 1e-16.

    Examples
    --------
    >>> x = discrete_gaussian(SecretStream(b"secret", "test"), 3.0, 20000)
    >>> bool(abs(x.std() - 3) < 0.05), bool(abs(x.mean()) < 0.1), x.dtype.name
    (True, True, 'int64')
    """
    if not 0 < sigma < 2.0**55:
        raise ValueError(f"sigma must lie between 0 and 2^55, not {sigma}")
    t = np.floor(sigma) + 1
    kept: list[Index] = []
    found = 0
    while found < size:
        n = min(max(2 * (size - found), 64), _CHUNK)
        # |x| is geometric: P(|x| >= a) = exp(-a / t); zero counts once, not once a sign.
        magnitude = np.floor(-t * np.log(stream.uniform(n)))
        negative = stream.words(n) & np.uint64(1) == 1
        keep = stream.uniform(n) < np.exp(-((magnitude - sigma**2 / t) ** 2) / (2 * sigma**2))
        keep &= ~(negative & (magnitude == 0))
        x = np.where(negative, -magnitude, magnitude)[keep].astype(np.int64)
        kept.append(x)
        found += len(x)
    return np.concatenate(kept)[:size] if kept else np.zeros(0, dtype=np.int64)
