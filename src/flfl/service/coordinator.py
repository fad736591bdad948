"""``flfl coordinator``: calls the sites together, carries the run, and never sees a series.

It is ``Resting``, ``Gathering`` sites for a run, or ``Running`` one. Its state folder holds::

    state           number of the last run, its name, and the name of the last that went well
    runs/RUN/       agreement, journal; in the end: network (all that became public), ended
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from threadpoolctl import threadpool_limits

from flfl.config import CoordinatorSettings, read_settings
from flfl.errors import FLFLError
from flfl.protocol.journal import DurableCoordinator, Journal, JournalError
from flfl.protocol.network import Network
from flfl.protocol.schema import PROTOCOL, network_from_arrays, network_to_arrays
from flfl.protocol.server import Coordination
from flfl.protocol.traffic import Traffic
from flfl.secagg import Roster, SecureServer
from flfl.service import files
from flfl.service.agreement import Agreement, from_bytes, pack_network, to_bytes
from flfl.service.check import at_start, coordinator_steps
from flfl.service.diary import Diary
from flfl.service.files import folder_name, load, save, save_bytes
from flfl.service.logs import start_logging
from flfl.service.plan import agreed
from flfl.service.status import coordinator_status
from flfl.service.versions import STARTED, spoken
from flfl.service.web import StatusServer
from flfl.transport.dispatcher import Dispatcher
from flfl.transport.link import COORDINATOR, CoordinatorLink, Message, Received, is_signed

_LOG = logging.getLogger("flfl.coordinator")
STATE, AGREEMENT, JOURNAL = "state", "agreement", "journal"
NETWORK, ENDED = "network", "ended"
_STATUS_SECONDS = 2.0
_PRESENCE = ("here", "left", "gone", "never seen")


@dataclass(frozen=True)
class Setup:
    """A coordinator's settings and what follows from them, held by one process at a time."""

    settings: CoordinatorSettings
    roster: Roster
    terms: Agreement
    quorum: int
    _lock: IO[bytes]

    @classmethod
    def open(cls, path: Path, patience: float = 0.0) -> Setup:
        """From a file of settings, or wait ``patience`` seconds for another process to end."""
        settings = read_settings(CoordinatorSettings, path)
        at_start(coordinator_steps(settings, path))
        start_logging(settings.report, COORDINATOR)
        roster, terms, quorum = agreed(settings)
        return cls(settings, roster, terms, quorum, files.lock(settings.state, patience))

    def close(self) -> None:
        """Let another process have the state folder."""
        self._lock.close()


@dataclass(frozen=True)
class Resting:
    """Between runs."""


@dataclass(frozen=True)
class Gathering:
    """Sites are asked who can take part."""

    announcement: Message
    ready: frozenset[str] = frozenset()
    unable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    """A run is under way; ``done`` are the sites that have written their results."""

    announcement: Message
    agreement: Agreement
    coordination: Coordination
    journal: DurableCoordinator
    dispatcher: Dispatcher
    done: frozenset[str] = frozenset()


