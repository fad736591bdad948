"""The network beside each owner alone on real data, cell by cell and sensor by sensor.

    python bench/benchmarks/never_worse.py [--effort quick] [--seed 1] [NAME ...]

For every data set at hand, pattern and rate: the error on hidden readings in the network over that
of the same owners alone, and the share of sensors whose error is more than 1.02 times as large,
beyond chance (one-sided, 5 %: a run of hidden readings counts as one draw).
"""

import argparse

import numpy as np

from flfl import FLFL
from flfl.datasets.catalogue import list_datasets, load_dataset
from flfl.ensemble.holdout import runs
from flfl.evaluation import training_mask


def losers(network, alone, hidden):
    """Share of sensors (columns) that lose more than 2 % of their error alone, beyond chance."""
    lost, tested = 0, 0
    for a, b, at in zip(network.T, alone.T, hidden.T, strict=True):
        _, starts, ends = runs(at[None])
        if len(starts) < 5:
            continue
        sums = np.add.reduceat((a - 1.02 * b)[at], np.cumsum(ends - starts) - (ends - starts))
        error = np.sqrt(((sums - sums.mean()) ** 2).sum())
        tested += 1
        lost += sums.sum() > 1.645 * error
    return lost / max(tested, 1)


def main():
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", metavar="NAME")
    options.add_argument("--effort", default="quick", choices=["quick", "full"])
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print("data                pattern rate   alone  network  ratio  sensors that lose", flush=True)
    for name in given.names or [data.name for data in list_datasets()]:
        table, sensors = load_dataset(name)
        truth = table.values.to_numpy()
        for pattern in ("random", "block", "outage"):
            for rate in (0.5, 0.9):
                kept = training_mask(table, sensors, rate, pattern, given.seed).T
                hidden = table.known & ~kept
                model = FLFL(effort=given.effort).fit(
                    table.values.where(kept), sensors=sensors, grid=table.grid
                )
                network, alone = (
                    np.abs(found - truth) for found in (model.estimates_, model.site_estimates_)
                )
                a, b = alone[hidden].mean(), network[hidden].mean()
                print(
                    f"{name:19s} {pattern:7s} {rate:4.1f} {a:7.4g} {b:8.4g} {b / a:6.3f}"
                    f" {100 * losers(network, alone, hidden):7.1f} %",
                    flush=True,
                )


if __name__ == "__main__":
    main()
