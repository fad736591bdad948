"""Where the time goes, and how it compares with a central full-rank Kalman-EM of 12 iterations.

Both run in this process, turn by turn; ratios of medians are printed. Processor seconds.

    python benchmarks/speed.py           # whole runs
    python benchmarks/speed.py --core    # the shared fit (8 rounds), one sensor's personal finish
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import pandas as pd

from flfl import FLFL
from flfl.datasets.catalogue import load_dataset
from flfl.datasets.synthetic import synthesize
from flfl.ensemble import personal
from flfl.evaluation import training_mask
from flfl.io.sensors import Sensors
from flfl.methods import create
from flfl.model import loadings
from flfl.model.state_space import learn, smooth
from flfl.protocol.messages import kind_of

CELLS = (("D3_beijing_pm25", 0.5), ("D2_sst_70x1733", 0.5))


def phases(seen: pd.DataFrame, sensors: Sensors, effort: str) -> dict[str, float]:
    """Seconds of the shared fit, of the owners' finish at home, and of everything."""
    model = FLFL(effort=effort)
    marks: dict[str, float] = {}

    def tap(direction: str, _site: str, data: bytes) -> None:
        if direction == "down":
            marks.setdefault(kind_of(data), time.process_time())

    model.tap = tap
    start = time.process_time()
    model.fit(seen, sensors=sensors)
    end = time.process_time()
    shared = marks["finish"] - start
    return {"shared": shared, "home": end - marks["finish"], "all": end - start}


def core(repeats: int, rounds: int = 8) -> None:
    """The shared fit at 36 x 8,760 with 20 factors, and the personal finish of one sensor."""
    rng = np.random.default_rng(0)
    M, N = 36, 8760
    table, sensors = synthesize(M, N, rank=8, rng=rng, missing=0.5)
    model = FLFL(effort="quick", pilot=False).fit(
        table.values, sensors=sensors, sites=[str(i) for i in range(M)]
    )
    network = model.network_
    kept = list(model.remembered_.sites.values())
    C = np.nan_to_num(np.concatenate([site.copies for site in kept]))
    J = network.known.astype(float)
    C = J * (C - (J * C).sum(1, keepdims=True) / J.sum(1, keepdims=True)) / network.scale
    seconds: dict[str, list[float]] = {"kalman-em": [], "shared fit": [], "personal finish": []}
    for _ in range(repeats):
        start = time.process_time()
        create("kalman-em", transformation="none", season=0).fit(table.values, sensors=sensors)
        seconds["kalman-em"].append(time.process_time() - start)
        start = time.process_time()
        state = network
        for _round in range(rounds):
            told = loadings.information(state.design(), state.z, state.numbers)
            post = smooth(*told, state.dynamics)
            P, r = loadings.fit_loadings(C, J, state.sigma2, post, state.r)
            state = replace(state, P=P, r=r, dynamics=learn(post.moments, N))
        seconds["shared fit"].append(time.process_time() - start)
        one = np.array([0])
        start = time.process_time()
        made = network.design() - network.design(one)
        told = loadings.information(made, network.z, network.numbers)
        shared = personal.Shared(*told, network.dynamics, network.P[one], network.r[one])
        for own_states in (True, False):
            first = personal.first_fit(shared, own_states)
            _, fitted = personal.finish(C[one], network.known[one], shared, first)
            personal.finish(C[one], network.known[one], shared, fitted, steps=1)
        seconds["personal finish"].append(time.process_time() - start)
    em = float(np.median(seconds["kalman-em"]))
    for name, values in seconds.items():
        print(f"{name}: {np.median(values):.2f} s, {np.median(values) / em:.3f} of kalman-em")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--core", action="store_true")
    given = parser.parse_args()
    repeats = given.repeats
    if given.core:
        core(repeats)
        return
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
            start = time.process_time()
            create("kalman-em").fit(seen, sensors=sensors)
            central.append(time.process_time() - start)
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