class CoordinatorService:
    """The coordinator's process, with a link to the sites."""

    def __init__(self, setup: Setup, link: CoordinatorLink) -> None:
        self.setup, self.settings, self.link = setup, setup.settings, link
        self.state: Resting | Gathering | Running = Resting()
        self.present: dict[str, dict[str, str]] = {}
        self.problem, self.stopping = "", False
        self._round = self._runs = 0
        self._told, self._said = 0.0, dict[str, Any]()
        self.since = STARTED
        self.diary = Diary(self.settings.state, ("bytes_up", "bytes_down"))
        self.page = StatusServer(self.settings.report)

    def serve(self) -> int:
        """Run once, or again and again; returns 0 when the last run went well."""
        try:
            with threadpool_limits(limits=1):
                while not self.stopping:
                    well = self._one_run()
                    until = time.monotonic() + self.settings.run.every
                    if not self.settings.run.every or self.stopping:
                        return 0 if well else 1
                    while not self.stopping and time.monotonic() < until:
                        self._receive(1.0)
            return 0
        finally:
            self._tell(force=True)
            self.page.close()

    def stop(self, *_: Any) -> None:
        """End soon; the run goes on at the next start."""
        self.stopping = True

    def _one_run(self) -> bool:
        agreement = self._interrupted() or self._gather()
        if agreement is None:
            return False
        self.state = running = self._begin(agreement)
        why, published = "", b""
        try:
            if (network := self._run(running)) is None:
                return False
            save(self._folder(agreement.run) / NETWORK, network_to_arrays(network))
            published = pack_network(agreement, network)
            self._runs += 1
            self._wait_for_results()
        except JournalError:
            # The disk is full, say: the run goes on when the service is started again.
            raise
        except FLFLError as error:
            self.problem = why = str(error)
            _LOG.error("run %s failed: %s", agreement.run, error)
        finally:
            running.journal.close()
        self._end(running, why, published)
        return not why

    def _receive(self, seconds: float) -> Received | None:
        """The next message; what is about sites, not about questions, is taken here."""
        self._tell()
        if (received := self.link.next(seconds)) is None:
            return None
        if received.branch == "link" and not isinstance(self.state, Resting):
            self.link.announce(self.state.announcement)
        elif received.branch == "status":
            self._is_present(
                received.name, {key: str(received.status[key]) for key in received.status}
            )
        elif received.branch == "from" and received.name not in self.setup.roster.keys:
            self.link.dropped["not in the roster"] += 1
            return None
        elif received.message is not None and not self._is_genuine(received.name, received.message):
            if received.message.kind != "check":  # of `flfl site --check`: it is for the broker
                self.link.dropped["not signed"] += 1
                _LOG.warning("dropped a message of %s without its signature", received.name)
            return None
        elif received.message is not None:
            self._take(received.name, received.message)
        return received

    def _is_present(self, name: str, status: dict[str, str]) -> None:
        """A party is here or gone; one told late as gone may be here with another connection."""
        boot, state, known = status.get("boot"), status.get("state"), self.present.get(name, {})
        if name == COORDINATOR and state != "here":
            self.link.say()
        elif name == COORDINATOR and boot != self.link.boot:
            _LOG.warning("another coordinator is, or just was, at work in this network")
        late = state == "gone" and known.get("state") == "here" and known.get("boot") != boot
        if name in self.setup.roster.keys and not late:
            self.present[name] = status

    def _is_genuine(self, site: str, message: Message) -> bool:
        """With secure sums every site has an identity: who has its certificate alone is a thief."""
        verify = partial(self.setup.roster.verify, site)
        return not self.settings.run.secure or is_signed(message, verify)

    def _take(self, site: str, message: Message) -> None:
        state, about = self.state, message.about
        if isinstance(state, Gathering) and about.get("call") == state.announcement.about["call"]:
            unable = {name: why for name, why in state.unable.items() if name != site}
            if message.kind == "ready":
                self.state = replace(state, ready=state.ready | {site}, unable=unable)
            elif message.kind == "unable":
                unable[site] = str(about.get("why", ""))
                self.state = replace(state, ready=state.ready - {site}, unable=unable)
                _LOG.warning("%s cannot take part: %s", site, unable[site])
        if isinstance(state, Running) and (message.kind, message.run) == (
            "done",
            state.agreement.run,
        ):
            self.state = replace(state, done=state.done | {site})

    def _saved(self) -> dict[str, Any]:
        before = load(self.settings.state / STATE)
        return {"number": 0, "run": "", "finished": ""} if before is None else dict(before)

    def _save(self, **changes: str | int) -> None:
        save(self.settings.state / STATE, {**self._saved(), **changes})

    def _folder(self, run: str) -> Path:
        return self.settings.state / "runs" / folder_name(run)

    def _interrupted(self) -> Agreement | None:
        """The run that was under way when the last process ended."""
        folder = self._folder(self._saved()["run"])
        if (folder / ENDED).exists() or not (folder / AGREEMENT).exists():
            return None
        agreement = from_bytes(Agreement, (folder / AGREEMENT).read_bytes())
        _LOG.info("going on with run %s", agreement.run)
        return agreement

    def _gather(self) -> Agreement | None:
        """Ask who can take part, until all can or the time is up."""
        limit, names = self.settings.deadlines.gather_within, self.setup.roster.names
        about = {"call": uuid.uuid4().hex, **spoken()}
        call = Message("call", "", about, to_bytes(self.setup.terms.grid))
        self.state, until = Gathering(call), time.monotonic() + limit
        self.link.announce(call)
        while not self.stopping:
            received = self._receive(0.5)
            assert isinstance(self.state, Gathering)
            ready = self.state.ready
            if len(ready) == len(names):
                return self._agree(self.state)
            # What has come in time counts, also where it was not read in time.
            if time.monotonic() - until <= (0 if received is None else limit):
                continue
            if len(ready) >= self.setup.quorum:
                return self._agree(self.state)
            lacking = [name for name in names if name not in ready]
            self.problem = (
                f"{len(ready)} sites are ready and {self.setup.quorum} are needed;"
                f" lacking: {', '.join(lacking)}"
            )
            _LOG.warning("paused: %s", self.problem)
            if not self.settings.run.every:
                return None
            until = time.monotonic() + limit
        return None

    def _agree(self, gathering: Gathering) -> Agreement:
        number, call = int(self._saved()["number"]) + 1, str(gathering.announcement.about["call"])
        sites = tuple(sorted(gathering.ready))
        agreement = replace(self.setup.terms, number=number, call=call, sites=sites)
        save_bytes(self._folder(agreement.run) / AGREEMENT, to_bytes(agreement))
        self._save(number=number, run=agreement.run)
        return agreement

    def _continued(self, agreement: Agreement) -> Network | None:
        """The last finished run's public state, if this run only adds slots to it."""
        last, grid = self._folder(self._saved()["finished"]), agreement.grid
        if (arrays := load(last / NETWORK)) is None:
            return None
        before = from_bytes(Agreement, (last / AGREEMENT).read_bytes())
        grown = before.grid.slots < grid.slots and replace(before.grid, slots=grid.slots) == grid
        same = before.plan == agreement.plan
        return network_from_arrays(arrays, agreement.plan) if grown and same else None

    def _begin(self, agreement: Agreement) -> Running:
        traffic, roster = Traffic(), self.setup.roster
        self.problem, self._round = "", 0

        def progress(number: int, rounds: int) -> None:
            self._round = number

        positions, earlier = agreement.grid.positions(), self._continued(agreement)
        coordination = Coordination(agreement.plan, positions, traffic, earlier, progress)
        run, program, deadlines = agreement.run, coordination.program(), self.settings.deadlines
        names = roster.names if agreement.secure else agreement.sites
        security = SecureServer(roster, run) if agreement.secure else None
        path = self._folder(run) / JOURNAL
        journal = DurableCoordinator(path, program, PROTOCOL, names, {}, run, security=security)
        dispatcher = Dispatcher(journal, self.link, run, traffic, deadlines, self.setup.quorum)
        plan = Message("plan", run, spoken(), to_bytes(agreement))
        return Running(plan, agreement, coordination, journal, dispatcher)

    def _run(self, running: Running) -> Network | None:
        """All that became public; None when the service was stopped before the end."""
        self.link.announce(running.announcement)
        agreement, dispatcher = running.agreement, running.dispatcher
        names = self.setup.roster.names if agreement.secure else agreement.sites
        dispatcher.begin(without=[name for name in names if name not in agreement.sites])
        while not running.journal.done and not self.stopping:
            if (received := self._receive(min(dispatcher.check(), 0.5))) is not None:
                dispatcher.take(received)
        return running.coordination.network if running.journal.done else None

    def _wait_for_results(self) -> None:
        """Until every site has written its own files; nothing of them is sent."""
        until = time.monotonic() + self.settings.deadlines.answer_within
        while isinstance(state := self.state, Running) and not self.stopping:
            late = set(state.agreement.sites) - set(state.dispatcher.aside) - state.done
            if late and time.monotonic() >= until:
                self.problem = f"no report of a written result from {', '.join(sorted(late))}"
                _LOG.warning("%s", self.problem)
            if not late or self.problem:
                return
            self._receive(0.5)

    def _end(self, running: Running, why: str, published: bytes) -> None:
        run, dispatcher, self.state = running.agreement.run, running.dispatcher, Resting()
        folder = self._folder(run)
        # What the run made public goes to all: a site that had no part in it finishes with that.
        about = {"why": why[:500]} if why else {}
        self.link.announce(Message("ended", run, about, published))
        traffic, aside = dispatcher.traffic, dispatcher.aside
        counted = {"bytes_up": traffic.bytes_up, "bytes_down": traffic.bytes_down}
        ended = {"failed": why, "aside": aside, "rounds": traffic.rounds, "notes": traffic.notes}
        save(folder / ENDED, ended | counted)
        network = running.coordination.network
        public = {} if network is None else {"gaps": int((~network.known).sum())}
        sites = {"sites": len(running.agreement.sites), "aside": len(aside)}
        self.diary.record(run, why, **sites, **counted, **public)
        Journal.remove(folder / JOURNAL)
        if not why:
            self._save(finished=run)
            _LOG.info("run %s is done", run, extra={"facts": {"aside": aside}})

    def status(self) -> dict[str, Any]:
        """Who is here, what is done, what is wrong: without a reading."""
        status = {
            "network": self.settings.network,
            "phase": type(self.state).__name__.lower(),
            "round": self._round,
            "sites": {name: self._site_status(name) for name in self.setup.roster.names},
            "runs": self._runs,
            "problem": self.problem,
            "run": "", "question": 0, "waiting_for": [], "paused": "",
        }  # fmt: skip
        if isinstance(state := self.state, Running):
            status["run"], status["question"] = state.agreement.run, state.journal.answered + 1
            status["waiting_for"] = list(state.dispatcher.waiting_for)
            status["paused"] = state.dispatcher.paused
        return status

    def _site_status(self, name: str) -> dict[str, str]:
        said, state = self.present.get(name, {}), self.state
        presence, reason = said.get("state", "never seen"), said.get("problem", "")
        status = {"state": presence if presence in _PRESENCE else "unknown"}
        if isinstance(state, Gathering):
            reason = reason or state.unable.get(name, "")
        if isinstance(state, Running) and name in state.dispatcher.aside:
            reason = status["aside"] = state.dispatcher.aside[name][:200]
        return {**status, "problem": reason[:200]} if reason else status

    def _tell(self, *, force: bool = False) -> None:
        self.page.show(lambda: coordinator_status(self))
        if not force and time.monotonic() - self._told < _STATUS_SECONDS:
            return
        self._told = time.monotonic()
        # Every site receives it: only changes are told.
        status = self.status()
        if status["run"] and status["question"] != self._said.get("question"):
            late = ", ".join(status["waiting_for"])
            _LOG.info("question %d: waiting for %s", status["question"], late or "nobody")
        if force or status != self._said:
            self._said = status
            self.link.say(**status)
