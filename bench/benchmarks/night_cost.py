"""What a night costs on a year of history: seconds, bytes and memory of a site.

    python bench/benchmarks/night_cost.py [--data D3_beijing_pm25] [--slots 8640] [--new 24]

Every station is a site of its own, with secure sums. The first run releases all but the last slots;
then one night adds these, in a window, as a service does it. Bytes are counted on the encoded
messages; seconds and memory are those of one site, replayed in a process of its own: opening the
year's history, its answers, and the finish at home over a window.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from flfl.codec import pack, unpack
from flfl.constants import WINDOW_SLOTS
from flfl.model.basis import map_box, to_plane
from flfl.protocol.added_error import AddedError
from flfl.protocol.client import Client
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.finish import Effort, finish_run
from flfl.protocol.network import together
from flfl.protocol.owner import Owner, Table
from flfl.protocol.plan import Addition, Fit, Plan
from flfl.protocol.schema import PROTOCOL, network_from_arrays, network_to_arrays
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.transport import local

STEP = 3600


def tables(Y: np.ndarray, plane: np.ndarray, slots: int) -> list[Table]:
    """One owner a row."""
    times = np.arange(slots)
    return [
        Table(f"site{n:03d}", [f"s{n}"], y[None, :slots], ~np.isnan(y[None, :slots]),
              plane[n : n + 1], times.astype(float), STEP * times, STEP)
        for n, y in enumerate(Y)
    ]  # fmt: skip


def owner(table: Table, store: CopyStore) -> Owner:
    """With the secret that its name gives."""
    return Owner(table, Copier(hashlib.sha256(table.name.encode()).digest(), store), AddedError())


def carry(parts, plan, stores, earlier, addition, secure, tap=None):
    """One run in this process; the network after it, and the traffic."""
    names, traffic, once = [t.name for t in parts], Traffic(), together()
    sums, hiding = local.secure(names) if secure else (None, {})
    clients = {
        t.name: Client(owner(t, stores[t.name]), plan, hiding.get(t.name), once, earlier)
        for t in parts
    }
    run = Coordination(plan, parts[0].positions, traffic, earlier, once=once, addition=addition)
    sites = [Site(name, client, PROTOCOL, hiding.get(name)) for name, client in clients.items()]
    coordinator = Coordinator(run.program(), PROTOCOL, names, run.sizes, security=sums)
    local.run(coordinator, sites, traffic, tap)
    return run.network, traffic


def most_memory() -> float:
    """Megabytes that this process had at the most; what its parent had does not count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def replay(path: Path) -> None:
    """One site's night, from what it keeps."""
    kept = unpack(path.read_bytes())
    table = tables(kept["values"], kept["place"], kept["values"].shape[1])[0]
    (left, low), (right, high) = kept["box"].tolist()
    plan = Plan(box=((left, low), (right, high)), period=24, rounds=5)
    start = most_memory()
    began = time.process_time()
    with threadpool_limits(limits=1):
        store = CopyStore(kept["store"])
        earlier = network_from_arrays(kept["network"], plan)
        client = Client(owner(table, store), plan, earlier=earlier)
        site = Site(table.name, client, PROTOCOL)
        for question in kept["questions"]:
            site.receive(question)
        answered = time.process_time()
        finish_run(client, Effort(boost=kept["full"], period=24), kept["home"])
    ended = time.process_time()
    most = most_memory()
    print(f"answers {answered - began:.1f} s, finish at home {ended - answered:.1f} s of processor"
          f" time; {start:.0f} MB before, {most:.0f} MB at the most")  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="D3_beijing_pm25")
    parser.add_argument("--slots", type=int, default=8640)
    parser.add_argument("--new", type=int, default=24)
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay is not None:
        replay(options.replay)
        return
    from flfl.datasets.catalogue import load_dataset  # large, and no part of a site

    readings, sensors = load_dataset(options.data)
    Y = readings.values.to_numpy().T[:, : options.slots]
    plane = to_plane(sensors.coordinates, sensors.kind)
    N, folder = Y.shape[1], Path(tempfile.mkdtemp())
    plan = Plan(box=map_box(plane), period=24, rounds=5)
    before, now = tables(Y, plane, N - options.new), tables(Y, plane, N)
    stores = {t.name: CopyStore() for t in before}
    path = folder / "copies.sqlite"
    path.touch()
    stores["site000"] = CopyStore(path)
    began = time.process_time()
    network, _ = carry(before, plan, stores, None, Addition(), secure=False)
    print(f"{len(Y)} sites, {N - options.new} slots: first run {time.process_time() - began:.0f} s")
    stores["site000"].close()
    copy = folder / "before.sqlite"
    copy.write_bytes(path.read_bytes())
    stores["site000"] = CopyStore(path)
    window = Addition(0, N - max(90 * 24, WINDOW_SLOTS), Fit.KEPT)
    for secure in (False, True):
        up, down, questions = Counter(), Counter(), []

        def tap(direction: str, site: str, data: bytes, up=up, down=down, heard=questions) -> None:
            (up if direction == "up" else down)[site] += len(data)
            if direction == "down" and site == "site000":
                heard.append(data)

        _, traffic = carry(now, plan, stores, network, window, secure, tap)
        what = "with" if secure else "without"
        print(f"a night {what} secure sums: {max(up.values()) / 1e3:.1f} kB up and"
              f" {max(down.values()) / 1e3:.1f} kB down at the most a site; exchanges"
              f" {dict(traffic.exchanges)}")  # fmt: skip
        if not secure:
            plain = list(questions)
    for full in (False, True):
        for home in (N - max(90 * 24, WINDOW_SLOTS), 0):
            kept = {"store": str(copy), "network": network_to_arrays(network), "questions": plain,
                    "home": home, "full": full, "values": Y[:1], "place": plane[:1],
                    "box": np.array(plan.box)}  # fmt: skip
            where = folder / "site"
            where.write_bytes(pack(kept))
            command = [sys.executable, __file__, "--replay", str(where)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            word = "a window" if home else "all days"
            print(f"effort {'full' if full else 'quick'}, {word}: {said}", end="", flush=True)


if __name__ == "__main__":
    main()
