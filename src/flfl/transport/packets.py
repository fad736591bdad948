"""Messages cut into packets that a broker takes, and put together again.

A packet is ``[hash of the message's bytes, number of the piece, how many pieces, piece]``. A
message that is sent twice is the same message, and one that was damaged on the way is none.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

from flfl.codec import CodecError, pack, unpack
from flfl.transport.link import Message

_HASH = 16
_HEADER = 64
"""Bytes of a packet besides its piece, at the most."""
_MOST_PIECES = 2**16
"""Of one message: small ones cost more memory than they carry."""


def packets(message: Message, piece: int) -> list[bytes]:
    """The packets of a message, each with at most ``piece`` bytes of it.

    Examples
    --------
    >>> parts = packets(Message("answer", "run", {}, bytes(1000)), piece=400)
    >>> inbox = Inbox(largest=10_000)
    >>> [inbox.add(part) is not None for part in parts]
    [False, False, True]
    """
    data = message.to_bytes()
    key, count = hashlib.sha256(data).digest()[:_HASH], -(-len(data) // piece)
    return [pack([key, n, count, data[n * piece : (n + 1) * piece]]) for n in range(count)]


@dataclass
class _Partial:
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

    def __init__(self, largest: int, unfinished: int = 4) -> None:
        self._largest, self._unfinished = largest, unfinished
        self._partial: OrderedDict[tuple[bytes, int], _Partial] = OrderedDict()

    def add(self, packet: bytes) -> Message | None:
        """Take one packet; the message that it completes, if it does.

        Raises
        ------
        CodecError
            When the packet, or the message, is damaged or too large.
        """
        if len(packet) > self._largest + _HEADER:
            raise CodecError(f"a packet of {len(packet)} bytes is too large")
        key, number, count, piece = _read(packet)
        partial = self._partial.setdefault((key, count), _Partial())
        self._partial.move_to_end((key, count))
        if number not in partial.pieces:
            partial.pieces[number] = piece
            partial.size += len(piece)
        if partial.size > self._largest:
            del self._partial[key, count]
            raise CodecError(f"a message of more than {self._largest} bytes")
        while len(self._partial) > self._unfinished:
            self._partial.popitem(last=False)
        if len(partial.pieces) < count:
            return None
        del self._partial[key, count]
        data = b"".join(partial.pieces[n] for n in range(count))
        if hashlib.sha256(data).digest()[:_HASH] != key:
            raise CodecError("the message was damaged on the way")
        return Message.from_bytes(data)


def _read(packet: bytes) -> tuple[bytes, int, int, bytes]:
    value = unpack(packet)
    types = [type(part) for part in value] if isinstance(value, list) else []
    if types != [bytes, int, int, bytes]:
        raise CodecError("this is no packet of a message")
    key, number, count, piece = value
    if len(key) != _HASH or not 0 <= number < count <= _MOST_PIECES or not piece:
        raise CodecError("the numbers of a packet do not fit together")
    return key, number, count, piece
