"""Masks: streams of a cipher, added to numbers modulo 2^64."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from flfl.errors import OutOfRangeError

Words = NDArray[np.uint64]

_CHUNK = 2**16
"""Numbers a step: half a megabyte stays in the processor's cache between cipher and addition."""
_ZEROS = bytes(8 * _CHUNK)


def add_stream(total: Words, seed: bytes, sign: int) -> None:
    """``total += sign * PRG(seed)`` modulo 2^64, in place.

    ``PRG`` is AES-256 in counter mode from zero, read as little-endian 64-bit words. A seed is
    used for one stream only.

    Guarantees
    ----------
    * The same seed gives the same stream on every machine; its opposite sign takes it off again.
    * Without the seed the result is computationally indistinguishable from uniform words.

    Examples
    --------
    >>> words = np.arange(3, dtype=np.uint64)
    >>> add_stream(words, bytes(32), 1); add_stream(words, bytes(32), -1); words.tolist()
    [0, 1, 2]
    """
    stream = Cipher(algorithms.AES256(seed), modes.CTR(bytes(16))).encryptor()
    buffer = bytearray(8 * min(_CHUNK, total.size) + 16)
    for start in range(0, total.size, _CHUNK):
        part = total[start : start + _CHUNK]
        stream.update_into(memoryview(_ZEROS)[: 8 * part.size], buffer)
        words = np.frombuffer(buffer, "<u8", part.size)
        if sign > 0:
            np.add(part, words, out=part)
        else:
            np.subtract(part, words, out=part)


def bound(n_sites: int) -> int:
    """The largest magnitude of one site's number, so that sums of all of them stay below 2^62.

    Examples
    --------
    >>> bound(4) == 2**60
    True
    """
    return 2**62 // n_sites


def to_ring(values: NDArray[np.int64], n_sites: int) -> Words:
    """A fresh copy of the numbers as elements of Z_2^64.

    Raises
    ------
    OutOfRangeError
        For a number beyond :func:`bound`. Nothing is clipped.
    """
    limit = bound(n_sites)
    # Python integers: the absolute value of -2^63 does not fit its own type.
    if values.size and max(int(values.max()), -int(values.min())) > limit:
        raise OutOfRangeError(f"a number to be summed over {n_sites} sites is beyond {limit}")
    return values.astype(np.int64).view(np.uint64)


def from_ring(words: Words, n_terms: int, n_sites: int) -> NDArray[np.int64]:
    """A sum of ``n_terms`` numbers, back from the ring.

    Raises
    ------
    OutOfRangeError
        For a sum that honest terms cannot give: a mask was left in it, or a site lied.
    """
    values = words.view(np.int64)
    limit = n_terms * bound(n_sites)
    if values.size and max(int(values.max()), -int(values.min())) > limit:
        raise OutOfRangeError("the sum is larger than its terms allow: it is not used")
    return values
