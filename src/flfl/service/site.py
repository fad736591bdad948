"""``flfl site``: one owner's service. Readings, copies and results stay in its folders."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from flfl.ensemble.estimate import Recovered
from flfl.errors import FLFLError, InputError
from flfl.protocol.client import Client
from flfl.protocol.copy_store import CopyError
from flfl.protocol.home import Effort
from flfl.protocol.journal import DurableSite, Journal, JournalError
from flfl.protocol.owner import Owner, Table
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.session import Site
from flfl.secagg import SecureClient
from flfl.service import home
from flfl.service.agreement import (
    Agreement,
    AgreementError,
    check_terms,
    grid_from,
    unpack_network,
)
from flfl.service.broker import by_broker
from flfl.service.config import SiteConfig, read_config
from flfl.service.grid import TimeGrid
from flfl.service.hold import hold
from flfl.service.keys import load_identity, load_roster
from flfl.service.logs import Metrics, start_logging
from flfl.service.sources import Snapshot, folder_name, save_arrays, save_text
from flfl.transport.link import AT_HOME, COORDINATOR, Heard, Message, SiteLink
from flfl.transport.responder import Responder, told

_LOG = logging.getLogger("flfl.site")
READINGS, RESULT, PLAN, JOURNAL = "readings.npz", "result.npz", "plan.json", "site.journal"
SECRET, WRITTEN = "secret", "written"
_READING_SECONDS = 3600.0
Tables = Callable[[str, Path, Path, TimeGrid], None]


class TableError(FLFLError):
    """The owner's source could not be read, or its result not written."""


