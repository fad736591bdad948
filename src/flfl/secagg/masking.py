"""What hides: streams of a cipher added to numbers modulo 2^64, and boxes for shares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from flfl.codec import pack
from flfl.errors import OutOfRangeError
from flfl.secagg.keys import PROTOCOL, SecureSumError

Words = NDArray[np.uint64]

_CHUNK = 2**13
"""Numbers a step: 64 kB of sum and 64 kB of stream stay in the processor's cache."""
_ZEROS = bytes(8 * _CHUNK)
_NONCE = bytes(12)
"""Every key of the secure sum encrypts one message only, so the nonce may be constant."""


def add_streams(total: Words, seeds: Iterable[tuple[bytes, int]]) -> None:
    """``total += sum_s sign_s * PRG(seed_s)`` modulo 2^64, in place.

    ``PRG`` is AES-256 in counter mode from zero, read as little-endian 64-bit words. A seed is used
    for one stream only; without it the result cannot be distinguished from uniform words.

    Examples
    --------
    >>> words = np.arange(3, dtype=np.uint64)
    >>> add_streams(words, [(bytes(32), 1)]); add_streams(words, [(bytes(32), -1)])
    >>> words.tolist()
    [0, 1, 2]
    """
    streams = [
        (Cipher(algorithms.AES256(seed), modes.CTR(bytes(16))).encryptor(), sign)
        for seed, sign in seeds
    ]
    buffer = bytearray(8 * min(_CHUNK, total.size) + 16)
    # All streams of a piece before the next piece: the sum's piece is read and written in cache.
    for start in range(0, total.size, _CHUNK):
        part = total[start : start + _CHUNK]
        zeros = memoryview(_ZEROS)[: 8 * part.size]
        words = np.frombuffer(buffer, "<u8", part.size)
        for stream, sign in streams:
            stream.update_into(zeros, buffer)
            (np.add if sign > 0 else np.subtract)(part, words, out=part)


def to_ring(values: NDArray[np.int64], n_sites: int) -> Words:
    """A fresh copy of the numbers as elements of Z_2^64. A number beyond ``2^62 / n_sites``, with
    which a sum could wrap around, is refused; nothing is clipped."""
    limit = 2**62 // n_sites
    # Python integers: the absolute value of -2^63 does not fit its own type.
    if values.size and max(int(values.max()), -int(values.min())) > limit:
        raise OutOfRangeError(f"a number to be summed over {n_sites} sites is beyond {limit}")
    return values.astype(np.int64).view(np.uint64)


def from_ring(words: Words, n_terms: int, n_sites: int) -> NDArray[np.int64]:
    """A sum of ``n_terms`` numbers, back from the ring. One that honest terms cannot give is
    refused: a mask was left in it, or a site lied."""
    values = words.view(np.int64)
    limit = n_terms * (2**62 // n_sites)
    if values.size and max(int(values.max()), -int(values.min())) > limit:
        raise OutOfRangeError("the sum is larger than its terms allow: it is not used")
    return values


def sealed(key: bytes, text: bytes, *about: bytes | str | int) -> bytes:
    """Encrypt and authenticate, bound to what the text is about. A key serves once."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, text, pack([PROTOCOL, *about]))


def opened(key: bytes, box: bytes, problem: str, *about: bytes | str | int) -> bytes:
    """Decrypt; refuses with ``problem`` what was changed or is about something else."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, box, pack([PROTOCOL, *about]))
    except InvalidTag:
        raise SecureSumError(problem) from None
