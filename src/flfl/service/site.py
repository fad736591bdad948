"""``flfl site``: one owner's service. Readings, copies and results stay in its folders.

``python -m flfl.service.site CONFIG [--once]`` runs it without what the command line loads. It is
``Waiting``, or ``Lacking`` what became public before a run that it is to take part in, or
``Running`` in a run, or has ``Finished`` one whose end it was not told of yet, or is ``Stalled``
until its disk has room. All of that follows from its state folder, so any process can go on::

    secret, copies.sqlite, copies.id    for ever
    network                             all that became public, as far as this site was told
    result                              the last result, and the readings that it belongs to
    called                              readings for the run that the site was called to
    lacking                             what waits for a network that this site has not
    runs/RUN/                           agreement, history (the network before), readings, secret,
                                        journal; in the end: written
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flfl.clock import Clock
from flfl.codec import CodecError
from flfl.config import SiteSettings, read_settings
from flfl.constants import WINDOW_SLOTS
from flfl.ensemble.recovery import Recovered
from flfl.errors import FLFLError, InputError
from flfl.protocol.client import Client
from flfl.protocol.copy_store import CopyError
from flfl.protocol.finish import finish_run, finish_since, own_part
from flfl.protocol.journal import DurableSite, Journal, JournalError
from flfl.protocol.network import Network
from flfl.protocol.owner import Owner
from flfl.protocol.plan import Fit
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.session import Site
from flfl.secagg import SecureClient
from flfl.service.agreement import (
    Agreement,
    AgreementError,
    Published,
    check_terms,
    from_bytes,
    to_bytes,
)
from flfl.service.broker import connect
from flfl.service.check import at_start, site_steps
from flfl.service.diary import Diary
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
from flfl.service.home import SECRET, Home, Snapshot, effort_of, floor_of, secret, table_of
from flfl.service.keys import load_roster
from flfl.service.logs import start_logging
from flfl.service.night import Night
from flfl.service.results import Result
from flfl.service.status import site_status
from flfl.service.versions import STARTED, check_version
from flfl.service.web import StatusServer
from flfl.transport.link import NOT_TOLD, Message, Received, SignedLink, SiteLink
from flfl.transport.responder import Responder, told

_LOG = logging.getLogger("flfl.site")
CALLED, AGREEMENT, READINGS, HISTORY = "called", "agreement", "readings", "history"
JOURNAL, WRITTEN, NETWORK, RESULT, LACKING = "journal", "written", "network", "result", "lacking"
CANNOT_WRITE = "it cannot write what it must keep; its own log says why"
_RETRY, _LONGEST_RETRY = 1.0, 300.0
"""Seconds until what could not be written is tried again; doubled each time."""
_KEPT_RUNS = 30
"""Folders of runs that are kept."""


@dataclass(frozen=True)
class Waiting:
    """In no run."""


@dataclass(frozen=True)
class Lacking:
    """An announcement needs a network that this site has not, and has asked for."""

    message: Message
    digest: str


@dataclass(frozen=True)
class Stalled:
    """Something could not be written down: what was is taken up again at this time."""

    until: float


@dataclass(frozen=True)
class Running:
    """In a run, whose questions the responder answers."""

    agreement: Agreement
    client: Client
    journal: DurableSite
    responder: Responder


@dataclass(frozen=True)
class Finished(Running):
    """The result is kept; the last answer may be asked for again until the run has ended."""


State = Waiting | Lacking | Stalled | Running


class SiteService:
    """One owner's part in a network's runs, with a link to the coordinator."""

    def __init__(self, home: Home, link: SiteLink, clock: Clock | None = None) -> None:
        self.home, self.settings = home, home.settings
        signer = None if home.identity is None else home.identity.sign
        self.link: Any = link if signer is None else SignedLink(link, signer)
        self.clock, self.roster = clock or Clock(), home.roster
        self.stopping, self.runs, self.problem = False, 0, ""
        self._public_problem, self._coordinator, self._answered = "", "", 0
        self._said: dict[str, str] = {}
        self.heard: Mapping[str, Any] = {}
        self.since, self.diary = STARTED, Diary(self.settings.state)
        self._failures, self._write_at, self._ask_at = 0, 0.0, 0.0
        self.pending: Result | None = None
        self._announced: Message | None = None
        self.state: State = Waiting()
        self._resume()

    def serve(self, once: bool = False) -> int:
        """Take part in runs until stopped; with ``once``, until one is done. Returns how many."""
        with closing(StatusServer(self.settings.report)) as page:
            # Until it is told of the end it may be asked for its last answer again.
            while not (self.stopping or (once and self.runs and isinstance(self.state, Waiting))):
                if (received := self.link.next(0.5)) is not None:
                    self.take(received)
                self.tick()
                page.show(lambda: site_status(self))
        return self.runs

    @property
    def agreement(self) -> Agreement | None:
        """Of the run that this site is in."""
        return self.state.agreement if isinstance(self.state, Running) else None

    @property
    def answers(self) -> int:
        """Questions answered since this process began."""
        now = self.state.responder.answers if isinstance(self.state, Running) else 0
        return self._answered + now

    def tick(self) -> None:
        """What is due without a message: questions that do not come, and what is tried again."""
        now, state = self.clock.monotonic(), self.state
        with self._surviving():
            if isinstance(state, Running):
                state.responder.tick()
            elif isinstance(state, Stalled) and now >= state.until:
                self.state = Waiting()
                self._resume()
                if isinstance(self.state, Waiting) and self._announced is not None:
                    self._act_on(self._announced)
            elif isinstance(state, Lacking) and now >= self._ask_at:
                self._ask_for(state.digest)
            if self.pending is not None and now >= self._write_at:
                self._write(self.pending)
        self._say()

    def stop(self, *_: Any) -> None:
        """End soon."""
        self.stopping = True

    def close(self) -> None:
        """Close the journal of the run; another process can go on with it."""
        if isinstance(self.state, Running):
            self.state.journal.close()

    def take(self, received: Received) -> None:
        """Act on what has come. It never raises: what cannot be written down is tried again."""
        with self._surviving():
            if received.branch == "link" or self._is_new_coordinator(received):
                self._report_state()
            elif received.message is not None:
                self._act_on(received.message)
        self._say()

    def _act_on(self, message: Message) -> None:
        handlers: dict[str, Callable[[Message], State]] = {
            "call": self._called,
            "plan": self._planned,
            "question": self._asked,
            "aside": self._set_aside,
            "ended": self._ended,
            "history": self._given,
            "give": self._asked_for,
        }
        if message.kind in ("call", "plan", "ended"):
            self._announced = message
        if message.kind in handlers and not isinstance(self.state, Stalled):
            self.state = handlers[message.kind](message)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """No message ends the owner's process, and nothing that happens to its disk."""
        try:
            yield
        except (JournalError, CopyError, OSError) as error:
            self._stall(error)
        except AgreementError as error:
            self._trouble(str(error), str(error))
        except Exception as error:
            self._trouble(f"{type(error).__name__}: {error}", told(error))

    def _stall(self, error: Exception) -> None:
        """Go on later from what is written down: an answer that is not has not been given."""
        if isinstance(self.state, Running):
            self.state.journal.close()
        wait = min(_RETRY * 2**self._failures, _LONGEST_RETRY)
        self._failures += 1
        self._trouble(f"cannot go on: {error}; tried again in {wait:g} s", CANNOT_WRITE)
        self.state = Stalled(self.clock.monotonic() + wait)

    def _is_new_coordinator(self, received: Received) -> bool:
        boot, before = str(received.status.get("boot", "")), self._coordinator
        if received.branch == "status":
            self.heard = received.status
        if (
            received.branch != "status"
            or str(received.status.get("state")) != "here"
            or boot == before
        ):
            return False
        self._coordinator = boot
        return True

    def _report_state(self) -> None:
        """Tell a coordinator that may have forgotten it."""
        if isinstance(self.state, Finished):
            self._report_done(self.state.agreement.run)
        if isinstance(self.state, Running):
            self.state.responder.here()

    def _report_done(self, run: str) -> None:
        if (self._folder(run) / WRITTEN).exists():
            self._report("done", run)

    def _report(self, kind: str, run: str = "", **about: str | int) -> None:
        self.link.reply(Message(kind, run, about))

    def _trouble(self, why: str, public: str) -> None:
        """Log what is wrong; others are told only so much."""
        self.problem, self._public_problem = why, public
        _LOG.error("%s", why)

    def _say(self) -> None:
        run = self.state.agreement.run if isinstance(self.state, Running) else ""
        said = {"run": run, "problem": self._public_problem[:500]}
        if said != self._said:
            self._said = said
            self.link.say(**said)

    # --- before a run

    def _called(self, message: Message) -> State:
        """The coordinator asks who can take part: read the source, say yes or why not."""
        call, path = str(message.about.get("call", "")), self.settings.state / CALLED
        try:
            check_version(message.about)
            self._check_call(message)
            called = load_or_set_aside(path, "call", "ids", "values")
            if called is None or called["call"] != call:
                # Table readers are large: a site that waits for its first run does without them.
                from flfl.service.tables import read_source

                taken = read_source(self.settings.readings, from_bytes(TimeGrid, message.data))
                if not taken.alive.any():
                    raise InputError("there is no reading within the network's times")
                save(path, {"call": call, **vars(taken)})
                _LOG.info("ready with %d sensors", int(taken.alive.sum()))
        except (FLFLError, OSError) as error:
            why = str(error)[:500] if isinstance(error, AgreementError) else NOT_TOLD
            self._trouble(f"cannot take part: {error}", why)
            self._report("unable", call=call, why=why)
            return self.state
        self._check_output()
        kept = self._kept()
        if kept is None:
            self._report("ready", call=call)
        else:
            self._report("ready", call=call, holds=kept.digest, stop=kept.network.stop)
        return self.state

    def _check_call(self, message: Message) -> None:
        """Refuse a call to a run that this site could have no part in."""
        grid = from_bytes(TimeGrid, message.data)
        # The network's grace is the room that parties' clocks have.
        if grid.end > self.clock.now():
            raise AgreementError(
                "the run's times have not ended by this site's clock; check both clocks"
            )
        if self.settings.roster is not None:
            self.roster = load_roster(self.settings.roster)
        asked = str(message.about.get("roster", ""))
        if asked and (self.roster is None or asked != self.roster.digest.hex()):
            raise AgreementError("the coordinator's list of sites is not this site's")

    def _check_output(self) -> None:
        """Say now, not after the run, that the tables could not be written; the result is kept."""
        from flfl.service.tables import check_output

        self.problem = self._public_problem = ""
        try:
            check_output(self.settings.out)
        except (FLFLError, OSError) as error:
            why = f"the output cannot be written: {error}; the result will be kept until it can"
            self._trouble(why, CANNOT_WRITE)

    def _called_to(self, agreement: Agreement) -> Snapshot | None:
        """The readings that were read for this run."""
        called = load_or_set_aside(self.settings.state / CALLED, "call", "ids", "values")
        wanted = called is not None and called.pop("call") == agreement.call
        return Snapshot(**called) if wanted else None

    def _kept(self) -> Published | None:
        """All that became public, as far as this site has it; the coordinator has it, too."""
        return Published.load(self.settings.state / NETWORK)

    def _resume(self) -> None:
        """Go on with what an earlier process was in."""
        kept = load_or_set_aside(self.settings.state / RESULT, "run", "grid", "taken", "parts")
        if kept is not None and not (self._folder(kept["run"]) / WRITTEN).exists():
            self.pending = Result.from_values(kept)
        for path in (self.settings.state / "runs").glob(f"*/{JOURNAL}"):
            run = path.parent.name
            with self._surviving():
                try:
                    agreement = from_bytes(Agreement, unseal(path.parent / AGREEMENT))
                    run = agreement.run
                    self._check_terms(agreement)
                    self.state = self._begin(agreement)
                except (JournalError, CopyError, OSError):
                    raise
                except Exception as error:
                    self._leave_damaged(path, run, error)
        if isinstance(self.state, Waiting):
            with suppress(OSError, CodecError):
                message = Message.from_bytes(unseal(self.settings.state / LACKING))
                self.state = Lacking(message, str(message.about.get("lacks", "")))

    def _leave_damaged(self, journal: Path, run: str, error: Exception) -> None:
        """What was written of a run is of no use: the run goes on without this site."""
        self._trouble(f"cannot go on with run {run}: {error}", "it cannot go on with the run")
        set_aside(journal, error)
        self._forget(run)
        self._report("left", run, why="it cannot go on with the run")

    def _check_terms(self, agreement: Agreement) -> None:
        roster = "" if self.roster is None else self.roster.digest.hex()
        check_terms(agreement, self.settings.terms, roster)

    def _planned(self, message: Message) -> State:
        if isinstance(self.state, Running) and message.run == self.state.agreement.run:
            self._report_state()
            return self.state
        check_version(message.about)
        agreement = from_bytes(Agreement, message.data)
        if agreement.run != message.run or agreement.network != self.settings.network:
            raise AgreementError("what was announced is another run than it says")
        if self.settings.name not in agreement.sites:
            _LOG.info("run %s is without this site", agreement.run)
            return self.state
        self._check_terms(agreement)
        folder = self._folder(agreement.run)
        if (folder / WRITTEN).exists() and not (folder / JOURNAL).exists():
            self._report("done", agreement.run)
            return self.state
        taken = self._called_to(agreement)
        if isinstance(self.state, Running) and taken is None:
            # A broker may bring back what it kept of an older run: that ends no other.
            _LOG.warning("run %s is not the one that this site was called to", agreement.run)
            return self.state
        history = None
        if not (folder / AGREEMENT).exists():
            if taken is None:
                raise AgreementError("the run was announced before this site's readings were read")
            if (history := self._history(agreement)) is None and agreement.history:
                return self._lack(message, agreement.history)
        elif not (folder / READINGS).exists():
            self._report("left", agreement.run, why="it cannot go on with the run")
            raise AgreementError("this site has left the run, and cannot come back to it")
        self.state = self._left("another run begins")
        self._tidy(folder)
        if taken is not None and not (folder / AGREEMENT).exists():
            if history is not None:
                seal(folder / HISTORY, history.data)
            save(folder / READINGS, vars(taken))
            seal(folder / AGREEMENT, to_bytes(agreement))
        return self._begin(agreement)

    def _tidy(self, folder: Path) -> None:
        """Forget other runs, of whose end this site was not told."""
        (self.settings.state / LACKING).unlink(missing_ok=True)
        others = [path for path in (self.settings.state / "runs").glob("*") if path != folder]
        for other in others:
            self._forget(other.name)
        for old in sorted(others, key=lambda path: path.stat().st_mtime)[:-_KEPT_RUNS]:
            shutil.rmtree(old, ignore_errors=True)

    def _history(self, agreement: Agreement) -> Published | None:
        """What the run goes on after, if this site has it. Nothing is released twice."""
        kept = self._kept()
        if kept is None:
            return None
        if not agreement.history:
            raise AgreementError(
                "this site keeps what became public in this network, and the run begins anew"
            )
        kept.check_continued(agreement)
        return kept if kept.digest == agreement.history else None

    def _lack(self, message: Message, digest: str) -> State:
        """Ask for what became public, and act on the announcement when it is here."""
        about = {**message.about, "lacks": digest}
        waiting = Message(message.kind, message.run, about, message.data)
        seal(self.settings.state / LACKING, waiting.to_bytes())
        self._ask_for(digest)
        return Lacking(waiting, digest)

    def _ask_for(self, digest: str) -> None:
        self._ask_at = self.clock.monotonic() + self.settings.again
        self._report("lacking", digest=digest)

    def _given(self, message: Message) -> State:
        """What became public has come."""
        digest, state = str(message.about.get("digest", "")), self.state
        given = self._accept(message.data, digest)
        if not isinstance(state, Lacking) or given.digest != state.digest:
            return state
        (self.settings.state / LACKING).unlink(missing_ok=True)
        self.state = Waiting()
        handler = self._planned if state.message.kind == "plan" else self._ended
        return handler(state.message)

    def _accept(self, data: bytes, digest: str) -> Published:
        """Keep what became public, if it goes on after what this site has."""
        given, kept = Published.from_bytes(data), self._kept()
        if given.agreement.network != self.settings.network or given.digest != digest:
            raise AgreementError("what was published is another run than it says")
        if given.agreement.grid.end > self.clock.now():
            raise AgreementError("what was published has not ended by this site's clock")
        if kept is not None:
            if given.network.stop < kept.network.stop:
                raise AgreementError("what was published is older than what this site keeps")
            kept.check_continued(given.agreement)
        seal(self.settings.state / NETWORK, given.data)
        return given

    def _asked_for(self, message: Message) -> State:
        """The coordinator has lost what became public."""
        kept = self._kept()
        if kept is not None and kept.digest == message.about.get("digest"):
            call = str(message.about.get("call", ""))
            self.link.reply(Message("given", "", {"call": call}, kept.data))
        return self.state

    # --- in a run

    def _begin(self, agreement: Agreement) -> State:
        """Be in a run whose folder is there; what was answered before is replayed."""
        folder, name, security = self._folder(agreement.run), self.settings.name, None
        if agreement.secure:
            if self.home.identity is None or self.roster is None:
                raise AgreementError("the run has secure sums, and this site has no identity")
            own = secret(folder / SECRET)
            security = SecureClient(name, self.home.identity, self.roster, own)
        table = table_of(self._readings(agreement), name, agreement)
        earlier = None
        if agreement.history:
            earlier = Published.from_bytes(unseal(folder / HISTORY)).network
        # Clean readings with the copier on one side, messages on the other.
        owner = Owner(table, self.home.copier, floor_of(self.settings))
        client = Client(owner, agreement.plan, security, earlier=earlier)
        journal = DurableSite(Site(name, client, PROTOCOL, security), folder / JOURNAL)
        responder = Responder(
            journal, self.link, agreement.run, self.settings.again, self._refused, self.clock
        )
        _LOG.info("in run %s; %d answers replayed", agreement.run, journal.replayed)
        responder.here()
        self.state = running = Running(agreement, client, journal, responder)
        return self._finish(running)

    def _readings(self, agreement: Agreement) -> Snapshot:
        path = self._folder(agreement.run) / READINGS
        kept = load_or_set_aside(path, "ids", "values")
        if kept is None:
            raise InputError("the readings that the run began with are lost", where=str(path))
        return Snapshot(**kept)

    def _folder(self, run: str) -> Path:
        return self.settings.state / "runs" / folder_name(run)

    def _asked(self, message: Message) -> State:
        if not isinstance(self.state, Running):
            self.link.dropped["no run"] += 1
            self._report("no plan", message.run)
            return self.state
        self.state.responder.take(message)
        self._failures = 0
        return self._finish(self.state)

    def _refused(self, error: Exception) -> None:
        why = str(error.__cause__ or error)
        self._trouble(f"refused a question: {why}", f"refused a question: {told(error)}")

    # --- after the last question

    def _finish(self, state: Running) -> State:
        """The last question is answered: keep what was recovered, and write it. It stays here."""
        if not state.client.finished:
            return state
        agreement, client = state.agreement, state.client
        if not isinstance(state, Finished):
            published = Published(agreement, client.network)
            seal(self.settings.state / NETWORK, published.data)
            if not (self._folder(agreement.run) / WRITTEN).exists():
                taken, last = self._readings(agreement), self._last()
                if last is None or last.run != agreement.run:
                    first = self._first(published, taken, last)
                    result = finish_run(client, effort_of(self.settings, agreement.grid), first)
                    part = (client, state.journal.traffic)
                    last = self._keep(published, taken, result, first, last, *part)
                self._write(last)
        self._report_done(agreement.run)
        return Finished(agreement, client, state.journal, state.responder)

    def _last(self) -> Result | None:
        """The result of the run before."""
        kept = load_or_set_aside(self.settings.state / RESULT, "run", "grid", "taken", "parts")
        return None if kept is None else Result.from_values(kept)

    def _first(self, published: Published, taken: Snapshot, last: Result | None) -> int:
        """The slot from which on this site estimates anew: all of them when all was fitted anew, or
        when there is no earlier result of all sensors."""
        agreement, network = published.agreement, published.network
        if last is None or not last.covers(taken, agreement.grid):
            return network.first
        since = agreement.grid.since(self.settings.out.history, WINDOW_SLOTS)
        since = network.first if agreement.fit == Fit.ANEW else max(since, network.first)
        return min(since, last.grid.slots)

    def _keep(
        self, published: Published, taken: Snapshot, made: Recovered, first: int,
        last: Result | None, *part: Any,
    ) -> Result:  # fmt: skip
        """The result, in the state folder until it stands in the tables; ``part`` are the client
        and the traffic of a run that this site was in."""
        agreement = published.agreement
        seen = _seen(published.network)
        night = Night.of(self.settings, agreement, published.network, *part)
        result = Result(agreement.run, agreement.grid, taken, seen, made)
        if first > 0:
            last = last or Result(agreement.run, agreement.grid, taken, seen, _nothing(made, first))
            result = last.before(first, agreement.run, agreement.grid, taken, seen, made)
        result = replace(result, night=night)
        save(self.settings.state / RESULT, result.to_values())
        return result

    def _write(self, result: Result) -> None:
        """Write the owner's own files; what cannot be written stays in the state folder."""
        from flfl.service.tables import write_tables

        self.pending = result
        try:
            write_tables(
                self.settings.out, result.taken, result.grid, result.recovered, result.seen,
                result.run, result.night, self.diary,
            )  # fmt: skip
            save_bytes(self._folder(result.run) / WRITTEN, b"")
        except (OSError, FLFLError) as error:
            wait = min(_RETRY * 2**self._failures, _LONGEST_RETRY)
            self._failures, self._write_at = self._failures + 1, self.clock.monotonic() + wait
            why = f"the result of run {result.run} is kept and cannot be written yet: {error}"
            self._trouble(f"{why}; tried again in {wait:g} s", CANNOT_WRITE)
            return
        self.pending, self._failures, self.runs = None, 0, self.runs + 1
        self.problem = self._public_problem = ""
        _LOG.info("run %s is done: %s", result.run, self.settings.out.file)
        if (self._folder(result.run) / AGREEMENT).exists():  # it took part
            self._report("done", result.run)

    def _ended(self, message: Message) -> State:
        if isinstance(self.state, Running) and message.run == self.state.agreement.run:
            why = str(message.about.get("why", ""))
            self.state = self._left(f"the run failed: {why}" if why else "")
        else:
            # Of a run that an earlier process of this site was in: its secrets are still here.
            self._forget(message.run)
        digest, last = str(message.about.get("digest", "")), self._last()
        written = (self._folder(message.run) / WRITTEN).exists()
        known = written or (last is not None and last.run == message.run)
        if isinstance(self.state, Waiting | Lacking) and digest and not known:
            if message.data:
                self._accept(message.data, digest)
            kept = self._kept()
            if kept is None or kept.digest != digest:
                return self._lack(message, digest)
            self._join(kept, message.run)
        return self.state

    def _join(self, published: Published, run: str) -> None:
        """Finish at home with what a run published that this site had no part in."""
        from flfl.service.tables import read_source

        agreement, network = published.agreement, published.network
        if agreement.run != run or agreement.network != self.settings.network:
            raise AgreementError("what was published is another run than it says")
        taken = read_source(self.settings.readings, agreement.grid)
        table, last = table_of(taken, self.settings.name, agreement), self._last()
        # What it released in earlier runs is still in the sums, and is taken off them.
        own, first = own_part(table, network, self.home.copier.store), network.first
        first = self._first(published, taken, last)
        effort = effort_of(self.settings, agreement.grid)
        result = finish_since(first, table, effort, network, own)
        _LOG.info("joined run %s", agreement.run)
        self._write(self._keep(published, taken, result, first, last))

    def _set_aside(self, message: Message) -> State:
        # One that was late may be about an earlier run.
        if not isinstance(self.state, Running) or message.run != self.state.agreement.run:
            return self.state
        return self._left(f"the run goes on without this site: {message.about.get('why', '')}")

    def _left(self, why: str) -> State:
        """Take no more part in the run that this site is in."""
        if isinstance(self.state, Running):
            if why:
                self._trouble(why, why)
            self.state.journal.close()
            self._answered += self.state.responder.answers
            self._forget(self.state.agreement.run)
        return Waiting()

    def _forget(self, run: str) -> None:
        """Remove a run's secrets: what is not kept cannot be taken."""
        folder = self._folder(run)
        Journal.remove(folder / JOURNAL)
        for name in (SECRET, READINGS, HISTORY):
            (folder / name).unlink(missing_ok=True)


