"""Real processes on this machine: a broker, a coordinator and sites, with TLS and secure sums."""

import hashlib
import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pandas as pd

from broker import Mosquitto
from flfl.clock import Clock
from flfl.datasets.synthetic import synthesize
from flfl.errors import FLFLError
from flfl.protocol.journal import Journal
from flfl.protocol.schema import network_to_arrays
from flfl.protocol.session import Coordinator, Site
from flfl.service import home, keys, tables
from flfl.service.broker import connect
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.service.coordinator_folder import JOURNAL, NETWORK
from flfl.service.files import load, save_bytes
from flfl.service.site import main
from flfl.transport.dispatcher import Dispatcher
from flfl.transport.mqtt import Link
from flfl.transport.responder import Responder
from waiting import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "deploy"))
from one_process import in_one_process  # noqa: E402

START, STEP = "2024-01-01", "1h"
DEADLINES = {"gather_within": PATIENCE, "answer_within": 60, "finish_within": PATIENCE}


def pooled(sensors=12, slots=240, n_sites=4, seed=0):
    """One network's readings, with times, and the owner of each sensor."""
    table, places = synthesize(
        sensors, slots, rank=2, noise=0.5, missing=0.3, rng=np.random.default_rng(seed)
    )
    frame = table.values.round(3)
    frame.index = pd.date_range(START, periods=slots, freq="h", name="time")
    return frame, places, [f"site{i % n_sites}" for i in range(sensors)]


# Processes that begin with everything loaded: loading takes longer than a run.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["flfl.service.coordinator", "flfl.service.site", "flfl.service.tables", "deployed"]
)


def run_party(path, name, fault, clock=None):
    """One party's process; ``clock`` is a file that says what time it is, for many nights."""
    sys.stderr = Path(path).with_suffix(".err").open("a", buffering=1)
    if fault is not None and fault[0] == "disk full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault[1], resource.RLIM_INFINITY))
    elif fault is not None and fault[0] == "clock":
        honest = time.time
        time.time = lambda: honest() + fault[1]
    elif fault is not None:
        arm(*fault)
    try:
        told = None if clock is None else Clock(now=lambda: float(Path(clock).read_text()))
        if name == "coordinator":
            sys.exit(coordinate(Path(path), told))
        sys.exit(main([path] if told else [path, "--once"], told))
    except (FLFLError, OSError) as error:
        sys.stderr.write(f"flfl: {error}\n")
        sys.exit(1)


def coordinate(path, clock=None):
    """As the command does."""
    with closing(Setup.open(path)) as setup:
        settings = setup.settings
        with closing(connect(settings.broker, settings.network, "coordinator")) as link:
            service = CoordinatorService(setup, link, clock)
            signal.signal(signal.SIGTERM, service.stop)
            return service.serve()


def arm(point, count):
    """Kill this process with -9 when it comes to a point for the ``count``-th time."""
    where, name, when = POINTS[point]
    honest, passed = getattr(where, name), [0]

    def now():
        passed[0] += 1
        return passed[0] == count

    def die():
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)

    def armed(*arguments, **named):
        due = now()
        if due and when == "before":
            die()
        if due and when == "torn":
            _torn(arguments[0], arguments[1])
            die()
        result = honest(*arguments, **named)
        if due and when == "after":
            die()
        return result

    setattr(where, name, armed)


def _torn(journal, record):
    """Half of an entry at the end of the write-ahead log, as a crash leaves it."""
    with open(f"{journal.path}-wal", "ab") as file:
        file.write(bytes(12) + str(record).encode())


POINTS = {
    "question received": (Site, "receive", "before"),
    "answer computed": (Site, "receive", "after"),
    "journal torn": (Journal, "append", "torn"),
    "journal written": (Journal, "append", "after"),
    "answer sent": (Responder, "take", "after"),
    "result written": (tables, "write_result", "after"),
    "result begun": (tables, "write_result", "before"),
    "answer accepted": (Coordinator, "receive", "before"),
    "answer taken": (Coordinator, "receive", "after"),
    "questions made": (Dispatcher, "_post", "before"),
    "question sent": (Link, "send", "after"),
}


