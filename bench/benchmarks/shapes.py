"""Processor seconds and peak memory of the default method at every shape, and how they grow.

Each case is a process of its own on a made-up network; a tenth of the readings is hidden in
blocks of a day, and the error there is told beside that of linear interpolation. Seconds are
those of ``fit`` on all cores together; the peak is the largest memory that the process held.

    python bench/benchmarks/shapes.py                       # the shapes that have a limit
    python bench/benchmarks/shapes.py --growth              # sensors, slots, owners doubled
    python bench/benchmarks/shapes.py --regions             # 10,000 sensors in regional networks
    python bench/benchmarks/shapes.py --one 200 2000 5 quick
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from dataclasses import astuple, dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """A shape, and the most that it may take: seconds and megabytes."""

    sensors: int
    slots: int
    owners: int
    effort: str
    seconds: float = np.inf
    megabytes: float = np.inf
    region_size: int = 0  # 0: one network


LIMITS = (
    Case(36, 8760, 5, "full", 15),
    Case(200, 17520, 5, "quick", 60, 1200),
    Case(200, 17520, 5, "full", 180, 1200),
    Case(500, 5000, 5, "quick", 60),
    Case(500, 5000, 500, "quick", 120),
    Case(576, 72, 5, "full", 10),
    Case(2000, 8760, 20, "quick", megabytes=6000),
)
REGIONS = (Case(10_000, 2000, 100, "quick", region_size=1250),)
GROWTH = {
    "sensors": [Case(50 * 2**n, 2000, 5, "quick") for n in range(5)],
    "slots": [Case(100, 1000 * 2**n, 5, "quick") for n in range(5)],
    "owners": [Case(200, 2000, 5 * 2**n, "quick") for n in range(6)],
}


def run(case: Case) -> dict[str, float]:
    """Fit one case in this process."""
    from flfl import FLFL, RegionalFLFL
    from flfl.datasets.masks import hide
    from flfl.datasets.synthetic import synthesize
    from flfl.estimators.regional import cut
    from flfl.model.basis import to_plane

    rng = np.random.default_rng(0)
    table, sensors = synthesize(case.sensors, case.slots, rank=8, rng=rng)
    X = table.values
    known = X.notna().to_numpy().T
    kept = hide(known, 0.9, "block", rng, block_length=min(24, case.slots // 4))
    hidden = (known & ~kept).T
    truth = X.to_numpy()[hidden]
    X = X.where(kept.T)
    owners = [f"owner {n % case.owners:05d}" for n in range(case.sensors)]
    model: FLFL = FLFL(effort=case.effort)
    if case.region_size:  # agencies own what lies together
        plane = to_plane(sensors.coordinates, "latlon")
        for n, rows in enumerate(cut(plane, -(-case.sensors // case.owners))):
            for row in rows:
                owners[row] = f"owner {n:05d}"
        model = RegionalFLFL(effort=case.effort, region_size=case.region_size)
    before = _seconds()
    model.fit(X, sensors=sensors.with_sites(owners))
    seconds = _seconds() - before
    linear = X.interpolate(limit_direction="both").to_numpy()[hidden]
    return {
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "error": float(np.abs(model.estimates_[hidden] - truth).mean()),
        "linear": float(np.abs(linear - truth).mean()),
    }


def _seconds() -> float:
    return sum(os.times()[:4])


def measure(case: Case) -> dict[str, float]:
    """Run a case in a process of its own."""
    shape = map(str, (*astuple(case)[:4], case.region_size))
    command = [sys.executable, __file__, "--one", *shape]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def report(cases: list[Case]) -> list[dict[str, float]]:
    """Measure cases and print a row of each."""
    print("| sensors x slots | owners | effort | processor s | peak MB | error | linear |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for case in cases:
        row = measure(case)
        seconds, peak = (
            f"{found:,.{digits}f}" + (f" (limit {limit:,.0f})" if limit < np.inf else "")
            for found, limit, digits in (
                (row["seconds"], case.seconds, 1),
                (row["megabytes"], case.megabytes, 0),
            )
        )
        print(
            f"| {case.sensors:,} x {case.slots:,} | {case.owners} | {case.effort} | {seconds}"
            f" | {peak} | {row['error']:.2f} | {row['linear']:.2f} |",
            flush=True,
        )
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true", help="double sensors, slots and owners")
    parser.add_argument("--regions", action="store_true", help="10,000 sensors in regions")
    parser.add_argument(
        "--one", nargs="+", metavar="SHAPE", help="sensors, slots, owners, effort, region size"
    )
    arguments = parser.parse_args()
    if arguments.one:
        sensors, slots, owners, effort, *size = arguments.one
        shape = int(sensors), int(slots), int(owners), effort
        print(json.dumps(run(Case(*shape, region_size=int(size[0]) if size else 0))))
    elif not arguments.growth:
        report(list(REGIONS if arguments.regions else LIMITS))
    else:
        for what, cases in GROWTH.items():
            rows = report(cases)
            size = np.log([getattr(case, what) for case in cases])
            for key in ("seconds", "megabytes"):
                exponent = np.polyfit(size, np.log([row[key] for row in rows]), 1)[0]
                print(f"{key} grow with {what} to the power of {exponent:.2f}")
            print()


if __name__ == "__main__":
    main()