def _seen(network: Network) -> np.ndarray:
    """At which of all slots the network has readings (N,)."""
    return np.pad(network.known.any(axis=0), (network.first, 0))


def _nothing(made: Recovered, slots: int) -> Recovered:
    """Of slots that nothing is known of any more."""
    shape = len(made.estimate), slots
    return Recovered(*(np.full(shape, np.nan) for _ in vars(made)))


def main(arguments: list[str], clock: Clock | None = None) -> int:
    """``CONFIG [--once]``."""
    path = Path(arguments[0])
    try:
        settings = read_settings(SiteSettings, path)
        at_start(site_steps(settings, path))
        start_logging(settings.report, settings.name)
        with (
            threadpool_limits(limits=1),
            closing(Home.open(settings, str(path))) as home,
            closing(connect(settings.broker, settings.network, settings.name)) as link,
            closing(SiteService(home, link, clock)) as service,
        ):
            signal.signal(signal.SIGTERM, service.stop)
            signal.signal(signal.SIGINT, service.stop)
            service.serve(once=True)
    except (FLFLError, OSError) as error:
        sys.stderr.write(f"flfl: {error}\n")
        return 2 if isinstance(error, InputError) else 1
    if not service.stopping and "--once" not in arguments:
        # A run has loaded what a waiting site does without: a fresh process takes its place.
        os.execv(sys.executable, [sys.executable, "-m", "flfl.service.site", *arguments])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
