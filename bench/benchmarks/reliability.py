"""Random schedules of faults on real processes: none may end wrong, lost or past the deadline.

    python bench/benchmarks/reliability.py --schedules 200 --out reliability.jsonl
    python bench/benchmarks/reliability.py --table reliability.jsonl

A schedule is one run of a coordinator and four sites over a real Mosquitto with TLS and secure
sums, with one to three faults (:func:`draw`): kills, stops, cuts, the broker's end, full disks,
damaged state, clocks that are off, hostile messages. A killed party is started again, as systemd
would. Its seed alone decides a schedule; when exactly a fault strikes is up to the machine.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np

from deployed import Deployment, in_process, pooled
from flfl.service.files import load
from noise import Noise
from proxy import Proxy

SITE_POINTS = (
    "question received", "answer computed", "journal torn", "journal written", "answer sent",
    "result begun", "result written",
)  # fmt: skip
COORDINATOR_POINTS = (
    "answer accepted", "answer taken", "journal torn", "journal written", "questions made",
    "question sent",
)  # fmt: skip
DEADLINE = 240.0


def draw(seed: int) -> list[dict]:
    """The faults of a schedule."""
    rng = random.Random(seed)
    faults = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choice(
            ("kill site", "kill site", "kill coordinator", "kill coordinator", "kill broker",
             "cut sending", "cut receiving", "cut waiting", "stall", "delay", "noise", "stop",
             "disk full", "damage", "clock")
        )  # fmt: skip
        fault = {"kind": kind, "party": f"site{rng.randrange(4)}"}
        if kind == "kill site":
            fault |= {"point": rng.choice(SITE_POINTS), "count": rng.randint(1, 20)}
            if fault["point"].startswith("result"):
                fault["count"] = 1
        elif kind == "kill coordinator":
            fault |= {"point": rng.choice(COORDINATOR_POINTS), "count": rng.randint(1, 70)}
            fault["party"] = "coordinator"
        elif kind == "disk full":
            fault |= {"bytes": rng.randint(20_000, 120_000), "at": rng.uniform(2.0, 8.0)}
            fault["party"] = rng.choice((fault["party"], "coordinator"))
        elif kind == "clock":
            fault |= {"off": rng.choice((-1, 1)) * rng.choice((3600.0, 86400.0, 3.2e7))}
            fault["party"] = rng.choice((fault["party"], "coordinator"))
        elif kind in ("stop", "damage"):
            fault |= {"at": rng.uniform(0.0, 4.0), "seconds": rng.uniform(0.5, 12), "seed": seed}
            fault["party"] = rng.choice((fault["party"], "coordinator"))
        elif kind in ("cut sending", "cut receiving"):
            fault |= {"bytes": rng.randint(1, 80_000), "seconds": rng.uniform(0.2, 4)}
            fault["party"] = rng.choice((fault["party"], "coordinator"))
        else:
            fault |= {"at": rng.uniform(0.0, 3.0), "seconds": rng.uniform(0.2, 5)}
        faults.append(fault)
    return faults


def strike(deployment: Deployment, proxies: dict, fault: dict) -> None:
    """Let one fault that is timed happen."""
    time.sleep(fault["at"])
    fault["struck"] = any(process.exitcode is None for process in deployment.processes.values())
    proxy = proxies.get(fault["party"])
    if fault["kind"] == "kill broker":
        deployment.broker.kill()
        time.sleep(fault["seconds"])
        deployment.broker.start()
    elif fault["kind"] == "cut waiting":
        proxy.cut(fault["seconds"])
    elif fault["kind"] == "stall":
        proxy.stall(fault["seconds"])
    elif fault["kind"] == "delay":
        proxy.delay = 0.02
    elif fault["kind"] == "stop":
        deployment.signal(fault["party"], signal.SIGSTOP)
        time.sleep(fault["seconds"])
        deployment.signal(fault["party"], signal.SIGCONT)
    elif fault["kind"] == "disk full":
        # The limit is that of the process: another one has room.
        deployment.signal(fault["party"], signal.SIGKILL)
    elif fault["kind"] == "damage":
        damage(deployment, fault)
    elif fault["kind"] == "noise":
        until = time.monotonic() + fault["seconds"]
        Noise(deployment, fault["party"]).make(lambda: time.monotonic() > until)


def damage(deployment: Deployment, fault: dict) -> None:
    """Change some bytes of a file of a party's state, and kill the party."""
    rng = random.Random(fault["seed"])
    state = deployment.folder / f"{fault['party']}-state"
    names = (
        "state",
        "network",
        "called",
        "result",
        "agreement",
        "journal",
        "readings",
        "copies.id",
    )
    found = [path for path in state.rglob("*") if path.name in names]
    deployment.signal(fault["party"], signal.SIGKILL)
    if found:
        path = rng.choice(sorted(found))
        data = bytearray(path.read_bytes())
        for _ in range(20 if data else 0):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        fault["file"] = path.name


