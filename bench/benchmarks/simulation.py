"""Random schedules of faults in a simulated network: none may end wrong, lost, or never.

    python bench/benchmarks/simulation.py --schedules 500 --out simulation.jsonl
    python bench/benchmarks/simulation.py --table simulation.jsonl

A schedule is a first run and two nights of a coordinator and four sites: real services on real
state folders, in one process, with a clock and a broker that are made up (``tests/simulated.py``).
Its seed decides everything. One to four faults strike (:func:`draw`); the last night is quiet.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np

from flfl.config import ReadingSettings
from flfl.ensemble.recovery import Recovered
from flfl.errors import FLFLError
from flfl.protocol.client import Client
from flfl.protocol.finish import Effort, finish_run
from flfl.service import part, tables
from flfl.service.agreement import Published
from flfl.service.files import load, unseal
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot
from flfl.service.tables import read_source
from flfl.transport.link import COORDINATOR, Message, Received
from simulated import World

KINDS = (
    "kill site", "kill coordinator", "kill everybody", "broker restarts", "broker forgets",
    "cut", "lossy", "disk full at a site", "disk full at the coordinator", "output folder gone",
    "damaged at a site", "damaged at the coordinator", "clock jumps", "hostile site",
    "hostile broker",
)  # fmt: skip
OF_A_SITE = (
    "called", "network", "result", "lacking", "copies.id", "runs/*/agreement", "runs/*/readings",
    "runs/*/journal", "runs/*/history",
)  # fmt: skip
OF_THE_COORDINATOR = (
    "state", "network", "holder", "runs/*/agreement", "runs/*/journal", "runs/*/history",
)  # fmt: skip
NIGHTS = 3


def draw(seed: int) -> list[dict]:
    """The faults of a schedule, each on one of the first two nights, around the time of its run."""
    rng = random.Random(seed)
    faults = []
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        fault = {
            "kind": rng.choice(KINDS),
            "night": rng.randrange(NIGHTS - 1),
            "at": rng.choice((rng.uniform(-600, 0), rng.uniform(0, 3), rng.uniform(0, 30))),
            "site": f"site{rng.randrange(4)}",
            "count": rng.randint(1, 40),
            "seconds": rng.choice((rng.uniform(1, 60), rng.uniform(60, 1800))),
            "seed": rng.randrange(2**32),
        }
        faults.append(fault)
    return faults


def damage(path: Path, rng: random.Random) -> bool:
    """Change, cut short or empty a file."""
    if not path.is_file():
        return False
    data = bytearray(path.read_bytes())
    how = rng.randrange(3)
    if how == 0 and data:
        for _ in range(rng.randint(1, 30)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == 1:
        data = data[: rng.randrange(len(data) + 1)]
    else:
        data = bytearray(rng.randbytes(rng.choice((0, 10, 1000))))
    path.write_bytes(bytes(data))
    return True


def hostile(rng: random.Random, world: World) -> Message:
    """A message that nobody should send."""
    kinds = (
        "call", "plan", "question", "answer", "ready", "done", "history", "give", "given", "ended",
        "lacking", "here", "nonsense", "aside",
    )  # fmt: skip
    texts = ("", "x", "\0", "../../etc", "9" * 300, "test-1-0", "-1")
    values = (*texts, -1, 2**62, 0)
    names = ("call", "why", "digest", "holds", "stop", "re", "roster", "lacks")
    about = {rng.choice(names): rng.choice(values) for _ in range(rng.randrange(4))}
    kept = [r.message for r in world.retained.values() if r.message is not None]
    run, data = rng.choice(texts), rng.randbytes(rng.choice((0, 1, 100)))
    if kept and rng.random() < 0.5:
        run, data = kept[0].run, kept[0].data
        if rng.random() < 0.5 and data:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        if rng.random() < 0.5:
            about = {**kept[0].about, **about}
    return Message(rng.choice(kinds), run, about, data)


EVERYBODY = (
    "kill coordinator", "kill everybody", "broker restarts", "broker forgets", "lossy",
    "disk full at the coordinator", "damaged at the coordinator",
)  # fmt: skip
"""Faults of the coordinator, of the broker or of the network: they may cost any site its part."""


def struck(world: World, faults: list[dict]) -> set[str]:
    """The parties that the faults of a schedule struck: nobody else may be refused anything."""
    found = set()
    for fault in faults:
        if fault.get("struck"):
            party = fault.get("party", fault["site"])
            whole = fault["kind"] in EVERYBODY or party == COORDINATOR
            found |= {COORDINATOR, *world.names} if whole else {party}
    return found


def strike(world: World, fault: dict) -> None:
    """Let one fault happen."""
    rng, kind, site = random.Random(fault["seed"]), fault["kind"], fault["site"]
    party = rng.choice((site, COORDINATOR))
    folder = world.folder / f"{site}-state"
    fault["struck"] = True
    if kind == "kill site":
        world.armed[site] = fault["count"]
    elif kind == "kill coordinator":
        world.armed[COORDINATOR] = fault["count"]
    elif kind == "kill everybody":
        for name in world.names:
            world.kill_site(name)
        world.armed[COORDINATOR] = 1
    elif kind in ("broker restarts", "broker forgets"):
        world.restart_broker(kind == "broker restarts", fault["seconds"])
    elif kind == "cut":
        fault["party"] = party
        world.cut(party, fault["seconds"])
    elif kind == "lossy":
        world.lossy = rng.uniform(0.02, 0.4)
        world.at(world.time + fault["seconds"], lambda: setattr(world, "lossy", 0.0))
    elif kind.startswith("disk full"):
        full = f"{site}-" if kind.endswith("site") else "coordinator-state"
        world.full.add(full)
        world.at(world.time + fault["seconds"], lambda: world.full.discard(full))
    elif kind == "output folder gone":
        here, away = world.folder / f"{site}-out", world.folder / f"{site}-away"
        if here.exists():
            here.rename(away)
            world.at(world.time + fault["seconds"], lambda: away.rename(here))
    elif kind == "damaged at a site":
        found = [p for pattern in OF_A_SITE for p in folder.glob(pattern)]
        fault["file"] = str(path := rng.choice(found)) if found else ""
        world.kill_site(site)
        fault["struck"] = bool(found) and damage(path, rng)
    elif kind == "damaged at the coordinator":
        state = world.folder / "coordinator-state"
        found = [p for pattern in OF_THE_COORDINATOR for p in state.glob(pattern)]
        fault["file"] = str(path := rng.choice(found)) if found else ""
        fault["struck"] = bool(found) and damage(path, rng)
        world.armed[COORDINATOR] = 1
    elif kind == "clock jumps":
        jump = rng.choice((-1, 1)) * rng.choice((3600, 86400, 86400 * 400))
        fault["party"] = party
        world.jumps[party] += jump
        world.at(world.time + fault["seconds"], lambda: world.jumps.subtract({party: jump}))
    elif kind == "hostile site":
        for _ in range(fault["count"]):
            world.publish(site, COORDINATOR, Received("from", site, hostile(rng, world)))
    elif kind == "hostile broker":
        for _ in range(fault["count"]):
            branch = rng.choice((("to", site), ("all", "plan")))
            world.publish(COORDINATOR, site, Received(*branch, hostile(rng, world)))


_FINISHED: dict[bytes, Recovered] = {}


def finished(client: Client, effort: Effort, first: int = 0) -> Recovered:
    """What an owner's finish gives, which is the same for the same bits: made once."""
    network, table, state = client.network, client.owner.table, client.state
    text = hashlib.sha256(network.digest + f"{effort} {first} {network.rows(table.name)}".encode())
    for array in (table.raw, table.known, client.outgoing.copies, state.offsets):
        text.update(np.ascontiguousarray(array).tobytes())
    if (key := text.digest()) not in _FINISHED:
        _FINISHED[key] = finish_run(client, effort, first)
    return _FINISHED[key]


