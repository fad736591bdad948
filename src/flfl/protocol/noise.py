"""Noise that belongs to a reading: a keyed function of all that defines its noisy copy."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from flfl.errors import InputError
from flfl.model import Array, Index, Words

Context = tuple[str | float, ...]


class NoiseKey:
    """A site's secret of 32 bytes, as the source of noise and of tags.

    The same reading gives the same noise in every run, so that reruns do not average it out.
    Anything else (another sensor, transform, added error, instant or reading) gives independent
    noise, so that two copies never share noise that would cancel in their difference.

    Examples
    --------
    >>> key = NoiseKey(bytes(32))
    >>> instants, readings = np.array([0, 3600]), np.array([7.5, 8.0])
    >>> key.normals("station-1", ("none", 0.5), instants, readings).round(3)
    array([-0.678, -0.458])
    >>> key
    NoiseKey(...)
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise InputError(
                f"a site's secret has 32 bytes, not {len(secret)}",
                remedy="Make one with secrets.token_bytes(32) and keep it",
            )
        self._secret = bytes(secret)

    def __repr__(self) -> str:
        return "NoiseKey(...)"

    def normals(self, sensor: str, context: Context, instants: Index, readings: Array) -> Array:
        """One standard normal number for each (instant, reading), (n,).

        ``n = Phi^-1(u)``, u from 52 bits of ``AES_key(instant, reading)`` and
        ``key = BLAKE2b_secret("noise", sensor, context)``; the context is whatever else defines
        the copy: its transform and its added error. Without the secret the numbers cannot be
        distinguished from independent ones.
        """
        from scipy.special import ndtri  # large: a waiting site does without it

        words = self._words(("noise", sensor, *context), instants, readings)
        # 52 bits and a half: 53 would round the topmost word up to u = 1, an infinite number.
        return np.asarray(ndtri(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52))

    def tags(self, instants: Index, readings: Array) -> Words:
        """A tag of each (instant, reading) (n,), never 0, whichever sensor reports it. Tags stay at
        home: they show that two sensors are one, without the readings being stored."""
        return np.maximum(self._words(("tag",), instants, readings), np.uint64(1))

    def _words(self, purpose: Context, instants: Index, readings: Array) -> Words:
        """The first 64 bits of each encrypted (instant, reading), (n,).

        One block of AES in ECB mode a reading: equal blocks must give equal numbers in whatever
        order they come. On distinct blocks a keyed permutation cannot be distinguished from a
        random function before some 2^64 of them.
        """
        text = b""
        for part in purpose:  # each with its length before it, so that no two purposes are alike
            data = part.encode() if isinstance(part, str) else struct.pack("<d", part)
            kind = b"s" if isinstance(part, str) else b"f"
            text += kind + struct.pack("<Q", len(data)) + data
        key = hashlib.blake2b(text, key=self._secret, digest_size=32, person=b"flfl copy").digest()
        blocks = np.empty(len(instants), dtype=[("instant", "<i8"), ("reading", "<f8")])
        blocks["instant"] = instants
        blocks["reading"] = readings + 0.0  # -0.0 is the reading 0.0
        cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        return np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8")[::2]
