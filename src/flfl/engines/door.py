"""A door: letters go through a socket of this machine to a process of the owner's own.

Whoever carries letters to a site need not be able to read its files, nor have its key: it knocks,
and is given the reply. Layout of what goes through (little endian)::

    magic "FLD1" | count u32 | sizes u64 ... | head (JSON), then the parts
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flfl.engines.letters import (
    LARGEST_HEAD,
    LARGEST_LETTER,
    Letter,
    LetterError,
    read_letter,
)
from flfl.errors import FLFLError, InputError, explained

_LOG = logging.getLogger("flfl.door")
MAGIC = b"FLD1"
_PREFIX = struct.Struct("<4sI")
_MOST_PARTS = 16
_LONGEST = 100
_TALK_SECONDS = 20.0
"""For a whole letter to come or go through, from its first byte on."""


class NobodyError(FLFLError):
    """There is no door, or nobody behind it."""


class Door:
    """The owner's side: one letter after the other.

    Parameters
    ----------
    path : of the socket. Its group may knock, nobody else but the owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_socket():
            _check_deserted(path)
        self._socket = socket.socket(socket.AF_UNIX)
        remedy = "Give a path in a folder that can be written, at which there is nothing else"
        with explained("the door cannot be opened", where=str(path), remedy=remedy):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_socket():
                    path.unlink()
                with _address(path) as address:
                    self._socket.bind(address)
                path.chmod(0o660)
                self._made = _identity(path)
                self._socket.listen(8)
            except OSError:
                self._socket.close()
                raise

    @contextmanager
    def visit(self, seconds: float) -> Iterator[tuple[Letter, socket.socket] | None]:
        """The next letter that comes, and where its reply goes; None when none comes."""
        self._socket.settimeout(seconds)
        try:
            caller, _ = self._socket.accept()
        except TimeoutError:
            yield None
            return
        with caller:
            try:
                letter = _receive(caller, _TALK_SECONDS)
            except (OSError, FLFLError) as error:
                _LOG.warning("a letter did not come through: %s", error)
                yield None
                return
            yield letter, caller

    @property
    def found(self) -> bool:
        """Whether those who knock find this door: some systems clear away old sockets."""
        try:
            return _identity(self.path) == self._made
        except OSError:
            return False

    def close(self) -> None:
        """Close it."""
        if self.found:
            self.path.unlink(missing_ok=True)
        self._socket.close()


def hand_out(reply: Letter, caller: socket.socket) -> None:
    """Give the reply to whoever brought the letter, if it is still there."""
    try:
        _send(caller, reply)
    except OSError as error:
        _LOG.warning("the reply was not fetched: %s", error)


def knock(path: Path, letter: Letter, seconds: float) -> Letter:
    """Bring a letter to a door, and wait for the reply.

    Raises
    ------
    FLFLError
        When nobody answers.
    """
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(_TALK_SECONDS)
            with _address(path) as address:
                caller.connect(address)
            _send(caller, letter)
            return _receive(caller, seconds)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NobodyError(f"{path}: nobody is behind the door ({error.strerror})") from None
    except OSError as error:
        raise FLFLError(f"{path}: the door is not answered ({error})") from None


def _check_deserted(path: Path) -> None:
    """Refuse to take another process's door from it."""
    with socket.socket(socket.AF_UNIX) as caller, _address(path) as address:
        caller.settimeout(_TALK_SECONDS)
        try:
            caller.connect(address)
        except OSError:
            return
    raise InputError(
        "another process answers at this door",
        where=str(path),
        remedy="Stop that one, or give each site a socket of its own",
    )


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """A short name of a socket: the system takes no more than about 100 letters."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _send(peer: socket.socket, letter: Letter) -> None:
    parts = [letter.head().encode(), *letter.parts()]
    sizes = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    peer.settimeout(_TALK_SECONDS)
    peer.sendall(_PREFIX.pack(MAGIC, len(parts)) + sizes)
    for part in parts:
        peer.sendall(part)


def _receive(peer: socket.socket, seconds: float) -> Letter:
    """A letter that begins within so many seconds."""
    peer.settimeout(seconds)
    first = peer.recv(1)
    until = time.monotonic() + _TALK_SECONDS
    magic, count = _PREFIX.unpack(first + _exactly(peer, _PREFIX.size - len(first), until))
    if magic != MAGIC or not 1 <= count <= _MOST_PARTS:
        raise LetterError("this is no letter")
    sizes = struct.unpack(f"<{count}Q", _exactly(peer, 8 * count, until))
    if sizes[0] > LARGEST_HEAD or sum(sizes) > LARGEST_LETTER:
        raise LetterError(f"a letter of {sum(sizes)} bytes")
    head, *parts = [_exactly(peer, size, until) for size in sizes]
    return read_letter(head.decode("utf-8", "replace"), parts)


def _exactly(peer: socket.socket, size: int, until: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        # Who sends a byte now and then must not keep the others out.
        peer.settimeout(max(until - time.monotonic(), 1e-3))
        piece = peer.recv(min(size - len(data), 2**20))
        if not piece:
            raise LetterError("a letter was cut short")
        data += piece
    return bytes(data)
