"""``flfl coordinator``: calls the sites together, carries the run, and never sees a series.

It is ``Resting``, ``Gathering`` sites for a run, or ``Running`` one. All of that follows from its
state folder (:mod:`flfl.service.coordinator_folder`), so any process can go on.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from threadpoolctl import threadpool_limits

from flfl.clock import Clock, Schedule
from flfl.config import CoordinatorSettings, read_settings
from flfl.errors import FLFLError, InputError
from flfl.protocol.journal import DurableCoordinator, JournalError
from flfl.protocol.network import Network
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination
from flfl.protocol.traffic import Traffic
from flfl.secagg import Roster, SecureServer
from flfl.service import files
from flfl.service.agreement import Agreement, AgreementError, Published, to_bytes
from flfl.service.check import at_start, coordinator_steps
from flfl.service.coordinator_folder import (
    ABORT,
    HISTORY,
    JOURNAL,
    NETWORK,
    NOW,
    CoordinatorFolder,
)
from flfl.service.coordinator_status import coordinator_status, told_to_all
from flfl.service.diary import Diary, stamp
from flfl.service.files import (
    seal,
    set_aside,
    unseal,
)
from flfl.service.lease import Lease
from flfl.service.logs import start_logging
from flfl.service.phases import Gathering, Resting, Running, how_to_add
from flfl.service.plan import agreement_of, checked_roster, grid_at
from flfl.service.versions import STARTED, own_version
from flfl.service.web import StatusServer
from flfl.transport.dispatcher import Dispatcher
from flfl.transport.link import COORDINATOR, CoordinatorLink, Message, Received, is_signed

_LOG = logging.getLogger("flfl.coordinator")
_STATUS_SECONDS = 2.0
_RETRY, _LONGEST_RETRY = 15.0, 3600.0
"""Seconds until a run that failed is tried again; doubled each time."""
_CALL_AGAIN = 30.0
"""Seconds after which a site that has not answered is called again."""


class AbortedError(FLFLError):
    """An operator ended the run."""


@dataclass(frozen=True)
class Setup:
    """A coordinator's settings and what follows from them, held by one process at a time."""

    settings: CoordinatorSettings
    roster: Roster
    path: Path
    _lock: IO[bytes]

    @classmethod
    def open(cls, path: Path, patience: float = 0.0) -> Setup:
        """From a file of settings, or wait ``patience`` seconds for another process to end."""
        settings = read_settings(CoordinatorSettings, path)
        at_start(coordinator_steps(settings, path))
        start_logging(settings.report, COORDINATOR)
        roster = checked_roster(settings, path)
        return cls(settings, roster, path, files.lock(settings.state, patience))

    def quorum(self, roster: Roster) -> int:
        """How many sites are enough."""
        return max(self.settings.sites.quorum, roster.threshold if self.settings.run.secure else 1)

    def close(self) -> None:
        """Let another process have the state folder."""
        self._lock.close()


