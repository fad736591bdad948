"""Thirty nights of a real network: processes, a broker with TLS, kills, joiners, leavers.

    python bench/benchmarks/nights.py [--nights 30] [--seed 0] [--out nights.jsonl]
    python bench/benchmarks/nights.py --table nights.jsonl

Five owners of california_pm25 (daily means; FLFL_DATA) on a clock that jumps from night to night.
A fifth of all readings is hidden before any owner sees it. Every night a day is new, some readings
of the last days are corrected, and two parties, or the broker, are killed with -9 at random moments
and started again. One owner is away for three nights, one joins on night 10, one leaves on night
20. Late copies are released (``late = "release"``), so that others use the joiner's past. Every
morning each owner must have its table, page and scores of that night, and its table is compared
with that of a fit from scratch on the same readings: errors on the hidden readings of the last
seven and of the last 28 days.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np
import pandas as pd

from deployed import Deployment, in_one_process
from flfl.codec import unpack
from flfl.datasets.catalogue import load_dataset
from flfl.model.basis import find_regions
from flfl.service import keys
from flfl.service.files import load

DAY, AT = 86400, 3.5 * 3600 + 60
FIRST, AWAY, JOINS, LEAVES = 189, (14, 15, 16), 10, 20
DAYS_JUDGED = (7, 28)
RUN = 'schedule = "daily 03:30"\ngrace = 3.0\n'
KINDS = ("rolling", "scratch")
LATE = 'late = "release"\n'


class Nights:
    """A deployment whose days pass when they are told to."""

    def __init__(self, folder: Path, seed: int, late: bool = True) -> None:
        self.rng, self.folder = random.Random(seed), folder
        self.draw = np.random.default_rng(seed)
        table, places = load_dataset("california_pm25")
        index = pd.date_range("2015-01-01", periods=len(table.values), freq="D", name="time")
        self.truth = table.values.set_index(index)
        region = find_regions(places.coordinates, places.kind, 5, np.random.default_rng(0))
        owners = [f"site{n}" for n in region]
        self.hidden = self.truth.notna() & (self.draw.random(self.truth.shape) < 0.2)
        self.wrong: dict[tuple[int, int], int] = {}
        deadlines = {"gather_within": 12, "answer_within": 30, "misses": 5, "finish_within": 300}
        self.net = Deployment(
            folder, (self.truth, places, owners), run=RUN + LATE * late, deadlines=deadlines,
            grid='start = "2015-01-01"\nstep = "1d"',
        )  # fmt: skip
        self.owners = np.array(owners)
        self.net.clock = str(folder / "clock")
        for name in self.net.names:
            self.net.write_site(name, terms=LATE * late)
            own = folder / f"{name}.toml"
            pages = f'page = "{name}.html"\nscores = "{name}.json"\n[terms]'
            own.write_text(own.read_text().replace("[terms]", pages))
        self.members = [name for name in self.net.names if name != "site4"]
        keys.write_roster(self.net.keys, self.members)
        self.here: set[str] = set()

    def known_by(self, day: int) -> pd.DataFrame:
        """What the owners have on a day: without what is hidden, some of it not yet corrected."""
        frame = self.truth.mask(self.hidden).iloc[: day + 1].copy()
        # Two of a hundred new readings are wrong by half, and corrected three days later.
        for row in range(max(day - 2, 0), day + 1):
            marks = np.random.default_rng([1, row]).random(frame.shape[1]) < 0.02
            frame.iloc[row] = np.where(marks, 1.5 * frame.iloc[row], frame.iloc[row])
        return frame

    def let_pass(self, night: int) -> int:
        """A day's readings, and the time of the night's run; the day that is released last."""
        day = FIRST + night
        frame = self.known_by(day)
        for name in self.net.names:
            mine = frame.loc[:, self.owners == name]
            part = self.folder / f".{name}.csv"
            mine.to_csv(part)
            part.replace(self.folder / f"{name}.csv")
        self.now = self.truth.index[0].timestamp() + DAY * (day + 1) + AT
        part = self.folder / ".clock"
        part.write_text(str(self.now))
        part.replace(self.folder / "clock")
        return day

    def strike(self) -> list[str]:
        """Kill two of them at random moments."""
        struck = []
        for _ in range(2):
            party = self.rng.choice(["coordinator", "broker", *sorted(self.here)])
            timer = threading.Timer(self.rng.uniform(0, 6), self._kill, (party,))
            timer.daemon = True
            timer.start()
            struck.append(party)
        return struck

    def _kill(self, party: str) -> None:
        if party == "broker":
            self.net.broker.kill()
            time.sleep(self.rng.uniform(0.1, 2))
            self.net.broker.start()
        elif party in self.net.processes and (party == "coordinator" or party in self.here):
            self.net.processes[party].kill()

    def keep_up(self) -> None:
        """Start again whoever was killed, as systemd would; others must not have ended."""
        for name in ("coordinator", *sorted(self.here)):
            process = self.net.processes.get(name)
            if process is None or process.exitcode is not None:
                if process is not None and process.exitcode >= 0:
                    raise AssertionError(f"{name} ended with {process.exitcode}")
                self.net.start(name)

    def published(self) -> tuple[str, int]:
        """Name of the last run and its slots."""
        path = self.folder / "coordinator-state" / "network"
        if not path.exists():
            return "", 0
        agreed = unpack(load(path)[0])
        grid, number = agreed["grid"], agreed["number"]
        return f"test-{number}-", int(grid["slots"])

    def wait(self, day: int, seconds: float = 240) -> bool:
        """Until the day is released, and all who are here have their tables."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.keep_up()
            run, slots = self.published()
            done = [
                bool(list((self.folder / f"{name}-state" / "runs").glob(f"{run}*/written")))
                for name in sorted(self.here)
            ]
            if slots == day + 1 and all(done):
                return True
            time.sleep(0.2)
        return False

    def pages(self, since: float) -> bool:
        """Whether all who are here have a page and scores that were written after a time."""
        ends = [f"{name}.{kind}" for name in self.here for kind in ("html", "json")]
        paths = [self.folder / end for end in ends]
        return all(path.exists() and path.stat().st_mtime >= since for path in paths)

    def errors(self, folder: Path, day: int) -> dict[int, list[float]]:
        """Sum of the absolute errors on hidden readings of the last days, and how many there are,
        over the owners who are here."""
        tables = {
            name: pd.read_csv(folder / f"{name}-filled.csv", index_col=0, parse_dates=True)
            for name in sorted(self.here)
        }
        found = {}
        for judged in DAYS_JUDGED:
            days, parts = slice(day + 1 - judged, day + 1), []
            for table in tables.values():
                truth = self.truth.iloc[days][table.columns].to_numpy()
                at = self.hidden.iloc[days][table.columns].to_numpy()
                got = table.iloc[days].to_numpy()
                parts.append(np.abs(got - truth)[at & np.isfinite(got)])
            off = np.concatenate(parts)
            found[judged] = [float(off.sum()), len(off)]
        return found

    def night(self, night: int) -> dict:
        """One night and its morning."""
        if night == JOINS:
            self.members = [*self.members, "site4"]
            keys.write_roster(self.net.keys, self.members)
        if night == LEAVES:
            self.members = [name for name in self.members if name != "site3"]
            keys.write_roster(self.net.keys, self.members)
        self.here = {n for n in self.members if n != "site2" or night not in AWAY}
        for name, process in self.net.processes.items():
            if name != "coordinator" and name not in self.here and process.exitcode is None:
                process.kill()
                process.join()
        began, wall = time.monotonic(), time.time()
        self.keep_up()
        day = self.let_pass(night)
        struck = self.strike() if night else []
        finished = self.wait(day)
        row = {"night": night, "here": sorted(self.here), "killed": struck, "finished": finished}
        row["seconds"] = round(time.monotonic() - began, 1)
        row["pages"] = self.pages(wall)
        row["rolling"] = self.errors(self.folder, day)
        paths = [self.folder / f"{name}.toml" for name in sorted(self.members)]
        in_one_process(self.folder / "coordinator.toml", paths, self.folder / "scratch", self.now)
        row["scratch"] = self.errors(self.folder / "scratch", day)
        return row


