"""What one site that sends anything at all costs the others.

    python bench/benchmarks/poison.py [--sites 5] [--sites 20] [--seed 0]

A made-up network in which one site lies in each of ten ways: its part of the sums, or its readings.
For the others: their error on hidden readings over that of working alone, in total; and how much of
what was filled still comes from the network.
"""

import argparse
from unittest.mock import patch

import numpy as np

from flfl import FLFL
from flfl.datasets.synthetic import synthesize
from flfl.estimators import flfl as estimator
from flfl.protocol.client import Client

LIAR = "s0"
LARGEST = 2.0**25
"""About the largest number that a secure sum carries; what is no number (NaN) cannot be sent."""


def walk(z, rng):
    """A random walk ten times as wide as what it hides."""
    return z + 10 * z.std() * np.cumsum(rng.standard_normal(len(z))) / np.sqrt(len(z))


SUMS = {
    "sign turned": lambda z, rng: -z,
    "ten times": lambda z, rng: 10 * z,
    "a million times": lambda z, rng: np.clip(1e6 * z, -LARGEST, LARGEST),
    "largest numbers": lambda z, rng: np.full_like(z, LARGEST),
    "random walk": walk,
    "time reversed": lambda z, rng: z[::-1],
    "constant": lambda z, rng: np.full_like(z, 50.0 * np.abs(z).mean()),
    "anything": lambda z, rng: rng.uniform(-LARGEST, LARGEST, len(z)),
}
READINGS = {
    "another unit": lambda x, rng: 1000 * x,
    "readings of chance": lambda x, rng: rng.permuted(x, axis=0),
}
WAYS = (*SUMS, *READINGS)


def lying(way, seed):
    """A client whose site of that name sends another part of the sums."""

    class Lying(Client):
        def answer(self, kind, body):
            answer = super().answer(kind, body)
            if kind == "release" and self.owner.table.name == LIAR and way in SUMS:
                answer["z"] = SUMS[way](answer["z"], np.random.default_rng(seed))
            return answer

    return Lying


def network(sites, seed, slots=600):
    """Readings of ``sites`` owners of two sensors, 30 % hidden; what was hidden; the owners."""
    rng = np.random.default_rng([seed, sites])
    table, sensors = synthesize(2 * sites, slots, missing=0.0, rng=rng)
    hidden = rng.random(table.values.shape) < 0.3
    return table.values, sensors, hidden, [f"s{i // 2}" for i in range(2 * sites)]


def harm(way, sites, seed):
    """Error of the others over that of working alone, and the share that the network fills."""
    values, sensors, hidden, owners = network(sites, seed)
    seen = values.mask(hidden)
    mine = np.array(owners) == LIAR
    if way in READINGS:
        rng, changed = np.random.default_rng(seed), seen.to_numpy(copy=True)
        changed[:, mine] = READINGS[way](changed[:, mine], rng)
        seen = type(seen)(changed, seen.index, seen.columns)
    with patch.object(estimator, "Client", lying(way, seed)):
        model = FLFL(effort="quick").fit(seen, sensors=sensors, sites=owners)
    at = hidden & ~mine
    ours, alone = (
        np.abs(found - values.to_numpy())[at].mean()
        for found in (model.estimates_, model.site_estimates_)
    )
    return ours / alone, float((model.method_[at] == 2).mean())


def main():
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sites", type=int, action="append")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    print("one site of ...  lies by            error / alone  filled by the network")
    for sites in given.sites or [5, 20]:
        for way in ("nothing", *WAYS):
            ratio, used = harm(way, sites, given.seed)
            print(f"{sites:14d}  {way:20s} {ratio:11.3f} {100 * used:20.0f} %", flush=True)


if __name__ == "__main__":
    main()
