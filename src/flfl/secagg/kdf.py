"""Keys from keys: HKDF's second half (RFC 5869), one block, and an unambiguous joining of names."""

from __future__ import annotations

import hashlib
import hmac
import os

PROTOCOL = b"flfl secure sum 1"
"""Stands in every derivation and signature: keys of another protocol or version never fit."""


def framed(*parts: bytes | str | int) -> bytes:
    """Join parts so that no two different lists give the same bytes.

    Examples
    --------
    >>> framed("ab", "c") == framed("a", "bc")
    False
    """
    joined = []
    for part in parts:
        if isinstance(part, str):
            part = part.encode()
        elif isinstance(part, int):
            part = part.to_bytes(8, "little", signed=True)
        joined += [len(part).to_bytes(4, "little"), part]
    return b"".join(joined)


def expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand with SHA-256, 32 bytes: ``HMAC(key, info | 0x01)``.

    Guarantees
    ----------
    * Equals RFC 5869's expansion of the same key and information.
    * Different information gives unrelated keys; a derived key does not tell the key above it.
    """
    return hmac.digest(key, info + b"\x01", "sha256")


def digest(*parts: bytes | str | int) -> bytes:
    """SHA-256 of the parts, joined unambiguously under the protocol's name."""
    return hashlib.sha256(framed(PROTOCOL, *parts)).digest()


class Randomness:
    """Where a site's secrets of a run come from: the operating system, or one secret of that run.

    Guarantees
    ----------
    * From a secret, the same use, run and number give the same bytes, so that a site which was
      interrupted answers again what it answered before; any other gives unrelated bytes.
    * ``repr`` does not give the secret away.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret

    def draw(self, size: int, use: str, run: str, number: int = 0) -> bytes:
        """So many bytes for one use."""
        if self._secret is None:
            return os.urandom(size)
        return hashlib.shake_256(framed(PROTOCOL, self._secret, use, run, number)).digest(size)

    def __repr__(self) -> str:
        return f"Randomness({'of the system' if self._secret is None else 'from a secret'})"