def one(seed: int, wanted: tuple, data: tuple) -> dict:
    """One schedule from beginning to end."""
    faults, folder = draw(seed), Path(tempfile.mkdtemp(prefix="flfl-reliability-"))
    start = time.monotonic()
    deployment = Deployment(folder, data, deadlines={"misses": 100, "finish_within": DEADLINE})
    proxies = {}
    row = {"seed": seed, "faults": [fault["kind"] for fault in faults]}
    try:
        for fault in faults:
            if fault["kind"] in ("cut sending", "cut receiving", "cut waiting", "stall", "delay"):
                proxies.setdefault(fault["party"], Proxy(deployment.broker.port))
        deployment.proxy = {name: proxy.port for name, proxy in proxies.items()}
        deployment.write_configs()
        armed = {}
        for fault in faults:
            if fault["kind"] in ("cut sending", "cut receiving"):
                direction = "up" if fault["kind"] == "cut sending" else "down"
                proxies[fault["party"]].cut_after(fault["bytes"], direction, fault["seconds"])
            elif "point" in fault:
                armed[fault["party"]] = (fault["point"], fault["count"])
            elif fault["kind"] == "disk full":
                armed[fault["party"]] = ("disk full", fault["bytes"])
            elif fault["kind"] == "clock":
                armed[fault["party"]] = ("clock", fault["off"])
        for name in ("coordinator", *deployment.names):
            deployment.start(name, fault=armed.get(name))
        for fault in faults:
            if "at" in fault:
                args = (deployment, proxies, fault)
                threading.Thread(target=strike, args=args, daemon=True).start()
        codes = deployment.supervise(DEADLINE + 60)
        row |= judge(deployment, wanted, codes, struck(faults, deployment.names))
        row["restarts"] = sum(deployment.restarts.values())
        timed = sum(bool(fault.get("struck")) for fault in faults)
        row["struck"] = timed + row["restarts"] + sum(proxy.cuts for proxy in proxies.values())
    finally:
        deployment.close()
        for proxy in proxies.values():
            proxy.close()
        if row.get("right"):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            row["folder"] = str(folder)
    row["seconds"] = round(time.monotonic() - start, 1)
    return row


def struck(faults: list[dict], names: list[str]) -> set[str]:
    """The sites that a fault struck; one of the coordinator or the broker strikes all."""
    whole = any(f["kind"] == "kill broker" or f["party"] == "coordinator" for f in faults)
    return set(names) if whole else {fault["party"] for fault in faults}


def judge(deployment: Deployment, wanted: tuple, codes: dict, hit: set[str]) -> dict:
    """Right, wrong, or not done. A refusal must say why, and be about a site that was struck."""
    model, files = wanted
    hung = [name for name, code in codes.items() if code is None]
    failed = [name for name, code in codes.items() if code not in (0, None)]
    wrong, lost = [], []
    for name, data in files.items():
        path = deployment.folder / f"{name}-filled.csv"
        if not path.exists():
            lost.append(name)
        elif path.read_bytes() != data:
            wrong.append(name)
    if not failed and not hung:
        shared = deployment.shared()
        if not all(np.array_equal(shared[key], array) for key, array in model.items()):
            wrong.append("the shared model")
    aside = reasons(deployment)
    why = [f"{site}: {text}" for site, text in aside]
    innocent = [site for site, _ in aside if site not in hit]
    if (
        why and not innocent
    ):  # a refusal that says why: the others' results are there, and are of one run
        wrong, lost = [], [name for name in lost if not any(name in text for text in why)]
    tracebacks = sum(
        path.read_text().count("Traceback")
        for end in ("log", "err")
        for path in deployment.folder.glob(f"*.{end}")
    )
    right = not (hung or failed or wrong or lost or tracebacks)
    judged = {"wrong": wrong, "lost": lost, "hung": hung, "failed": failed}
    return {"right": right, **judged, "tracebacks": tracebacks, "why": why}


def reasons(deployment: Deployment) -> list[tuple[str, str]]:
    """Who was set aside, and why."""
    runs = (deployment.folder / "coordinator-state" / "runs").glob("*/ended")
    return [pair for path in runs for pair in load(path)["aside"].items()]


def table(path: Path) -> None:
    """The rows as the page shows them."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    by_kind = defaultdict(Counter)
    for row in rows:
        for kind in {*row["faults"], "all"}:
            count = by_kind[kind]
            count["schedules"] += 1
            count["refused"] += bool(row["why"])
            for word in ("wrong", "lost", "hung", "failed", "tracebacks"):
                count[word] += bool(row.get(word))
            count["struck"] += bool(row["struck"])
            count["seconds"] = max(count["seconds"], row["seconds"])
    print(
        "| fault | schedules | struck | refused, with a reason | wrong | lost | past the deadline"
        " | given up | tracebacks | slowest, s |"
    )
    print("|" + "---|" * 10)
    for kind in sorted(by_kind, key=lambda kind: (kind == "all", kind)):
        c = by_kind[kind]
        print(
            f"| {kind} | {c['schedules']} | {c['struck']} | {c['refused']} | {c['wrong']}"
            f" | {c['lost']} | {c['hung']} | {c['failed']} | {c['tracebacks']}"
            f" | {c['seconds']:.0f} |"
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("reliability.jsonl"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        table(options.table)
        return
    data = pooled(8, 420)
    wanted = in_process(data, Path(tempfile.mkdtemp()))
    done = set()
    if options.out.exists():
        done = {json.loads(line)["seed"] for line in options.out.read_text().splitlines()}
    for seed in range(options.first, options.first + options.schedules):
        if seed in done:
            continue
        row = one(seed, wanted, data)
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