_READ: dict[bytes, Snapshot] = {}


def read(settings: ReadingSettings, grid: TimeGrid) -> Snapshot:
    """What is in an owner's file, which is the same for the same bytes: read once."""
    key = hashlib.sha256(settings.file.read_bytes() + repr(grid).encode()).digest()
    if key not in _READ:
        _READ[key] = read_source(settings, grid)
    return copy.deepcopy(_READ[key])


def play(folder: Path, faults: list[dict], seed: int = 0) -> tuple[World, list[dict]]:
    """The nights of a schedule, and what there is each morning."""
    world, mornings = World(folder, seed), []
    with mock.patch.multiple("flfl.service.coordinator", _RETRY=15.0):
        patches = []

        def patch(owner: object, name: str, value: object) -> None:
            one = mock.patch.object(owner, name, value)
            one.start()
            patches.append(one)

        try:
            world.fill_disks(patch)
            patch(part, "finish_run", finished)
            patch(tables, "read_source", read)
            world.start()
            for night in range(NIGHTS):
                # The first run is made up at once; the others are at half past three.
                run = world.time + 1 if night == 0 else world.next_morning() - 6 * 3600
                for fault in faults:
                    if fault["night"] == night:
                        when = max(run + fault["at"], world.time)
                        world.at(when, lambda fault=fault: strike(world, fault))
                world.night()
                mornings.append(morning(world))
        finally:
            world.close()
            for one in patches:
                one.stop()
    return world, mornings


