"""What carrying a run over a broker costs: time a round against in-process, idle sites, memory.

python bench/benchmarks/mqtt_engine.py rounds
python bench/benchmarks/mqtt_engine.py idle --sites 500 --minutes 10
python bench/benchmarks/mqtt_engine.py memory
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np

import together
from broker import Mosquitto
from deployed import Deployment, pooled
from flfl.config import BrokerSettings, DeadlineSettings
from flfl.datasets.synthetic import synthesize
from flfl.transport import local
from flfl.transport.mqtt import Link
from parties import parties


def rounds(slots: int) -> None:
    """Seconds a round on both engines, in one run of this script; secure sums on both."""
    mosquitto = Mosquitto(Path(tempfile.mkdtemp()))
    broker = BrokerSettings(host="127.0.0.1", port=mosquitto.port, plaintext=True)
    print("| sites | rounds | in-process, s a round | MQTT, s a round | ratio |")
    print("|---|---|---|---|---|")
    for n_sites in (4, 12, 36, 100):
        network = synthesize(
            max(n_sites, 24), slots, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0)
        )
        seconds = []
        for carry in (local.run, together.run):
            coordinator, sites, traffic, _ = parties(*network, n_sites=n_sites, secure=True)
            where = {}
            if carry is together.run:
                deadlines = DeadlineSettings(answer_within=600, finish_within=3600)
                where = {"broker": broker, "deadlines": deadlines}
            start = time.perf_counter()
            carry(coordinator, sites, traffic, **where)
            seconds.append((time.perf_counter() - start) / traffic.rounds)
        print(
            f"| {n_sites} | {traffic.rounds} | {seconds[0]:.3f} | {seconds[1]:.3f}"
            f" | {seconds[1] / seconds[0]:.2f} |",
            flush=True,
        )
    mosquitto.stop()


def resident(pid: int | str = "self") -> float:
    """Resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def idle(n_sites: int, minutes: float) -> None:
    """A coordinator that holds many idle sites: its memory over time."""
    from flfl.secagg import Identity
    from flfl.service import keys

    folder = Path(tempfile.mkdtemp())
    deployment = Deployment(
        folder, pooled(6, 48, n_sites=3), tls=False, run='schedule = "daily 03:30"',
        deadlines={"gather_within": 86400},
    )  # fmt: skip
    names = [f"site{n:03d}" for n in range(n_sites)]
    for name in names:
        (folder / "keys" / f"{name}.public").write_text(Identity.generate().public.hex())
    keys.write_roster(folder / "keys", names)
    deployment.start("coordinator")
    # paho waits with select, which knows file descriptors below 1024 only: 100 sites a process.
    count = multiprocessing.Value("i", 0)
    crowd = [
        multiprocessing.Process(
            target=hold, args=(deployment.broker.port, names[n : n + 100], count), daemon=True
        )
        for n in range(0, n_sites, 100)
    ]
    for process in crowd:
        process.start()
    try:
        pid = deployment.processes["coordinator"].pid
        start = time.monotonic()
        while time.monotonic() - start < 60 * minutes:
            time.sleep(30.0)
            print(
                f"{time.monotonic() - start:6.0f} s: {count.value} sites connected,"
                f" coordinator {resident(pid):.1f} MB",
                flush=True,
            )
    finally:
        for process in crowd:
            process.kill()
        deployment.close()


def hold(port: int, names: list[str], count: Any) -> None:
    """So many idle sites."""
    broker = BrokerSettings(host="127.0.0.1", port=port, plaintext=True)
    links = [Link(broker, "test", name) for name in names]
    while True:
        for link in links:
            if link.wait(60):
                with count.get_lock():
                    count.value += 1
        time.sleep(1e6)


def memory(slots: int, effort: str) -> None:
    """The largest resident memory of a site's real process over a run."""
    folder = Path(tempfile.mkdtemp())
    deployment = Deployment(folder, pooled(24, slots))
    config = folder / "site0.toml"
    config.write_text(config.read_text().replace('effort = "quick"', f'effort = "{effort}"'))
    deployment.start("coordinator", "site1", "site2", "site3")
    site = subprocess.Popen(
        [sys.executable, "-m", "flfl.service.site", str(folder / "site0.toml"), "--once"]
    )
    most = 0.0
    try:
        while site.poll() is None:
            try:
                status = Path(f"/proc/{site.pid}/status").read_text()
                high = [line for line in status.splitlines() if line.startswith("VmHWM")]
                most = max([most, *(int(line.split()[1]) / 1024 for line in high)])
            except OSError:
                pass
            time.sleep(0.2)
        print(f"{effort}: {slots} slots, rank 20: site {most:.0f} MB at the most")
        print(deployment.said("coordinator")[-2:], os.path.exists(folder / "site0-filled.csv"))
    finally:
        deployment.close()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("rounds", "idle", "memory"))
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--slots", type=int, default=0)
    parser.add_argument("--effort", default="quick")
    options = parser.parse_args()
    if options.what == "rounds":
        rounds(options.slots or 1000)
    elif options.what == "idle":
        idle(options.sites, options.minutes)
    else:
        memory(options.slots or 8760, options.effort)


if __name__ == "__main__":
    main()
