"""Where the time goes, and how it compares with a central full-rank Kalman-EM of 12 iterations.

Both run in this process, turn by turn; ratios of medians are printed.

    python benchmarks/speed.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from flfl.baselines import create
from flfl.benchmark.evaluate import training_mask
from flfl.data.datasets import load_dataset
from flfl.data.sensors import Sensors
from flfl.estimators import FLFL
from flfl.federation.messages import kind_of

CELLS = (("D3_beijing_pm25", 0.5), ("D2_sst_70x1733", 0.5))


def phases(seen: pd.DataFrame, sensors: Sensors, effort: str) -> dict[str, float]:
    """Seconds of the shared fit, of the owners' finish at home, and of everything."""
    model = FLFL(effort=effort)
    marks: dict[str, float] = {}

    def tap(direction: str, _site: str, data: bytes) -> None:
        if direction == "down":
            marks.setdefault(kind_of(data), time.perf_counter())

    model.tap = tap
    start = time.perf_counter()
    model.fit(seen, sensors=sensors)
    end = time.perf_counter()
    shared = marks["finish"] - start
    return {"shared": shared, "home": end - marks["finish"], "all": end - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(
        "| data | kalman-em s | shared fit s | at home s | full s | quick s"
        " | shared / em | full / em |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, rate in CELLS:
        table, sensors = load_dataset(name)
        seen = table.values.where(training_mask(table, sensors, rate, "random", 0).T)
        central, full, quick = [], [], []
        for _ in range(repeats):
            start = time.perf_counter()
            create("kalman-em").fit(seen, sensors=sensors)
            central.append(time.perf_counter() - start)
            full.append(phases(seen, sensors, "full"))
            quick.append(phases(seen, sensors, "quick")["all"])
        em = float(np.median(central))
        part = {key: float(np.median([run[key] for run in full])) for key in full[0]}
        print(
            f"| {name.split('_')[0]} {rate} | {em:.1f} | {part['shared']:.1f} | {part['home']:.1f}"
            f" | {part['all']:.1f} | {np.median(quick):.1f} | {part['shared'] / em:.2f}"
            f" | {part['all'] / em:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
