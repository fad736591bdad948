"""Time and memory of the paper's method as the network grows.

Each size runs in a process of its own: seconds of a synchronous round and peak memory of
``fit`` over what the process held before, against the size of the dense float64 matrix.

    python bench/benchmarks/scaling.py            # up to 2,000 sensors x 20,000 slots
    python bench/benchmarks/scaling.py --small    # a minute
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

ROUNDS = 10
WEIGHTS = {"ridge": 1e-3, "spatial_weight": 0.1, "temporal_weight": 0.03}
"""Given with the rank, so that nothing is chosen."""


def one(M: int, N: int) -> dict[str, float]:
    import numpy as np

    from flfl import PaperFLFL
    from flfl.evaluation import peak_memory
    from flfl.io.sensors import Sensors

    rng = np.random.default_rng(0)
    X = np.sin(np.arange(N) / 20)[:, None] + 0.3 * rng.standard_normal((N, M))
    # Row by row: a mask of random floats for the whole table would be the peak.
    for row in X:
        row[rng.random(M) < 0.3] = np.nan
    sensors = Sensors(tuple(map(str, range(M))), rng.random((M, 2)), "metric")
    times = []
    with peak_memory() as memory:
        for rounds in (1, 1 + ROUNDS):
            model = PaperFLFL(rank=10, rounds=rounds, **WEIGHTS)
            start = time.perf_counter()
            model.fit(X, sensors=sensors)
            times.append(time.perf_counter() - start)
            del model
    return {
        "round": (times[1] - times[0]) / ROUNDS,
        "fit": times[1],
        "peak": memory.peak_mb or float("nan"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--one", nargs=2, type=int, metavar=("M", "N"))
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(*arguments.one)))
        return
    sizes = [(125, 5000), (250, 5000), (500, 5000), (250, 2500), (250, 10000)]
    if not arguments.small:
        sizes += [(1000, 5000), (2000, 5000), (250, 20000), (2000, 20000)]
    print(
        "| sensors | slots | matrix MB | s a round | us a cell a round | peak MB | peak / matrix |"
    )
    print("|---|---|---|---|---|---|---|")
    for M, N in sizes:
        command = [sys.executable, __file__, "--one", str(M), str(N)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        dense = 8 * M * N / 2**20
        print(
            f"| {M} | {N} | {dense:.0f} | {row['round']:.3f} | {1e6 * row['round'] / (M * N):.3f}"
            f" | {row['peak']:.0f} | {row['peak'] / dense:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
