"""Questions and answers: what each may hold, their byte form, and numbers that are to be summed.

A message is :mod:`flfl.codec` under a version and a check against accidents (against malice there
are signatures). One of a wrong version, shape, type or size, or with a number that is not finite,
is refused before any of it is used.

Numbers that are to be added up travel as 64-bit integers, multiples of 2^-30: a sum does not depend
on the order of the answers, nor on how sensors are grouped into sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from flfl.codec import CodecError, unwrap, wrap
from flfl.errors import FLFLError, OutOfRangeError
from flfl.secagg import wire

VERSION = 2
_FORM = b"FLFL"
_TYPES = {"float": np.dtype("<f8"), "int": np.dtype("<i8"), "sum": np.dtype("<i8")}

FRACTION_BITS = 30
"""Sums have a resolution of 2^-30, about 1e-9."""
LARGEST = 2.0**30
"""Largest magnitude one site may add to a sum; :func:`add` also refuses a sum that does not fit."""


class ProtocolError(FLFLError, ValueError):
    """A message that is refused: malformed, from the wrong party, or at the wrong time."""


@dataclass(frozen=True)
class Field:
    """Type and shape of one array. ``"sum"`` is in fixed point, to be added up over the sites. A
    dimension is a number, or a name that the receiver knows (``"slots"``), or ``"*"``: any."""

    type: Literal["float", "int", "sum"]
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
class _Message:
    run: str
    number: int
    kind: str
    site: str
    body: Mapping[str, np.ndarray]


class Question(_Message):
    """Coordinator to a site, or to all of them (``"*"``)."""


class Answer(_Message):
    """Site to coordinator, in reply to the question of the same number."""


M = TypeVar("M", Question, Answer)


def encode(message: Question | Answer, protocol: Protocol) -> bytes:
    """The byte form of a message; refuses a body that breaks the schema.

    Examples
    --------
    >>> ping = {"ping": Exchange({"x": Field("float", (2,))}, {})}
    >>> data = encode(Question("run", 1, "ping", "*", {"x": np.array([1.0, 2.0])}), ping)
    >>> decode(Question, data, ping, {}).body["x"].tolist()
    [1.0, 2.0]
    """
    kind, schema = message.kind, _schema(type(message), message.kind, protocol)
    given = {name: np.asarray(value) for name, value in message.body.items()}
    # In the order of the schema: two parties' messages of a kind are alike.
    body = {n: given[n].astype(_TYPES[f.type], "C") for n, f in schema.items() if n in given}
    check_body(given | body, schema, {}, kind)
    form = type(message).__name__
    return wrap(_FORM, VERSION, [form, message.run, message.number, kind, message.site, body])


def decode(form: type[M], data: bytes, protocol: Protocol, sizes: Mapping[str, int]) -> M:
    """The `Question` that a site received, or the `Answer` that the coordinator received; refuses
    what :func:`encode` does not make. ``sizes`` are the dimensions that the receiver knows."""
    try:
        fields = unwrap(_FORM, VERSION, data)
    except CodecError as error:
        raise ProtocolError(f"a message is refused: {error}") from None
    types = [str, str, int, str, str, dict]
    if type(fields) is not list or [type(field) for field in fields] != types:
        raise ProtocolError("a message must hold its form, run, number, kind, site and arrays")
    name, run, number, kind, site, body = fields
    if name != form.__name__:
        raise ProtocolError(f"what came is no {form.__name__}")
    check_body(body, _schema(form, kind, protocol), sizes, kind)
    return form(run, number, kind, site, MappingProxyType(body))


def _schema(form: type[Question] | type[Answer], kind: str, protocol: Protocol) -> Schema:
    if kind not in protocol:
        raise ProtocolError(f"unknown kind of message {kind!r}")
    return protocol[kind].question if form is Question else protocol[kind].answer


def check_body(
    body: Mapping[str, np.ndarray], schema: Schema, sizes: Mapping[str, int], kind: str
) -> None:
    """Refuse arrays that break a schema."""
    if set(body) != set(schema):
        raise ProtocolError(f"{kind}: holds {sorted(body)}, must hold {sorted(schema)}")
    for name, field in schema.items():
        array = body[name]
        if not isinstance(array, np.ndarray) or array.dtype != _TYPES[field.type]:
            raise ProtocolError(f"{kind}: {name!r} is no array of the type {field.type!r}")
        wanted = tuple(sizes.get(d, "*") if isinstance(d, str) else d for d in field.shape)
        if len(wanted) != array.ndim or any(
            w not in ("*", size) for w, size in zip(wanted, array.shape, strict=True)
        ):
            raise ProtocolError(f"{kind}: {name!r} has shape {array.shape}, expected {wanted}")
        if field.type == "float" and not np.isfinite(array).all():
            raise ProtocolError(f"{kind}: {name!r} holds a number that is not finite")


def sender(data: bytes) -> str | None:
    """The site that a message says it comes from, None where that cannot be read (unchecked)."""
    try:
        secure = data.startswith(wire.FORM)
        return wire.decode(data).site if secure else str(unwrap(_FORM, VERSION, data)[4])
    except (FLFLError, LookupError, TypeError):
        return None


_SECURE_KINDS = {
    "hello": "keys", "keys": "keys", "bundle": "keys", "shares": "shares", "agree": "unmask",
    "consent": "unmask", "reveal": "unmask", "unmask": "unmask",
}  # fmt: skip


def bytes_by_kind(data: bytes) -> dict[str, int]:
    """How many bytes of a message belong to which kind, its own first. What secure sums add counts
    apart: ``keys``, ``shares`` (with vaults and commitments) and ``unmask``."""
    if not data.startswith(wire.FORM):
        return {str(unwrap(_FORM, VERSION, data)[3]): len(data)}
    frame = wire.decode(data)
    kind = _SECURE_KINDS.get(frame.kind, frame.label)
    parts = [frame.sections.get(name, b"") for name in wire.SHARES]
    shares = sum(sum(map(len, part)) if isinstance(part, list) else len(part) for part in parts)
    if kind == "shares" or not shares:
        return {kind: len(data)}
    return {kind: len(data) - shares, "shares": shares}


# --- numbers that are to be summed ---------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """Numbers that a site has put in fixed point itself, so that nobody takes them for counts."""

    values: NDArray[np.int64]


def to_fixed(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to multiples of 2^-30; refuses what is not finite or beyond :data:`LARGEST`.

    Examples
    --------
    >>> to_fixed(np.array([1.0, -0.5])).tolist()
    [1073741824, -536870912]
    """
    values = np.asarray(values, dtype=np.float64)
    # One reduction serves both checks: a NaN or an infinity fails the comparison too.
    if values.size and not max(float(values.max()), -float(values.min())) <= LARGEST:
        raise OutOfRangeError(f"a number to be summed is not finite or beyond {LARGEST:.0f}")
    return np.rint(values * 2.0**FRACTION_BITS).astype(np.int64)


def from_fixed(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Back to floating point."""
    return values.astype(np.float64) * 2.0**-FRACTION_BITS


def add(terms: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Exact sum of integer arrays of one shape; refuses to wrap around."""
    if len({term.shape for term in terms}) > 1:
        raise OutOfRangeError("the sites' answers have different shapes")
    room, stack = np.iinfo(np.int64).max // len(terms), np.stack(terms)
    if stack.size and max(int(stack.max()), -int(stack.min())) > room:
        raise OutOfRangeError("the sum of the sites' answers would not fit in 64 bits")
    return stack.sum(axis=0)
