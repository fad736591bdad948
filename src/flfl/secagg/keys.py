"""Keys: who is who (Ed25519), what two sites share (X25519), and keys derived from keys."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from flfl.codec import pack
from flfl.errors import FLFLError, InputError

PROTOCOL = "flfl secure sum 2"
"""Stands in every derivation and signature: keys of another protocol or version never fit."""
LEAST_SITES = 3


class SecureSumError(FLFLError):
    """What the protocol does not allow; nothing has changed. The text quotes no secret."""


class BelowThresholdError(SecureSumError):
    """Too few sites are left: the sum is given up, and nothing of it is revealed."""


def digest(*parts: bytes | str | int) -> bytes:
    """SHA-256 under the protocol's name; different lists of parts never give the same bytes."""
    return hashlib.sha256(pack([PROTOCOL, *parts])).digest()


def expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand with SHA-256 (RFC 5869), 32 bytes: ``HMAC(key, info | 0x01)``."""
    return hmac.digest(key, info + b"\x01", "sha256")


def draw(secret: bytes | None, size: int, *use: str | int) -> bytes:
    """Random bytes for one use: the operating system's, or from one secret of a run. Then the same
    use gives the same bytes, so that an interrupted site answers again what it answered before."""
    if secret is None:
        return os.urandom(size)
    return hashlib.shake_256(pack([PROTOCOL, secret, *use])).digest(size)


class Identity:
    """A site's Ed25519 key, by its ``public`` half (32 bytes) and by what it can ``sign`` (64
    bytes). Neither ``repr`` nor pickling gives the private key away."""

    __slots__ = ("public", "sign")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.sign = key.sign
        self.public = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """A new one, from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, private: bytes) -> Identity:
        """The identity with this private key (32 bytes)."""
        return cls(Ed25519PrivateKey.from_private_bytes(private))

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()[:16]}...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an identity is not pickled")


@dataclass(frozen=True)
class Roster:
    """The sites of a federation with their public keys; every party has the same one.

    ``keys`` has the Ed25519 public key (32 bytes) of each site, by name. ``threshold`` sites must
    be left for a sum to be opened (default two thirds and one): with fewer than ``2 * threshold -
    n`` lying sites, whatever a coordinator tells different sites, they never reveal both kinds of
    share of one. A sum covers at least ``min_sites``, three or more.

    Sites check signatures against this list, so the coordinator cannot add a site or change a key.
    ``digest`` covers all of it; parties whose lists differ refuse each other's messages.
    """

    keys: Mapping[str, bytes]
    threshold: int = 0
    min_sites: int = LEAST_SITES
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    position: Mapping[str, int] = field(init=False, repr=False, compare=False)
    digest: bytes = field(init=False, repr=False, compare=False)
    _public: Mapping[str, Ed25519PublicKey] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = len(self.keys)
        chosen = self.threshold or max(2 * n // 3 + 1, self.min_sites)
        problem, remedy = "", ""
        if self.min_sites < LEAST_SITES:
            problem = f"min_sites is {self.min_sites}"
            remedy = "A sum over fewer than three sites hides nothing from its members"
        elif n < self.min_sites:
            problem = f"{n} sites, but a sum must cover {self.min_sites}"
            remedy = "Add sites, or run without secure sums"
        elif not max(self.min_sites, n // 2 + 1) <= chosen <= n:
            problem = f"threshold {chosen} of {n} sites"
            remedy = f"Use more than half of the sites, and at least {self.min_sites}"
        elif len(set(self.keys.values())) != n or any(len(k) != 32 for k in self.keys.values()):
            problem = "two sites have the same key, or a key is not 32 bytes long"
            remedy = "Give every site an Ed25519 key of its own"
        if problem:
            raise InputError(problem, where="roster", remedy=remedy)
        keys = {name: bytes(self.keys[name]) for name in sorted(self.keys)}
        pairs = [part for pair in keys.items() for part in pair]
        for attribute, value in {
            "keys": MappingProxyType(keys),
            "threshold": chosen,
            "names": tuple(keys),
            "position": {name: i for i, name in enumerate(keys)},
            "digest": digest("roster", chosen, self.min_sites, *pairs),
            "_public": {n: Ed25519PublicKey.from_public_bytes(key) for n, key in keys.items()},
        }.items():
            object.__setattr__(self, attribute, value)

    def verify(self, name: str, signature: bytes, data: bytes) -> None:
        """Refuse a site that is not in the roster, and a signature that is not its own."""
        if name not in self._public:
            raise SecureSumError(f"{name!r} is not in the roster")
        try:
            self._public[name].verify(signature, data)
        except InvalidSignature:
            raise SecureSumError(f"the signature is not that of {name!r}") from None

    def enough(self, count: int) -> None:
        """Refuse to go on with fewer sites than the threshold."""
        if count < self.threshold:
            raise BelowThresholdError(
                f"{count} of {len(self.names)} sites are left and {self.threshold} are needed:"
                " the run stops, and the sum under way stays hidden"
            )

    def pack(self, names: Iterable[str]) -> bytes:
        """A set of sites as one bit for each site of the roster."""
        bits = sum(1 << self.position[name] for name in set(names))
        return bits.to_bytes((len(self.names) + 7) // 8, "little")

    def unpack(self, data: bytes) -> tuple[str, ...]:
        """The set back from its bits, sorted; refuses bits that stand for nobody."""
        bits = int.from_bytes(data, "little")
        if len(data) != (len(self.names) + 7) // 8 or bits >> len(self.names):
            raise SecureSumError("the list of sites does not fit the roster")
        return tuple(name for i, name in enumerate(self.names) if bits >> i & 1)


@dataclass(frozen=True)
class Pair:
    """Two keys that a site and its neighbour share for one sum: ``expand(masks, "seed")`` is the
    seed of their mask, ``expand(channel, "from " + sender)`` the key of what one sends the other.
    From the keys of the next sum (:meth:`step`) these cannot be computed."""

    masks: bytes = field(repr=False)
    channel: bytes = field(repr=False)

    def step(self) -> Pair:
        """The keys of the next sum."""
        return Pair(expand(self.masks, b"next"), expand(self.channel, b"next"))


def agree(private: tuple[X25519PrivateKey, ...], public: bytes, salt: bytes, *about: str) -> Pair:
    """The first keys of a pair, from one's own run keys and the other's public ones (64 bytes): of
    each site one for masks, one for shares. ``about`` is the same at both ends."""
    roots, uses = [], (("masks", private[0], public[:32]), ("shares", private[1], public[32:]))
    for use, mine, theirs in uses:
        try:
            secret = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise SecureSumError("a run key is no key") from None
        info = pack([PROTOCOL, use, *about])
        roots.append(HKDF(hashes.SHA256(), 32, salt, info).derive(secret))
    return Pair(*roots)
