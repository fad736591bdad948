"""A coordinator's state folder::

state           number and name of the last run, the scheduled time that is done, the last fit
network         all that became public, which the next run adds slots to
holder          who this coordinator is, for others of the same network
runs/RUN/       agreement, history (the network before), journal; in the end: ended
now, abort, paused      what an operator asks of the process that is at work
"""

from __future__ import annotations

import logging
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from flfl.codec import CodecError
from flfl.protocol.journal import Journal
from flfl.protocol.plan import Fit
from flfl.service.agreement import Agreement, AgreementError, Published, from_bytes, to_bytes
from flfl.service.files import (
    folder_name,
    is_locked,
    load_or_set_aside,
    save,
    save_bytes,
    seal,
    set_aside,
    unseal,
)

_LOG = logging.getLogger("flfl.coordinator")
STATE, AGREEMENT, JOURNAL, HISTORY = "state", "agreement", "journal", "history"
NETWORK, ENDED, HOLDER = "network", "ended", "holder"
NOW, ABORT, PAUSED = "now", "abort", "paused"
Request = Literal["now", "abort", "pause", "resume"]
_KEPT_RUNS = 30
"""Folders of runs that are kept."""


class CoordinatorFolder:
    """The state folder of a network's coordinator."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, run: str) -> Path:
        """The folder of a run."""
        return self.path / "runs" / folder_name(run)

    def holder(self) -> str:
        """The same for every process with this folder."""
        kept = load_or_set_aside(self.path / HOLDER, "id")
        if kept is None:
            kept = {"id": uuid.uuid4().hex[:12]}
            with suppress(OSError):  # a full disk is told of when a run begins
                save(self.path / HOLDER, kept)
        return str(kept["id"])

    # --- what an operator asks

    @property
    def is_at_work(self) -> bool:
        """Whether a process is at work with this folder."""
        return is_locked(self.path)

    def request(self, word: Request) -> str:
        """Ask something of the coordinator that is at work here; says what comes."""
        if word == "resume":
            (self.path / PAUSED).unlink(missing_ok=True)
            return "Runs are made as scheduled again."
        save_bytes(self.path / {"pause": PAUSED}.get(word, word), b"")
        return {
            "now": "The coordinator at work begins a run within seconds.",
            "abort": "A run that is under way ends within seconds; the next one is as planned.",
            "pause": "No run begins until `flfl coordinator CONFIG --resume`; one under way goes"
            " on.",
        }[word]

    def asked(self, word: str) -> bool:
        """Whether an operator asks for something; it is asked for once."""
        path = self.path / word
        if not path.exists():
            return False
        with suppress(OSError):
            path.unlink()
        return True

    @property
    def paused(self) -> bool:
        """Whether an operator has paused the runs."""
        return (self.path / PAUSED).exists()

    # --- what is known of the runs

    def saved(self) -> dict[str, Any]:
        """Number and name of the last run, the scheduled time that is done, the last fit."""
        kept = load_or_set_aside(self.path / STATE, "number", "run", "done", "fitted")
        return self._found_again() if kept is None else dict(kept)

    def _found_again(self) -> dict[str, Any]:
        """The same of a coordinator whose file of it is lost, from the folders of its runs."""
        runs: list[Agreement] = []
        for path in (self.path / "runs").glob(f"*/{AGREEMENT}"):
            with suppress(AgreementError, CodecError, OSError):
                runs.append(from_bytes(Agreement, unseal(path)))
        last = max(runs, key=lambda agreement: agreement.number, default=None)
        number, run = (0, "") if last is None else (last.number, last.run)
        # A run that is still to be gone on with has fitted nothing.
        over = [one for one in runs if (self.run(one.run) / ENDED).exists()]
        anew = (one.grid.slots for one in over if one.addition.fit == Fit.ANEW)
        return {"number": number, "run": run, "done": 0, "fitted": max(anew, default=0)}

    def save(self, **changes: str | int) -> None:
        """Change some of it."""
        save(self.path / STATE, {**self.saved(), **changes})

    def published(self) -> Published | None:
        """All that became public until now; what is damaged is set aside, and sites have it."""
        return Published.load(self.path / NETWORK)

    def keep(self, published: Published) -> None:
        """Keep what became public."""
        seal(self.path / NETWORK, published.data)
        if published.agreement.addition.fit == Fit.ANEW:
            self.save(fitted=published.network.stop)

    def begin(self, agreement: Agreement, history: Published | None) -> None:
        """Write down what a run agreed on."""
        if history is not None:
            seal(self.run(agreement.run) / HISTORY, history.data)
        seal(self.run(agreement.run) / AGREEMENT, to_bytes(agreement))
        self.save(number=agreement.number, run=agreement.run)

    @property
    def is_interrupted(self) -> bool:
        """Whether a run was under way when the last process ended."""
        folder = self.run(self.saved()["run"])
        return (folder / AGREEMENT).exists() and not (folder / ENDED).exists()

    def interrupted(self) -> Agreement | None:
        """The run that was under way when the last process ended."""
        if not self.is_interrupted:
            return None
        folder = self.run(self.saved()["run"])
        try:
            agreement = from_bytes(Agreement, unseal(folder / AGREEMENT))
        except (AgreementError, CodecError) as error:
            set_aside(folder / AGREEMENT, error)
            return None
        _LOG.info("going on with run %s", agreement.run)
        return agreement

    def end(self, run: str, ended: dict[str, Any]) -> None:
        """A run is over: what it needed to go on is removed, and so are old runs."""
        folder = self.run(run)
        save(folder / ENDED, ended)
        Journal.remove(folder / JOURNAL)
        (folder / HISTORY).unlink(missing_ok=True)
        old = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in old[:-_KEPT_RUNS]:
            shutil.rmtree(path, ignore_errors=True)