class SiteService:
    """One owner's process.

    Parameters
    ----------
    path : of the settings
    tables : reads and writes the owner's tables: given ``read`` or ``write``, the settings, the
        run's folder and the times. By default in a process of its own, which then ends.
    patience : seconds to wait for another process that is at work with the state folder
    """

    def __init__(
        self,
        path: Path,
        tables: Tables | None = None,
        patience: float = 0.0,
    ) -> None:
        self._tables = tables or in_own_process
        self.path, self.config = path, read_config(path, SiteConfig)
        config = self.config
        self.name, self.network = config.name, config.network
        if config.name == COORDINATOR:
            raise InputError(f"no site may be called {COORDINATOR!r}", where=f"{path}: name")
        if not config.again > 0:
            raise InputError(
                f"again is {config.again:g}", where=str(path), remedy="Give seconds, more than 0"
            )
        start_logging(config.report, config.name)
        self.roster = None if config.roster is None else load_roster(config.roster)
        self.identity = None if config.identity is None else load_identity(config.identity)
        if config.terms.secure and (self.roster is None or self.identity is None):
            raise InputError(
                "secure sums need identity and roster",
                where=str(path),
                remedy="Make them with `flfl keys site` and `flfl keys roster`",
            )
        if self.roster is not None and self.identity is not None:
            self._check_roster(path)
        self._floor = home.floor_of(config)
        self._folder_lock = hold(config.state, patience)
        try:
            self._copier = home.open_copier(home.copies_folder(config))
        except FLFLError:
            self._folder_lock.close()
            raise
        self.link: SiteLink | None = None
        self.responder: Responder | None = None
        self.agreement: Agreement | None = None
        self.client: Client | None = None
        self._durable: DurableSite | None = None
        self._coordinator = ""
        self._done: set[str] = set()
        self.runs = 0
        self._said: dict[str, str] = {}
        self.problem = self._told = ""
        self.stopping = False
        self.metrics: Metrics | None = None

    def _check_roster(self, path: Path) -> None:
        assert self.roster is not None
        assert self.identity is not None
        if self.roster.keys.get(self.name) != self.identity.public:
            raise InputError(
                f"the roster does not list {self.name!r} with this identity",
                where=str(path),
                remedy="Give the name, identity and roster.json that the operators gave this site",
            )

    # --- the service -------------------------------------------------------------------------

    def serve(self, once: bool = False) -> int:
        """Take part in runs until stopped; with ``once``, until one is done. Returns how
        many were."""
        config = self.config
        try:
            self.link = by_broker(config.broker, config.network, config.name, str(self.path))
            self.open_metrics()
            with threadpool_limits(limits=1):
                # Until it is told of the end it may be asked for its last answer again.
                while not self.stopping and not (once and self.runs and self.agreement is None):
                    heard = self.link.next(0.5)
                    if heard is not None:
                        self._take(heard)
                    if self.responder is not None:
                        self.responder.tick()
                    self.write_metrics()
        finally:
            if self.link is not None:
                self.link.close()
            self.close()
        return self.runs

    def close(self) -> None:
        """Let go of what this process holds."""
        if self.metrics is not None:
            self.metrics.close()
        if self._durable is not None:
            self._durable.close()
        self._copier.store.close()
        self._folder_lock.close()

    def handle(self, come: Iterable[Heard], link: SiteLink) -> None:
        """Take what has come together, and answer on a link that is for this time only."""
        self.link, self._said = link, {}
        if self.responder is not None:
            self.responder.link = link
        with threadpool_limits(limits=1):
            for heard in come:
                self._take(heard)
        self._say()

    def open_metrics(self) -> None:
        """Tell figures from now on, where the settings say."""
        self.metrics = Metrics(self.config.report, self.name, self._figures)

    def write_metrics(self) -> None:
        """Bring them up to date."""
        if self.metrics is not None:
            self.metrics.write()

    def stop(self, *_: Any) -> None:
        """End soon."""
        self.stopping = True

    def _take(self, heard: Heard) -> None:
        if heard.branch == "link":
            if self.responder is not None:
                self.responder.here()
            return
        if heard.branch == "status":
            self._coordinator_is(heard.status)
            return
        message = heard.message
        if message is None:
            return
        takers = {"call": self._called, "plan": self._planned, "ended": self._ended}
        try:
            if message.kind in takers:
                takers[message.kind](message)
            elif message.kind == "aside":
                self._set_aside(message)
            elif self.responder is not None:
                self.responder.take(heard.branch, message)
                self._finish()
        except (JournalError, CopyError, OSError):
            # Nothing may follow from what could not be written down.
            raise
        except AgreementError as error:
            self._trouble(str(error), str(error))
        except Exception as error:
            # No message ends the owner's process.
            self._trouble(f"{type(error).__name__}: {error}", told(error))

    def _coordinator_is(self, status: Mapping[str, Any]) -> None:
        boot = str(status.get("boot", ""))
        if status.get("state") == "here" and boot != self._coordinator:
            self._coordinator = boot
            if self.responder is not None:
                self.responder.here()
                self._finish()

    def _trouble(self, why: str, public: str) -> None:
        """Log what is wrong; others are told only so much."""
        self.problem, self._told = why, public
        _LOG.error("%s", why)
        self._say()

    def _say(self) -> None:
        assert self.link is not None
        run = "" if self.agreement is None else self.agreement.run
        said = {"run": run, "problem": self._told[:500]}
        if said != self._said:
            self._said = said
            self.link.say(**said)

    def _report(self, kind: str, run: str = "", **about: str | int) -> None:
        assert self.link is not None
        self.link.reply(Message(kind, run, about))

    # --- before a run ------------------------------------------------------------------------

    def _called(self, message: Message) -> None:
        """Somebody asks who can take part: read the source, say yes or why not."""
        call = str(message.about.get("call", ""))
        folder = self.config.state / "calls" / folder_name(call)
        try:
            grid = grid_from(json.loads(message.data))
            if not (folder / READINGS).exists():
                shutil.rmtree(self.config.state / "calls", ignore_errors=True)
                folder.mkdir(parents=True, mode=0o700)
                self._tables("read", self.path, folder, grid)
            taken = Snapshot.load(folder / READINGS)
            if not taken.alive.any():
                raise TableError("there is no reading within the network's times")
        except (FLFLError, ValueError, RecursionError, OSError) as error:
            why = str(error)[:500] if isinstance(error, AgreementError) else AT_HOME
            self._trouble(f"cannot take part: {error}", why)
            self._report("unable", call=call, why=why)
            return
        self.problem = self._told = ""
        _LOG.info("ready with %d sensors", int(taken.alive.sum()))
        self._report("ready", call=call)

    # --- a run -------------------------------------------------------------------------------

    def _planned(self, message: Message) -> None:
        if message.run in self._done:
            self._report("done", message.run)
            return
        if self.agreement is not None and message.run == self.agreement.run:
            return
        agreement = Agreement.from_bytes(message.data)
        if agreement.run != message.run or agreement.network != self.network:
            raise AgreementError("what was announced is another run than it says")
        if self.name not in agreement.sites:
            _LOG.info("run %s is without this site", agreement.run)
            return
        digest = "" if self.roster is None else self.roster.digest.hex()
        check_terms(agreement, self.config.terms, digest)
        folder = self._folder(agreement.run)
        if (folder / WRITTEN).exists():
            self._done.add(agreement.run)
            self.runs += 1
            if not (folder / JOURNAL).exists():
                self._report("done", agreement.run)
                return
            # The last answer may not have arrived: it can be asked for until the run has ended.
        source = self.config.state / "calls" / folder_name(agreement.call) / READINGS
        if self.agreement is not None and not source.exists():
            # A broker may bring back what it kept of an older run: that ends no other.
            _LOG.warning("run %s is not the one that this site was called to", agreement.run)
            return
        self._leave("another run begins")
        for other in (self.config.state / "runs").glob("*"):
            if other != folder:
                # Of a run whose end this site did not hear of.
                self._forget(other.name)
        self._begin(agreement, folder, source)

    def _begin(self, agreement: Agreement, folder: Path, source: Path) -> None:
        assert self.link is not None
        if not (folder / PLAN).exists():
            if not source.exists():
                raise AgreementError("the run was announced before this site's readings were read")
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            Snapshot.load(source).save(folder / READINGS)
            save_text(folder / PLAN, agreement.to_bytes())
        elif not (folder / READINGS).exists():
            raise AgreementError("this site has left the run, and cannot come back to it")
        security = self._security(agreement, folder)
        self.client = self._client(agreement, folder, security)
        site = Site(self.name, self.client, PROTOCOL, security)
        self._durable = DurableSite(site, folder / JOURNAL)
        self.agreement = agreement
        self.responder = Responder(
            self._durable, self.link, agreement.run, self.config.again, self._refused
        )
        _LOG.info("in run %s; %d answers replayed", agreement.run, self._durable.replayed)
        self.responder.here()
        self._say()
        self._finish()

    def _client(self, agreement: Agreement, folder: Path, security: SecureClient | None) -> Client:
        """The site's program: clean readings with the copier on one side, messages on the other."""
        owner = Owner(self._table(agreement, folder), self._copier, self._floor)
        return Client(owner, agreement.plan, security)

    def _security(self, agreement: Agreement, folder: Path) -> SecureClient | None:
        if not agreement.secure:
            return None
        if self.identity is None or self.roster is None:
            raise AgreementError("the run has secure sums, and this site has no identity or roster")
        secret = home.own_secret(folder / SECRET)
        return SecureClient(self.name, self.identity, self.roster, secret)

    def _table(self, agreement: Agreement, folder: Path) -> Table:
        taken = Snapshot.load(folder / READINGS)
        return home.table_of(
            taken, self.name, agreement.grid, agreement.geography, agreement.centre
        )

    def _effort(self, grid: TimeGrid) -> Effort:
        secret = home.own_secret(self.config.state / home.SECRET)
        return home.effort_of(self.config.out, grid, secret)

    def _folder(self, run: str) -> Path:
        return self.config.state / "runs" / folder_name(run)

    def _refused(self, error: Exception) -> None:
        why = str(error.__cause__ or error)
        self._trouble(f"refused a question: {why}", f"refused a question: {told(error)}")

    def _finish(self) -> None:
        """The last question is answered: write what was recovered. It stays here."""
        if self.client is None or not self.client.finished or self.agreement is None:
            self._say()
            return
        run = self.agreement.run
        if run not in self._done:
            self._write(self.agreement, home.finish(self.client, self._effort(self.agreement.grid)))
            self._done.add(run)
            self.runs += 1
            _LOG.info("run %s is done: %s", run, self.config.out.file)
        self._report("done", run)

    def _write(self, agreement: Agreement, result: Recovered) -> None:
        """The owner's own files."""
        folder = self._folder(agreement.run)
        save_arrays(folder / RESULT, vars(result))
        self._tables("write", self.path, folder, agreement.grid)
        save_text(folder / WRITTEN, b"")

    def _join(self, message: Message) -> None:
        """Finish at home with what a run published that this site had no part in."""
        agreement, network = unpack_network(message.data)
        if agreement.run != message.run or agreement.network != self.network:
            raise AgreementError("what was published is another run than it says")
        folder = self._folder(agreement.run)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._tables("read", self.path, folder, agreement.grid)
        table = self._table(agreement, folder)
        effort = self._effort(agreement.grid)
        self._write(agreement, home.join(table, effort, network, self._copier.store))
        self._forget(agreement.run)
        _LOG.info("joined run %s: %s", agreement.run, self.config.out.file)

    def _ended(self, message: Message) -> None:
        if self.agreement is not None and message.run == self.agreement.run:
            why = str(message.about.get("why", ""))
            self._leave(f"the run failed: {why}" if why else "")
        else:
            # Of a run that an earlier process of this site was in: its secrets are still here.
            self._forget(message.run)
        if self.agreement is None and message.data and not self._written(message.run):
            self._join(message)

    def _written(self, run: str) -> bool:
        return (self._folder(run) / WRITTEN).exists()

    def _set_aside(self, message: Message) -> None:
        # One that was late may be about an earlier run.
        if self.agreement is not None and message.run == self.agreement.run:
            why = str(message.about.get("why", ""))
            self._leave(f"the run goes on without this site: {why}")

    def _leave(self, why: str) -> None:
        """Take no more part in the run that this site is in."""
        if self.agreement is None:
            return
        if why:
            self._trouble(why, why)
        if self._durable is not None:
            self._durable.close()
        self._forget(self.agreement.run)
        self.responder = self.agreement = self.client = self._durable = None

    def _forget(self, run: str) -> None:
        """Remove a run's secrets: what is not kept cannot be taken."""
        Journal.remove(self._folder(run) / JOURNAL)
        for name in (SECRET, READINGS, RESULT):
            (self._folder(run) / name).unlink(missing_ok=True)

    def _figures(self) -> dict[str, float]:
        dropped = 0 if self.link is None else sum(self.link.dropped.values())
        return {
            "flfl_connected": float(self.link is not None and self.link.connected),
            "flfl_in_run": float(self.agreement is not None),
            "flfl_answers_total": 0 if self.responder is None else self.responder.answers,
            "flfl_runs_total": self.runs,
            "flfl_dropped_total": dropped,
        }


def in_own_process(verb: str, path: Path, folder: Path, grid: TimeGrid) -> None:
    """Read or write the owner's tables in another process."""
    command = [sys.executable, "-m", "flfl.service.tables", verb, str(path), str(folder)]
    try:
        result = subprocess.run(
            [*command, json.dumps(asdict(grid))],
            capture_output=True,
            text=True,
            timeout=_READING_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise TableError(f"the tables took more than {_READING_SECONDS:g} s") from None
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["it ended without a word"]
        raise TableError(lines[-1])
