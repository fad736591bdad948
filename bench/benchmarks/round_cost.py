"""What one synchronous round of the paper's method costs over its bare arithmetic.

Bare: ``E = J * (Y - P Q^T)`` and the two products ``E Q``, ``E^T P``. A round: the whole thing
with sites, encoded messages, fixed-point sums and both smoothness terms, in every third the
sensors' Newton steps as well (the median leaves those out). Both are timed in this
process, turn by turn, and the ratio of medians is printed.

    python bench/benchmarks/round_cost.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from flfl.estimators.owners import partition
from flfl.io.sensors import Sensors
from flfl.paper.federation import PROTOCOL, PaperPlan, Setting, coordinate
from flfl.paper.graph import region_laplacian
from flfl.paper.objective import Weights
from flfl.paper.site import PaperSite, Readings
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic


def build(M: int, N: int, k: int, rate: float, rounds: int) -> tuple[Coordinator, list[Site]]:
    rng = np.random.default_rng(0)
    places = rng.random((M, 2))
    ids = tuple(f"s{i}" for i in range(M))
    groups = partition(Sensors(ids, places, "metric"))
    plan = PaperPlan((Setting(k, Weights(1e-3, 0.1, 0.03)),), rounds, check_every=10**9)
    sizes = {"slots": N}
    sites = []
    for name, home in groups.members.items():
        label = int(groups.regions[home[0]])
        L = region_laplacian(places[home], "metric", 3, size=len(home))
        Z = np.sin(np.arange(N) / 20) + 0.3 * rng.standard_normal((len(home), N))
        known = rng.random(Z.shape) < rate
        labels, own = groups.regions[home], tuple(ids[i] for i in home)
        readings = Readings(own, home, Z, known, labels, {label: L}, 0)
        sites.append(Site(name, PaperSite(readings, plan), PROTOCOL))
    program = coordinate(plan, sizes, 0, Traffic())
    return Coordinator(program, PROTOCOL, list(groups.members), sizes), sites


def bare(Y: np.ndarray, J: np.ndarray, P: np.ndarray, Q: np.ndarray) -> None:
    E = J * (Y - P @ Q.T)
    E @ Q
    E.T @ P


def measure(M: int, N: int, k: int, rate: float, repeats: int) -> tuple[float, float, int]:
    coordinator, sites = build(M, N, k, rate, 10 * repeats)
    by_name = {site.name: site for site in sites}
    rng = np.random.default_rng(1)
    Y, J = rng.standard_normal((M, N)), (rng.random((M, N)) < rate).astype(float)
    P, Q = rng.standard_normal((M, k)), rng.standard_normal((N, k))
    outbox = coordinator.start()
    for _ in range(3):  # hello, start and the first check come before the rounds
        outbox = [e for name, q in outbox for e in coordinator.receive(by_name[name].receive(q))]
    if len(outbox) == len(sites):  # the check's verdict
        outbox = [e for name, q in outbox for e in coordinator.receive(by_name[name].receive(q))]
    times: dict[str, list[float]] = {"round": [], "bare": []}
    for _ in range(repeats):
        start = time.perf_counter()
        outbox = [e for name, q in outbox for e in coordinator.receive(by_name[name].receive(q))]
        middle = time.perf_counter()
        bare(Y, J, P, Q)
        times["round"].append(middle - start)
        times["bare"].append(time.perf_counter() - middle)
    return float(np.median(times["round"])), float(np.median(times["bare"])), len(sites)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    repeats = parser.parse_args().repeats
    print(
        f"{'sensors':>8} {'slots':>6} {'rank':>5} {'rate':>5} {'sites':>6} {'round ms':>9}"
        f" {'bare ms':>8} {'ratio':>6}"
    )
    with threadpool_limits(limits=1):
        for k, rate in ((10, 0.1), (10, 0.9), (35, 0.1), (35, 0.9)):
            full, least, sites = measure(35, 8647, k, rate, repeats)
            print(
                f"{35:>8} {8647:>6} {k:>5} {rate:>5} {sites:>6} {1e3 * full:>9.2f}"
                f" {1e3 * least:>8.2f} {full / least:>6.2f}"
            )


if __name__ == "__main__":
    main()
