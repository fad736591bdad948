"""``flfl site``: one owner's service. Readings, copies and results stay in its folders.

``python -m flfl.service.site CONFIG [--once]`` runs it without what the command line loads. It is
``Waiting``, or ``Running`` in a run, or has ``Finished`` one whose end it was not told of yet; all
of that follows from its state folder, so any process can go on with it::

    secret, copies.sqlite, copies.id    for ever
    called                              readings for the run that the site was called to
    runs/RUN/                           agreement, readings, secret, journal; in the end: written
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
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flfl.config import SiteSettings, read_settings
from flfl.ensemble.recovery import Recovered
from flfl.errors import FLFLError, InputError
from flfl.protocol import client as protocol
from flfl.protocol.client import Client
from flfl.protocol.copy_store import CopyError
from flfl.protocol.finish import finish_at_home, finish_run, own_part
from flfl.protocol.journal import DurableSite, Journal, JournalError
from flfl.protocol.network import Network
from flfl.protocol.owner import Owner
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.session import Site
from flfl.secagg import SecureClient
from flfl.service.agreement import (
    Agreement,
    AgreementError,
    check_terms,
    from_bytes,
    to_bytes,
    unpack_network,
)
from flfl.service.broker import connect
from flfl.service.check import at_start, site_steps
from flfl.service.diary import Diary
from flfl.service.files import folder_name, load, save, save_bytes
from flfl.service.grid import TimeGrid
from flfl.service.home import SECRET, Home, Snapshot, effort_of, floor_of, secret, table_of
from flfl.service.logs import start_logging
from flfl.service.night import Night
from flfl.service.status import site_status
from flfl.service.versions import STARTED, check_spoken
from flfl.service.web import StatusServer
from flfl.transport.link import NOT_TOLD, Message, Received, SignedLink, SiteLink
from flfl.transport.responder import Responder, told

_LOG = logging.getLogger("flfl.site")
CALLED, AGREEMENT, READINGS = "called", "agreement", "readings"
JOURNAL, WRITTEN = "journal", "written"


@dataclass(frozen=True)
class Waiting:
    """In no run."""


@dataclass(frozen=True)
class Running:
    """In a run, whose questions the responder answers."""

    agreement: Agreement
    client: Client
    journal: DurableSite
    responder: Responder


@dataclass(frozen=True)
class Finished(Running):
    """The result is written; the last answer may be asked for again until the run has ended."""


State = Waiting | Running


def _public(client: Client) -> Network:
    """What a finished run has made public."""
    assert isinstance(client.state, protocol.Finished)
    return client.state.network


class SiteService:
    """One owner's part in a network's runs, with a link to the coordinator."""

    def __init__(self, home: Home, link: SiteLink) -> None:
        self.home, self.settings = home, home.settings
        signer = None if home.identity is None else home.identity.sign
        self.link: Any = link if signer is None else SignedLink(link, signer)
        self.stopping, self.runs, self.problem = False, 0, ""
        self._public_problem, self._coordinator, self._answered = "", "", 0
        self._said: dict[str, str] = {}
        self.heard: Mapping[str, Any] = {}
        self.since, self.diary = STARTED, Diary(self.settings.state)
        self.state: State = Waiting()
        self._resume()

    def serve(self, once: bool = False) -> int:
        """Take part in runs until stopped; with ``once``, until one is done. Returns how many."""
        with closing(StatusServer(self.settings.report)) as page:
            # Until it is told of the end it may be asked for its last answer again.
            while not (self.stopping or (once and self.runs and isinstance(self.state, Waiting))):
                if (received := self.link.next(0.5)) is not None:
                    self.take(received)
                if isinstance(self.state, Running):
                    self.state.responder.tick()
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

    def stop(self, *_: Any) -> None:
        """End soon."""
        self.stopping = True

    def close(self) -> None:
        """Close the journal of the run; another process can go on with it."""
        if isinstance(self.state, Running):
            self.state.journal.close()

    def take(self, received: Received) -> None:
        """Act on what has come. It raises only when something could not be written down."""
        handlers: dict[str, Callable[[Message], State]] = {
            "call": self._called,
            "plan": self._planned,
            "question": self._asked,
            "aside": self._set_aside,
            "ended": self._ended,
        }
        message = received.message
        with self._surviving():
            if received.branch == "link" or self._is_new_coordinator(received):
                self._report_state()
            elif message is not None and message.kind in handlers:
                self.state = handlers[message.kind](message)
        self._say()

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """No message ends the owner's process; what could not be written down does."""
        try:
            yield
        except (JournalError, CopyError, OSError):
            raise
        except AgreementError as error:
            self._trouble(str(error), str(error))
        except Exception as error:
            self._trouble(f"{type(error).__name__}: {error}", told(error))

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
            self._report("done", self.state.agreement.run)
        if isinstance(self.state, Running):
            self.state.responder.here()

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

    def _called(self, message: Message) -> State:
        """The coordinator asks who can take part: read the source, say yes or why not."""
        call, path = str(message.about.get("call", "")), self.settings.state / CALLED
        try:
            check_spoken(message.about)
            called = load(path)
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
        self.problem = self._public_problem = ""
        self._report("ready", call=call)
        return self.state

    def _called_to(self, agreement: Agreement) -> Snapshot | None:
        """The readings that were read for this run."""
        called = load(self.settings.state / CALLED)
        wanted = called is not None and called.pop("call") == agreement.call
        return Snapshot(**called) if wanted else None

    def _resume(self) -> None:
        """Go on with the run that an earlier process was in."""
        for path in (self.settings.state / "runs").glob(f"*/{JOURNAL}"):
            with self._surviving():
                agreement = from_bytes(Agreement, (path.parent / AGREEMENT).read_bytes())
                self._check_terms(agreement)
                self.state = self._begin(agreement)

    def _check_terms(self, agreement: Agreement) -> None:
        roster = "" if self.home.roster is None else self.home.roster.digest.hex()
        check_terms(agreement, self.settings.terms, roster)

    def _planned(self, message: Message) -> State:
        if isinstance(self.state, Running) and message.run == self.state.agreement.run:
            self._report_state()
            return self.state
        check_spoken(message.about)
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
        self.state = self._left("another run begins")
        for other in (self.settings.state / "runs").glob("*"):
            if other != folder:
                # Of a run whose end this site was not told of.
                self._forget(other.name)
        if not (folder / AGREEMENT).exists():
            if taken is None:
                raise AgreementError("the run was announced before this site's readings were read")
            save(folder / READINGS, vars(taken))
            save_bytes(folder / AGREEMENT, to_bytes(agreement))
        elif not (folder / READINGS).exists():
            raise AgreementError("this site has left the run, and cannot come back to it")
        return self._begin(agreement)

    def _begin(self, agreement: Agreement) -> State:
        """Be in a run whose folder is there; what was answered before is replayed."""
        folder, name, security = self._folder(agreement.run), self.settings.name, None
        if agreement.secure:
            if self.home.identity is None or self.home.roster is None:
                raise AgreementError("the run has secure sums, and this site has no identity")
            own = secret(folder / SECRET)
            security = SecureClient(name, self.home.identity, self.home.roster, own)
        table = table_of(self._readings(agreement), name, agreement)
        # Clean readings with the copier on one side, messages on the other.
        owner = Owner(table, self.home.copier, floor_of(self.settings))
        client = Client(owner, agreement.plan, security)
        journal = DurableSite(Site(name, client, PROTOCOL, security), folder / JOURNAL)
        responder = Responder(journal, self.link, agreement.run, self.settings.again, self._refused)
        _LOG.info("in run %s; %d answers replayed", agreement.run, journal.replayed)
        responder.here()
        self.state = running = Running(agreement, client, journal, responder)
        return self._finish(running)

    def _readings(self, agreement: Agreement) -> Snapshot:
        return Snapshot(**load(self._folder(agreement.run) / READINGS))

    def _folder(self, run: str) -> Path:
        return self.settings.state / "runs" / folder_name(run)

    def _asked(self, message: Message) -> State:
        if not isinstance(self.state, Running):
            self.link.dropped["no run"] += 1
            return self.state
        self.state.responder.take(message)
        return self._finish(self.state)

    def _refused(self, error: Exception) -> None:
        why = str(error.__cause__ or error)
        self._trouble(f"refused a question: {why}", f"refused a question: {told(error)}")

    def _finish(self, state: Running) -> State:
        """The last question is answered: write what was recovered. It stays here."""
        if not state.client.finished:
            return state
        agreement = state.agreement
        if not isinstance(state, Finished):
            if not (self._folder(agreement.run) / WRITTEN).exists():
                result = finish_run(state.client, effort_of(self.settings, agreement.grid))
                public = _public(state.client)
                self._write(agreement, self._readings(agreement), result, public, state)
                _LOG.info("run %s is done: %s", agreement.run, self.settings.out.file)
            self.runs += 1
        self._report("done", agreement.run)
        return Finished(agreement, state.client, state.journal, state.responder)

    def _write(
        self,
        agreement: Agreement,
        taken: Snapshot,
        result: Recovered,
        network: Network,
        running: Running | None = None,
    ) -> None:
        """Write the owner's own files, of a run that it was in or, without ``running``, joined."""
        from flfl.service.tables import write_tables

        part = () if running is None else (running.client, running.journal.traffic)
        night = Night.of(self.settings, agreement, network, self.diary, *part)
        seen = np.asarray(network.known.any(axis=0))
        grid, run = agreement.grid, agreement.run
        write_tables(self.settings.out, taken, grid, result, seen, run, night)
        save_bytes(self._folder(agreement.run) / WRITTEN, b"")

    def _ended(self, message: Message) -> State:
        if isinstance(self.state, Running) and message.run == self.state.agreement.run:
            why = str(message.about.get("why", ""))
            self.state = self._left(f"the run failed: {why}" if why else "")
        else:
            # Of a run that an earlier process of this site was in: its secrets are still here.
            self._forget(message.run)
        written = (self._folder(message.run) / WRITTEN).exists()
        if isinstance(self.state, Waiting) and message.data and not written:
            self._join(message)
        return self.state

    def _join(self, message: Message) -> None:
        """Finish at home with what a run published that this site had no part in."""
        from flfl.service.tables import read_source

        agreement, network = unpack_network(message.data)
        if agreement.run != message.run or agreement.network != self.settings.network:
            raise AgreementError("what was published is another run than it says")
        taken = read_source(self.settings.readings, agreement.grid)
        table = table_of(taken, self.settings.name, agreement)
        # What it released in earlier runs is still in the sums, and is taken off them.
        own = own_part(table, network, self.home.copier.store)
        effort, choices = effort_of(self.settings, agreement.grid), network.plan.units()
        result = finish_at_home(table, effort, choices, network, own)
        self._write(agreement, taken, result, network)
        _LOG.info("joined run %s: %s", agreement.run, self.settings.out.file)

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
        for name in (SECRET, READINGS):
            (folder / name).unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
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
            closing(SiteService(home, link)) as service,
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
