"""Who is who: a site's long-lived key, and the list of all sites that the operators fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from flfl.errors import InputError
from flfl.secagg.errors import SecureSumError
from flfl.secagg.kdf import digest

LEAST_SITES = 3
SIGNATURE_BYTES = 64


def default_threshold(n_sites: int) -> int:
    """Sites that must be left for a sum to be opened: two thirds and one.

    Examples
    --------
    >>> default_threshold(3), default_threshold(36)
    (3, 25)
    """
    return max(2 * n_sites // 3 + 1, LEAST_SITES)


class Identity:
    """A site's Ed25519 key. It signs, and never shows itself.

    Guarantees
    ----------
    * Neither ``repr`` nor pickling gives the private key away.
    """

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """A new one, from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, private: bytes) -> Identity:
        """The identity with this private key (32 bytes)."""
        return cls(Ed25519PrivateKey.from_private_bytes(private))

    def sign(self, data: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()[:16]}...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an identity is not pickled")


@dataclass(frozen=True)
class Roster:
    """The sites of a federation with their public keys; every party has the same one.

    Parameters
    ----------
    keys : Ed25519 public key (32 bytes) of each site, by name
    threshold : how many sites must be left for a sum to be opened; default two thirds and one.
        More than half of them, and with fewer than ``2 * threshold - n`` lying sites, no story
        that a coordinator tells different sites makes them reveal both kinds of share of one.
    min_sites : the fewest sites that a sum may cover, three or more

    Guarantees
    ----------
    * The coordinator cannot add a site or change a key: sites check signatures against this list.
    * ``digest`` covers names, keys, threshold and ``min_sites``; parties whose lists differ do not
      understand each other's messages.
    """

    keys: Mapping[str, bytes]
    threshold: int = 0
    min_sites: int = LEAST_SITES
    _public: Mapping[str, Ed25519PublicKey] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = len(self.keys)
        if self.min_sites < LEAST_SITES:
            raise InputError(
                f"min_sites is {self.min_sites}",
                where="roster",
                remedy="A sum over fewer than three sites hides nothing from its members",
            )
        if n < self.min_sites:
            raise InputError(
                f"{n} sites, but a sum must cover {self.min_sites}",
                where="roster",
                remedy="Add sites, or run without secure sums",
            )
        chosen = self.threshold or max(default_threshold(n), self.min_sites)
        if not max(self.min_sites, n // 2 + 1) <= chosen <= n:
            raise InputError(
                f"threshold {chosen} of {n} sites",
                where="roster",
                remedy=f"Use more than half of the sites, and at least {self.min_sites}",
            )
        if len(set(self.keys.values())) != n or any(len(k) != 32 for k in self.keys.values()):
            raise InputError(
                "two sites have the same key, or a key is not 32 bytes long",
                where="roster",
                remedy="Give every site an Ed25519 key of its own",
            )
        ordered = {name: bytes(self.keys[name]) for name in sorted(self.keys)}
        object.__setattr__(self, "keys", MappingProxyType(ordered))
        object.__setattr__(self, "threshold", chosen)
        public = {name: Ed25519PublicKey.from_public_bytes(k) for name, k in ordered.items()}
        object.__setattr__(self, "_public", public)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All sites, sorted."""
        return tuple(self.keys)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Where each site stands in the sorted list, from 0."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> bytes:
        """The roster in 32 bytes."""
        pairs = [part for pair in self.keys.items() for part in pair]
        return digest("roster", self.threshold, self.min_sites, *pairs)

    def verify(self, name: str, signature: bytes, data: bytes) -> None:
        """Check that the site of that name signed the data.

        Raises
        ------
        SecureSumError
            For a site that is not in the roster or a signature that is not its own.
        """
        if name not in self._public:
            raise SecureSumError(f"{name!r} is not in the roster")
        try:
            self._public[name].verify(signature, data)
        except InvalidSignature:
            raise SecureSumError(f"the signature is not that of {name!r}") from None

    def pack(self, names: Iterable[str]) -> bytes:
        """A set of sites as one bit a site."""
        bits = sum(1 << self.position[name] for name in set(names))
        return bits.to_bytes((len(self.names) + 7) // 8, "little")

    def unpack(self, data: bytes) -> tuple[str, ...]:
        """The set back from its bits, sorted; refuses bits that stand for nobody."""
        bits = int.from_bytes(data, "little")
        if len(data) != (len(self.names) + 7) // 8 or bits >> len(self.names):
            raise SecureSumError("the list of sites does not fit the roster")
        return tuple(name for i, name in enumerate(self.names) if bits >> i & 1)


@dataclass(frozen=True)
class Signer:
    """A site's key, and the list by which it checks the others' signatures."""

    identity: Identity
    roster: Roster

    def sign(self, data: bytes) -> bytes:
        """64 bytes."""
        return self.identity.sign(data)

    def verify(self, name: str, signature: bytes, data: bytes) -> None:
        """Raises a `SecureSumError` for a signature that is not that site's."""
        self.roster.verify(name, signature, data)
