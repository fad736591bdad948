"""The byte form of the secure sum's messages.

Layout (little endian)::

    magic "FLSS" | version u16 | header length u32 | header (JSON) | sections | seal

A site's message is sealed by its Ed25519 signature over the SHA-256 of everything before it and
of the roster. A coordinator's message is sealed by a SHA-256 against accidents only: whatever
a lying coordinator could send is refused by what the site checks, not by a seal.

Guarantees
----------
* A message that was cut, extended, changed in a bit, made for another roster or signed by
  somebody else is refused before anything of it is used.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flfl.secagg.errors import SecureSumError
from flfl.secagg.identity import SIGNATURE_BYTES, Identity, Roster
from flfl.secagg.kdf import PROTOCOL, framed

MAGIC = b"FLSS"
VERSION = 1
_PREFIX = struct.Struct("<4sHI")
_LARGEST_HEADER = 2**12
_DIGEST_BYTES = 32
SHARE_SECTIONS = ("boxes", "vault", "commitments")
"""What a site says about its secrets of a sum: shares for its neighbours, vault, commitments."""

SECTIONS: Mapping[str, tuple[str, ...]] = {
    # from the coordinator
    "hello": (),
    "bundle": ("present", "keys"),
    "ask": ("present", "boxes", "question"),
    "agree": ("survivors",),
    "reveal": ("survivors", "consents"),
    # from a site
    "keys": ("keys",),
    "shares": SHARE_SECTIONS,
    "masked": ("view", "shapes", "numbers"),
    "consent": ("consent",),
    "unmask": ("selves", "vaults", *SHARE_SECTIONS),
}
"""What each kind of message holds."""

FROM_SITES = ("keys", "shares", "masked", "consent", "unmask")


@dataclass(frozen=True)
class Frame:
    """One message. ``site`` is the sender of a site's message, the receiver of a coordinator's;
    ``label`` says what the question is about, for the books only."""

    kind: str
    run: str
    number: int
    site: str
    sections: Mapping[str, bytes | memoryview] = field(default_factory=dict, repr=False)
    label: str = ""


def encode_from_site(frame: Frame, identity: Identity, roster: Roster) -> bytes:
    """A site's message, signed."""
    parts = _parts(frame)
    return b"".join([*parts, identity.sign(_signed(parts, roster))])


def decode_from_site(data: bytes, roster: Roster) -> Frame:
    """What the coordinator received; the signature is that of the site it names."""
    frame, end = _decode(data, SIGNATURE_BYTES, from_site=True)
    signed = _signed([memoryview(data)[:end]], roster)
    try:
        roster.verify(frame.site, data[end:], signed)
    except SecureSumError as error:
        raise SecureSumError(f"a message {frame.kind!r} is refused: {error}") from None
    return frame


def encode_to_site(frame: Frame, question_digest: bytes = b"") -> bytes:
    """A coordinator's message. The question's hash is given, as it is the same for all sites."""
    parts = _parts(frame)
    return b"".join([*parts, _check(frame, parts[0], question_digest)])


def decode_to_site(data: bytes) -> tuple[Frame, bytes]:
    """What a site received, and the SHA-256 of the question inside (empty without one)."""
    frame, end = _decode(data, _DIGEST_BYTES, from_site=False)
    question = frame.sections.get("question")
    hashed = b"" if question is None else hash_question(question)
    start = len(data) - _DIGEST_BYTES - sum(len(s) for s in frame.sections.values())
    if _check(frame, data[:start], hashed) != data[end:]:
        raise SecureSumError(f"a message {frame.kind!r} is refused: it was damaged")
    return frame, hashed


def hash_question(question: bytes | memoryview) -> bytes:
    """SHA-256 of a question."""
    return hashlib.sha256(question).digest()


def is_frame(data: bytes) -> bool:
    """Whether the bytes are meant as a message of the secure sum."""
    return data[:4] == MAGIC


def question_span(data: bytes) -> tuple[int, int]:
    """Where the question stands in a coordinator's message, which is the same for all sites; an
    empty span where there is none. The form is checked, nothing else."""
    header, start = _header(data)
    for name, size in zip(SECTIONS[header["kind"]], header["sections"], strict=True):
        if name == "question":
            return start, start + size
        start += size
    return 0, 0


def peek(data: bytes) -> Frame:
    """A message that is *not* checked beyond its form: for dispatch and for counting bytes."""
    from_site = _header(data)[0]["kind"] in FROM_SITES
    return _decode(data, SIGNATURE_BYTES if from_site else _DIGEST_BYTES, from_site)[0]


def _parts(frame: Frame) -> list[Any]:
    header = {
        "kind": frame.kind,
        "run": frame.run,
        "number": frame.number,
        "site": frame.site,
        "label": frame.label,
        "sections": [len(frame.sections[name]) for name in SECTIONS[frame.kind]],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    head = _PREFIX.pack(MAGIC, VERSION, len(text)) + text
    return [head, *(frame.sections[name] for name in SECTIONS[frame.kind])]


def _signed(parts: list[Any], roster: Roster) -> bytes:
    state = hashlib.sha256(framed(PROTOCOL, "message", roster.digest))
    for part in parts:
        state.update(part)
    return state.digest()


def _check(frame: Frame, head: bytes, question_digest: bytes) -> bytes:
    sections = (
        question_digest if name == "question" else bytes(frame.sections[name])
        for name in SECTIONS[frame.kind]
    )
    return hashlib.sha256(framed(PROTOCOL, "to a site", head, *sections)).digest()


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX.size:
        raise SecureSumError("the message is cut short")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise SecureSumError("not a message of the secure sum")
    if version != VERSION:
        raise SecureSumError(f"secure-sum version {version}; this program speaks {VERSION}")
    end = _PREFIX.size + length
    if length > _LARGEST_HEADER or end > len(data):
        raise SecureSumError("the message is cut short or its header too long")
    try:
        header = json.loads(data[_PREFIX.size : end])
    except (ValueError, RecursionError):
        raise SecureSumError("the header is not JSON") from None
    _check_header(header)
    return header, end


def _check_header(header: Any) -> None:
    types = {"kind": str, "run": str, "number": int, "site": str, "label": str, "sections": list}
    if not isinstance(header, dict) or set(header) != set(types):
        raise SecureSumError(f"the header must hold exactly {', '.join(types)}")
    for name, type_ in types.items():
        if type(header[name]) is not type_:
            raise SecureSumError(f"the header's {name!r} must be {type_.__name__}")
    if any("\ud800" <= letter <= "\udfff" for letter in header["run"] + header["site"]):
        raise SecureSumError("the header names a run or a site by what is no text")
    sizes = header["sections"]
    names = SECTIONS.get(header["kind"])
    if names is None:
        raise SecureSumError("an unknown kind of message")
    if len(sizes) != len(names) or any(type(s) is not int or s < 0 for s in sizes):
        raise SecureSumError(f"a message {header['kind']!r} with wrong parts")


def _decode(data: bytes, seal: int, from_site: bool) -> tuple[Frame, int]:
    header, start = _header(data)
    if (header["kind"] in FROM_SITES) != from_site:
        raise SecureSumError(f"a message {header['kind']!r} goes the other way")
    sections, whole = {}, memoryview(data)
    for name, size in zip(SECTIONS[header["kind"]], header["sections"], strict=True):
        sections[name] = whole[start : start + size]
        start += size
    if start + seal != len(data):
        raise SecureSumError(f"a message {header['kind']!r} was cut short or extended")
    return (
        Frame(
            header["kind"], header["run"], header["number"], header["site"], sections,
            header["label"],
        ),
        start,
    )  # fmt: skip
