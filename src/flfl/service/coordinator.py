"""``flfl coordinator``: calls the sites together, carries the run, and never sees a series."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from flfl.errors import FLFLError, InputError
from flfl.protocol.journal import DurableCoordinator, Journal, JournalError
from flfl.protocol.plan import Plan
from flfl.protocol.public import Network
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator
from flfl.protocol.state import network_from_arrays, network_to_arrays
from flfl.protocol.traffic import Traffic
from flfl.secagg import SecureServer
from flfl.service.agreement import Agreement, pack_network
from flfl.service.broker import by_broker
from flfl.service.config import (
    CoordinatorConfig,
    RunSettings,
    check_coordinator,
    patience_of,
    read_config,
)
from flfl.service.grid import TimeGrid
from flfl.service.hold import hold
from flfl.service.keys import load_roster
from flfl.service.logs import Metrics, start_logging
from flfl.service.place import Place, place_of
from flfl.service.sources import folder_name, load_arrays, save_arrays, save_text
from flfl.transport.dispatcher import Dispatcher
from flfl.transport.link import COORDINATOR, CoordinatorLink, Heard, Message

_LOG = logging.getLogger("flfl.coordinator")
AGREEMENT, ENDED, JOURNAL = "agreement.json", "ended.json", "coordinator.journal"
NETWORK, EARLIER = "network.npz", "earlier.npz"
_STATUS_SECONDS = 2.0
_STATES = ("here", "left", "gone", "never seen")


class CoordinatorService:
    """The coordinator's process.

    Parameters
    ----------
    path : of the settings
    patience : seconds to wait for another process that is at work with the state folder
    """

    def __init__(self, path: Path, patience: float = 0.0) -> None:
        self.path, self.config = path, read_config(path, CoordinatorConfig)
        config = self.config
        start_logging(config.report, COORDINATOR)
        self.roster = load_roster(config.sites.roster)
        check_coordinator(config, len(self.roster.names), str(path))
        self.grid = TimeGrid(config.grid.start, config.grid.step, config.grid.slots)
        self.place = place_of(config.map)
        self.plan = plan_of(config.run, self.grid, self.place, str(path))
        self.quorum = max(config.sites.quorum, self.roster.threshold if config.run.secure else 1)
        self.here: dict[str, Mapping[str, Any]] = {}
        self.ready: set[str] = set()
        self.unable: dict[str, str] = {}
        self.done: set[str] = set()
        self.problem = ""
        self.stopping = False
        self.dispatcher: Dispatcher | None = None
        self.agreement: Agreement | None = None
        self.link: CoordinatorLink | None = None
        self._durable: DurableCoordinator | None = None
        self._round = 0
        self._told, self._said = 0.0, dict[str, Any]()
        self._runs = 0
        self._folder_lock = hold(config.state, patience)
        self.metrics = Metrics(config.report, COORDINATOR, self._figures)

    # --- the service -------------------------------------------------------------------------

    def serve(self, link: CoordinatorLink | None = None) -> int:
        """Run once, or again and again; returns 0 when the last run went well.

        ``link`` goes to the sites; without it the settings' broker does.
        """
        try:
            self.link = link or by_broker(
                self.config.broker, self.config.network, COORDINATOR, str(self.path)
            )
            with threadpool_limits(limits=1):
                while not self.stopping:
                    well = self._one_run()
                    if not self.config.run.every or self.stopping:
                        return 0 if well else 1
                    self._rest(self.config.run.every)
        finally:
            if self.link is not None:
                self._tell(force=True)
                self.link.close()
            self.close()
        return 0

    def close(self) -> None:
        """Let go of what this process holds."""
        self.metrics.close()
        self._folder_lock.close()

    def stop(self, *_: Any) -> None:
        """End soon; the run goes on at the next start."""
        self.stopping = True

    def _one_run(self) -> bool:
        agreement = self._interrupted() or self._gather()
        if agreement is None:
            return False
        try:
            ran = self._run(agreement)
        except JournalError:
            # The disk is full, say: the run goes on when the service is started again.
            raise
        except FLFLError as error:
            self.problem = str(error)
            _LOG.error("run %s failed: %s", agreement.run, error)
            self._end(agreement, str(error))
            return False
        if ran:
            self._end(agreement, "")
        return ran

    def _rest(self, seconds: float) -> None:
        """Until the next run is due."""
        until = time.monotonic() + seconds
        while not self.stopping and (left := until - time.monotonic()) > 0:
            self._hear(min(1.0, left))

    def _hear(self, seconds: float) -> Heard | None:
        """The next message; what is about presence is taken here."""
        assert self.link is not None
        self._tell()
        heard = self.link.next(seconds)
        if heard is None:
            return None
        if heard.branch == "status":
            self._present(heard.name, heard.status)
        message = heard.message
        if heard.branch == "from" and message is not None:
            if heard.name not in self.roster.keys:
                self.link.dropped["not in the roster"] += 1
                return None
            self._facts(heard.name, message)
        return heard

    def _present(self, name: str, status: Mapping[str, Any]) -> None:
        """Somebody is here or gone. The broker tells late of a connection that was lost: by then
        the party may be here with another one."""
        assert self.link is not None
        boot, state, known = status.get("boot"), status.get("state"), self.here.get(name, {})
        if name == COORDINATOR and state != "here":
            self.link.say_again()
        elif name == COORDINATOR and boot != self.link.boot:
            _LOG.warning("another coordinator is, or just was, at work in this network")
        late = state == "gone" and known.get("state") == "here" and known.get("boot") != boot
        if name in self.roster.keys and not late:
            self.here[name] = status

    def _facts(self, site: str, message: Message) -> None:
        call = str(message.about.get("call", ""))
        if message.kind == "ready" and call == self._call:
            self.unable.pop(site, None)
            self.ready.add(site)
        elif message.kind == "unable" and call == self._call:
            self.ready.discard(site)
            self.unable[site] = str(message.about.get("why", ""))
            _LOG.warning("%s cannot take part: %s", site, self.unable[site])
        elif message.kind == "done" and message.run == self._run_name:
            self.done.add(site)

    _call, _published = "", b""

    @property
    def _run_name(self) -> str | None:
        return None if self.agreement is None else self.agreement.run

    # --- before a run ------------------------------------------------------------------------

    def _state_file(self) -> Path:
        return self.config.state / "state.json"

    def _state(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._state_file().read_bytes()))
        except FileNotFoundError:
            return {"number": 0, "run": "", "finished": ""}
        except (OSError, ValueError):
            raise InputError(
                "the coordinator's state is damaged",
                where=str(self._state_file()),
                remedy="Restore it, or move the state folder away to begin anew",
            ) from None

    def _interrupted(self) -> Agreement | None:
        """The run that was under way when the last process ended."""
        run = self._state()["run"]
        folder = self._folder(run)
        if not run or (folder / ENDED).exists() or not (folder / AGREEMENT).exists():
            return None
        agreement = Agreement.from_bytes((folder / AGREEMENT).read_bytes())
        _LOG.info("going on with run %s", agreement.run)
        return agreement

    def _folder(self, run: str) -> Path:
        return self.config.state / "runs" / folder_name(run)

    def _gather(self) -> Agreement | None:
        """Ask who can take part, until all can or the time is up."""
        assert self.link is not None
        limit = self.config.deadlines.gather_within
        self._call, self.ready, self.unable, self.done = uuid.uuid4().hex[:16], set(), {}, set()
        call = Message("call", "", {"call": self._call}, json.dumps(asdict(self.grid)).encode())
        until, asked = time.monotonic() + limit, False
        while not self.stopping:
            if self.link.connected and not asked:
                asked = self._announce(call)
            heard = self._hear(0.5)
            if heard is not None and heard.branch == "link":
                asked = self._announce(call)
            if len(self.ready) == len(self.roster.names):
                break
            # What has come in time counts, also where it was not read in time.
            late = time.monotonic() - until
            if late > (0 if heard is None else limit):
                if len(self.ready) >= self.quorum:
                    break
                lacking = [name for name in self.roster.names if name not in self.ready]
                self.problem = (
                    f"{len(self.ready)} sites are ready and {self.quorum} are needed;"
                    f" lacking: {', '.join(lacking)}"
                )
                _LOG.warning("paused: %s", self.problem)
                until = time.monotonic() + limit
                if not self.config.run.every:
                    return None
        return None if self.stopping else self._agree()

    def _announce(self, message: Message) -> bool:
        assert self.link is not None
        return self.link.announce(message)

    def _agree(self) -> Agreement:
        config, state, secure = self.config, self._state(), self.config.run.secure
        agreement = Agreement(
            network=config.network,
            number=int(state["number"]) + 1,
            call=self._call,
            grid=self.grid,
            plan=self.plan,
            secure=secure,
            roster=self.roster.digest.hex() if secure else "",
            sites=tuple(sorted(self.ready)),
            geography=self.place.geography,
            centre=self.place.centre,
        )
        folder = self._folder(agreement.run)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (earlier := self._continued(state)) is not None:
            save_arrays(folder / EARLIER, network_to_arrays(earlier))
        save_text(folder / AGREEMENT, agreement.to_bytes())
        self._save_state(number=agreement.number, run=agreement.run)
        return agreement

    def _save_state(self, **changes: str | int) -> None:
        save_text(self._state_file(), json.dumps({**self._state(), **changes}).encode())

    def _continued(self, state: Mapping[str, Any]) -> Network | None:
        """The last finished run's public state, if this run only adds slots to it."""
        last = self._folder(str(state.get("finished", "")))
        if not (last / NETWORK).exists():
            return None
        before = Agreement.from_bytes((last / AGREEMENT).read_bytes())
        grown = before.grid.slots < self.grid.slots
        same = replace(before.grid, slots=self.grid.slots) == self.grid
        if not grown or not same or before.plan != self.plan:
            return None
        return network_from_arrays(load_arrays(last / NETWORK), self.plan)

    # --- a run -------------------------------------------------------------------------------

    def _run(self, agreement: Agreement) -> bool:
        """Carry the run to its end; False when the service was stopped before it."""
        assert self.link is not None
        self.agreement, self.problem, self._round, traffic = agreement, "", 0, Traffic()
        run = self._coordination(agreement, traffic)
        security = SecureServer(self.roster, agreement.run) if agreement.secure else None
        names = self.roster.names if agreement.secure else agreement.sites
        inner = Coordinator(run.program(), PROTOCOL, names, {}, agreement.run, security=security)
        self._durable = DurableCoordinator(inner, self._folder(agreement.run) / JOURNAL)
        patience = patience_of(self.config.deadlines, self.quorum)
        self.dispatcher = Dispatcher(self._durable, self.link, agreement.run, traffic, patience)
        plan = Message("plan", agreement.run, {}, agreement.to_bytes())
        while not self.link.wait(1.0) and not self.stopping:
            self._tell()
        self._announce(plan)
        self.dispatcher.begin(without=[name for name in names if name not in agreement.sites])
        while not self._durable.done and not self.stopping:
            heard = self._hear(min(self.dispatcher.check(), 0.5))
            if heard is None:
                continue
            if heard.branch == "link":
                self._announce(plan)
            self.dispatcher.take(heard)
        finished = self._durable.done
        self._durable.close()
        if finished:
            assert run.network is not None
            save_arrays(self._folder(agreement.run) / NETWORK, network_to_arrays(run.network))
            self._published = pack_network(agreement, run.network)
            self._runs += 1
            self._wait_for_results(agreement, plan)
        return finished

    def _coordination(self, agreement: Agreement, traffic: Traffic) -> Coordination:
        path, earlier = self._folder(agreement.run) / EARLIER, None
        if path.exists():
            earlier = network_from_arrays(load_arrays(path), agreement.plan)

        def progress(number: int, rounds: int) -> None:
            self._round = number

        return Coordination(agreement.plan, agreement.grid.positions(), traffic, earlier, progress)

    def _wait_for_results(self, agreement: Agreement, plan: Message) -> None:
        """Until every site has written its own files; nothing of them is sent."""
        assert self.dispatcher is not None
        until = time.monotonic() + self.config.deadlines.answer_within
        wanted = set(agreement.sites) - set(self.dispatcher.aside)
        while not wanted <= self.done and time.monotonic() < until and not self.stopping:
            heard = self._hear(0.5)
            if heard is not None and heard.branch == "link":
                self._announce(plan)
        if lost := sorted(wanted - self.done):
            self.problem = f"no word of a written result from {', '.join(lost)}"
            _LOG.warning("%s", self.problem)

    def _end(self, agreement: Agreement, why: str) -> None:
        assert self.dispatcher is not None
        self.dispatcher.end()
        # What the run made public goes to all: a site that had no part in it finishes with that.
        end = {"why": why[:500]} if why else {}
        self._announce(Message("ended", agreement.run, end, b"" if why else self._published))
        document = {
            "failed": why,
            "aside": self.dispatcher.aside,
            "rounds": self.dispatcher.traffic.rounds,
            "notes": self.dispatcher.traffic.notes,
            "bytes_up": self.dispatcher.traffic.bytes_up,
            "bytes_down": self.dispatcher.traffic.bytes_down,
        }
        save_text(self._folder(agreement.run) / ENDED, json.dumps(document, indent=1).encode())
        Journal.remove(self._folder(agreement.run) / JOURNAL)
        if not why:
            self._save_state(finished=agreement.run)
            _LOG.info(
                "run %s is done", agreement.run, extra={"facts": {"aside": document["aside"]}}
            )
        self.agreement = self.dispatcher = None

    # --- telling -----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Who is here, what is done, what is wrong: without a reading."""
        dispatcher, durable = self.dispatcher, self._durable
        running = dispatcher is not None and self.agreement is not None
        return {
            "network": self.config.network,
            "run": self._run_name or "",
            "phase": "run" if running else "gather",
            "question": durable.answered + 1 if running and durable is not None else 0,
            "round": self._round,
            "sites": {name: self._site_status(name) for name in self.roster.names},
            "waiting_for": list(dispatcher.waiting_for) if dispatcher is not None else [],
            "paused": dispatcher.paused if dispatcher is not None else "",
            "runs": self._runs,
            "problem": self.problem,
        }

    def _site_status(self, name: str) -> dict[str, Any]:
        said = self.here.get(name, {})
        state = said.get("state", "never seen")
        status = {"state": state if state in _STATES else "unknown"}
        reason = str(said.get("problem", "")) or self.unable.get(name, "")
        if self.dispatcher is not None and name in self.dispatcher.aside:
            reason = self.dispatcher.aside[name]
            status["aside"] = reason[:200]
        if reason:
            status["problem"] = reason[:200]
        return status

    def _tell(self, *, force: bool = False) -> None:
        assert self.link is not None
        if not force and time.monotonic() - self._told < _STATUS_SECONDS:
            return
        self._told = time.monotonic()
        self.metrics.write()
        # Every site hears it: only news is told.
        status = self.status()
        if force or status != self._said:
            self._said = status
            self.link.say(**status)

    def _figures(self) -> dict[str, float]:
        dispatcher, link = self.dispatcher, self.link
        here = sum(status.get("state") == "here" for status in self.here.values())
        return {
            "flfl_connected": float(link is not None and link.connected),
            "flfl_sites_here": here,
            "flfl_runs_total": self._runs,
            "flfl_round": self._round,
            "flfl_waiting_for": 0 if dispatcher is None else len(dispatcher.waiting_for),
            "flfl_set_aside": 0 if dispatcher is None else len(dispatcher.aside),
            "flfl_bytes_up_total": 0 if dispatcher is None else dispatcher.traffic.bytes_up,
            "flfl_bytes_down_total": 0 if dispatcher is None else dispatcher.traffic.bytes_down,
            "flfl_dropped_total": 0 if link is None else sum(link.dropped.values()),
        }


def plan_of(run: RunSettings, grid: TimeGrid, place: Place, where: str) -> Plan:
    """What all parties of a run are to agree on.

    Raises
    ------
    InputError
        For settings that cannot be.
    """
    try:
        return Plan(
            added_error=run.added_error,
            share=run.share,
            rank=run.rank,
            rounds=run.rounds,
            pilot=0.1 if run.pilot else 0.0,
            transform=run.transformation,  # type: ignore[arg-type]
            season=run.season,
            period=grid.period(),
            box=place.box,
        )
    except InputError as error:
        where, remedy = f"{where}: [run]", "`flfl recover --help` says what each may be"
        raise InputError(error.problem, where=where, remedy=remedy) from None
