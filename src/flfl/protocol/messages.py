"""Typed, versioned messages and their byte form.

Layout (little endian)::

    magic "FLFL" | version u16 | header length u32 | header (JSON) | arrays | check u64

Arrays are 8-byte numbers. The check is the CRC-32 of all that stands before the arrays plus the
sum of the arrays' 64-bit words: it catches accidents in one fast pass (a CRC of everything was a
third of a round's time). Against malice there are signatures, not checksums.

The header names the message (run, number, kind, sender or receiver) and lists the arrays with
type and shape. A receiver decodes against the *schema* of the kind it expects and against the
dimensions it already knows, so a message of a wrong version, shape, type or size, or with a
number that is not finite, is refused before any of it is used. No pickle, nothing executable.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from flfl.errors import FLFLError
from flfl.secagg.wire import SHARE_SECTIONS, is_frame, peek

VERSION = 1
MAGIC = b"FLFL"
LARGEST_MESSAGE = 2**30
_PREFIX = struct.Struct("<4sHI")
_CHECK = struct.Struct("<Q")
_LARGEST_HEADER = 2**16

FieldType = Literal["float", "int", "sum"]
_DTYPES: Mapping[str, np.dtype] = {
    "float": np.dtype("<f8"),
    "int": np.dtype("<i8"),
    "sum": np.dtype("<i8"),  # fixed point, see fixed_point.py
}
Body = dict[str, np.ndarray]


class MessageError(FLFLError, ValueError):
    """A message that is refused, with the reason."""


@dataclass(frozen=True)
class Field:
    """Type and shape of one array. A dimension is a number, or a name that the receiver knows
    (``"slots"``), or ``"*"`` for any length."""

    type: FieldType
    shape: tuple[str | int, ...] = ()


Schema = Mapping[str, Field]


@dataclass(frozen=True)
class Exchange:
    """One kind of question and the answer it wants.

    ``cohort`` is ``"fixes"`` where the answer counts on the sites that gave it, and ``"whole"``
    where all of those must be in the sum: it is opened for all of them or not at all.
    """

    question: Schema
    answer: Schema
    cohort: Literal["any", "fixes", "whole"] = "any"


Protocol = Mapping[str, Exchange]
"""Every kind of exchange an algorithm uses, by name."""


@dataclass(frozen=True)
class Question:
    """Coordinator to site. ``to`` is a site, or ``"*"`` for all of them."""

    run: str
    number: int
    kind: str
    to: str
    body: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Answer:
    """Site to coordinator, in reply to the question of the same number."""

    run: str
    number: int
    kind: str
    site: str
    body: Mapping[str, np.ndarray]


def encode(message: Question | Answer, protocol: Protocol) -> bytes:
    """The byte form of a message; refuses a body that breaks the schema.

    Examples
    --------
    >>> ping = {"ping": Exchange({"x": Field("float", (2,))}, {})}
    >>> data = encode(Question("run", 1, "ping", "*", {"x": np.array([1.0, 2.0])}), ping)
    >>> decode_question(data, ping, {}).body["x"].tolist()
    [1.0, 2.0]
    """
    schema = _schema(protocol, message.kind, isinstance(message, Answer))
    arrays = {
        name: np.asarray(message.body[name], dtype=_DTYPES[field.type], order="C")
        for name, field in schema.items()
        if name in message.body
    }
    _check_body(arrays, schema, {}, message.kind, extra=set(message.body) - set(schema))
    peer = {"site": message.site} if isinstance(message, Answer) else {"to": message.to}
    header = {
        "run": message.run,
        "number": message.number,
        "kind": message.kind,
        **peer,
        "arrays": [[n, schema[n].type, list(a.shape)] for n, a in arrays.items()],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    parts: list[Any] = [_PREFIX.pack(MAGIC, VERSION, len(text)), text]
    # Arrays as they lie in memory: joining is the only copy.
    parts += [array.reshape(-1).data.cast("B") for array in arrays.values() if array.size]
    data = b"".join(parts)
    return data + _CHECK.pack(_check(data, _PREFIX.size + len(text), len(data)))


def decode_question(data: bytes, protocol: Protocol, sizes: Mapping[str, int]) -> Question:
    """Decode what a site received; ``sizes`` gives the dimensions it knows by name."""
    header, body = _decode(data, protocol, sizes, answer=False)
    return Question(header["run"], header["number"], header["kind"], header["to"], body)


def decode_answer(data: bytes, protocol: Protocol, sizes: Mapping[str, int]) -> Answer:
    """Decode what the coordinator received."""
    header, body = _decode(data, protocol, sizes, answer=True)
    return Answer(header["run"], header["number"], header["kind"], header["site"], body)


def is_sum(protocol: Protocol, kind: str) -> bool:
    """Whether the answer to this kind of question is nothing but sums, and at least one.

    Examples
    --------
    >>> is_sum({"ping": Exchange({}, {"x": Field("sum")}), "end": Exchange({}, {})}, "ping")
    True
    """
    fields = _schema(protocol, kind, answer=True).values()
    return bool(fields) and all(field.type == "sum" for field in fields)


def check_answer(
    body: Mapping[str, np.ndarray], protocol: Protocol, kind: str, sizes: Mapping[str, int]
) -> None:
    """Refuse arrays that break the schema of an answer, as decoding one would."""
    _check_body(dict(body), _schema(protocol, kind, answer=True), sizes, kind, extra=set())


def kind_of(data: bytes) -> str:
    """The kind of a message that this process encoded itself (for counting; unchecked)."""
    return next(iter(bytes_by_kind(data)))


def sender(data: bytes) -> str | None:
    """The site that a message says it comes from, None where that cannot be read (unchecked)."""
    try:
        if is_frame(data):
            return peek(data).site
        return str(_read_header(data, answer=True)[0]["site"])
    except FLFLError:
        return None


_SECURE_KINDS = {
    "hello": "keys",
    "keys": "keys",
    "bundle": "keys",
    "shares": "shares",
    "agree": "unmask",
    "consent": "unmask",
    "reveal": "unmask",
    "unmask": "unmask",
}


def bytes_by_kind(data: bytes) -> dict[str, int]:
    """How many bytes of a message belong to which kind, the message's own kind first.

    What secure sums add is counted apart from what they carry: ``keys``, ``shares`` (with vaults
    and commitments) and ``unmask``.
    """
    if not is_frame(data):
        _, _, length = _PREFIX.unpack_from(data)
        return {str(json.loads(data[_PREFIX.size : _PREFIX.size + length])["kind"]): len(data)}
    frame = peek(data)
    kind = _SECURE_KINDS.get(frame.kind, frame.label)
    shares = sum(len(frame.sections.get(name, b"")) for name in SHARE_SECTIONS)
    if kind == "shares" or not shares:
        return {kind: len(data)}
    return {kind: len(data) - shares, "shares": shares}


def _schema(protocol: Protocol, kind: str, answer: bool) -> Schema:
    if kind not in protocol:
        raise MessageError(f"unknown kind of message {kind!r}")
    return protocol[kind].answer if answer else protocol[kind].question


def _decode(
    data: bytes, protocol: Protocol, sizes: Mapping[str, int], *, answer: bool
) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    header, start = _read_header(data, answer)
    schema = _schema(protocol, header["kind"], answer)
    body: Body = {}
    for name, kind, shape in header["arrays"]:
        if name not in schema or schema[name].type != kind:
            raise MessageError(f"{header['kind']}: array {name!r} of type {kind!r} is not expected")
        dtype = _DTYPES[kind]
        count = math.prod(shape)
        stop = start + count * dtype.itemsize
        if stop > len(data) - _CHECK.size:
            raise MessageError(f"{header['kind']}: array {name!r} is cut short")
        body[name] = np.frombuffer(data, dtype, count, start).reshape(shape)
        start = stop
    if start != len(data) - _CHECK.size:
        raise MessageError(f"{header['kind']}: {len(data) - start} bytes too many")
    _check_body(body, schema, sizes, header["kind"], extra=set())
    return header, MappingProxyType(body)


def _check(data: bytes, arrays: int, end: int) -> int:
    """The check of a message whose arrays stand between two positions."""
    words = np.frombuffer(data, "<u8", (end - arrays) // 8, arrays)
    return (zlib.crc32(data[:arrays]) + int(words.sum(dtype=np.uint64))) % 2**64


def _read_header(data: bytes, answer: bool) -> tuple[dict[str, Any], int]:
    if len(data) > LARGEST_MESSAGE:
        raise MessageError(f"a message of {len(data)} bytes is larger than {LARGEST_MESSAGE}")
    stop = len(data) - _CHECK.size
    if stop < _PREFIX.size:
        raise MessageError("the message is cut short")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise MessageError("not a message of FLFL")
    if version != VERSION:
        raise MessageError(f"message version {version}; this program speaks version {VERSION}")
    end = _PREFIX.size + length
    if length > _LARGEST_HEADER or end > stop or (stop - end) % 8:
        raise MessageError("the lengths do not add up: the message was damaged or cut short")
    if _check(data, end, stop) != _CHECK.unpack_from(data, stop)[0]:
        raise MessageError("the check does not match: the message was damaged")
    try:
        header = json.loads(data[_PREFIX.size : end])
    except (ValueError, RecursionError):
        raise MessageError("the header is not JSON") from None
    _check_header(header, "site" if answer else "to")
    return header, end


def _check_header(header: Any, peer: str) -> None:
    types = {"run": str, "number": int, "kind": str, peer: str, "arrays": list}
    if not isinstance(header, dict) or set(header) != set(types):
        raise MessageError(f"the header must hold exactly {', '.join(sorted(types))}")
    for name, type_ in types.items():
        if type(header[name]) is not type_:
            raise MessageError(f"the header's {name!r} must be {type_.__name__}")
    for row in header["arrays"]:
        if not (
            isinstance(row, list)
            and len(row) == 3
            and isinstance(row[0], str)
            and isinstance(row[1], str)
            and isinstance(row[2], list)
            and all(type(size) is int and 0 <= size <= LARGEST_MESSAGE for size in row[2])
            and len(row[2]) <= 4
            # Beside a dimension of zero, others can be larger than any array may be.
            and math.prod(max(size, 1) for size in row[2]) <= LARGEST_MESSAGE
        ):
            raise MessageError("the header's list of arrays is malformed")


def _check_body(
    body: Body, schema: Schema, sizes: Mapping[str, int], kind: str, extra: set[str]
) -> None:
    if extra or set(body) != set(schema):
        raise MessageError(f"{kind}: holds {sorted(set(body) | extra)}, must hold {sorted(schema)}")
    for name, field in schema.items():
        array = body[name]
        wanted = tuple(sizes.get(d, "*") if isinstance(d, str) else d for d in field.shape)
        if len(wanted) != array.ndim or any(
            w not in ("*", size) for w, size in zip(wanted, array.shape, strict=True)
        ):
            raise MessageError(f"{kind}: {name!r} has shape {array.shape}, expected {wanted}")
        if field.type == "float" and not np.isfinite(array).all():
            raise MessageError(f"{kind}: {name!r} holds a number that is not finite")