class Deployment:
    """Everything in one folder."""

    def __init__(
        self,
        folder,
        data=None,
        tls=True,
        run="",
        deadlines=(),
        secure=True,
        broker=True,
        grid="",
    ):
        self.folder, self.data, self.tls = folder, data or pooled(), tls
        self.names = sorted(set(self.data[2]))
        self.keys = folder / "keys"
        self.processes, self.restarts, self.clock = {}, {}, None
        self.run, self.secure, self.proxy = run, secure, {}
        self.deadlines = {**DEADLINES, **dict(deadlines)}
        last = self.data[0].index[-1]
        self.grid = grid or f'start = "{START}"\nstep = "{STEP}"\nstop = "{last}"'
        keys.make_authority(self.keys, "test")
        keys.make_certificate(self.keys, "broker", hosts=["localhost", "127.0.0.1"])
        keys.make_certificate(self.keys, "coordinator")
        for name in self.names:
            keys.make_site(self.keys, name)
        keys.write_roster(self.keys, ())
        self.broker = Mosquitto(folder / "broker", self._broker_lines()) if broker else None
        for name in self.names:
            fix_secret(folder / f"{name}-state")
        self.write_readings()
        self.write_configs()

    def _broker_lines(self):
        acl = self.folder / "broker" / "acl"
        acl.parent.mkdir(parents=True, exist_ok=True)
        lines = ["persistence false"]
        if not self.tls:
            return ["allow_anonymous true", *lines]
        acl.write_text((ROOT / "deploy" / "acl").read_text())
        return [
            f"cafile {self.keys}/authority.pem", f"certfile {self.keys}/broker.pem",
            f"keyfile {self.keys}/broker.key", "require_certificate true",
            "use_identity_as_username true", f"crlfile {self.keys}/revoked.pem",
            f"acl_file {acl}", *lines,
        ]  # fmt: skip

    def write_readings(self):
        frame, places, owners = self.data
        here = pd.DataFrame(
            {"sensor_id": places.ids, "x": places.coordinates[:, 0], "y": places.coordinates[:, 1]}
        )
        if places.kind == "latlon":
            here.columns = ["sensor_id", "latitude", "longitude"]
        here.to_csv(self.folder / "sensors.csv", index=False)
        for name in self.names:
            mine = [c for c, owner in zip(frame.columns, owners, strict=True) if owner == name]
            frame[mine].to_csv(self.folder / f"{name}.csv")

    def _broker_section(self, name, certificate=None):
        port = self.proxy.get(name, self.broker.port if self.broker else 1)
        lines = [
            "[broker]",
            'host = "localhost"',
            f"port = {port}",
            "piece = 16384",
            "keepalive = 5",
        ]
        if not self.tls:
            return "\n".join([*lines, "plaintext = true"])
        owner = certificate or name
        return "\n".join(
            [*lines, 'authority = "keys/authority.pem"', f'certificate = "keys/{owner}.pem"',
             f'key = "keys/{owner}.key"']
        )  # fmt: skip

    def write_configs(self):
        deadlines = "\n".join(f"{name} = {value}" for name, value in self.deadlines.items())
        (self.folder / "coordinator.toml").write_text(
            'network = "test"\nstate = "coordinator-state"\n'
            f"{self._broker_section('coordinator')}\n"
            f'[sites]\nroster = "keys/roster.json"\n'
            f"[grid]\n{self.grid}\n"
            f'[map]\nsensors = "sensors.csv"\n'
            f"[run]\nsecure = {str(self.secure).lower()}\n{self.run}\n"
            f"[deadlines]\n{deadlines}\n"
            '[report]\nlog = "coordinator.log"\n'
        )
        for name in self.names:
            self.write_site(name)

    def write_site(self, name, certificate=None, terms="", readings=""):
        readings = readings or f'file = "{name}.csv"'
        (self.folder / f"{name}.toml").write_text(
            f'network = "test"\nname = "{name}"\nstate = "{name}-state"\nagain = 1.0\n'
            f'identity = "keys/{name}.identity"\nroster = "keys/roster.json"\n'
            f"{self._broker_section(name, certificate)}\n"
            f"[readings]\n{readings}\n"
            f'sensors = "sensors.csv"\n[out]\nfile = "{name}-filled.csv"\neffort = "quick"\n'
            f"[terms]\nsecure = {str(self.secure).lower()}\n{terms}\n"
            f'[report]\nlog = "{name}.log"\n'
        )

    def start(self, *parties, fault=None):
        """Start parties as processes of their own; ``fault`` is where they kill themselves."""
        for name in parties or ("coordinator", *self.names):
            self.processes[name] = _FORKS.Process(
                target=run_party, args=(str(self.folder / f"{name}.toml"), name, fault, self.clock)
            )
            self.processes[name].start()
        return self

    def kill(self, name):
        """kill -9."""
        self.processes[name].kill()
        self.processes[name].join()

    def signal(self, name, number):
        """Send a signal to a party, if it is there."""
        process = self.processes.get(name)
        if process is not None and process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def supervise(self, seconds=PATIENCE, restart_after=0.0, failures=5):
        """Start again whoever was killed or failed, as systemd does by the units of ``deploy/``,
        until all have ended with 0, one with 2, or one has failed too often; their exit codes."""
        until, died, failed = time.monotonic() + seconds, {}, {}
        while time.monotonic() < until:
            codes = {name: process.exitcode for name, process in self.processes.items()}
            if 2 in codes.values() or all(code == 0 for code in codes.values()):
                return codes
            for name, code in codes.items():
                if code in (None, 0):
                    continue
                if name not in died:
                    died[name] = time.monotonic()
                    failed[name] = failed.get(name, 0) + (code > 0)
                    if failed[name] > failures:
                        return codes
                if time.monotonic() - died[name] >= restart_after:
                    del died[name]
                    self.restarts[name] = self.restarts.get(name, 0) + 1
                    self.start(name)
            time.sleep(0.05)
        return codes

    def wait(self, *who):
        """Until the parties have ended, or one has failed; their exit codes."""
        codes = {}

        def over():
            codes.update({name: self.processes[name].exitcode for name in who or self.processes})
            return None not in codes.values() or any((code or 0) > 0 for code in codes.values())

        eventually(over)
        return codes

    def logs(self, name):
        path = self.folder / f"{name}.log"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        # The last one may be on its way yet.
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self, name):
        return [line["says"] for line in self.logs(name)]

    def wait_for(self, name, words):
        """Until a party's log holds the words."""
        said = eventually(lambda: any(words in says for says in self.said(name)))
        assert said, f"{name} never said {words!r}: {self.said(name)[-5:]}"

    def wait_for_connections(self, *names):
        """Until the broker has let parties in."""
        log = self.broker.folder / "mosquitto.log"
        assert eventually(lambda: all(f"as flfl-{name}-" in log.read_text() for name in names))
        return self

    def taken(self):
        """How many messages the coordinator has accepted."""
        for path in (self.folder / "coordinator-state" / "runs").glob(f"*/{JOURNAL}"):
            with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as journal:
                return journal.execute("select count(*) from entry").fetchone()[0]
        return 0

    def filled(self, name):
        return (self.folder / f"{name}-filled.csv").read_bytes()

    def shared(self):
        """What the last run made public."""
        return shared(self.folder)

    def close(self):
        for process in self.processes.values():
            if process.exitcode is None:
                process.kill()
                process.join()
        if self.broker is not None:
            self.broker.stop()


def fix_secret(state):
    """Give a site the secret that the same site has in other folders: the same copies follow."""
    name = state.name.removesuffix("-state")
    save_bytes(state / home.SECRET, hashlib.sha256(name.encode()).digest())


def in_process(data, folder, **settings):
    """The same run in one process: what is public, and every owner's file as it writes it."""
    made = Deployment(folder, data, broker=False, **settings)
    paths = [folder / f"{name}.toml" for name in made.names]
    network, _ = in_one_process(folder / "coordinator.toml", paths, folder / "out")
    files = {name: (folder / "out" / f"{name}-filled.csv").read_bytes() for name in made.names}
    return network_to_arrays(network), files


def shared(folder):
    """All that became public, as the coordinator keeps it."""
    _, arrays = load(folder / "coordinator-state" / NETWORK)
    return arrays


def check(folder, wanted):
    """A network's folder holds the public state and the files that are wanted, bit for bit."""
    arrays, files = wanted
    public = shared(folder)
    for name, array in arrays.items():
        np.testing.assert_array_equal(public[name], array)
    for name, data in files.items():
        assert (folder / f"{name}-filled.csv").read_bytes() == data, name
