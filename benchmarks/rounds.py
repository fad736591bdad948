"""What each round buys: error on hidden readings after 1, 2, 3, 5, 8, 12 and 20 rounds.

``rounds`` is a firm limit; a run that ends by itself before it shows the same figures to the end
of its line. In brackets the held-out error (mean absolute, model units) that steers the run.

    python benchmarks/rounds.py
    python benchmarks/rounds.py --data D3_beijing_pm25 --pattern outage --rate 0.9
"""

from __future__ import annotations

import argparse

import numpy as np
from results import DATA

from flfl.benchmark.evaluate import training_mask
from flfl.data.datasets import load_dataset
from flfl.estimators import FLFL

ROUNDS = (1, 2, 3, 5, 8, 12, 20)


def line(name: str, pattern: str, rate: float, seed: int, effort: str) -> str:
    """One row of Markdown: MAE (held-out error) after each number of rounds."""
    table, sensors = load_dataset(name)
    kept = training_mask(table, sensors, rate, pattern, seed, 12 if "sst" in name else 24)
    seen, hidden = table.values.where(kept.T), table.known & ~kept.T
    cells: list[str] = []
    ended = False
    for limit in ROUNDS:
        if not ended:
            model = FLFL(random_state=seed, rounds=limit, effort=effort)
            model.fit(seen, sensors=sensors)
            ended = model.n_rounds_ < limit
            mae = np.abs(model.estimates_ - table.values.to_numpy())[hidden].mean()
        note = f", ends at {model.n_rounds_}" if ended else ""
        cells.append(f"{mae:.4g} ({model.history_[-1]:.4f}{note})")
    return f"| {name.split('_')[0]} | {pattern} | {rate} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--pattern", default="random")
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", default="quick", choices=("full", "quick"))
    options = parser.parse_args()
    print("| data | pattern | rate | " + " | ".join(map(str, ROUNDS)) + " |")
    print("|" + "---|" * (3 + len(ROUNDS)))
    for name in options.data.split(","):
        arguments = (options.pattern, options.rate, options.seed, options.effort)
        print(line(name, *arguments), flush=True)


if __name__ == "__main__":
    main()
