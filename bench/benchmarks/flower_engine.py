"""What a round costs in one process, over a broker and under Flower, in one run of this script.

python bench/benchmarks/flower_engine.py

Both demos run real parties with TLS and secure sums on this machine: Mosquitto, a coordinator and
three sites; then a SuperLink and three SuperNodes. Nobody is killed. Takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flfl.codec import unpack

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
sys.path.insert(0, str(DEPLOY))
from one_process import in_one_process  # noqa: E402

SITES = ["north", "south", "east"]


def deployed(script: str, folder: Path) -> tuple[float, int]:
    """Seconds of a run, and its rounds."""
    commands = Path(sys.executable).parent
    env = {
        **os.environ,
        "DEMO_SITES": " ".join(SITES),
        "DEMO_KILL": "no",
        "PYTHON": sys.executable,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
    }
    subprocess.run([str(DEPLOY / script), str(folder)], env=env, check=True)
    (run,) = (folder / "coordinator-state" / "runs").iterdir()
    seconds = (run / "ended").stat().st_mtime - (run / "agreement").stat().st_mtime
    return seconds, unpack((run / "ended").read_bytes())["rounds"]


def one_process(folder: Path) -> tuple[float, int, float]:
    """The same run in this process: seconds, rounds, and messages to each site."""
    start = time.perf_counter()
    paths = [folder / f"{site}.toml" for site in SITES]
    _, traffic = in_one_process(folder / "coordinator.toml", paths, folder / "one-process")
    seconds = time.perf_counter() - start
    return seconds, traffic.rounds, sum(traffic.messages_down.values()) / len(SITES)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    folder = Path(tempfile.mkdtemp())
    rows = {
        "MQTT": deployed("demo.sh", folder / "mqtt"),
        "Flower": deployed("flower-demo.sh", folder / "flower"),
    }
    *alone, messages = one_process(folder / "mqtt")
    print("| engine | whole run, s | rounds | s a round | s a message to a site |")
    print("|---|---|---|---|---|")
    for name, (seconds, rounds) in {"in-process": alone, **rows}.items():
        each = seconds / messages
        print(f"| {name} | {seconds:.1f} | {rounds} | {seconds / rounds:.2f} | {each:.3f} |")
    print(f"{messages:.0f} messages to each of {len(SITES)} sites")


if __name__ == "__main__":
    main()
