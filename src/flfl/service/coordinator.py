"""``flfl coordinator``: calls the sites together, carries the run, and never sees a series.

It is ``Resting``, ``Gathering`` sites for a run, or ``Running`` one. Its state folder holds::

    state           number and name of the last run, the scheduled time that is done, the last fit
    network         all that became public, which the next run adds slots to
    holder          who this coordinator is, for others of the same network
    runs/RUN/       agreement, history (the network before), journal; in the end: ended
    now, abort, paused      what an operator asks of the process that is at work
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from threadpoolctl import threadpool_limits

from flfl import constants
from flfl.clock import Clock, Schedule
from flfl.codec import CodecError
from flfl.config import CoordinatorSettings, read_settings
from flfl.errors import FLFLError, InputError
from flfl.protocol.journal import DurableCoordinator, Journal, JournalError
from flfl.protocol.network import Network
from flfl.protocol.plan import Addition, Fit
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination
from flfl.protocol.traffic import Traffic
from flfl.secagg import Roster, SecureServer
from flfl.service import files
from flfl.service.agreement import Agreement, AgreementError, Published, from_bytes, to_bytes
from flfl.service.check import at_start, coordinator_steps
from flfl.service.diary import Diary, stamp
from flfl.service.files import (
    folder_name,
    load_or_set_aside,
    save,
    save_bytes,
    seal,
    set_aside,
    unseal,
)
from flfl.service.grid import TimeGrid
from flfl.service.logs import start_logging
from flfl.service.plan import agreement_of, checked_roster, grid_at
from flfl.service.status import coordinator_status
from flfl.service.versions import STARTED, own_version
from flfl.service.web import StatusServer
from flfl.transport.dispatcher import Dispatcher
from flfl.transport.link import COORDINATOR, CoordinatorLink, Message, Received, is_signed

_LOG = logging.getLogger("flfl.coordinator")
STATE, AGREEMENT, JOURNAL, HISTORY = "state", "agreement", "journal", "history"
NETWORK, ENDED, HOLDER = "network", "ended", "holder"
NOW, ABORT, PAUSED = "now", "abort", "paused"
Request = Literal["now", "abort", "pause", "resume"]
_STATUS_SECONDS = 2.0
_PRESENCE = ("here", "left", "gone", "never seen")
_LEASE = 60.0
"""Seconds in which a coordinator that is at work answers another one."""
_RETRY, _LONGEST_RETRY = 15.0, 3600.0
"""Seconds until a run that failed is tried again; doubled each time."""
_CALL_AGAIN = 30.0
"""Seconds after which a site that has not answered is called again."""
_KEPT_RUNS = 30
"""Folders of runs that are kept."""


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


def is_at_work(path: Path) -> bool:
    """Whether a process is at work with these settings."""
    return files.is_locked(read_settings(CoordinatorSettings, path).state)


def request(path: Path, word: Request) -> str:
    """Ask something of the coordinator that is at work with these settings; says what comes."""
    state = read_settings(CoordinatorSettings, path).state
    if word == "resume":
        (state / PAUSED).unlink(missing_ok=True)
        return "Runs are made as scheduled again."
    save_bytes(state / {"pause": PAUSED}.get(word, word), b"")
    return {
        "now": "The coordinator at work begins a run within seconds.",
        "abort": "The coordinator at work ends its run within seconds; the next one is as planned.",
        "pause": "No run begins until `flfl coordinator CONFIG --resume`; one under way goes on.",
    }[word]


@dataclass(frozen=True)
class Resting:
    """Between runs."""


@dataclass(frozen=True)
class Gathering:
    """Sites are asked who can take part; ``holds`` is which history each keeps, and how long."""

    announcement: Message
    ready: frozenset[str] = frozenset()
    unable: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    given: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    """A run is under way; ``done`` are the sites that have written their results."""

    announcement: Message
    agreement: Agreement
    coordination: Coordination
    journal: DurableCoordinator
    dispatcher: Dispatcher
    history: bytes = b""
    done: frozenset[str] = frozenset()


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
        self._round = self._runs = self._failures = 0
        self._told, self._said = 0.0, dict[str, Any]()
        self.since = STARTED
        self.diary = Diary(self.settings.state, ("bytes_up", "bytes_down"))
        self.page = StatusServer(self.settings.report)
        self._retry_at, self._nothing_new, self._at_once = 0.0, False, False
        self._over: Message | None = None
        self._holder = self._who()
        self._rivals: Counter[str] = Counter()
        self._claimed = False

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

    def _who(self) -> str:
        """The same for every process with this state folder."""
        kept = load_or_set_aside(self.settings.state / HOLDER, "id")
        if kept is None:
            kept = {"id": uuid.uuid4().hex[:12]}
            with suppress(OSError):  # a full disk is told of when a run begins
                save(self.settings.state / HOLDER, kept)
        return str(kept["id"])

    def _claim(self) -> None:
        """Go on only when no other coordinator of this network is at work. One that is, answers
        when this one says that it is here."""
        where = f"{socket.gethostname()}, process {os.getpid()}"
        self.link.say(holder=self._holder, where=where)
        until = None
        while not self.stopping:
            received = self._receive(0.5)
            boot = None if received is None else str(received.status.get("boot", ""))
            if received is not None and received.name == COORDINATOR and boot == self.link.boot:
                # What was said before may be of one that is gone; what comes now is an answer.
                until = until or self.clock.monotonic() + _LEASE
                self._rivals = Counter(dict.fromkeys(self._rivals, 0))
            answers = self._rivals.items() if until is not None else ()
            if rival := next((who for who, said in answers if said), ""):
                raise InputError(
                    f"another coordinator of the network {self.settings.network!r} is at work:"
                    f" {rival}",
                    where=str(self.setup.path),
                    remedy="Stop that one first; this one has done nothing",
                )
            if until is not None and (not self._rivals or self.clock.monotonic() >= until):
                break
        self._claimed = True

    def _hears_of(self, status: Mapping[str, Any]) -> None:
        """What a coordinator says of itself: this one, one that is gone, or another one."""
        boot, state = str(status.get("boot", "")), status.get("state")
        if boot == self.link.boot:
            return
        if state != "here":
            # The broker has word of an earlier process only now.
            self._rivals.clear()
            self.link.say()
        elif status.get("holder") != self._holder:
            where = f"{status.get('where', 'unknown')}, start {boot}"[:120]
            self._rivals[where] += 1
            if self._claimed:
                _LOG.warning("another coordinator is, or just was, at work: %s", where)
                self.link.say()

    def _is_due(self) -> bool:
        if self._asked(NOW):
            self._at_once, self._retry_at = True, 0.0
            return True
        self._at_once = False
        self._asked(ABORT)
        if self.schedule is None or self.clock.monotonic() < self._retry_at:
            return False
        if self._interrupted_folder() is not None:
            return True
        if (self.settings.state / PAUSED).exists():
            return False
        now, done = self.clock.now(), int(self._saved()["done"])
        if done > now + 2 * self.schedule.period:
            _LOG.warning("the clock has gone back: runs are due by what it says now")
            self._save(done=self.schedule.last(now) - self.schedule.period)
        return self.schedule.last(now) > done

    def _asked(self, word: str) -> bool:
        """Whether an operator asks for something; it is asked for once."""
        path = self.settings.state / word
        if not path.exists():
            return False
        with suppress(OSError):
            path.unlink()
        return True

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
            self._save_if_possible(done=due)
        else:
            wait = min(_RETRY * 2**self._failures, _LONGEST_RETRY)
            self._failures, self._retry_at = self._failures + 1, self.clock.monotonic() + wait
            while well is None and not self.stopping and self.clock.monotonic() < self._retry_at:
                self._receive(1.0)
        return well

    def _one_run(self) -> bool:
        """Go on with the run that was interrupted, or begin one, as far as there is anything new;
        whether it went well."""
        agreement = self._interrupted() or self._gather()
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
            self._keep(published)
            self._runs += 1
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
        folder, self.problem = self._folder(agreement.run), f"{error}"
        set_aside(folder / JOURNAL, error)
        Journal.remove(folder / JOURNAL)
        save(folder / ENDED, {"failed": self.problem, "aside": {}, "rounds": 0, "notes": []})
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
            self._hears_of(status)
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
            self._take_call(state, site, message)
        elif message.kind == "lacking":
            self._give(site, str(about.get("digest", "")))
        elif message.kind == "no plan" and isinstance(state, Running):
            self.link.tell(site, state.announcement)
        elif message.kind == "here" and self._over is not None and message.run == self._over.run:
            self.link.tell(site, self._over)
        if isinstance(state, Running) and (message.kind, message.run) == (
            "done",
            state.agreement.run,
        ):
            self.state = replace(state, done=state.done | {site})

    def _take_call(self, state: Gathering, site: str, message: Message) -> None:
        about = message.about
        unable = {name: why for name, why in state.unable.items() if name != site}
        if message.kind == "ready":
            stop = about.get("stop", 0)
            held = (str(about.get("holds", ""))[:64], stop if type(stop) is int else 0)
            self.state = replace(
                state, ready=state.ready | {site}, unable=unable, holds={**state.holds, site: held}
            )
        elif message.kind == "unable":
            unable[site] = str(about.get("why", ""))[:500]
            self.state = replace(state, ready=state.ready - {site}, unable=unable)
            _LOG.warning("%s cannot take part: %s", site, unable[site])
        elif message.kind == "given":
            self.state = replace(state, given={**state.given, site: message.data})

    # --- what is kept

    def _saved(self) -> dict[str, Any]:
        path = self.settings.state / STATE
        kept = load_or_set_aside(path, "number", "run", "done", "fitted")
        return self._found_again() if kept is None else dict(kept)

    def _found_again(self) -> dict[str, Any]:
        """The state of a coordinator whose file of it is lost, from the folders of its runs."""
        runs: list[Agreement] = []
        for path in (self.settings.state / "runs").glob(f"*/{AGREEMENT}"):
            with suppress(AgreementError, CodecError, OSError):
                runs.append(from_bytes(Agreement, unseal(path)))
        last = max(runs, key=lambda agreement: agreement.number, default=None)
        number, run = (0, "") if last is None else (last.number, last.run)
        # A run that is still to be gone on with has fitted nothing.
        over = [one for one in runs if (self._folder(one.run) / ENDED).exists()]
        anew = (one.grid.slots for one in over if one.addition.fit == Fit.ANEW)
        return {"number": number, "run": run, "done": 0, "fitted": max(anew, default=0)}

    def _save(self, **changes: str | int) -> None:
        save(self.settings.state / STATE, {**self._saved(), **changes})

    def _save_if_possible(self, **changes: str | int) -> None:
        try:
            self._save(**changes)
        except OSError as error:
            self.problem = f"the state cannot be written: {error}"
            _LOG.error("%s", self.problem)

    def _folder(self, run: str) -> Path:
        return self.settings.state / "runs" / folder_name(run)

    def _published(self) -> Published | None:
        """All that became public until now; what is damaged is set aside, and sites have it."""
        return Published.load(self.settings.state / NETWORK)

    def _keep(self, published: Published) -> None:
        seal(self.settings.state / NETWORK, published.data)
        if published.agreement.addition.fit == Fit.ANEW:
            self._save(fitted=published.network.stop)

    def _interrupted_folder(self) -> Path | None:
        folder = self._folder(self._saved()["run"])
        there = (folder / AGREEMENT).exists() and not (folder / ENDED).exists()
        return folder if there else None

    def _interrupted(self) -> Agreement | None:
        """The run that was under way when the last process ended."""
        if (folder := self._interrupted_folder()) is None:
            return None
        try:
            agreement = from_bytes(Agreement, unseal(folder / AGREEMENT))
        except (AgreementError, CodecError) as error:
            set_aside(folder / AGREEMENT, error)
            return None
        _LOG.info("going on with run %s", agreement.run)
        return agreement

    # --- who takes part in what

    def _gather(self) -> Agreement | None:
        """Ask who can take part, until all can or the time is up."""
        self._nothing_new = False
        self.roster = checked_roster(self.settings, self.setup.path)
        when = self.clock.now()
        if self.schedule is not None and not self._at_once:
            # A run that is late, or tried again, releases what it would have released in time.
            when = self.schedule.last(when)
        grid, kept = grid_at(self.settings, when), self._published()
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
            if self._asked(ABORT):
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
        number, call = int(self._saved()["number"]) + 1, str(gathering.announcement.about["call"])
        ready = sorted(gathering.ready & set(self.roster.names))
        kept = self._newest(gathering, ready)
        if kept is not None and terms.grid.slots <= kept.network.stop:
            self._nothing_new = True
            _LOG.info("no slot has closed since the last run: nothing is to be released")
            return None
        agreement = replace(terms, number=number, call=call, sites=tuple(ready))
        if kept is not None:
            kept.check_continued(agreement)
            before, how = kept.agreement, self._addition(terms.grid, kept.network)
            # A network's map is one for ever.
            agreement = replace(
                agreement, history=kept.digest, geography=before.geography, centre=before.centre,
                plan=replace(agreement.plan, box=before.plan.box), keep=how.keep, first=how.first,
                fit=int(how.fit),
            )  # fmt: skip
            seal(self._folder(agreement.run) / HISTORY, kept.data)
            for site in ready:
                if gathering.holds[site][0] != kept.digest:
                    self.link.tell(site, Message("history", "", {"digest": kept.digest}, kept.data))
        seal(self._folder(agreement.run) / AGREEMENT, to_bytes(agreement))
        self._save(number=number, run=agreement.run)
        return agreement

    def _newest(self, gathering: Gathering, ready: list[str]) -> Published | None:
        """The history that the run goes on after: this coordinator's, or a newer one that two
        sites, or the only ones that have any, agree on. A slot is released once."""
        kept = self._published()
        mine = 0 if kept is None else kept.network.stop
        newer = Counter(gathering.holds[site] for site in ready if gathering.holds[site][1] > mine)
        holders = sum(newer.values())
        for (digest, stop), count in sorted(newer.items(), key=lambda item: -item[0][1]):
            if count < min(2, holders):
                continue
            _LOG.warning("the history up to slot %d is lost here: asking the sites for it", stop)
            for site in (name for name in ready if gathering.holds[name][0] == digest):
                if (given := self._ask_for(site, digest)) is not None:
                    seal(self.settings.state / NETWORK, given.data)
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
            kept = self._published()
            data = kept.data if kept is not None and kept.digest == digest else None
        if data is not None:
            self.link.tell(site, Message("history", "", {"digest": digest}, data))

    def _addition(self, grid: TimeGrid, before: Network) -> Addition:
        """How the run's slots are added: in a window or, as often as wanted, with a fit anew."""
        run = self.settings.run
        keep = max(grid.since(run.history, constants.WINDOW_SLOTS), before.first)
        keep = min(keep, before.stop - 1)
        first = min(max(grid.since(run.window, constants.WINDOW_SLOTS), keep), before.stop - 1)
        stamps, fitted = grid.stamps(), int(self._saved()["fitted"])
        unit = {"monthly": "M8[M]", "weekly": "M8[W]"}.get(run.refit)
        if unit is not None and 0 < fitted <= grid.slots:
            then, now = stamps[[fitted - 1, -1]].astype("M8[s]").astype(unit)
            if then == now:
                # What is forgotten is forgotten when all is fitted anew.
                return Addition(before.first, first, Fit.KEPT)
        return Addition(keep, keep, Fit.ANEW)

    def _begin(self, agreement: Agreement) -> Running:
        traffic, roster, folder = Traffic(), self.roster, self._folder(agreement.run)
        self.problem, self._round = "", 0
        if agreement.secure and agreement.roster != roster.digest.hex():
            raise AgreementError("the list of sites has changed since the run began")

        def progress(number: int, rounds: int) -> None:
            self._round = number

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
            if self._asked(ABORT):
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
                self.problem = f"no report of a written result from {', '.join(sorted(late))}"
                _LOG.warning("%s", self.problem)
            if not late or self.problem:
                return
            self._receive(0.5)

    def _end(self, running: Running, why: str, published: Published | None) -> None:
        run, dispatcher, self.state = running.agreement.run, running.dispatcher, Resting()
        folder = self._folder(run)
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
        save(folder / ENDED, ended | counted)
        network = running.coordination.network
        public = {} if network is None else {"gaps": int((~network.known).sum())}
        sites = {"sites": len(running.agreement.sites), "aside": len(aside)}
        self.diary.record(run, why, **sites, **counted, **public)
        Journal.remove(folder / JOURNAL)
        (folder / HISTORY).unlink(missing_ok=True)
        if not why:
            _LOG.info("run %s is done", run, extra={"facts": {"aside": aside}})
        old = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in old[:-_KEPT_RUNS]:
            shutil.rmtree(path, ignore_errors=True)

    def status(self) -> dict[str, Any]:
        """Who is here, what is done, what is wrong: without a reading."""
        status = {
            "network": self.settings.network,
            "phase": type(self.state).__name__.lower(),
            "round": self._round,
            "sites": {name: self._site_status(name) for name in self.roster.names},
            "runs": self._runs,
            "problem": self.problem,
            "run": "", "question": 0, "waiting_for": [], "paused": "", **self._times(),
        }  # fmt: skip
        if isinstance(state := self.state, Running):
            status["run"], status["question"] = state.agreement.run, state.journal.answered + 1
            status["waiting_for"] = list(state.dispatcher.waiting_for)
            status["paused"] = state.dispatcher.paused or status["paused"]
        return status

    def _times(self) -> dict[str, Any]:
        """When a run is due next (0: not at all), in seconds since 1970."""
        if self.schedule is None:
            return {"next_run": 0}
        if (self.settings.state / PAUSED).exists():
            return {"next_run": 0, "paused": "an operator has paused the runs"}
        return {"next_run": self.schedule.next(self.clock.now())}

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
        if not force and self.clock.monotonic() - self._told < _STATUS_SECONDS:
            return
        self._told = self.clock.monotonic()
        # Every site receives it: only changes are told.
        status = self.status()
        if status["run"] and status["question"] != self._said.get("question"):
            late = ", ".join(status["waiting_for"])
            _LOG.info("question %d: waiting for %s", status["question"], late or "nobody")
        if force or status != self._said:
            self._said = status
            self.link.say(**status)
