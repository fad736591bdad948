"""Random tables of every kind: is a filled value ever absurd, is the network ever worse than alone?

    python bench/benchmarks/random_tables.py [--tables 10000] [--first 0] [--workers 2]

Shapes from 1 x 10 to 60 x 400; shared and own parts of every size and memory; skewed, heavy-tailed,
negative, constant and nearly constant readings; ties, whole numbers and spikes; units from 1e-6 to
1e6; gaps that are scattered, in blocks, outages of several sensors, or sensors that begin late;
one owner, a few, or one for each sensor; with a map or without.

Errors on hidden readings are in units of each sensor's spread, and count for 20 at the most: else
one constant sensor or spike would be the whole sum. The measure is the better of linear
interpolation and the owners alone, table by table in hindsight.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd

from flfl import FLFL
from flfl.estimators.interpolation import interpolate

WORST = 20.0


@dataclass(frozen=True)
class Drawn:
    """A table: readings (M, N), where they are known and hidden, owners, places or None."""

    readings: np.ndarray
    known: np.ndarray
    hidden: np.ndarray
    sites: list[str]
    places: np.ndarray | None
    about: str


@dataclass(frozen=True)
class Judged:
    """One table: its hidden readings, errors (linear, alone, network), values out of range."""

    seed: int
    about: str
    count: int
    linear: float
    alone: float
    network: float
    absurd: int

    @property
    def ratio(self) -> float:
        """Error over the better of interpolation and the owners alone."""
        return (self.network + 1e-9) / (min(self.linear, self.alone) + 1e-9)


def runs_of_slots(rng, M, N, share, lengths, together=False):
    """Runs that cover about a share of a table, each of one sensor or of several at once."""
    out = np.zeros((M, N), bool)
    for _ in range(10_000):
        if out.mean() >= share:
            break
        length = int(rng.choice(lengths))
        start = int(rng.integers(1 - length, N))
        several = together and rng.random() < 0.3
        rows = rng.random(M) < rng.uniform(0.2, 1) if several else rng.integers(M)
        out[rows, max(start, 0) : start + length] = True
    return out


def gaps(rng, M, N):
    """Where a table has no readings."""
    kinds = ["none", "scattered", "block", "outage", "late"]
    kind, share = rng.choice(kinds, p=[0.15, 0.35, 0.25, 0.15, 0.1]), rng.uniform(0.02, 0.4)
    if kind == "scattered":
        return rng.random((M, N)) < share
    if kind == "block":
        return runs_of_slots(rng, M, N, share, [2, 5, max(N // 20, 3)])
    if kind == "outage":
        return runs_of_slots(rng, M, N, share, [max(N // 25, 2), max(N // 10, 3)], True)
    start = rng.integers(0, max(N // 2, 1), M) * (rng.random(M) < 0.5) * (kind == "late")
    return np.arange(N) < start[:, None]


def memories(rng, n, N, memory):
    """Autoregressive series of unit variance (n, N)."""
    x, step = rng.standard_normal((n, N)), np.sqrt(1 - np.asarray(memory) ** 2)
    for t in range(1, N):
        x[:, t] = memory * x[:, t - 1] + step * x[:, t]
    return x


def signal(rng, M, N, places):
    """Readings before anything odd happens to them, and their shared part."""
    k = int(rng.integers(1, 4))
    centres, width = rng.random((k, 2)) * 100, rng.uniform(30, 150)
    near = np.exp(-((places[:, None] - centres) ** 2).sum(-1) / (2 * width**2))
    load = near * rng.choice([-1, 1], k) + 0.2 * rng.standard_normal((M, k))
    load /= np.sqrt((load**2).sum(1, keepdims=True)) + 1e-9
    common = memories(rng, k, N, rng.choice([0.3, 0.7, 0.9, 0.98, 0.995], k))
    if rng.random() < 0.4:
        period = rng.choice([7, 12, 24, 50])
        common[0] += rng.uniform(0.5, 3) * np.sin(2 * np.pi * np.arange(N) / period)
    own = memories(rng, M, N, rng.choice([0, 0.3, 0.7, 0.9, 0.98]))
    share = rng.choice([0, 0.2, 0.5, 0.8, 0.95, 0.99])
    X = np.sqrt(share) * load @ common + np.sqrt(1 - share) * own
    X *= np.exp(rng.normal(0, 0.5, M))[:, None]
    return X + rng.normal(0, rng.choice([0, 1, 5]), M)[:, None], share


def odd(rng, X):
    """The same, skewed, with spikes, constants, ties, whole numbers, in any unit."""
    kinds = ["plain", "exp", "square", "positive", "heavy"]
    kind = rng.choice(kinds, p=[0.35, 0.2, 0.15, 0.2, 0.1])
    if kind == "exp":
        X = np.exp(np.minimum(X * rng.uniform(0.3, 1.2), 12))
    elif kind == "square":
        X = X**2
    elif kind == "positive":
        X = np.maximum(X - X.min() * rng.uniform(0, 1.2), 0)
    elif kind == "heavy":
        X = X + 0.3 * rng.standard_t(2, X.shape)
    if rng.random() < 0.2:
        X = np.where(rng.random(X.shape) < 0.01, X * rng.choice([10, -5, 100]), X)
    if rng.random() < 0.15:
        some = rng.random(len(X)) < 0.3
        X[some] = X[some, :1]
        if rng.random() < 0.5:
            X[some] *= 1 + 1e-9 * rng.standard_normal((some.sum(), X.shape[1]))
    if rng.random() < 0.3:
        step = X.std() * rng.choice([0.05, 0.3, 1]) or 1.0
        X = np.round(X / step) * step
    if rng.random() < 0.15:
        X = np.round(X)
    return X * 10.0 ** rng.uniform(-6, 6), kind


def draw(seed):
    """The table of a seed."""
    rng = np.random.default_rng([17, seed])
    M = round(np.exp(rng.uniform(0, np.log(60.49))))
    N = round(np.exp(rng.uniform(np.log(10), np.log(400))))
    places = rng.random((M, 2)) * 100
    X, share = signal(rng, M, N, places)
    X, kind = odd(rng, X)
    known = ~gaps(rng, M, N)
    pattern, rate = rng.choice(["scattered", "block", "outage"]), rng.uniform(0.1, 0.5)
    if pattern == "scattered":
        hidden = rng.random((M, N)) < rate
    else:
        lengths = [2, 5, max(N // 15, 3)]
        if pattern == "outage":
            lengths = [max(N // 20, 2), max(N // 8, 3)]
        hidden = runs_of_slots(rng, M, N, rate, lengths, pattern == "outage")
    hidden &= known
    for i in np.flatnonzero((known & ~hidden).sum(axis=1) < 2):  # two readings stay
        hidden[i, np.flatnonzero(hidden[i])[:2]] = False
    owners = rng.choice(["each", "few", "one"], p=[0.3, 0.55, 0.15])
    few = rng.integers(0, rng.integers(2, 8), M)
    sites = {"each": np.arange(M), "few": few, "one": np.zeros(M, int)}[str(owners)]
    about = f"{M} x {N} {kind}, shared {share}, {pattern} {rate:.2f}, {len(set(sites))} owners"
    map_ = places if rng.random() < 0.6 else None
    return Drawn(X, known, hidden, [f"s{site}" for site in sites], map_, about)


def judge(seed):
    """Fill the table of a seed, and compare."""
    drawn = draw(seed)
    X, (M, N), seen = drawn.readings, drawn.readings.shape, drawn.known & ~drawn.hidden
    ids = [str(i) for i in range(M)]
    frame = pd.DataFrame(np.where(seen, X, np.nan).T, columns=ids)
    sensors = None
    if drawn.places is not None:
        x, y = drawn.places.T
        sensors = pd.DataFrame({"sensor_id": ids, "x": x, "y": y})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FLFL(effort="quick").fit(frame, sensors=sensors, sites=drawn.sites)
    low, high = np.where(seen, X, np.inf).min(axis=1), np.where(seen, X, -np.inf).max(axis=1)
    alive = seen.any(axis=1)
    room = np.where(alive, high - low, 0.0) + 1e-9 * np.where(alive, np.abs(high), 0.0)
    absurd = 0
    for values in (model.estimates_.T, model.lower_.T, model.upper_.T):
        inside = (values >= (low - room)[:, None]) & (values <= (high + room)[:, None])
        absurd += int((~inside & alive[:, None]).sum())
    mean = np.where(seen, X, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    off = np.where(seen, X - mean[:, None], 0.0)
    spread = np.sqrt((off**2).sum(axis=1) / np.maximum(seen.sum(axis=1), 1))
    usual = np.median(spread[spread > 0]) if (spread > 0).any() else 1.0
    spread, tested = np.maximum(spread, 1e-3 * usual)[:, None], drawn.hidden & alive[:, None]
    linear = interpolate(np.where(seen, X, np.nan), np.arange(float(N)), "linear")
    errors = [
        float(np.minimum(np.abs(found - X) / spread, WORST)[tested].mean()) if tested.any() else 0.0
        for found in (linear, model.site_estimates_.T, model.estimates_.T)
    ]
    return Judged(seed, drawn.about, int(tested.sum()), *errors, absurd)


def summary(rows):
    """Totals over tables with hidden readings: error over the better one's, share above 1.1."""
    rows = [row for row in rows if row.count]
    best = sum(min(row.linear, row.alone) for row in rows)
    return {
        "tables": len(rows),
        "network": sum(row.network for row in rows) / best,
        "alone": sum(row.alone for row in rows) / best,
        "linear": sum(row.linear for row in rows) / best,
        "above_1.1": sum(row.ratio > 1.1 for row in rows) / len(rows),
        "absurd": sum(row.absurd for row in rows),
    }


def judge_all(seeds, workers):
    """All of them, by so many processes."""
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(judge, seeds, chunksize=8))


def main():
    """Print what was found, and the tables that are worst."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tables", type=int, default=10_000)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    rows = judge_all(range(given.first, given.first + given.tables), given.workers)
    for name, value in summary(rows).items():
        print(f"{name:12s} {value:.4f}" if isinstance(value, float) else f"{name:12s} {value}")
    for row in sorted(rows, key=lambda row: -row.ratio)[:10]:
        print(f"{row.ratio:6.2f}  seed {row.seed}: {row.about}; {row.count} hidden")


if __name__ == "__main__":
    main()
