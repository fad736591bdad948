"""What hiding the sums costs: over a run in the plain, and as the sites grow in number.

    python bench/benchmarks/secure_sum.py run       # default method, 36 sites, 8647 slots
    python bench/benchmarks/secure_sum.py growth    # the secure sum alone, 5 to 200 sites

Processor time of this one process, which plays all parties one after another; in a deployment the
sites work side by side.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from flfl import FLFL
from flfl.protocol.messages import bytes_by_kind
from flfl.secagg import Asked, Outcome, graph
from flfl.transport import local

SITES, SLOTS, RANK = 36, 8647, 10
NUMBERS = SLOTS * SITES // 2
SECURE = ("keys", "shares", "unmask")


def readings() -> pd.DataFrame:
    """36 sensors that follow ten slow factors."""
    rng = np.random.default_rng(0)
    factors = np.cumsum(rng.standard_normal((SLOTS, RANK)), axis=0) / 10
    table = factors @ rng.standard_normal((RANK, SITES)) + rng.standard_normal((SLOTS, SITES))
    table[rng.random(table.shape) < 0.5] = np.nan
    return pd.DataFrame(table, columns=[f"s{i:02d}" for i in range(SITES)])


class Clock:
    """Processor time between the first and the last message of a run."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def __call__(self, _direction: str, _site: str, _data: bytes) -> None:
        self.marks.append(time.process_time())


def whole_run(repeats: int) -> None:
    table = readings()
    times: dict[bool, list[float]] = {False: [], True: []}
    traffic = {}
    for _ in range(repeats):
        for secure in (False, True):
            model = FLFL(effort="quick", secure=secure, rank=RANK, season=0)
            clock = Clock()
            model.fit(table, sites=list(table.columns), tap=clock)
            times[secure].append(clock.marks[-1] - clock.marks[0])
            traffic[secure] = model.traffic_
    plain, full = (float(np.median(times[secure])) for secure in (False, True))
    sent = [traffic[secure].bytes_up / SITES / 1e3 for secure in (False, True)]
    added = sum(traffic[True].up[kind] for kind in SECURE) / SITES / 1e3
    print(
        "| numbers released | plain s | secure s | ratio | kB up a site, plain | secure | added |"
    )
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {traffic[True].numbers} | {plain:.2f} | {full:.2f} | {full / plain:.2f}"
        f" | {sent[0]:.0f} | {sent[1]:.0f} | {added:.1f} |"
    )


def growth(most: int) -> None:
    print(
        "| sites | neighbours | keys: ms a site | masks: ms a site | rest: ms a site"
        " | coordinator ms a sum | kB a site and sum beside the numbers |"
    )
    print("|---|---|---|---|---|---|---|")
    for n in (5, 10, 20, 36, 70, 100, 101, 150, 200):
        if n > most:
            break
        sums, sites = local.secure([f"s{i:03d}" for i in range(n)])
        spent: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        values = np.arange(NUMBERS)

        def carry(
            outbox: list, sums=sums, sites=sites, spent=spent, sent=sent, values=values
        ) -> Outcome | None:
            while outbox:
                name, data = outbox.pop()
                start = time.process_time()
                answer = sites[name].receive(data)
                end = time.process_time()
                spent["keys" if "keys" in bytes_by_kind(data) else "rest"] += end - start
                if isinstance(answer, Asked):
                    answer = sites[name].mask(answer, [values])
                    start, end = end, time.process_time()
                    spent["mask"] += end - start
                come = sums.receive(answer)
                spent["coordinator"] += time.process_time() - end
                for message in (data, answer):
                    sent.update(bytes_by_kind(message))
                if isinstance(come, Outcome):
                    return come
                outbox += come
            return None

        carry(sums.start())
        keys = 1e3 * spent["keys"] / n
        repeats = 3 if n <= 50 else 1
        for counter in (spent, sent):
            counter.clear()
        for _ in range(repeats):
            start = time.process_time()
            envelopes = sums.ask(bytes(8 * SLOTS), "release")
            spent["coordinator"] += time.process_time() - start
            outcome = carry(envelopes)
            assert outcome is not None
            assert np.array_equal(outcome.arrays[0], n * values)
        each = 1e3 / repeats / n
        added = (sent["shares"] + sent["unmask"]) / 1e3 / repeats / n
        degree = graph.degree_for(n, 2 * n // 3 + 1)[0]
        print(
            f"| {n} | {degree} | {keys:.1f} | {spent['mask'] * each:.2f}"
            f" | {spent['rest'] * each:.2f} | {1e3 * spent['coordinator'] / repeats:.0f}"
            f" | {added:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "growth"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most", type=int, default=200)
    arguments = parser.parse_args()
    with threadpool_limits(limits=1):
        if arguments.what == "run":
            whole_run(arguments.repeats)
        else:
            growth(arguments.most)


if __name__ == "__main__":
    main()