class CoordinatorService:
    """The coordinator's process, with a link to the sites."""

    def __init__(self, setup: Setup, link: CoordinatorLink, clock: Clock | None = None) -> None:
        self.setup, self.settings, self.link = setup, setup.settings, link
        self.roster, self.clock = setup.roster, clock or Clock()
        self.state: Resting | Gathering | Running = Resting()
        self.present: dict[str, dict[str, str]] = {}
        self.problem, self.stopping = "", False
        text = self.settings.run.schedule
        self.schedule = Schedule.parse(text) if text else None
        self.round = self.runs = self._failures = 0
        self._told, self._said = 0.0, dict[str, Any]()
        self.since = STARTED
        self.diary = Diary(self.settings.state, ("bytes_up", "bytes_down"))
        self.page = StatusServer(self.settings.report)
        self._retry_at, self._nothing_new, self._at_once = 0.0, False, False
        self._over: Message | None = None
        self._late = frozenset[str]()
        self.kept = CoordinatorFolder(self.settings.state)
        self.lease = Lease(self.kept.holder(), link)

    def serve(self, now: bool = False) -> int:
        """Run once, or as scheduled; returns 0 when the last run went well. With ``now`` one run
        is made at once, and no other."""
        try:
            with threadpool_limits(limits=1):
                self._claim()
                once = self._at_once = now or self.schedule is None
                while not self.stopping:
                    if once or self._is_due():
                        well = self._attempt()
                        # What could not be written down is tried again: nothing is lost by that.
                        if once and (well is not None or self.stopping):
                            return 0 if well else 1
                    self._receive(1.0)
            return 0 if not once else 1
        finally:
            self._tell(force=True)
            self.page.close()

    def stop(self, *_: Any) -> None:
        """End soon; the run goes on at the next start."""
        self.stopping = True

    # --- who is the coordinator, and when is a run due

    def _claim(self) -> None:
        """Go on only when no other coordinator of this network is at work."""
        self.lease.ask()
        while not self.stopping and not self.lease.claimed:
            received = self._receive(0.5)
            if rival := self.lease.rival(received, self.clock.monotonic()):
                raise InputError(
                    f"another coordinator of the network {self.settings.network!r} is at work:"
                    f" {rival}",
                    where=str(self.setup.path),
                    remedy="Stop that one first; this one has done nothing",
                )

    def _is_due(self) -> bool:
        if self.kept.asked(NOW):
            self._at_once, self._retry_at = True, 0.0
            return True
        self._at_once = False
        self.kept.asked(ABORT)
        if self.schedule is None or self.clock.monotonic() < self._retry_at:
            return False
        if self.kept.is_interrupted:
            return True
        if self.kept.paused:
            return False
        now, done = self.clock.now(), int(self.kept.saved()["done"])
        if done > now + 2 * self.schedule.period:
            _LOG.warning("the clock has gone back: runs are due by what it says now")
            self.kept.save(done=self.schedule.last(now) - self.schedule.period)
        return self.schedule.last(now) > done

    # --- one run

    def _attempt(self) -> bool | None:
        """One run, whatever happens in it; None where it is to be tried again."""
        due = 0 if self.schedule is None else self.schedule.last(self.clock.now())
        well: bool | None = False
        failed = self.diary.totals["failures"]
        try:
            well = self._one_run()
        except ConnectionError as error:
            self.problem = str(error)
            _LOG.error("the sites cannot be reached: %s", error)
        except (JournalError, OSError) as error:
            self.problem, well = str(error), None
            _LOG.error("what happened cannot be written down: %s; it is tried again", error)
        except FLFLError as error:
            self.problem = str(error)
            _LOG.error("no run: %s", error)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
            _LOG.exception("the run ended by an error of the program; the next one starts clean")
        self.state = Resting()
        if well is False and self.problem and self.diary.totals["failures"] == failed:
            self.diary.record(f"none at {stamp(self.clock.now())}", self.problem)
        if well:
            self._failures, self._retry_at = 0, 0.0
            try:
                self.kept.save(done=due)
            except OSError as error:
                self.problem = f"the state cannot be written: {error}"
                _LOG.error("%s", self.problem)
        else:
            wait = min(_RETRY * 2**self._failures, _LONGEST_RETRY)
            self._failures, self._retry_at = self._failures + 1, self.clock.monotonic() + wait
            while well is None and not self.stopping and self.clock.monotonic() < self._retry_at:
                self._receive(1.0)
        return well

    def _one_run(self) -> bool:
        """Go on with the run that was interrupted, or begin one, as far as there is anything new;
        whether it went well."""
        agreement = self.kept.interrupted() or self._gather()
        if agreement is None:
            return self._nothing_new
        try:
            self.state = running = self._begin(agreement)
        except (JournalError, OSError):
            raise
        except Exception as error:
            return self._cannot_begin(agreement, error)
        why, published = "", None
        try:
            if (network := self._run(running)) is None:
                return False
            published = Published(agreement, network)
            self.kept.keep(published)
            self.runs += 1
            self._wait_for_results()
        except (JournalError, OSError):
            # The disk is full, say: the run goes on from what was written down.
            raise
        except FLFLError as error:
            self.problem = why = str(error)
            _LOG.error("run %s failed: %s", agreement.run, error)
        except Exception as error:
            self.problem = why = f"{type(error).__name__}: {error}"
            _LOG.exception("run %s failed", agreement.run)
        finally:
            running.journal.close()
        self._end(running, why, published)
        return not why

    def _cannot_begin(self, agreement: Agreement, error: Exception) -> bool:
        """What was written of a run is of no use: it is over, and the next one starts clean."""
        self.problem = f"{error}"
        set_aside(self.kept.run(agreement.run) / JOURNAL, error)
        ended = {"failed": self.problem, "aside": {}, "rounds": 0, "notes": []}
        self.kept.end(agreement.run, ended)
        why = "the coordinator cannot go on with it"
        self.link.announce(Message("ended", agreement.run, {"why": why}))
        _LOG.error("run %s cannot go on: %s", agreement.run, error)
        return False

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
        elif received.branch == "from" and received.name not in self.roster.keys:
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
        if name == COORDINATOR:
            self.lease.hears(status)
            return
        boot, state, known = status.get("boot"), status.get("state"), self.present.get(name, {})
        late = state == "gone" and known.get("state") == "here" and known.get("boot") != boot
        if name in self.roster.keys and not late:
            self.present[name] = status

    def _is_genuine(self, site: str, message: Message) -> bool:
        """With secure sums every site has an identity: who has its certificate alone is a thief."""
        verify = partial(self.roster.verify, site)
        return not self.settings.run.secure or is_signed(message, verify)

    def _take(self, site: str, message: Message) -> None:
        state, about = self.state, message.about
        if isinstance(state, Gathering) and about.get("call") == state.announcement.about["call"]:
            self.state = state.answered(site, message)
            if why := self.state.unable.get(site, ""):
                _LOG.warning("%s cannot take part: %s", site, why)
        elif message.kind == "lacking":
            self._give(site, str(about.get("digest", "")))
        elif message.kind == "no plan" and isinstance(state, Running):
            self.link.tell(site, state.announcement)
        elif self._over is not None and message.run == self._over.run:
            if message.kind == "here":
                self.link.tell(site, self._over)
            elif message.kind == "done" and self.problem == _no_report(self._late):
                self._late -= {site}
                self.problem = _no_report(self._late)
        if isinstance(state, Running) and (message.kind, message.run) == (
            "done",
            state.agreement.run,
        ):
            self.state = replace(state, done=state.done | {site})

    # --- who takes part in what

    def _gather(self) -> Agreement | None:
        """Ask who can take part, until all can or the time is up."""
        self._nothing_new = False
        self.roster = checked_roster(self.settings, self.setup.path)
        when = self.clock.now()
        if self.schedule is not None and not self._at_once:
            # A run that is late, or tried again, releases what it would have released in time.
            when = self.schedule.last(when)
        grid, kept = grid_at(self.settings, when), self.kept.published()
        if grid is None or (kept is not None and grid.slots <= kept.network.stop):
            self._nothing_new, self.problem = True, ""
            _LOG.info("no slot has closed since the last run: nothing is to be released")
            return None
        terms = agreement_of(self.settings, self.roster.digest.hex(), grid)
        if kept is not None:
            kept.check_continued(terms)
        ready = self._call(terms)
        return None if ready is None else self._agree(terms, ready)

    def _call(self, terms: Agreement) -> Gathering | None:
        limit, names, quorum = (
            self.settings.deadlines.gather_within,
            self.roster.names,
            self.setup.quorum(self.roster),
        )
        about = {"call": uuid.uuid4().hex, "roster": terms.roster, **own_version()}
        call, now = Message("call", "", about, to_bytes(terms.grid)), self.clock.monotonic
        self.state, looked = Gathering(call), now()
        until, night, again = looked + limit, self.clock.now(), looked + _CALL_AGAIN
        self.link.announce(call)
        while not self.stopping:
            received = self._receive(0.5)
            assert isinstance(self.state, Gathering)
            ready = self.state.ready & set(names)
            if len(ready) == len(names):
                return self.state
            lost = now() - looked - (2.0 if self.link.connected else 0.0)
            until, looked = until + max(lost, 0.0), now()
            if looked >= again:
                again = looked + _CALL_AGAIN
                for name in names:
                    if name not in ready:
                        self.link.tell(name, call)
            if self.kept.asked(ABORT):
                raise AbortedError("an operator ended the call")
            # What has come in time counts, also where it was not read in time.
            if looked - until <= (0 if received is None else limit):
                continue
            if len(ready) >= quorum:
                return self.state
            lacking = [name for name in names if name not in ready]
            self.problem = (
                f"{len(ready)} sites are ready and {quorum} are needed;"
                f" lacking: {', '.join(lacking)}"
            )
            _LOG.warning("paused: %s", self.problem)
            if self.schedule is None or self.clock.now() >= self.schedule.next(night):
                return None
            until = now() + limit
        return None

    def _agree(self, terms: Agreement, gathering: Gathering) -> Agreement | None:
        """What the run agrees on; sites that lack the history get it first."""
        number, call = (
            int(self.kept.saved()["number"]) + 1,
            str(gathering.announcement.about["call"]),
        )
        ready = sorted(gathering.ready & set(self.roster.names))
        kept = self._newest(gathering, ready)
        if kept is not None and terms.grid.slots <= kept.network.stop:
            self._nothing_new = True
            _LOG.info("no slot has closed since the last run: nothing is to be released")
            return None
        agreement = replace(terms, number=number, call=call, sites=tuple(ready))
        if kept is not None:
            kept.check_continued(agreement)
            fitted = int(self.kept.saved()["fitted"])
            before, how = (
                kept.agreement,
                how_to_add(self.settings.run, terms.grid, kept.network, fitted),
            )
            # A network's map is one for ever.
            agreement = replace(
                agreement, history=kept.digest, geography=before.geography, centre=before.centre,
                plan=replace(agreement.plan, box=before.plan.box), keep=how.keep, first=how.first,
                fit=int(how.fit),
            )  # fmt: skip
            for site in ready:
                if gathering.holds[site][0] != kept.digest:
                    self.link.tell(site, Message("history", "", {"digest": kept.digest}, kept.data))
        self.kept.begin(agreement, kept)
        return agreement

    def _newest(self, gathering: Gathering, ready: list[str]) -> Published | None:
        """The history that the run goes on after: this coordinator's, or a newer one that two
        sites, or the only ones that have any, agree on. A slot is released once."""
        kept = self.kept.published()
        mine = 0 if kept is None else kept.network.stop
        newer = Counter(gathering.holds[site] for site in ready if gathering.holds[site][1] > mine)
        holders = sum(newer.values())
        for (digest, stop), count in sorted(newer.items(), key=lambda item: -item[0][1]):
            if count < min(2, holders):
                continue
            _LOG.warning("the history up to slot %d is lost here: asking the sites for it", stop)
            for site in (name for name in ready if gathering.holds[name][0] == digest):
                if (given := self._ask_for(site, digest)) is not None:
                    seal(self.kept.path / NETWORK, given.data)
                    return given
        if newer:
            raise FLFLError(
                "sites have released slots that this coordinator knows nothing of, and cannot agree"
                " on what became public; restore the coordinator's state folder from a backup"
            )
        return kept

    def _ask_for(self, site: str, digest: str) -> Published | None:
        until = self.clock.monotonic() + self.settings.deadlines.answer_within
        assert isinstance(self.state, Gathering)
        call = str(self.state.announcement.about["call"])
        self.link.tell(site, Message("give", "", {"digest": digest, "call": call}))
        while not self.stopping and self.clock.monotonic() < until:
            self._receive(0.5)
            if isinstance(self.state, Gathering) and site in self.state.given:
                with suppress(AgreementError):
                    given = Published.from_bytes(self.state.given[site])
                    if given.digest == digest and given.agreement.network == self.settings.network:
                        return given
                return None
        return None

    def _give(self, site: str, digest: str) -> None:
        """A site lacks what became public: before this run, or in it."""
        if isinstance(self.state, Running) and digest == self.state.agreement.history:
            data: bytes | None = self.state.history
        else:
            kept = self.kept.published()
            data = kept.data if kept is not None and kept.digest == digest else None
        if data is not None:
            self.link.tell(site, Message("history", "", {"digest": digest}, data))

    def _begin(self, agreement: Agreement) -> Running:
        traffic, roster, folder = Traffic(), self.roster, self.kept.run(agreement.run)
        self.problem, self.round = "", 0
        if agreement.secure and agreement.roster != roster.digest.hex():
            raise AgreementError("the list of sites has changed since the run began")

        def progress(number: int, rounds: int) -> None:
            self.round = number

        positions, history, earlier = agreement.grid.positions(), b"", None
        if agreement.history:
            history = unseal(folder / HISTORY)
            before = Published.from_bytes(history)
            if before.digest != agreement.history:
                raise AgreementError("the history is not the one that was agreed on")
            earlier = before.network
        coordination = Coordination(
            agreement.plan, positions, traffic, earlier, progress, addition=agreement.addition
        )
        run, program, deadlines = agreement.run, coordination.program(), self.settings.deadlines
        names = roster.names if agreement.secure else agreement.sites
        security = SecureServer(roster, run) if agreement.secure else None
        path = folder / JOURNAL
        journal = DurableCoordinator(path, program, PROTOCOL, names, {}, run, security=security)
        quorum = self.setup.quorum(roster)
        dispatcher = Dispatcher(
            journal, self.link, run, traffic, deadlines, quorum, clock=self.clock
        )
        plan = Message("plan", run, own_version(), to_bytes(agreement))
        self.link.announce(plan)
        try:
            dispatcher.begin([name for name in names if name not in agreement.sites])
        except BaseException:
            journal.close()
            raise
        return Running(plan, agreement, coordination, journal, dispatcher, history)

    def _run(self, running: Running) -> Network | None:
        """All that became public; None when the service was stopped before the end."""
        dispatcher = running.dispatcher
        while not running.journal.done and not self.stopping:
            if self.kept.asked(ABORT):
                raise AbortedError("an operator ended the run")
            if (received := self._receive(min(dispatcher.check(), 0.5))) is not None:
                dispatcher.take(received)
        return running.coordination.network if running.journal.done else None

    def _wait_for_results(self) -> None:
        """Until every site has written its own files; nothing of them is sent."""
        now = self.clock.monotonic
        until = now() + self.settings.deadlines.answer_within
        while isinstance(state := self.state, Running) and not self.stopping:
            late = set(state.agreement.sites) - set(state.dispatcher.aside) - state.done
            if late and now() >= until:
                self._late, self.problem = frozenset(late), _no_report(late)
                _LOG.warning("%s", self.problem)
            if not late or self.problem:
                return
            self._receive(0.5)

    def _end(self, running: Running, why: str, published: Published | None) -> None:
        run, dispatcher, self.state = running.agreement.run, running.dispatcher, Resting()
        about, data = {"why": why[:500]} if why else {}, b""
        if published is not None and not why:
            about = {"digest": published.digest}
            # A coordinator that stays answers those who lack what became public; one that does not
            # leaves it with the broker.
            data = b"" if self.schedule is not None else published.data
        self._over = Message("ended", run, about, data)
        self.link.announce(self._over)
        traffic, aside = dispatcher.traffic, dispatcher.aside
        counted = {"bytes_up": traffic.bytes_up, "bytes_down": traffic.bytes_down}
        ended = {"failed": why, "aside": aside, "rounds": traffic.rounds, "notes": traffic.notes}
        self.kept.end(run, ended | counted)
        network = running.coordination.network
        public = {} if network is None else {"gaps": int((~network.known).sum())}
        sites = {"sites": len(running.agreement.sites), "aside": len(aside)}
        self.diary.record(run, why, **sites, **counted, **public)
        if not why:
            _LOG.info("run %s is done", run, extra={"facts": {"aside": aside}})

    def _tell(self, *, force: bool = False) -> None:
        self.page.show(lambda: coordinator_status(self))
        if not force and self.clock.monotonic() - self._told < _STATUS_SECONDS:
            return
        self._told = self.clock.monotonic()
        # Every site receives it: only changes are told.
        status = told_to_all(self)
        if status["run"] and status["question"] != self._said.get("question"):
            late = ", ".join(status["waiting_for"])
            _LOG.info("question %d: waiting for %s", status["question"], late or "nobody")
        if force or status != self._said:
            self._said = status
            self.link.say(**status)


def _no_report(late: Set[str]) -> str:
    """What is wrong while tables are late; nothing once all of them stand."""
    return f"no report of a written result from {', '.join(sorted(late))}" if late else ""
