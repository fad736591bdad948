"""Coordinator and site that can be killed at any moment and go on as if nothing had happened.

Both state machines follow from their secrets and from what they accepted. So what they accept is
written down before anything follows from it, and a new process is told all of it again.

* The coordinator keeps all that its program was told (small), and the messages of the question
  under way; the latter are forgotten when the question is answered.
* A site keeps the questions that it answered and the hash of each answer. A question that comes
  again is answered with the same bytes; another question of that number is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flfl.errors import FLFLError
from flfl.protocol.coordinator import Coordinator, Envelope, Replies
from flfl.protocol.journal import Journal
from flfl.protocol.messages import sender
from flfl.protocol.site import Site

_HASH = 32
_MESSAGE, _ABSENT = b"m", b"a"


class ReplayError(FLFLError):
    """A party that was told the same does not do the same as before."""


class DurableSite:
    """A site with a journal.

    Parameters
    ----------
    site : fresh, with the readings and the secret that the journal's site had
    """

    def __init__(self, site: Site, path: Path) -> None:
        self.name = site.name
        self._site, self._journal = site, Journal(path)
        self._asked, self._answer = b"", b""
        for number, record in enumerate(self._journal.records, 1):
            digest, question = record[:_HASH], record[_HASH:]
            answer = site.receive(question)
            if hashlib.sha256(answer).digest() != digest:
                raise ReplayError(
                    f"{site.name}: answer {number} is not the one that was sent before the"
                    " interruption; the readings, the program or the machine have changed."
                    " Remove the run's folder to leave the run"
                )
            self._asked, self._answer = hashlib.sha256(question).digest(), answer
        self.replayed = len(self._journal.records)
        self._journal.records = []

    def receive(self, data: bytes) -> bytes:
        """Answer a question; the same one again with the same bytes."""
        asked = hashlib.sha256(data).digest()
        if asked == self._asked:
            return self._answer
        answer = self._site.receive(data)
        self._journal.append(hashlib.sha256(answer).digest() + data)
        self._journal.sync()
        self._asked, self._answer = asked, answer
        return answer

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()


class DurableCoordinator:
    """A coordinator with a journal in a folder.

    Parameters
    ----------
    coordinator : fresh, with the program and the settings that the journal's coordinator had
    """

    def __init__(self, coordinator: Coordinator, folder: Path) -> None:
        self._inner = coordinator
        self._replies = Journal(folder / "replies.journal")
        self._messages = Journal(folder / "messages.journal")

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self._inner.done

    @property
    def broken(self) -> bool:
        """Whether the run is over because of an error."""
        return self._inner.broken

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that have not dropped."""
        return self._inner.sites

    @property
    def answered(self) -> int:
        """Questions that were answered so far."""
        return len(self._inner.past)

    def can_lose(self, site: str) -> bool:
        """Whether the run could go on without a site."""
        return self._inner.can_lose(site)

    def start(self) -> list[Envelope]:
        """The first messages of a new run, or those that an interrupted one is waiting for."""
        past, saved = [], None
        for record in self._replies.records:
            replies, saved = _unpack(record)
            past.append(replies)
        if saved is None:
            waiting = dict(self._inner.start())
        else:
            waiting = dict(self._inner.resume(past, saved))
        for record in self._messages.records:
            number, kind, body = int.from_bytes(record[:4]), record[4:5], record[5:]
            # Older ones belong to a question whose answer was written down just before the crash.
            if number == len(past):
                waiting |= self._again(kind, body, waiting)
        self._replies.records, self._messages.records = [], []
        return list(waiting.items())

    def _again(self, kind: bytes, body: bytes, waiting: dict[str, bytes]) -> dict[str, bytes]:
        name = body.decode() if kind == _ABSENT else sender(body)
        waiting.pop(name or "", None)
        if kind == _ABSENT:
            return dict(self._inner.absent(body.decode()))
        return dict(self._inner.receive(body))

    def receive(self, data: bytes) -> list[Envelope]:
        """Take a site's answer, and write it down before anything follows from it."""
        number = self.answered
        return self._kept(number, _MESSAGE + data, self._inner.receive(data))

    def absent(self, site: str) -> list[Envelope]:
        """Go on without a site."""
        number = self.answered
        return self._kept(number, _ABSENT + site.encode(), self._inner.absent(site))

    def _kept(self, number: int, record: bytes, envelopes: list[Envelope]) -> list[Envelope]:
        if self.answered > number:
            self._replies.append(_pack(self._inner.past[-1], self._inner.saved()))
            self._replies.sync()
            self._messages.clear()
            return envelopes
        self._messages.append(number.to_bytes(4) + record)
        if envelopes or record[:1] == _ABSENT:
            self._messages.sync()
        return envelopes

    def close(self) -> None:
        """Close the journals."""
        self._replies.close()
        self._messages.close()


def _pack(replies: Replies, saved: Mapping[str, Any]) -> bytes:
    arrays = {f"total {name}": value for name, value in replies.total.items()}
    for number, body in enumerate(replies.by_site.values()):
        arrays |= {f"site {number} {name}": value for name, value in body.items()}
    names = {"sites": list(replies.sites), "by_site": list(replies.by_site), "saved": dict(saved)}
    arrays["header"] = np.frombuffer(json.dumps(names).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _unpack(record: bytes) -> tuple[Replies, dict[str, Any]]:
    with np.load(io.BytesIO(record), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    names = json.loads(arrays.pop("header").tobytes())
    total = {n.removeprefix("total "): a for n, a in arrays.items() if n.startswith("total ")}
    by_site: dict[str, dict[str, np.ndarray]] = {}
    for number, site in enumerate(names["by_site"]):
        start = f"site {number} "
        by_site[site] = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
    return Replies(total, by_site, tuple(names["sites"])), names["saved"]
