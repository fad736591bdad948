"""The byte form of the secure sum's messages.

A message is :mod:`flfl.codec` under a version and a check; a site's carries its Ed25519 signature
over message and roster, a coordinator's none: sites check all that a lying one could send. What was
changed in a bit, made for another roster or signed by somebody else is refused before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flfl.codec import CodecError, pack, unpack, unwrap, wrap
from flfl.secagg.keys import Identity, Roster, SecureSumError, digest
from flfl.secagg.shamir import SHARE_BYTES

FORM = b"FLSS"
VERSION = 2
BOX_BYTES = 2 * SHARE_BYTES + 16
"""An encrypted pair of shares: of the self-mask's secret and of the vault's key."""

SHARES = {"boxes": [BOX_BYTES], "vault": 0, "commitments": [32]}
"""What a site says about its secrets of a sum: shares for its neighbours, vault, commitments."""
SECTIONS: Mapping[str, Mapping[str, Any]] = {
    # from the coordinator
    "hello": {},
    "bundle": {"keys": [0]},
    "ask": {"present": 0, "boxes": [BOX_BYTES], "question": 0},
    "agree": {"survivors": 0},
    "reveal": {"survivors": 0, "consents": [0]},
    # from a site
    "keys": {"keys": 64},
    "shares": SHARES,
    "masked": {"view": 32, "arrays": [np.ndarray]},
    "consent": {"view": 32, "survivors": 0},
    "unmask": {"selves": [SHARE_BYTES], "vaults": [SHARE_BYTES], **SHARES},
}
"""What each kind of message holds: so many bytes (0: any number), words, or a list of either."""


@dataclass(frozen=True)
class Frame:
    """One message. ``site`` is the sender of a site's message, the receiver of a coordinator's;
    ``label`` says what the question is about, for the count of bytes only."""

    kind: str
    run: str
    number: int
    site: str
    sections: Mapping[str, Any] = field(default_factory=dict, repr=False)
    label: str = ""


def encode(frame: Frame, identity: Identity | None = None, roster: Roster | None = None) -> bytes:
    """The byte form; a site's message is signed by its identity, for its roster."""
    sections = {name: frame.sections[name] for name in SECTIONS[frame.kind]}
    body = pack([frame.kind, frame.run, frame.number, frame.site, frame.label, sections])
    signature = b""
    if identity is not None and roster is not None:
        signature = identity.sign(digest("message", roster.digest, body))
    return wrap(FORM, VERSION, [signature, body])


def decode(data: bytes, roster: Roster | None = None) -> Frame:
    """A message of the right form and, with a roster, signed by the site it names; or an error."""
    try:
        signature, body = unwrap(FORM, VERSION, data)
        kind, run, number, site, label, sections = unpack(body)
    except (CodecError, ValueError, TypeError) as error:
        why = error if isinstance(error, CodecError) else "it is malformed"
        raise SecureSumError(f"a message of the secure sum is refused: {why}") from None
    if [type(v) for v in (signature, kind, run, number, site, label, sections)] != [
        bytes, str, str, int, str, str, dict,
    ]:  # fmt: skip
        raise SecureSumError("a message of the secure sum is refused: it is malformed")
    wanted = SECTIONS.get(kind)
    if wanted is None or list(sections) != list(wanted):
        raise SecureSumError(f"a message {kind!r} is unknown, or has wrong parts")
    for name, form in wanted.items():
        if not _fits(sections[name], form):
            raise SecureSumError(f"{site}: the part {name!r} of {kind!r} has a wrong form or size")
    if roster is not None:
        try:
            roster.verify(site, signature, digest("message", roster.digest, body))
        except SecureSumError as error:
            raise SecureSumError(f"a message {kind!r} is refused: {error}") from None
    return Frame(kind, run, number, site, sections, label)


def _fits(value: Any, form: Any) -> bool:
    if isinstance(form, list):
        return type(value) is list and all(_fits(item, form[0]) for item in value)
    if form is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.ndim <= 4
    return type(value) is bytes and form in (0, len(value))
