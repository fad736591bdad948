"""Messages cut into packets that a broker takes, and put together again.

Layout of a packet (little endian)::

    magic "FLM1" | CRC-32 of the rest u32 | header length u16 | header (JSON) | piece

Every packet says which message it is a piece of. A message is known by the hash of all it says:
sent twice it is the same message, and one that was damaged on the way is none.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flfl.errors import FLFLError
from flfl.transport.link import LARGEST_MESSAGE, Message
from flfl.transport.mqtt.compression import compress, expand

MAGIC = b"FLM1"
_PREFIX = struct.Struct("<4sIH")
_LARGEST_HEADER = 8192
_OVERHEAD = _PREFIX.size + _LARGEST_HEADER
PIECE = 2**18
SMALLEST_PIECE = 2**10
_MOST_PIECES = 2**16
"""Of one message: small ones cost more memory than they carry."""


class PacketError(FLFLError):
    """A packet that is dropped, with the reason."""


def packets(message: Message, piece: int = PIECE, packed: bool = False) -> list[bytes]:
    """The packets of a message, each with at most ``piece`` bytes of it.

    Examples
    --------
    >>> parts = packets(Message("answer", "run", {}, bytes(1000)), piece=400)
    >>> inbox = Inbox()
    >>> [inbox.add(part) is not None for part in parts]
    [False, False, True]
    """
    data = compress(message.data) if packed else message.data
    count = max(1, -(-len(data) // piece))
    header = {
        "id": message.id,
        "kind": message.kind,
        "run": message.run,
        "about": dict(message.about),
        "of": count,
        "size": len(message.data),
        "packed": packed,
    }
    return [
        _packet(header | {"piece": number}, data[number * piece : (number + 1) * piece])
        for number in range(count)
    ]


def _packet(header: Mapping[str, Any], piece: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > _LARGEST_HEADER:
        raise PacketError(f"a header of {len(text)} bytes is too long to send")
    body = struct.pack("<H", len(text)) + text + piece
    return MAGIC + struct.pack("<I", zlib.crc32(body)) + body


@dataclass
class _Partial:
    header: Mapping[str, Any]
    pieces: dict[int, bytes] = field(default_factory=dict)
    size: int = 0


class Inbox:
    """Puts packets of one sender together.

    Parameters
    ----------
    largest : bytes of a message at the most
    unfinished : messages under way at the most; the oldest is given up

    Guarantees
    ----------
    * A message comes out once it is whole, and equals what was sent.
    * Whatever is put in, it holds at most ``unfinished * largest`` bytes.
    """

    def __init__(self, largest: int = LARGEST_MESSAGE, unfinished: int = 4) -> None:
        self._largest, self._unfinished = largest, unfinished
        self._partial: OrderedDict[str, _Partial] = OrderedDict()

    def add(self, packet: bytes) -> Message | None:
        """Take one packet; the message that it completes, if it does.

        Raises
        ------
        PacketError
            When the packet is damaged, too large, or contradicts the others of its message.
        """
        header, piece = _read(packet, self._largest)
        partial = self._partial.setdefault(header["id"], _Partial(_common(header)))
        if partial.header != _common(header):
            raise PacketError("two packets of one message contradict each other")
        self._partial.move_to_end(header["id"])
        if header["piece"] not in partial.pieces:
            partial.pieces[header["piece"]] = piece
            partial.size += len(piece)
        if partial.size > self._largest:
            del self._partial[header["id"]]
            raise PacketError(f"a message of more than {self._largest} bytes")
        while len(self._partial) > self._unfinished:
            self._partial.popitem(last=False)
        if len(partial.pieces) < header["of"]:
            return None
        self._partial.pop(header["id"], None)
        return _whole(header, b"".join(partial.pieces[n] for n in range(header["of"])))


def _common(header: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name != "piece"}


def _whole(header: Mapping[str, Any], data: bytes) -> Message:
    if header["packed"]:
        data = expand(data, header["size"])
    message = Message(header["kind"], header["run"], header["about"], data)
    if len(data) != header["size"] or message.id != header["id"]:
        raise PacketError("the message was damaged on the way")
    return message


_TYPES = {
    "id": str,
    "kind": str,
    "run": str,
    "about": dict,
    "of": int,
    "size": int,
    "packed": bool,
    "piece": int,
}


def _read(packet: bytes, largest: int) -> tuple[dict[str, Any], bytes]:
    if len(packet) < _PREFIX.size:
        raise PacketError("a packet is cut short")
    if len(packet) > largest + _OVERHEAD:
        raise PacketError(f"a packet of {len(packet)} bytes is too large")
    magic, check, length = _PREFIX.unpack_from(packet)
    if magic != MAGIC:
        raise PacketError("not a packet of FLFL")
    if zlib.crc32(memoryview(packet)[8:]) != check:
        raise PacketError("a packet was damaged on the way")
    end = _PREFIX.size + length
    if length > _LARGEST_HEADER or end > len(packet):
        raise PacketError("a packet's header is too long")
    try:
        header = json.loads(packet[_PREFIX.size : end])
    except (ValueError, RecursionError):
        raise PacketError("a packet's header is not JSON") from None
    _check_header(header, largest)
    return header, packet[end:]


def _check_header(header: Any, largest: int) -> None:
    if not isinstance(header, dict) or set(header) != set(_TYPES):
        raise PacketError(f"a packet's header must hold exactly {', '.join(_TYPES)}")
    for name, type_ in _TYPES.items():
        if type(header[name]) is not type_:
            raise PacketError(f"a packet's {name!r} must be {type_.__name__}")
    if not all(type(value) in (str, int) for value in header["about"].values()):
        raise PacketError("a packet's facts must be texts and whole numbers")
    if not 0 <= header["size"] <= largest:
        raise PacketError(f"a message of {header['size']} bytes; at most {largest} are taken")
    most = min(header["size"] + 64, _MOST_PIECES)
    if not 0 <= header["piece"] < header["of"] <= most:
        raise PacketError("a packet's numbers make no sense")
