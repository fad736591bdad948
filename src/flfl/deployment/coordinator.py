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

from flfl.deployment.agreement import Agreement
from flfl.deployment.broker import by_broker
from flfl.deployment.config import CoordinatorConfig, check_coordinator, patience_of, read_config
from flfl.deployment.grid import TimeGrid
from flfl.deployment.hold import hold
from flfl.deployment.keys import load_roster
from flfl.deployment.logs import Metrics, start_logging
from flfl.deployment.place import place_of
from flfl.deployment.sources import folder_name, save_text
from flfl.engines.conduct import Conduct
from flfl.engines.link import COORDINATOR, CoordinatorLink, Heard, Message
from flfl.errors import FLFLError, InputError
from flfl.estimators.dynamic import FLFL
from flfl.estimators.memory import Remembered, save_model
from flfl.federation.coordinator import Coordinator
from flfl.federation.durable import DurableCoordinator
from flfl.federation.factors import PROTOCOL, coordinate
from flfl.federation.factors.program import Published
from flfl.federation.journal import JournalError
from flfl.federation.ledger import Ledger
from flfl.privacy.secure_sum import SecureSums

_LOG = logging.getLogger("flfl.coordinator")
AGREEMENT, ENDED, MODEL = "agreement.json", "ended.json", "model.npz"
_STATUS_SECONDS = 2.0
_STATES = ("here", "left", "gone", "never seen")


