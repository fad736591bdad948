"""Journals: a coordinator and a site that can be killed at any moment and go on with the same bits.

Both state machines follow from their secrets and from what they accepted. So that is written down
before anything follows from it, and a new process is told all of it again. A coordinator's journal
holds every message that it accepted and every site that it gave up; a site's journal every question
that it answered, with the hash of the answer.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flfl.codec import CodecError, pack, unpack
from flfl.errors import FLFLError, InputError, explained
from flfl.protocol.copy_store import connect
from flfl.protocol.messages import bytes_by_kind, sender
from flfl.protocol.session import Coordinator, Envelope, Site
from flfl.protocol.traffic import Traffic

FORMAT = 1


class JournalError(FLFLError):
    """An entry could not be written, so nothing may follow from it."""


class ReplayError(FLFLError):
    """A party that was told the same does not do the same as before."""


class Journal:
    """An append-only SQLite file, readable by its owner only.

    An entry is any value of :mod:`flfl.codec`. Each row holds the SHA-256 of its entry and of the
    row before: what was changed, removed or reordered is an error, never forgotten silently.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.journal"
    >>> journal = Journal(path)
    >>> journal.append({"absent": "north"}); journal.append({"message": b"..."}); journal.close()
    >>> list(Journal(path))
    [{'absent': 'north'}, {'message': b'...'}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        remedy = "Give a folder that can be written"
        with explained("the journal cannot be opened", where=str(path), remedy=remedy):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            self._database = connect(path)
            made = "select user_version or (select count(*) from sqlite_master)"
            if not self._database.execute(f"{made} from pragma_user_version").fetchone()[0]:
                self._database.executescript(
                    "begin; create table entry (number integer primary key, chain blob, body blob);"
                    f"pragma user_version = {FORMAT}; commit"
                )
            (version,) = self._database.execute("pragma user_version").fetchone()
            last = "select chain from entry order by number desc limit 1"
            rows = self._database.execute(last).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from None
        if version != FORMAT:
            raise self._damaged(f"it is in format {version}, not {FORMAT}")
        self._chain: bytes = rows[0][0] if rows else b""

    def __len__(self) -> int:
        return int(self._database.execute("select count(*) from entry").fetchone()[0])

    def __iter__(self) -> Iterator[Any]:
        """All entries in order; an `InputError` at the first one that is damaged."""
        chain, number = b"", 0
        try:
            rows = self._database.execute("select number, chain, body from entry order by number")
            for number, (stored, after, body) in enumerate(rows, 1):
                chain = hashlib.sha256(chain + body).digest()
                if stored != number or after != chain:
                    raise self._damaged(f"entry {number} is damaged")
                yield unpack(body)
        except (sqlite3.Error, CodecError, TypeError) as error:
            raise self._damaged(f"entry {number + 1} cannot be read: {error}") from None

    def append(self, entry: Any) -> None:
        """Add an entry; it is on the disk when this returns. When it cannot be written, a
        `JournalError` says so, and the entries before it are still there."""
        body = pack(entry)
        chain = hashlib.sha256(self._chain + body).digest()
        try:
            self._database.execute("insert into entry (chain, body) values (?, ?)", (chain, body))
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: cannot write ({error})") from None
        self._chain = chain

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a journal, if it is there, with what SQLite keeps beside it."""
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)

    def _damaged(self, problem: str) -> InputError:
        problem = f"the journal cannot be used: {problem}"
        remedy = "Restore the file, or move it away to begin the run anew"
        return InputError(problem, where=str(self.path), remedy=remedy)


class DurableSite:
    """A site with a journal: a fresh one, with the secret, the copies and the plan that the
    journal's site had. ``replayed`` questions had been answered by an earlier process; ``traffic``
    counts those and its own."""

    def __init__(self, site: Site, path: Path) -> None:
        self.name, self.replayed, self.traffic = site.name, 0, Traffic()
        self._site, self._journal = site, Journal(path)
        self._question, self._answer = b"", b""
        for entry in self._journal:
            self.replayed += 1
            self._question, self._answer = entry["question"], site.receive(entry["question"])
            if hashlib.sha256(self._answer).digest() != entry["answer"]:
                raise ReplayError(
                    f"{site.name}: answer {self.replayed} is not the one that was sent before the"
                    " interruption; the readings, the program or the machine have changed."
                    " Remove the run's folder to leave the run"
                )
            self._count()

    def receive(self, data: bytes) -> bytes:
        """Answer a question; the same one again with the same bytes."""
        if data != self._question:
            answer = self._site.receive(data)
            hashed = hashlib.sha256(answer).digest()
            self._journal.append({"question": data, "answer": hashed})
            self._question, self._answer = data, answer
            self._count()
        return self._answer

    def _count(self) -> None:
        self.traffic.sent_down(bytes_by_kind(self._question))
        self.traffic.sent_up(bytes_by_kind(self._answer))

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()


class DurableCoordinator(Coordinator):
    """A coordinator with a journal; the other arguments are those of `Coordinator`, with the
    program and the settings that the journal's coordinator had."""

    def __init__(self, path: Path, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._journal = Journal(path)

    def start(self) -> list[Envelope]:
        """The first messages of a new run, or those that an interrupted one is waiting for."""
        waiting = dict(super().start())
        for entry in self._journal:
            if "absent" in entry:
                waiting.pop(entry["absent"], None)
                waiting |= super().absent(entry["absent"])
            else:
                waiting.pop(sender(entry["message"]) or "", None)
                waiting |= super().receive(entry["message"])
        return list(waiting.items())

    def receive(self, data: bytes) -> list[Envelope]:
        """Take a site's answer, and write it down before anything follows from it."""
        envelopes = super().receive(data)
        self._journal.append({"message": data})
        return envelopes

    def absent(self, site: str) -> list[Envelope]:
        """Go on without a site."""
        envelopes = super().absent(site)
        self._journal.append({"absent": site})
        return envelopes

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()
