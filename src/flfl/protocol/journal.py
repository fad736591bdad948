"""A file of records that survives a crash: what was appended and forced to the disk is there again.

Layout (little endian)::

    magic "FLJ1" | records: length u32 | CRC-32 u32 | bytes

A record that was cut short by a crash is the last one, and is taken off when the file is opened.
Damage anywhere else is an error: what was accepted must not be forgotten silently.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from flfl.errors import FLFLError, InputError, explained

MAGIC = b"FLJ1"
_HEAD = struct.Struct("<II")
_LARGEST = 2**30


class JournalError(FLFLError):
    """A record could not be written down, so nothing may follow from it."""


class Journal:
    """An append-only file, readable by its owner only.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal"
    >>> journal = Journal(path)
    >>> journal.append(b"one"); journal.append(b"two"); journal.sync(); journal.close()
    >>> Journal(path).records
    [b'one', b'two']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        remedy = "Give a folder that can be written"
        with explained("the journal cannot be opened", where=str(path), remedy=remedy):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        data = path.read_bytes()
        self.records: list[bytes] = []
        """What was in the file when it was opened."""
        self._end = self._scan(data)
        if self._end < len(data) or not data:
            self._cut(max(self._end, 0))

    def append(self, record: bytes) -> None:
        """Add a record. It is safe after :meth:`sync`."""
        whole = _HEAD.pack(len(record), zlib.crc32(record)) + record
        try:
            view, at = memoryview(whole), self._end
            while view:
                done = os.pwrite(self._file, view, at)
                view, at = view[done:], at + done
        except OSError as error:
            self._cut(self._end)
            raise JournalError(f"{self.path}: cannot write ({error.strerror})") from None
        self._end += len(whole)

    def sync(self) -> None:
        """Force what was appended to the disk."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot write ({error.strerror})") from None

    def clear(self) -> None:
        """Forget all records."""
        self._cut(len(MAGIC))
        self.records = []

    def close(self) -> None:
        """Close the file. Once: by a second time its number may be another file's."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _cut(self, end: int) -> None:
        try:
            os.ftruncate(self._file, end)
            if end < len(MAGIC):
                os.pwrite(self._file, MAGIC, 0)
                end = len(MAGIC)
            os.fsync(self._file)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot write ({error.strerror})") from None
        self._end = end

    def _scan(self, data: bytes) -> int:
        """Fill ``records``; returns where the last whole one ends."""
        if len(data) < len(MAGIC):
            return 0
        if data[: len(MAGIC)] != MAGIC:
            raise InputError(
                "this is not a journal", where=str(self.path), remedy="Move the file away"
            )
        at = len(MAGIC)
        while at + _HEAD.size <= len(data):
            length, check = _HEAD.unpack_from(data, at)
            start, stop = at + _HEAD.size, at + _HEAD.size + length
            if length > _LARGEST or stop > len(data):
                return at
            record = data[start:stop]
            if zlib.crc32(record) != check:
                if stop < len(data):
                    raise InputError(
                        f"record {len(self.records) + 1} of the journal is damaged",
                        where=str(self.path),
                        remedy="Restore the file, or move it away to begin the run anew",
                    )
                return at
            self.records.append(record)
            at = stop
        return at
