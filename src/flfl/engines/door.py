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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flfl.engines.letters import LARGEST_HEAD, Letter, LetterError, read_letter
from flfl.engines.link import LARGEST_MESSAGE
from flfl.errors import FLFLError, explained

_LOG = logging.getLogger("flfl.door")
MAGIC = b"FLD1"
_PREFIX = struct.Struct("<4sI")
_MOST_PARTS = 16
_LONGEST = 100
_TALK_SECONDS = 60.0
"""For a letter to come or go through; how long an answer takes is not limited here."""


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
        self._socket = socket.socket(socket.AF_UNIX)
        remedy = "Give a path in a folder that can be written, at which there is nothing else"
        with explained("the door cannot be opened", where=str(path), remedy=remedy):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_socket():
                    # Of an earlier process: a live one would hold the state folder.
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
                caller.settimeout(_TALK_SECONDS)
                letter = _receive(caller)
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
            caller.settimeout(seconds)
            return _receive(caller)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NobodyError(f"{path}: nobody is behind the door ({error.strerror})") from None
    except OSError as error:
        raise FLFLError(f"{path}: the door is not answered ({error})") from None


def _identity(path: Path) -> tuple[int, int]:
    # The number alone is given to the next file that is made.
    status = path.stat()
    return status.st_ino, status.st_ctime_ns


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
    peer.sendall(_PREFIX.pack(MAGIC, len(parts)) + sizes)
    for part in parts:
        peer.sendall(part)


def _receive(peer: socket.socket) -> Letter:
    magic, count = _PREFIX.unpack(_exactly(peer, _PREFIX.size))
    if magic != MAGIC or not 1 <= count <= _MOST_PARTS:
        raise LetterError("this is no letter")
    sizes = struct.unpack(f"<{count}Q", _exactly(peer, 8 * count))
    if sizes[0] > LARGEST_HEAD or max(sizes) > LARGEST_MESSAGE:
        raise LetterError(f"a letter with a part of {max(sizes)} bytes")
    head, *parts = [_exactly(peer, size) for size in sizes]
    return read_letter(head.decode("utf-8", "replace"), parts)


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = peer.recv(min(size - len(data), 2**20))
        if not piece:
            raise LetterError("a letter was cut short")
        data += piece
    return bytes(data)
