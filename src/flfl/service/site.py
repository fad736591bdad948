"""``flfl site``: one owner's service. Readings, copies and results stay in its folders.

``python -m flfl.service.site CONFIG [--once]`` runs it without what the command line loads. It is
``Waiting``, or ``Lacking`` what became public before a run that it is to take part in, or
``Running`` in a run, or has ``Finished`` one whose end it was not told of yet, or is ``Stalled``
until its disk has room. All of that follows from its state folder, so any process can go on. What
only a run needs is loaded when one begins.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from flfl.clock import Clock
from flfl.config import SiteSettings, read_settings
from flfl.errors import FLFLError, InputError
from flfl.protocol.copy_store import CopyError
from flfl.protocol.journal import DurableSite, JournalError
from flfl.service.agreement import Agreement, AgreementError, Published, check_terms, from_bytes
from flfl.service.broker import connect
from flfl.service.diary import Diary
from flfl.service.files import set_aside
from flfl.service.grid import TimeGrid
from flfl.service.home import Home
from flfl.service.identity import load_roster
from flfl.service.logs import start_logging
from flfl.service.site_folder import JOURNAL, READINGS, SiteFolder
from flfl.service.status import site_status
from flfl.service.versions import CHECKED, STARTED, check_version
from flfl.service.web import StatusServer
from flfl.transport.link import NOT_TOLD, Message, Received, SignedLink, SiteLink

if TYPE_CHECKING:
    from flfl.protocol.client import Client
    from flfl.service.results import Result
    from flfl.transport.responder import Responder

_LOG = logging.getLogger("flfl.site")
CANNOT_WRITE = "it cannot write what it must keep; its own log says why"
_RETRY, _LONGEST_RETRY = 1.0, 300.0
"""Seconds until what could not be written is tried again; doubled each time."""


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
        self.kept = SiteFolder(self.settings.state, self.settings.network)
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
            self._trouble(f"{type(error).__name__}: {error}", _told(error))

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
        if self.kept.is_written(run):
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
        call = str(message.about.get("call", ""))
        try:
            check_version(message.about)
            self._check_call(message)
            if not self.kept.is_called(call):
                # Table readers are large: a site that waits for its first run does without them.
                from flfl.service.tables import read_source

                taken = read_source(self.settings.readings, from_bytes(TimeGrid, message.data))
                if not taken.alive.any():
                    raise InputError("there is no reading within the network's times")
                self.kept.take(call, taken)
                _LOG.info("ready with %d sensors", int(taken.alive.sum()))
        except (FLFLError, OSError) as error:
            why = str(error)[:500] if isinstance(error, AgreementError) else NOT_TOLD
            self._trouble(f"cannot take part: {error}", why)
            self._report("unable", call=call, why=why)
            return self.state
        self._check_output()
        kept = self.kept.published()
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

    def _resume(self) -> None:
        """Go on with what an earlier process was in."""
        if (run := self.kept.result_run()) and not self.kept.is_written(run):
            from flfl.service.part import last_result

            self.pending = last_result(self.kept)
        for path, name in self.kept.interrupted():
            with self._surviving():
                run = name
                try:
                    agreement = self.kept.agreement(path)
                    run = agreement.run
                    self._check_terms(agreement)
                    self.state = self._begin(agreement)
                except (JournalError, CopyError, OSError):
                    raise
                except Exception as error:
                    self._leave_damaged(path, run, error)
        if isinstance(self.state, Waiting) and (message := self.kept.lacking()) is not None:
            self.state = Lacking(message, str(message.about.get("lacks", "")))

    def _leave_damaged(self, journal: Path, run: str, error: Exception) -> None:
        """What was written of a run is of no use: the run goes on without this site."""
        self._trouble(f"cannot go on with run {run}: {error}", "it cannot go on with the run")
        set_aside(journal, error)
        self.kept.forget(run)
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
        run, kept = agreement.run, self.kept
        if kept.is_written(run) and not (kept.run(run) / JOURNAL).exists():
            self._report("done", run)
            return self.state
        taken, history = kept.taken_for(agreement), None
        if isinstance(self.state, Running) and taken is None:
            # A broker may bring back what it kept of an older run: that ends no other.
            _LOG.warning("run %s is not the one that this site was called to", run)
            return self.state
        if not kept.is_in(run):
            if taken is None:
                raise AgreementError("the run was announced before this site's readings were read")
            if (history := kept.history(agreement)) is None and agreement.history:
                return self._lack(message, agreement.history)
        elif not (kept.run(run) / READINGS).exists():
            self._report("left", run, why="it cannot go on with the run")
            raise AgreementError("this site has left the run, and cannot come back to it")
        self.state = self._left("another run begins")
        kept.tidy(run)
        if taken is not None and not kept.is_in(run):
            kept.begin(agreement, taken, history)
        return self._begin(agreement)

    def _lack(self, message: Message, digest: str) -> State:
        """Ask for what became public, and act on the announcement when it is here."""
        about = {**message.about, "lacks": digest}
        waiting = Message(message.kind, message.run, about, message.data)
        self.kept.lack(waiting)
        self._ask_for(digest)
        return Lacking(waiting, digest)

    def _ask_for(self, digest: str) -> None:
        self._ask_at = self.clock.monotonic() + self.settings.again
        self._report("lacking", digest=digest)

    def _given(self, message: Message) -> State:
        """What became public has come."""
        digest, state = str(message.about.get("digest", "")), self.state
        given = self.kept.accept(message.data, digest, self.clock.now())
        if not isinstance(state, Lacking) or given.digest != state.digest:
            return state
        self.kept.lack(None)
        self.state = Waiting()
        handler = self._planned if state.message.kind == "plan" else self._ended
        return handler(state.message)

    def _asked_for(self, message: Message) -> State:
        """The coordinator has lost what became public."""
        kept = self.kept.published()
        if kept is not None and kept.digest == message.about.get("digest"):
            call = str(message.about.get("call", ""))
            self.link.reply(Message("given", "", {"call": call}, kept.data))
        return self.state

    # --- in a run

    def _begin(self, agreement: Agreement) -> State:
        """Be in a run whose folder is there; what was answered before is replayed."""
        from flfl.service.part import enter
        from flfl.transport.responder import Responder

        client, journal = enter(self.home, self.roster, self.kept, agreement)
        responder = Responder(
            journal, self.link, agreement.run, self.settings.again, self._refused, self.clock
        )
        _LOG.info("in run %s; %d answers replayed", agreement.run, journal.replayed)
        responder.here()
        self.state = running = Running(agreement, client, journal, responder)
        return self._finish(running)

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
        self._trouble(f"refused a question: {why}", f"refused a question: {_told(error)}")

    # --- after the last question

    def _finish(self, state: Running) -> State:
        """The last question is answered: keep what was recovered, and write it. It stays here."""
        if not state.client.finished:
            return state
        agreement, client = state.agreement, state.client
        if not isinstance(state, Finished):
            from flfl.service.part import result_of

            self.kept.keep(Published(agreement, client.network))
            if not self.kept.is_written(agreement.run):
                traffic = state.journal.traffic
                self._write(result_of(self.home, self.kept, agreement, client, traffic))
        self._report_done(agreement.run)
        return Finished(agreement, client, state.journal, state.responder)

    def _write(self, result: Result) -> None:
        """Write the owner's own files; what cannot be written stays in the state folder."""
        from flfl.service.tables import write_tables

        self.pending = result
        try:
            write_tables(
                self.settings.out, result.taken, result.grid, result.recovered, result.seen,
                result.run, result.night, self.diary,
            )  # fmt: skip
            self.kept.mark_written(result.run)
        except (OSError, FLFLError) as error:
            wait = min(_RETRY * 2**self._failures, _LONGEST_RETRY)
            self._failures, self._write_at = self._failures + 1, self.clock.monotonic() + wait
            why = f"the result of run {result.run} is kept and cannot be written yet: {error}"
            self._trouble(f"{why}; tried again in {wait:g} s", CANNOT_WRITE)
            return
        self.pending, self._failures, self.runs = None, 0, self.runs + 1
        self.problem = self._public_problem = ""
        _LOG.info("run %s is done: %s", result.run, self.settings.out.file)
        if self.kept.is_in(result.run):
            self._report("done", result.run)

    def _ended(self, message: Message) -> State:
        if isinstance(self.state, Running) and message.run == self.state.agreement.run:
            why = str(message.about.get("why", ""))
            self.state = self._left(f"the run failed: {why}" if why else "")
        else:
            # Of a run that an earlier process of this site was in: its secrets are still here.
            self.kept.forget(message.run)
        digest = str(message.about.get("digest", ""))
        if isinstance(self.state, Waiting | Lacking) and digest and not self._has(message.run):
            if message.data:
                self.kept.accept(message.data, digest, self.clock.now())
            kept = self.kept.published()
            if kept is None or kept.digest != digest:
                return self._lack(message, digest)
            self._join(kept, message.run)
        return self.state

    def _has(self, run: str) -> bool:
        """Whether this site has its result of a run."""
        return self.kept.is_written(run) or self.kept.result_run() == run

    def _join(self, published: Published, run: str) -> None:
        """Finish at home with what a run published that this site had no part in."""
        from flfl.service.part import result_without
        from flfl.service.tables import read_source

        agreement = published.agreement
        if agreement.run != run or agreement.network != self.settings.network:
            raise AgreementError("what was published is another run than it says")
        taken = read_source(self.settings.readings, agreement.grid)
        result = result_without(self.home, self.kept, published, taken)
        _LOG.info("joined run %s", agreement.run)
        self._write(result)

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
            self.kept.forget(self.state.agreement.run)
        return Waiting()


def _told(error: Exception) -> str:
    from flfl.transport.responder import told

    return told(error)


def main(arguments: list[str], clock: Clock | None = None) -> int:
    """``CONFIG [--once]``."""
    path = Path(arguments[0])
    try:
        settings = read_settings(SiteSettings, path)
        if CHECKED not in os.environ:
            from flfl.service.check import at_start, site_steps

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
