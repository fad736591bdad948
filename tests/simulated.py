"""A network in one process: real services and state folders, a clock and a broker that are made up.

Time passes only while the coordinator waits. Messages may be lost, doubled, late and out of order;
a party that is killed is a service object that is left behind, and another one from its folder.
"""

import errno
import hashlib
import heapq
import itertools
import logging
import random
import shutil
from collections import Counter, deque
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd

from flfl.clock import Clock
from flfl.config import SiteSettings, read_settings
from flfl.datasets.synthetic import synthesize
from flfl.errors import FLFLError
from flfl.io import files
from flfl.io import write as written
from flfl.protocol.copy_store import CopyError, CopyStore
from flfl.protocol.journal import Journal, JournalError
from flfl.service import files as service_files
from flfl.service import home, keys
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.service.files import save_bytes
from flfl.service.home import Home
from flfl.service.phases import Resting
from flfl.service.site import SiteService
from flfl.transport.link import COORDINATOR, Received

START = "2024-01-01"
NEVER = float("inf")


class Killed(BaseException):
    """kill -9, seen from inside."""


class SimLink:
    """A party's link over the world's broker."""

    def __init__(self, world, name):
        self.world, self.name, self.boot = world, name, f"{name}-{next(world.boots)}"
        self.dropped, self.carried, self.status = Counter(), Counter(), {}
        self.inbox, self.alive = deque(), True
        world.links[name] = self
        if world.broker_up and not world.is_cut(name):
            self.connect()

    @property
    def connected(self):
        return self.alive and self.world.broker_up and not self.world.is_cut(self.name)

    def connect(self):
        """As a broker does it: what is kept first, then word of the own presence."""
        kept = self.world.retained
        wanted = [t for t in kept if t[0] == "all" or self.name == COORDINATOR]
        for topic in sorted(wanted):
            if self.name == COORDINATOR and topic == ("all", "plan"):
                continue
            self.inbox.append(kept[topic])
        self.say()
        self.inbox.append(Received("link", self.name))

    def say(self, **status):
        self.world.strike(self.name)
        self.status.update(status)
        if not self.connected:
            return
        document = {**self.status, "state": "here", "boot": self.boot}
        topic = ("all", "status") if self.name == COORDINATOR else ("status", self.name)
        self.world.retained[topic] = Received("status", self.name, None, document)
        self.world.publish(self.name, COORDINATOR, Received("status", self.name, None, document))
        if self.name == COORDINATOR:
            for site in self.world.names:
                self.world.publish(self.name, site, Received("status", self.name, None, document))

    def tell(self, site, message):
        return self._send([site], Received("to", site, message))

    def reply(self, message):
        return self._send([COORDINATOR], Received("from", self.name, message))

    def announce(self, message):
        received = Received("all", "plan", message)
        if self.connected:
            self.world.retained["all", "plan"] = received
        return self._send(self.world.names, received)

    def _send(self, targets, received):
        self.world.strike(self.name)
        if not self.connected:
            return False
        for target in targets:
            size = len(received.message.data)
            self.world.bytes[self.name, target] += size
            self.world.publish(self.name, target, received)
        return True

    def next(self, seconds):
        """Only the coordinator waits; sites are called when something is there."""
        return self.world.wait(self, seconds)

    def close(self):
        self.alive = False


