"""What a privacy budget costs: error of the one noisy release, beside the default.

For each data set the hidden readings of one mask are recovered by the default, by one release with
epsilon 10, 3 and 1 and with (nearly) no noise, and by each site alone, nothing shared. Sites are
the regions, or, with ``--lone``, every sensor is a site of its own.

    python benchmarks/budget.py                    # random and block gaps, half of the readings
    python benchmarks/budget.py --lone --data D3_beijing_pm25
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flfl.benchmark.evaluate import training_mask
from flfl.data.datasets import load_dataset
from flfl.estimators import FLFL

# Limits that an operator would declare from the instrument's range, not from these readings.
BOUNDS: dict[str, dict[str, Any]] = {
    "D1_beijing_co": {"bounds": (0, 10), "transformation": "sqrt"},
    "D2_sst_70x1733": {"bounds": (-2, 35), "transformation": "none"},
    "D3_beijing_pm25": {"bounds": (0, 500), "transformation": "sqrt"},
    "D4_chongqing_so2": {"bounds": (0, 100), "transformation": "sqrt"},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "epsilon inf": {"epsilon": 1e9},
    "epsilon 10": {"epsilon": 10.0},
    "epsilon 3": {"epsilon": 3.0},
    "epsilon 1": {"epsilon": 1.0},
    "each site alone": {"max_exposure": 1e-3},
}


def mae(name: str, pattern: str, rate: float, seed: int, config: str, lone: bool) -> float:
    table, sensors = load_dataset(name)
    kept = training_mask(table, sensors, rate, pattern, seed, 12 if "sst" in name else 24)
    options = dict(CONFIGS[config])
    if "epsilon" in options:
        options |= BOUNDS[name]
    model = FLFL(effort="quick", random_state=seed, **options)
    sites = list(sensors.ids) if lone else None
    model.fit(table.values.where(kept.T), sensors=sensors, sites=sites)
    hidden = table.known & ~kept.T
    return float(np.abs(model.estimates_ - table.values.to_numpy())[hidden].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(BOUNDS))
    parser.add_argument("--pattern", default="random,block")
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lone", action="store_true", help="every sensor a site of its own")
    options = parser.parse_args()
    print("| data | pattern | " + " | ".join(CONFIGS) + " |\n|" + "---|" * (2 + len(CONFIGS)))
    with threadpool_limits(limits=1):
        for name in options.data.split(","):
            for pattern in options.pattern.split(","):
                cells = [
                    f"{mae(name, pattern, options.rate, options.seed, config, options.lone):.4g}"
                    for config in CONFIGS
                ]
                row = f"| {name.split('_')[0]} | {pattern} | {' | '.join(cells)} |"
                print(row, flush=True)


if __name__ == "__main__":
    main()
