"""What both sides compute about one sum, and so must agree on to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from flfl.secagg.errors import SecureSumError
from flfl.secagg.graph import Degree, degree_for, neighbours
from flfl.secagg.identity import Roster
from flfl.secagg.kdf import PROTOCOL, digest, expand, framed
from flfl.secagg.shamir import SHARE_BYTES

BOX_BYTES = 2 * SHARE_BYTES + 16
"""An encrypted pair of shares: of the self-mask seed and of the vault's key."""
COMMITMENT_BYTES = 32
_COMMITMENT = {use: framed(PROTOCOL, "commitment", use) for use in ("self", "vault", "pair")}
_NONCE = bytes(12)
"""Every key of the secure sum encrypts one message only, so the nonce may be constant."""


@dataclass(frozen=True)
class Network:
    """Who takes part in a run, with which run keys, and who is whose neighbour."""

    present: tuple[str, ...]
    digest: bytes
    degree: Degree
    neighbours: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, roster: Roster, run: str, keys: Mapping[str, bytes]) -> Network:
        """From everyone's signed run keys; every party computes the same."""
        present = tuple(sorted(keys))
        pairs = [part for name in present for part in (name, keys[name])]
        hashed = digest("network", run, roster.digest, *pairs)
        degree = degree_for(len(present), roster.threshold)
        return cls(present, hashed, degree, neighbours(present, hashed, degree.degree))

    def holders(self, name: str) -> tuple[str, ...]:
        """Who holds the shares of a site's secrets: its neighbours and itself."""
        return tuple(sorted((*self.neighbours[name], name)))


def view_of(
    roster: Roster, network: Network, run: str, number: int, members: bytes, question: bytes
) -> bytes:
    """The hash of all that a site was told about a sum: run, number, who is in, the question.

    Guarantees
    ----------
    * Masks are made from it: sites that were told different things do not cancel each other, so a
      coordinator gains nothing by telling them so.
    """
    return digest("view", roster.digest, network.digest, run, number, members, question)


def consent_statement(view: bytes, survivors: bytes) -> bytes:
    """What a site signs before it helps to open a sum from which somebody dropped."""
    return framed(PROTOCOL, "consent", view, survivors)


def pair_mask_seed(seed: bytes, view: bytes) -> bytes:
    """Seed of the mask that two neighbours add and subtract."""
    return expand(seed, b"pair mask" + view)


def self_mask_seed(secret: bytes, view: bytes) -> bytes:
    """Seed of the mask that a site adds alone."""
    return expand(secret, b"self mask" + view)


def commitment(use: str, secret: bytes) -> bytes:
    """Binds to a secret of 32 random bytes without showing it."""
    return hashlib.sha256(_COMMITMENT[use] + secret).digest()


def sealed(key: bytes, text: bytes, *about: bytes | str | int) -> bytes:
    """Encrypt and authenticate, bound to what the text is about. A key serves once."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, text, framed(PROTOCOL, *about))


def opened(key: bytes, box: bytes, problem: str, *about: bytes | str | int) -> bytes:
    """Decrypt; refuses with ``problem`` what was changed or is about something else."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, box, framed(PROTOCOL, *about))
    except InvalidTag:
        raise SecureSumError(problem) from None


def slices(data: bytes | memoryview, size: int, count: int, what: str) -> list[bytes]:
    """Cut a section into equal parts; refuses a section of another length."""
    if len(data) != size * count:
        raise SecureSumError(f"{what} have a wrong length")
    whole = bytes(data)
    return [whole[i : i + size] for i in range(0, len(whole), size)]