class CoordinatorService:
    """The coordinator's process.

    Parameters
    ----------
    path : of the settings
    """

    def __init__(self, path: Path) -> None:
        self.path, self.config = path, read_config(path, CoordinatorConfig)
        config = self.config
        start_logging(config.report, COORDINATOR)
        self.roster = load_roster(config.sites.roster)
        check_coordinator(config, len(self.roster.names), str(path))
        self.grid = TimeGrid(config.grid.start, config.grid.step, config.grid.slots)
        self.place = place_of(config.map)
        self.quorum = max(config.sites.quorum, self.roster.threshold if config.run.secure else 1)
        self.here: dict[str, Mapping[str, Any]] = {}
        self.ready: dict[str, Mapping[str, Any]] = {}
        self.unable: dict[str, str] = {}
        self.done: set[str] = set()
        self.problem = ""
        self.stopping = False
        self.conduct: Conduct | None = None
        self.agreement: Agreement | None = None
        self.link: CoordinatorLink | None = None
        self._durable: DurableCoordinator | None = None
        self._finished: tuple[Agreement, Published] | None = None
        self._joined: set[str] = set()
        self._told, self._said = 0.0, dict[str, Any]()
        self._runs = 0
        self._folder_lock = hold(config.state)
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
        """Until the next run is due; meanwhile sites that had no part in the last one may join."""
        until = time.monotonic() + seconds
        while not self.stopping and (left := until - time.monotonic()) > 0:
            self._hear(min(1.0, left))
            if (newcomer := self._newcomer()) is not None:
                self._fold_in(newcomer)

    def _newcomer(self) -> str | None:
        if self._finished is None:
            return None
        for name, status in self.here.items():
            if status.get("state") == "here" and name not in self._joined:
                return name
        return None

    def _fold_in(self, site: str) -> None:
        """Let a site fit its sensors to the finished model: nothing of its readings leaves."""
        assert self._finished is not None
        last, published = self._finished
        self._joined.add(site)
        if not self._call_one(site):
            return
        agreement = replace(
            last,
            kind="join",
            call=self._call,
            sites=(site,),
            plan=replace(last.plan, boost=False),
        )
        ledger, sizes = Ledger(), dict[str, int]()
        run = coordinate(agreement.plan, agreement.grid.slots, ledger, sizes)
        program = run.fold_in(published, alone=True)
        inner = Coordinator(program, PROTOCOL, [site], sizes, agreement.run)
        assert self.link is not None
        # The others' next run does not wait longer for it than for one answer of theirs.
        patience = patience_of(self.config.deadlines, 1)
        patience = replace(patience, finish_within=patience.answer_within * patience.misses)
        self.conduct = Conduct(inner, self.link, agreement.run, ledger, patience)
        plan = Message("plan", agreement.run, {}, agreement.to_bytes())
        self.link.tell(site, plan)
        self.conduct.begin()
        try:
            while not inner.done and not self.stopping:
                if (heard := self._hear(min(self.conduct.check(), 0.5))) is not None:
                    self.conduct.take(heard)
            _LOG.info("%s has joined the model of run %s", site, last.run)
        except FLFLError as error:
            _LOG.warning("%s could not join: %s", site, error)
        self.conduct.end()
        self.conduct = None

    def _call_one(self, site: str) -> bool:
        """Whether a site can take part."""
        assert self.link is not None
        self._call = uuid.uuid4().hex[:16]
        data = json.dumps(asdict(self.grid)).encode()
        call = Message("call", "", {"call": self._call}, data)
        self.ready.pop(site, None)
        self.unable.pop(site, None)
        self.link.tell(site, call)
        until = time.monotonic() + self.config.deadlines.gather_within
        while site not in self.ready and site not in self.unable and not self.stopping:
            self._hear(0.5)
            if time.monotonic() > until:
                return False
        return site in self.ready

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
            if self._fits(site, message.about):
                self.ready[site] = message.about
        elif message.kind == "unable" and call == self._call:
            self.ready.pop(site, None)
            self.unable[site] = str(message.about.get("why", ""))
            _LOG.warning("%s cannot take part: %s", site, self.unable[site])
        elif message.kind == "done" and message.run == self._run_name:
            self.done.add(site)

    _call = ""

    @property
    def _run_name(self) -> str | None:
        return None if self.agreement is None else self.agreement.run

    def _fits(self, site: str, facts: Mapping[str, Any]) -> bool:
        counts = [facts.get("sensors"), facts.get("readings")]
        if not all(type(count) is int and 0 < count <= 10**9 for count in counts):
            self.unable[site] = "it does not say how many sensors it has"
            return False
        return True

    # --- before a run ------------------------------------------------------------------------

    def _state_file(self) -> Path:
        return self.config.state / "state.json"

    def _state(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._state_file().read_bytes()))
        except FileNotFoundError:
            return {"number": 0, "run": ""}
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
        self._call, self.ready, self.unable, self.done = uuid.uuid4().hex[:16], {}, {}, set()
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
        config, run = self.config, self.config.run
        sites = tuple(sorted(self.ready))
        sensors = sum(int(self.ready[name]["sensors"]) for name in sites)
        readings = sum(int(self.ready[name]["readings"]) for name in sites)
        names = (
            "max_exposure", "effort", "projection", "rank", "transformation", "collusion", "blur",
            "epsilon", "delta", "bounds", "coverage", "rounds",
        )  # fmt: skip
        model = FLFL(
            **{name: getattr(run, name) for name in names},
            secure=run.secure,
            random_state=run.seed,
        )
        plan = model.plan(sensors, len(sites), readings, self.place.box, self.grid.period())
        state = self._state()
        agreement = Agreement(
            network=config.network,
            number=int(state["number"]) + 1,
            kind="fit",
            call=self._call,
            grid=self.grid,
            plan=plan,
            seed=run.seed,
            secure=run.secure,
            roster=self.roster.digest.hex() if run.secure else "",
            sites=sites,
            geography=self.place.geography,
            centre=self.place.centre,
        )
        folder = self._folder(agreement.run)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        save_text(folder / AGREEMENT, agreement.to_bytes())
        save_text(
            self._state_file(),
            json.dumps({"number": agreement.number, "run": agreement.run}).encode(),
        )
        return agreement

    # --- a run -------------------------------------------------------------------------------

    def _run(self, agreement: Agreement) -> bool:
        """Carry the run to its end; False when the service was stopped before it."""
        assert self.link is not None
        self.agreement, self.problem, ledger = agreement, "", Ledger()
        sizes: dict[str, int] = {}
        run = coordinate(agreement.plan, agreement.grid.slots, ledger, sizes)
        security = SecureSums(self.roster, agreement.run) if agreement.secure else None
        names = self.roster.names if agreement.secure else agreement.sites
        inner = Coordinator(run.program(), PROTOCOL, names, sizes, agreement.run, security=security)
        self._durable = DurableCoordinator(inner, self._folder(agreement.run))
        patience = patience_of(self.config.deadlines, self.quorum)
        self.conduct = Conduct(self._durable, self.link, agreement.run, ledger, patience)
        plan = Message("plan", agreement.run, {}, agreement.to_bytes())
        while not self.link.wait(1.0) and not self.stopping:
            self._tell()
        self._announce(plan)
        self.conduct.begin(without=[name for name in names if name not in agreement.sites])
        while not self._durable.done and not self.stopping:
            heard = self._hear(min(self.conduct.check(), 0.5))
            if heard is None:
                continue
            if heard.branch == "link":
                self._announce(plan)
            self.conduct.take(heard)
        finished = self._durable.done
        self._durable.close()
        if finished and run.published is not None:
            self._finished, self._joined = (agreement, run.published), set(agreement.sites)
            save_model(
                self._folder(agreement.run) / MODEL, Remembered(agreement.plan, run.published, {})
            )
        if finished:
            self._runs += 1
            self._wait_for_results(agreement, plan)
        return finished

    def _wait_for_results(self, agreement: Agreement, plan: Message) -> None:
        """Until every site has written its own files; nothing of them is sent."""
        assert self.conduct is not None
        until = time.monotonic() + self.config.deadlines.answer_within
        wanted = set(agreement.sites) - set(self.conduct.aside)
        while not wanted <= self.done and time.monotonic() < until and not self.stopping:
            heard = self._hear(0.5)
            if heard is not None and heard.branch == "link":
                self._announce(plan)
        if lost := sorted(wanted - self.done):
            self.problem = f"no word of a written result from {', '.join(lost)}"
            _LOG.warning("%s", self.problem)

    def _end(self, agreement: Agreement, why: str) -> None:
        assert self.conduct is not None
        self.conduct.end()
        self._announce(Message("ended", agreement.run, {"why": why[:500]} if why else {}))
        document = {
            "failed": why,
            "aside": self.conduct.aside,
            "rounds": self.conduct.ledger.rounds,
            "notes": self.conduct.ledger.notes,
            "bytes_up": self.conduct.ledger.bytes_up,
            "bytes_down": self.conduct.ledger.bytes_down,
        }
        save_text(self._folder(agreement.run) / ENDED, json.dumps(document, indent=1).encode())
        for name in ("replies.journal", "messages.journal"):
            (self._folder(agreement.run) / name).unlink(missing_ok=True)
        if not why:
            _LOG.info(
                "run %s is done", agreement.run, extra={"facts": {"aside": document["aside"]}}
            )
        self.agreement = self.conduct = None

    # --- telling -----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Who is here, what is done, what is wrong: without a reading."""
        conduct, durable = self.conduct, self._durable
        running = conduct is not None and self.agreement is not None
        return {
            "network": self.config.network,
            "run": self._run_name or "",
            "phase": "run" if running else "gather",
            "question": durable.answered + 1 if running and durable is not None else 0,
            "round": conduct.ledger.rounds if conduct is not None else 0,
            "sites": {name: self._site_status(name) for name in self.roster.names},
            "waiting_for": list(conduct.waiting_for) if conduct is not None else [],
            "paused": conduct.paused if conduct is not None else "",
            "runs": self._runs,
            "problem": self.problem,
        }

    def _site_status(self, name: str) -> dict[str, Any]:
        said = self.here.get(name, {})
        state = said.get("state", "never seen")
        status = {"state": state if state in _STATES else "unknown"}
        reason = str(said.get("problem", "")) or self.unable.get(name, "")
        if self.conduct is not None and name in self.conduct.aside:
            reason = self.conduct.aside[name]
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
        conduct, link = self.conduct, self.link
        here = sum(status.get("state") == "here" for status in self.here.values())
        return {
            "flfl_connected": float(link is not None and link.connected),
            "flfl_sites_here": here,
            "flfl_runs_total": self._runs,
            "flfl_round": 0 if conduct is None else conduct.ledger.rounds,
            "flfl_waiting_for": 0 if conduct is None else len(conduct.waiting_for),
            "flfl_set_aside": 0 if conduct is None else len(conduct.aside),
            "flfl_bytes_up_total": 0 if conduct is None else conduct.ledger.bytes_up,
            "flfl_bytes_down_total": 0 if conduct is None else conduct.ledger.bytes_down,
            "flfl_dropped_total": 0 if link is None else sum(link.dropped.values()),
        }