def morning(world: World) -> dict:
    """What the parties have now."""
    published = public(world)
    return {
        "files": {name: world.filled(name) for name in world.names},
        "public": published.digest if published else "",
        "stop": published.network.stop if published else 0,
        "stops": published.network.stops.tolist() if published else [],
        "here": sorted(world.sites),
        "written": {name: newest(world, name, published) for name in world.names},
    }


def public(world: World) -> Published | None:
    """What the parties keep: the coordinator's, or a site's where that one is damaged."""
    for name in ("coordinator", *world.names):
        with suppress(FLFLError, OSError):
            path = world.folder / f"{name}-state" / "network"
            return Published.from_bytes(unseal(path))
    return None


def newest(world: World, name: str, published: Published | None) -> bool:
    """Whether a site's tables are of the network's last run."""
    if published is None:
        return True
    folder = world.folder / f"{name}-state" / "runs"
    return any(path.parent.name == published.agreement.run for path in folder.glob("*/written"))


def reasons(world: World) -> dict[str, list[str]]:
    """Why a run was not as it would have been, in words of the services, by whom it is about."""
    found: dict[str, list[str]] = defaultdict(list)
    state = world.folder / "coordinator-state"
    for path in state.glob("runs/*/ended"):
        ended = load(path)
        for site, why in ended["aside"].items():
            found[site].append(why)
        for note in ended["notes"]:
            for site in world.names:
                if site in note:
                    found[site].append(note)
        if ended["failed"]:
            found[COORDINATOR].append(ended["failed"])
    for line in world.said().splitlines():
        said = json.loads(line)
        site, found_why, why = said["says"].partition(" cannot take part: ")
        if found_why and site in world.names:
            found[site].append(why)
        elif said["says"].startswith("paused: "):
            for site in said["says"].partition("lacking: ")[2].split(", "):
                found[site].append(said["says"])
        elif "set aside as" in said["says"] and "coordinator-state" in said["says"]:
            found[COORDINATOR].append(said["says"])
    return found


