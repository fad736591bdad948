"""Cost of a round of every federated baseline, as a multiple of the bare masked products.

    python bench/benchmarks/baseline_cost.py [NAME ...]

Bare: ``E = W*(Y - P@Q.T); E@Q; E.T@P`` at the same size and rank. A round: the difference of two
fits with different numbers of rounds, divided by the rounds that they ran more, so that what
happens once (scaling, compiling) does not count; the check every ten rounds does.
"""

from __future__ import annotations

import argparse
import inspect
import time

import numpy as np
from threadpoolctl import threadpool_limits

from flfl.methods import create, methods

SENSORS, SLOTS, RATE = 36, 8647, 0.5
RANK = 10
SHORT, LONG = 10, 30
RANKS = {"rfrec": 20}
"""Where the bar was measured at another rank."""
ASIDE = ("flfl", "flfl-paper")
"""Ours: they have benchmarks of their own, and the first has no rounds of gradients."""


def readings() -> np.ndarray:
    """(N, M) that follow ten slow factors, half of them missing."""
    rng = np.random.default_rng(0)
    factors = np.cumsum(rng.standard_normal((SLOTS, 10)), axis=0) / 10
    table = factors @ rng.standard_normal((10, SENSORS)) + rng.standard_normal((SLOTS, SENSORS))
    table[rng.random(table.shape) > RATE] = np.nan
    return table


def bare_seconds(table: np.ndarray, rank: int, repeats: int = 20) -> float:
    """Processor seconds of the products alone."""
    rng = np.random.default_rng(0)
    W = (~np.isnan(table.T)).astype(float)
    Y = np.nan_to_num(table.T)
    P, Q = rng.standard_normal((SENSORS, rank)), rng.standard_normal((SLOTS, rank))
    with threadpool_limits(limits=1):
        start = time.process_time()
        for _ in range(repeats):
            E = W * (Y - P @ Q.T)
            E @ Q
            E.T @ P
        return (time.process_time() - start) / repeats


def fit_seconds(name: str, table: np.ndarray, rounds: int, rank: int) -> tuple[float, int, int]:
    """Processor seconds, rounds run and bytes of one fit."""
    options = {"rounds": rounds}
    if "rank" in inspect.signature(methods()[name].build).parameters:
        options["rank"] = rank
    model = create(name, **options)
    start = time.process_time()
    traffic = model.fit(table).traffic_
    return time.process_time() - start, traffic.rounds, traffic.bytes_up + traffic.bytes_down


def main() -> None:
    federated = [
        name
        for name, method in methods().items()
        if method.federated and method.available and name not in ASIDE
    ]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(federated))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    table = readings()
    print("| method | rank | bare ms | round ms | ratio | MB a round |")
    print("|---|---|---|---|---|---|")
    for name in arguments.names or federated:
        rank = RANKS.get(name, RANK)
        bares, rounds_ = [], []
        for _ in range(arguments.repeats):
            bares.append(bare_seconds(table, rank))
            short, few, sent = fit_seconds(name, table, SHORT, rank)
            long, many, sent_long = fit_seconds(name, table, LONG, rank)
            rounds_.append((long - short) / (many - few))
        bare, each = float(np.median(bares)), float(np.median(rounds_))
        megabytes = (sent_long - sent) / (many - few) / 1e6
        print(
            f"| {name} | {rank} | {1e3 * bare:.1f} | {1e3 * each:.1f} | {each / bare:.1f}"
            f" | {megabytes:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
