"""A site's state folder: all that a later process needs to go on::

secret, copies.sqlite, copies.id    for ever
network                             all that became public, as far as this site was told
result                              the last result, and the readings that it belongs to
called                              readings for the run that the site was called to
lacking                             what waits for a network that this site has not
runs/RUN/                           agreement, history (the network before), readings, secret,
                                    journal; in the end: written
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from flfl.codec import CodecError
from flfl.errors import InputError
from flfl.protocol.journal import Journal
from flfl.service.agreement import Agreement, AgreementError, Published, from_bytes, to_bytes
from flfl.service.files import folder_name, load_or_set_aside, save, save_bytes, seal, unseal
from flfl.service.home import SECRET, Snapshot
from flfl.transport.link import Message

CALLED, AGREEMENT, READINGS, HISTORY = "called", "agreement", "readings", "history"
JOURNAL, WRITTEN, NETWORK, RESULT, LACKING = "journal", "written", "network", "result", "lacking"
_KEPT_RUNS = 30
"""Folders of runs that are kept."""


class SiteFolder:
    """The state folder of a site in one network."""

    def __init__(self, path: Path, network: str) -> None:
        self.path, self._network = path, network

    def run(self, run: str) -> Path:
        """The folder of a run."""
        return self.path / "runs" / folder_name(run)

    # --- what became public

    def published(self) -> Published | None:
        """All that became public, as far as this site has it; the coordinator has it, too."""
        return Published.load(self.path / NETWORK)

    def history(self, agreement: Agreement) -> Published | None:
        """What a run goes on after, if this site has it. Nothing is released twice."""
        kept = self.published()
        if kept is None:
            return None
        if not agreement.history:
            raise AgreementError(
                "this site keeps what became public in this network, and the run begins anew"
            )
        kept.check_continued(agreement)
        return kept if kept.digest == agreement.history else None

    def accept(self, data: bytes, digest: str, now: float) -> Published:
        """Keep what became public, if it goes on after what this site has."""
        given, kept = Published.from_bytes(data), self.published()
        if given.agreement.network != self._network or given.digest != digest:
            raise AgreementError("what was published is another run than it says")
        if given.agreement.grid.end > now:
            raise AgreementError("what was published has not ended by this site's clock")
        if kept is not None:
            if given.network.stop < kept.network.stop:
                raise AgreementError("what was published is older than what this site keeps")
            kept.check_continued(given.agreement)
        self.keep(given)
        return given

    def keep(self, published: Published) -> None:
        """Keep what became public."""
        seal(self.path / NETWORK, published.data)

    def lacking(self) -> Message | None:
        """The announcement that waits for what became public."""
        with suppress(OSError, CodecError):
            return Message.from_bytes(unseal(self.path / LACKING))
        return None

    def lack(self, message: Message | None) -> None:
        """Let an announcement wait, or none."""
        if message is None:
            (self.path / LACKING).unlink(missing_ok=True)
        else:
            seal(self.path / LACKING, message.to_bytes())

    # --- readings

    def is_called(self, call: str) -> bool:
        """Whether readings were taken for a call."""
        called = load_or_set_aside(self.path / CALLED, "call", "ids", "values")
        return called is not None and called["call"] == call

    def take(self, call: str, taken: Snapshot) -> None:
        """Keep the readings that were taken for a call."""
        save(self.path / CALLED, {"call": call, **vars(taken)})

    def taken_for(self, agreement: Agreement) -> Snapshot | None:
        """The readings that were taken for this run."""
        called = load_or_set_aside(self.path / CALLED, "call", "ids", "values")
        wanted = called is not None and called.pop("call") == agreement.call
        return Snapshot(**called) if wanted else None

    def readings(self, run: str) -> Snapshot:
        """The readings that a run began with."""
        path = self.run(run) / READINGS
        kept = load_or_set_aside(path, "ids", "values")
        if kept is None:
            raise InputError("the readings that the run began with are lost", where=str(path))
        return Snapshot(**kept)

    # --- runs

    def begin(self, agreement: Agreement, taken: Snapshot, history: Published | None) -> None:
        """Write down that this site is in a run."""
        folder = self.run(agreement.run)
        if history is not None:
            seal(folder / HISTORY, history.data)
        save(folder / READINGS, vars(taken))
        seal(folder / AGREEMENT, to_bytes(agreement))

    def interrupted(self) -> Iterator[tuple[Path, str]]:
        """Journals of runs that this site was in, and what their folders are called."""
        for path in (self.path / "runs").glob(f"*/{JOURNAL}"):
            yield path, path.parent.name

    def agreement(self, journal: Path) -> Agreement:
        """What the run of a journal agreed on."""
        return from_bytes(Agreement, unseal(journal.parent / AGREEMENT))

    def is_in(self, run: str) -> bool:
        """Whether this site took part in a run."""
        return (self.run(run) / AGREEMENT).exists()

    def is_written(self, run: str) -> bool:
        """Whether the tables of a run stand."""
        return (self.run(run) / WRITTEN).exists()

    def result_run(self) -> str:
        """Of which run the last result is; none where there is no result."""
        kept = self.result()
        return "" if kept is None else str(kept["run"])

    def result(self) -> Any:
        """The last result's values."""
        return load_or_set_aside(self.path / RESULT, "run", "grid", "taken", "parts")

    def mark_written(self, run: str) -> None:
        """The tables of a run stand."""
        save_bytes(self.run(run) / WRITTEN, b"")

    def forget(self, run: str) -> None:
        """Remove a run's secrets: what is not kept cannot be taken."""
        Journal.remove(self.run(run) / JOURNAL)
        for name in (SECRET, READINGS, HISTORY):
            (self.run(run) / name).unlink(missing_ok=True)

    def tidy(self, run: str) -> None:
        """Forget other runs, of whose end this site was not told."""
        self.lack(None)
        others = [path for path in (self.path / "runs").glob("*") if path != self.run(run)]
        for other in others:
            self.forget(other.name)
        for old in sorted(others, key=lambda path: path.stat().st_mtime)[:-_KEPT_RUNS]:
            shutil.rmtree(old, ignore_errors=True)