def one(seed: int, wanted: list[dict]) -> dict:
    """One schedule from beginning to end."""
    began, faults = time.process_time(), draw(seed)
    folder = Path(tempfile.mkdtemp(prefix="flfl-simulation-"))
    row = {"seed": seed, "faults": sorted({fault["kind"] for fault in faults})}
    world, mornings = play(folder, faults, seed)
    row |= judge(world, mornings, wanted, faults)
    row["struck"] = sum(bool(fault.get("struck")) for fault in faults)
    row["kills"] = sum(world.kills.values())
    row["seconds"] = round(time.process_time() - began, 1)
    if row["wrong"] or row["lost"] or row["hung"] or row["tracebacks"] or row["loops"]:
        row |= {"folder": str(folder), "about": faults}
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return row


def judge(world: World, mornings: list[dict], wanted: list[dict], faults: list[dict]) -> dict:
    """Same bits, or a refusal that says why and is about a party that a fault struck."""
    told, hit = reasons(world), struck(world, faults)
    clock = any(f["kind"] == "clock jumps" and f.get("party") == COORDINATOR for f in faults)
    if mornings[-1]["stops"] != wanted[-1]["stops"] and clock:
        told[COORDINATOR].append("its clock was off: other slots had ended by it")
    innocent = [f"{name} was struck by nothing: {told[name]}" for name in told if name not in hit]
    why = [f"{name}: {text}" for name in told if name in hit for text in told[name]]
    pairs = list(zip(mornings, wanted, strict=True))
    same = all(have[k] == want[k] for have, want in pairs for k in ("public", "files"))
    lost = [
        f"{name} in night {night}"
        for night, have in enumerate(mornings)
        for name in world.names
        if name not in have["here"] or not have["written"][name]
    ]
    last = mornings[-1]
    # Whoever was set aside or could not take part was told so, and finishes at home by morning.
    lost = lost if not why else [text for text in lost if text.endswith(f"night {NIGHTS - 1}")]
    lost = [text for text in lost if text.partition(" ")[0] in last["here"]]
    refused = [text for text in world.crashes if "does not start" in text]
    loops = [text for text in world.crashes if text not in refused]
    return {
        "wrong": [] if same else innocent or ([] if why else ["other bits, and no reason"]),
        "lost": lost,
        "hung": [] if last["stop"] == wanted[-1]["stop"] else [f"{last['stop']} slots"],
        "tracebacks": world.said().count("Traceback"),
        "loops": loops,
        "same": same,
        "why": [] if same else sorted(set(why))[:5] + refused[:2],
    }


def table(path: Path) -> None:
    """The rows as the page shows them."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    by_kind: dict[str, Counter] = defaultdict(Counter)
    for row in rows:
        for kind in {*row["faults"], "all"}:
            count = by_kind[kind]
            count["schedules"] += 1
            count["struck"] += bool(row["struck"])
            count["same"] += row["same"]
            count["refused"] += not row["same"]
            for word in ("wrong", "lost", "hung", "tracebacks", "loops"):
                count[word] += bool(row[word])
    words = (
        "schedules",
        "struck",
        "same",
        "refused",
        "wrong",
        "lost",
        "hung",
        "tracebacks",
        "loops",
    )
    print("| fault | schedules | struck | same bits | refused, with a reason | wrong | lost | hung"
          " | tracebacks | restart loops |")  # fmt: skip
    print("|" + "---|" * 10)
    for kind in sorted(by_kind, key=lambda kind: (kind == "all", kind)):
        print(f"| {kind} | " + " | ".join(str(by_kind[kind][word]) for word in words) + " |")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("simulation.jsonl"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        table(options.table)
        return
    _, wanted = play(Path(tempfile.mkdtemp()), [])
    done = set()
    if options.out.exists():
        done = {json.loads(line)["seed"] for line in options.out.read_text().splitlines()}
    for seed in range(options.first, options.first + options.schedules):
        if seed not in done:
            row = one(seed, wanted)
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps({k: v for k, v in row.items() if k != "about"}), flush=True)


if __name__ == "__main__":
    main()
