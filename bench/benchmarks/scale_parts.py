"""The parts of a run from which docs/scale.md works out networks of any size.

One network without its finish at home, then each part by itself, in processor seconds: a party's
inference in a round, a site's loadings, a site's finish; and the bytes of a site.

    python bench/benchmarks/scale_parts.py --sensors 1000 --slots 2000 --owners 100
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    from flfl import FLFL
    from flfl.datasets.synthetic import synthesize
    from flfl.model import loadings
    from flfl.protocol.finish import Effort, finish_at_home, own_part
    from flfl.protocol.network import infer
    from flfl.protocol.owner import Table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("sensors", 1000), ("slots", 2000), ("owners", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    table, sensors = synthesize(given.sensors, given.slots, rank=8, rng=np.random.default_rng(0))
    owners = [f"owner {n % given.owners:05d}" for n in range(given.sensors)]
    model = FLFL(effort="quick")
    run = seconds(lambda: model.fit(table.values, sensors=sensors.with_sites(owners), finish=False))
    network, traffic = model.network_, model.traffic_
    each = seconds(lambda: infer(network))
    name = owners[0]
    rows, kept = network.rows(name), model.remembered_.sites[name]
    raw = table.values.to_numpy(dtype=float).T[model.partition_.members[name]]
    J, post = network.known[rows].astype(float), network.inferred.post
    fit = seconds(
        lambda: loadings.fit_loadings(
            np.nan_to_num(raw) * J, J, network.sigma2_of(rows), post, network.r[rows]
        )
    )
    own = Table(
        name, kept.ids, raw, np.isfinite(raw), network.places[rows],
        np.arange(float(given.slots)), kept.instants,
    )  # fmt: skip
    part, units = own_part(own, network, model.remembered_.store(name)), [
        (network.transform, network.season)
    ]  # fmt: skip
    finish = seconds(lambda: finish_at_home(own, Effort(boost=False), units, network, part))
    print(f"{given.sensors} sensors x {given.slots} slots, {given.owners} owners")
    print(f"exchanges {sum(traffic.exchanges.values())}, rounds {traffic.rounds}")
    print(f"all parties in one process, without the finish: {run:.1f} s")
    print(
        f"an inference: {each:.2f} s; loadings of a site: {fit:.3f} s; its finish: {finish:.2f} s"
    )
    for way, sent in (("up", traffic.up), ("down", traffic.down)):
        told = ", ".join(f"{kind} {size / given.owners / 1e3:.0f}" for kind, size in sent.items())
        print(f"kB {way} for a site: {sum(sent.values()) / given.owners / 1e3:.0f} ({told})")


if __name__ == "__main__":
    main()