def table(path: Path) -> None:
    """The rows as the page shows them."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    print(
        "| night | owners here | killed | tables, pages and scores there | s | error, 7 days | from"
        " scratch | ratio | error, 28 days | from scratch | ratio |"
    )
    print("|" + "---|" * 11)
    for row in rows:
        there = "yes" if row["finished"] and row["pages"] else "NO"
        cells = [row["night"], len(row["here"]), ", ".join(row["killed"]) or "-", there]
        cells.append(f"{row['seconds']:.0f}")
        for days in map(str, DAYS_JUDGED):
            mine, other = (total / count for total, count in (row[k][days] for k in KINDS))
            cells += [f"{mine:.3f}", f"{other:.3f}", f"{mine / other:.3f}"]
        print("| " + " | ".join(map(str, cells)) + " |")
    for days in map(str, DAYS_JUDGED):
        pairs = np.array([[row[kind][days][0] for kind in KINDS] for row in rows])
        count = sum(row["rolling"][days][1] for row in rows)
        ratios = pairs[:, 0] / pairs[:, 1]
        whole = pairs[:, 0].sum() / pairs[:, 1].sum()
        print(f"\n{days} days: mean ratio {ratios.mean():.4f}, of the sums {whole:.4f}, {count}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", action="store_true", help="late readings stay at home")
    parser.add_argument("--out", type=Path, default=Path("nights.jsonl"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        table(options.table)
        return
    nights = Nights(Path(tempfile.mkdtemp(prefix="flfl-nights-")), options.seed, not options.home)
    try:
        for night in range(options.nights + 1):
            row = nights.night(night)
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    finally:
        nights.net.close()


if __name__ == "__main__":
    main()
