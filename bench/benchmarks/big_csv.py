"""A big CSV in and out: 1,000 sensors x 8,760 slots, against pandas' own reading and writing.

    python bench/benchmarks/big_csv.py [--sensors 1000] [--slots 8760] [--keep FOLDER]

Each task runs in a process of its own, one after another: seconds by the clock, and the peak memory
beyond what the process held after its imports. In one more process both read the file in turns; the
medians of these times are compared. The aims: reading at most 1.5 times, and all at most 3 times
pandas' time; memory at most 4 times the dense matrix of doubles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from flfl.evaluation import peak_memory
from flfl.io.inspection import inspect_table
from flfl.io.read import read_readings
from flfl.io.sensors import Sensors
from flfl.io.write import write_result

MB = 1e6
READ_RATIO, RATIO, MATRICES, TURNS = 1.5, 3, 4, 5


def make(path: Path, sensors: int, slots: int) -> None:
    """Hourly readings with three decimals, a tenth of them missing."""
    rng = np.random.default_rng(0)
    values = np.round(30 + 10 * rng.standard_normal((slots, sensors)), 3)
    values[rng.random(values.shape) < 0.1] = np.nan
    index = pd.date_range("2024-01-01", periods=slots, freq="h", name="time")
    pd.DataFrame(values, index, [f"s{i:04d}" for i in range(sensors)]).to_csv(path)


def with_pandas(source: Path, out: Path) -> dict[str, float]:
    """What pandas alone does: parse, and write again."""
    start = time.perf_counter()
    frame = _pandas(source)
    read = time.perf_counter()
    frame.to_csv(out)
    return {"read": read - start, "write": time.perf_counter() - read}


def with_flfl(source: Path, out: Path) -> dict[str, float]:
    """Read, say what was understood, fill every gap with one number, write."""
    start = time.perf_counter()
    table = read_readings(source)
    read = time.perf_counter()
    inspect_table(table, Sensors.of_table(table)).sentences()
    understood = time.perf_counter()
    filled = table.values.to_numpy().copy()
    filled[np.isnan(filled)] = 30.125
    write_result(out, None, table, filled)
    end = time.perf_counter()
    return {"read": read - start, "understand": understood - read, "write": end - understood}


def only_read(source: Path, out: Path) -> dict[str, float]:
    """The table in memory, and nothing else."""
    start = time.perf_counter()
    read_readings(source)
    return {"read": time.perf_counter() - start}


def in_turns(source: Path, out: Path) -> dict[str, float]:
    """Both read the file, one after the other, several times: the median of each."""
    times = [(_seconds(_pandas, source), _seconds(read_readings, source)) for _ in range(TURNS)]
    theirs, ours = np.median(times, axis=0).tolist()
    return {"pandas": theirs, "flfl": ours}


def _pandas(source: Path) -> pd.DataFrame:
    return pd.read_csv(source, index_col=0, parse_dates=True)


def _seconds(read: Callable[[Path], object], source: Path) -> float:
    start = time.perf_counter()
    read(source)
    return time.perf_counter() - start


TASKS = {"pandas": with_pandas, "flfl": with_flfl, "only read": only_read, "in turns": in_turns}


def measure(task: str, source: Path, out: Path) -> dict[str, float]:
    """Run one task in a process of its own."""
    command = [sys.executable, __file__, "--task", task, str(source), str(out)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run_task(task: str, source: Path, out: Path) -> None:
    """The child: its steps in seconds, and its memory beyond the imports."""
    with peak_memory() as memory:
        steps = TASKS[task](source, out)
    print(json.dumps(steps | {"memory": (memory.peak_mb or float("nan")) * 2**20}))


def compare(folder: Path, sensors: int, slots: int) -> None:
    """Print both tasks and the two ratios."""
    source = folder / "big.csv"
    if not source.exists():
        make(source, sensors, slots)
    matrix = 8 * sensors * slots
    print(f"{source.stat().st_size / MB:.0f} MB of CSV, matrix {matrix / MB:.0f} MB")
    seconds, peak, turns = {}, {}, dict[str, float]()
    for task in TASKS:
        found = measure(task, source, folder / f"{task}.csv")
        memory = peak[task] = found.pop("memory")
        seconds[task], turns = sum(found.values()), found
        steps = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
        print(f"{task}: {seconds[task]:.2f} s ({steps}), {memory / MB:.0f} MB")
    reading, ratio = turns["flfl"] / turns["pandas"], seconds["flfl"] / seconds["pandas"]
    print(f"reading: {reading:.2f} x pandas (aim: at most {READ_RATIO}; medians of {TURNS})")
    print(f"time: {ratio:.2f} x pandas (aim: at most {RATIO})")
    for task, what in (("only read", "reading"), ("flfl", "reading and writing")):
        print(f"memory, {what}: {peak[task] / matrix:.2f} x the matrix (aim: at most {MATRICES})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sensors", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=8760)
    parser.add_argument("--keep", type=Path, help="Folder in which the files stay.")
    parser.add_argument("--task", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        run_task(given.task[0], Path(given.task[1]), Path(given.task[2]))
    elif given.keep:
        compare(given.keep, given.sensors, given.slots)
    else:
        with tempfile.TemporaryDirectory() as name:
            compare(Path(name), given.sensors, given.slots)


if __name__ == "__main__":
    main()