class World:
    """Everything in one folder. ``faults`` are called with the world at their times."""

    def __init__(
        self, folder, seed=0, names=None, slots=160, per_site=1, run="", missing=0.25, after=None
    ):
        """``after`` is a world that was closed: its folders, its time and what its broker keeps."""
        self.folder, self.rng = folder, random.Random(seed)
        self.names = names or [f"site{n}" for n in range(4)]
        self.boots, self.order = itertools.count(), itertools.count()
        self.links, self.sites, self.retained, self.bytes = {}, {}, {}, Counter()
        self.broker_up, self.cuts, self.events = True, {}, []
        self.time = np.datetime64(START).astype("M8[s]").astype(np.int64) + 3600.0 * slots
        self.jumps, self.lossy, self.armed, self.down = Counter(), 0.0, {}, {}
        self.kills, self.restarts, self.crashes, self.full = Counter(), Counter(), [], set()
        self.coordinator = None
        self.until = NEVER
        if after is None:
            self._lay_out(per_site, run, missing, slots)
        else:
            shutil.copytree(after.folder, folder, dirs_exist_ok=True)
            self.table, self.time = after.table, after.time
            self.retained = dict(after.retained)

    # --- files

    def _lay_out(self, per_site, run, missing, slots):
        folder, names = self.folder, self.names
        keys.make_authority(folder / "keys", "test")
        for name in names:
            keys.make_site(folder / "keys", name)
            secret = hashlib.sha256(name.encode()).digest()
            save_bytes(folder / f"{name}-state" / home.SECRET, secret)
        keys.write_roster(folder / "keys", ())
        table, places = synthesize(
            per_site * len(names), slots + 24 * 40, rank=2, noise=0.5, missing=missing,
            rng=np.random.default_rng(0),
        )  # fmt: skip
        self.table = table.values.round(3)
        self.table.index = pd.date_range(START, periods=len(self.table), freq="h", name="time")
        pd.DataFrame(
            {"sensor_id": places.ids, "x": places.coordinates[:, 0], "y": places.coordinates[:, 1]}
        ).to_csv(folder / "sensors.csv", index=False)
        (folder / "coordinator.toml").write_text(
            'network = "test"\nstate = "coordinator-state"\n[sites]\nroster = "keys/roster.json"\n'
            f'[grid]\nstart = "{START}"\nstep = "1h"\n[map]\nsensors = "sensors.csv"\n'
            f'[run]\nschedule = "daily 03:30"\ngrace = 0.0\nrounds = 2\nrank = 3\n{run}\n'
            "[deadlines]\ngather_within = 1200.0\nanswer_within = 120.0\nmisses = 40\n"
            "finish_within = 20000.0\n"
            '[report]\nlog = "coordinator.log"\n'
        )
        for name in names:
            (folder / f"{name}.toml").write_text(
                f'network = "test"\nname = "{name}"\nstate = "{name}-state"\n'
                f'identity = "keys/{name}.identity"\nroster = "keys/roster.json"\n'
                f'[readings]\nfile = "{name}.csv"\nsensors = "sensors.csv"\n'
                f'[out]\nfile = "{name}-out/filled.csv"\neffort = "quick"\n'
            )
            (folder / f"{name}-out").mkdir()
        self.write_readings()

    def write_readings(self):
        """What the owners have measured until now."""
        now = pd.Timestamp(self.time, unit="s")
        for n, name in enumerate(self.names):
            mine = self.table.iloc[:, n :: len(self.names)]
            mine.loc[: now - pd.Timedelta(hours=1)].to_csv(self.folder / f"{name}.csv")

    def is_full(self, path):
        """Whether the disk that a file is on has no room."""
        return any(str(path).startswith(str(self.folder / name)) for name in self.full)

    def fill_disks(self, patch):
        """From now on ``full`` (folders) has no room; ``patch(owner, name, value)`` sets it up."""
        write, append, begin = files.write_files, Journal.append, CopyStore.transaction

        def write_files(writers, **how):
            if any(self.is_full(path) for path in writers):
                raise OSError(errno.ENOSPC, "No space left on device")
            write(writers, **how)

        def appends(journal, entry):
            if self.is_full(journal.path):
                raise JournalError(f"{journal.path}: cannot write (database or disk is full)")
            append(journal, entry)

        @contextmanager
        def transaction(store):
            if self.is_full(store.path):
                raise CopyError("store damaged", "the disk is full; make room on the disk")
            with begin(store):
                yield

        patch(service_files, "write_files", write_files)
        patch(written, "write_files", write_files)
        patch(Journal, "append", appends)
        patch(CopyStore, "transaction", transaction)

    # --- the broker

    def is_cut(self, name):
        return self.cuts.get(name, 0.0) > self.time

    def publish(self, sender, target, received):
        """On its way, as far as it gets."""
        copies = 1
        if self.lossy and received.message is not None:
            copies = self.rng.choices((0, 1, 2), (self.lossy / 2, 1 - self.lossy, self.lossy / 2))[
                0
            ]
        for _ in range(copies):
            late = self.rng.uniform(0, 8.0) if self.rng.random() < self.lossy else 0.02
            heapq.heappush(self.events, (self.time + late, next(self.order), target, received))

    def at(self, when, action):
        heapq.heappush(self.events, (when, next(self.order), action, None))

    def restart_broker(self, remembers, seconds=5.0):
        self.broker_up = False
        self.events = [e for e in self.events if e[3] is None]
        heapq.heapify(self.events)
        if not remembers:
            self.retained.clear()

        def up():
            self.broker_up = True
            self._connect_all()

        self.at(self.time + seconds, up)

    def cut(self, name, seconds):
        self.cuts[name] = self.time + seconds
        self.at(self.time + seconds + 0.01, lambda: self._connect(name))

    def _connect_all(self):
        for name in list(self.links):
            self._connect(name)

    def _connect(self, name):
        link = self.links.get(name)
        if link is not None and link.connected:
            link.connect()

    # --- parties

    def clock(self, name):
        return Clock(lambda: self.time + self.jumps[name], lambda: self.time)

    def strike(self, name):
        """Kill a party in the middle of what it does, if that is due."""
        if name in self.armed:
            self.armed[name] -= 1
            if self.armed[name] <= 0:
                del self.armed[name]
                raise Killed(name)

    def start_site(self, name):
        path = self.folder / f"{name}.toml"
        self.down.pop(name, None)
        try:
            opened = Home.open(read_settings(SiteSettings, path), str(path))
        except FLFLError as error:
            self.crashes.append(f"{name} does not start: {error}")
            return
        try:
            self.sites[name] = SiteService(opened, SimLink(self, name), self.clock(name))
        except Killed:
            opened.close()
            self._died(name)
            return
        self._pump(name)

    def _died(self, name, seconds=None):
        self.kills[name] += 1
        site, link = self.sites.pop(name, None), self.links.pop(name, None)
        if link is not None:
            link.close()
            link.inbox.clear()
        if site is not None:
            site.close()
            site.home.close()
        self.restarts[name] += 1
        self.at(self.time + (seconds or self.rng.uniform(1, 30)), lambda: self.start_site(name))

    def kill_site(self, name, seconds=None):
        if name in self.sites:
            self._died(name, seconds)

    def stop_site(self, name):
        """It leaves, for good or until it is started."""
        site, link = self.sites.pop(name, None), self.links.pop(name, None)
        if site is not None:
            link.close()
            site.close()
            site.home.close()

    def _pump(self, name):
        """Let a site act on all that has come."""
        link = self.links.get(name)
        while link is not None and link.alive and link.inbox and name in self.sites:
            try:
                self.sites[name].take(link.inbox.popleft())
            except Killed:
                self._died(name)
            except Exception as error:  # a site never raises
                self.crashes.append(f"{name}: {type(error).__name__}: {error}")
                self._died(name)

    def _tick(self):
        for name in list(self.sites):
            try:
                self.sites[name].tick()
            except Killed:
                self._died(name)
            except Exception as error:
                self.crashes.append(f"{name}: {type(error).__name__}: {error}")
                self._died(name)

    def wait(self, link, seconds):
        """Let time pass until the coordinator has something to read."""
        self.strike(COORDINATOR)
        resting = self.coordinator is not None and isinstance(self.coordinator.state, Resting)
        end = self.time + (300.0 if resting and self.coordinator.lease.claimed else seconds)
        while True:
            if link.inbox and link.connected:
                return link.inbox.popleft()
            if self.time >= min(end, self.until):
                if self.time >= self.until and self.coordinator is not None:
                    self.coordinator.stop()
                return None
            self._advance(min(end, self.until))

    def _advance(self, end):
        """The next thing that happens, or the end of the wait."""
        if not self.events or self.events[0][0] > end:
            self.time = max(self.time, end)
            self._tick()
            return
        when, _, target, received = heapq.heappop(self.events)
        self.time = max(self.time, when)
        if received is None:
            target()
            return
        link = self.links.get(target)
        if link is not None and link.connected:
            link.inbox.append(received)
            if target != COORDINATOR:
                self._pump(target)

    def run_until(self, when):
        """Coordinator and sites, until then; a coordinator that is killed starts again."""
        self.until = when
        while self.time < when:
            link = None
            try:
                setup = Setup.open(self.folder / "coordinator.toml")
            except FLFLError as error:
                self.crashes.append(f"the coordinator does not start: {error}")
                return
            try:
                link = SimLink(self, COORDINATOR)
                self.coordinator = CoordinatorService(setup, link, self.clock(COORDINATOR))
                self.coordinator.serve()
            except Killed:
                self.kills[COORDINATOR] += 1
            except FLFLError as error:
                self.crashes.append(f"the coordinator ends: {error}")
            except Exception as error:
                logging.getLogger("flfl").exception("it ends")
                self.crashes.append(f"the coordinator ends: {type(error).__name__}: {error}")
            finally:
                setup.close()
                if link is not None:
                    link.close()
                self.coordinator = None
                self.links.pop(COORDINATOR, None)
            if self.time < when:
                self.restarts[COORDINATOR] += 1
                back = min(self.time + self.rng.uniform(1, 30), when)
                while self.time < back:
                    self._advance(back)

    def start(self):
        for name in self.names:
            self.start_site(name)
        return self

    def next_morning(self):
        """From now, some hours after the next scheduled run."""
        day = 86400.0
        return (self.time - 3.5 * 3600) // day * day + day + 3.5 * 3600 + 6 * 3600

    def night(self):
        """Let a day pass: new readings, the run, and the morning after."""
        morning = self.next_morning()
        self.at(morning - 7 * 3600, self.write_readings)
        self.run_until(morning)
        return self

    def close(self):
        for name in list(self.sites):
            self.stop_site(name)

    def filled(self, name):
        path = self.folder / f"{name}-out" / "filled.csv"
        return path.read_bytes() if path.exists() else b""

    def said(self):
        with suppress(OSError):
            return Path(self.folder / "coordinator.log").read_text()
        return ""
