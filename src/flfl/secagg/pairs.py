"""What two sites share: keys agreed once a run, and fresh keys for every sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from flfl.secagg.errors import SecureSumError
from flfl.secagg.identity import SIGNATURE_BYTES, Identity, Roster
from flfl.secagg.kdf import PROTOCOL, Randomness, expand, framed

RUN_KEYS_BYTES = 32 + 32 + SIGNATURE_BYTES


class RunKeys:
    """A site's two X25519 keys of one run: one for masks, one for the share channel.

    Guarantees
    ----------
    * ``signed`` is the two public keys with the site's signature over protocol, run, roster, name
      and keys: valid for nobody else and in no other run.
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        roster: Roster,
        run: str,
        randomness: Randomness | None = None,
    ) -> None:
        randomness = randomness or Randomness()
        self._masks, self._channel = (
            X25519PrivateKey.from_private_bytes(randomness.draw(32, use, run))
            for use in ("run key masks", "run key shares")
        )
        self._name, self._roster, self._run = name, roster, run
        public = (
            self._masks.public_key().public_bytes_raw()
            + self._channel.public_key().public_bytes_raw()
        )
        self.signed = public + identity.sign(_statement(roster, run, name, public))

    def agree(self, peer: str, signed: bytes) -> Pair:
        """The secrets shared with a peer, whose signature has been checked."""
        low, high = sorted((self._name, peer))
        roots = []
        for use, mine, theirs in (
            ("masks", self._masks, signed[:32]),
            ("shares", self._channel, signed[32:64]),
        ):
            try:
                secret = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
            except ValueError:
                raise SecureSumError(f"the run key of {peer!r} is no key") from None
            info = framed(PROTOCOL, use, self._run, low, high)
            roots.append(HKDF(hashes.SHA256(), 32, self._roster.digest, info).derive(secret))
        return Pair(self._name, peer, *roots)


def check_run_keys(roster: Roster, run: str, name: str, signed: bytes) -> None:
    """Refuse run keys that the site of that name did not sign for this run and roster."""
    if len(signed) != RUN_KEYS_BYTES:
        raise SecureSumError(f"the run keys of {name!r} have a wrong length")
    roster.verify(name, signed[64:], _statement(roster, run, name, signed[:64]))


def _statement(roster: Roster, run: str, name: str, public: bytes) -> bytes:
    return framed(PROTOCOL, "run keys", run, roster.digest, name, public)


@dataclass(frozen=True)
class PairKeys:
    """The keys of one pair for one sum."""

    seed: bytes = field(repr=False)
    """From which the pair's mask is made; both have the same."""
    seal: bytes = field(repr=False)
    """Encrypts shares to the peer."""
    open: bytes = field(repr=False)
    """Decrypts the peer's shares."""


class Pair:
    """The chain of keys between this site and one peer.

    Guarantees
    ----------
    * Both ends derive the same keys for the same step, each way of the channel its own.
    * A step destroys what it came from: keys of earlier sums cannot be computed from the state.
    """

    def __init__(self, me: str, peer: str, masks: bytes, channel: bytes) -> None:
        self._me, self._peer = me, peer
        self._masks, self._channel = masks, channel

    def __repr__(self) -> str:
        return f"Pair({self._me!r}, {self._peer!r})"

    def step(self) -> PairKeys:
        """The keys of the next sum."""
        keys = PairKeys(
            expand(self._masks, b"seed"),
            expand(self._channel, b"from " + self._me.encode()),
            expand(self._channel, b"from " + self._peer.encode()),
        )
        self._masks, self._channel = expand(self._masks, b"next"), expand(self._channel, b"next")
        return keys
