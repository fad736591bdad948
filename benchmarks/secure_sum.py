"""What hiding the sums costs: over a plain round, and as the sites grow in number.

    python benchmarks/secure_sum.py round     # default method, 36 sites, 8647 x 10 numbers
    python benchmarks/secure_sum.py growth    # the secure sum alone, 5 to 200 sites

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
from flfl.engines import inprocess
from flfl.federation.messages import bytes_by_kind, kind_of
from flfl.privacy.secure_sum import graph
from flfl.privacy.secure_sum.wire import peek

SITES, SLOTS, RANK = 36, 8647, 10
NUMBERS = SLOTS * RANK + 2 * RANK**2 + 2
SECURE = ("keys", "shares", "unmask")


def readings() -> pd.DataFrame:
    """36 sensors that follow ten slow factors."""
    rng = np.random.default_rng(0)
    factors = np.cumsum(rng.standard_normal((SLOTS, RANK)), axis=0) / 10
    table = factors @ rng.standard_normal((RANK, SITES)) + rng.standard_normal((SLOTS, SITES))
    table[rng.random(table.shape) < 0.5] = np.nan
    return pd.DataFrame(table, columns=[f"s{i:02d}" for i in range(SITES)])


class Rounds:
    """Processor time and bytes of each whole round: from its first question to the next one's."""

    def __init__(self, sites: int) -> None:
        self.marks: list[float] = []
        self.bytes: Counter[str] = Counter()
        self._sites, self._asked, self._last = sites, 0, ""

    def __call__(self, direction: str, _site: str, data: bytes) -> None:
        kind = kind_of(data)
        if direction == "down" and kind == "round":
            if self._asked % self._sites == 0:
                self.marks.append(time.process_time())
            self._asked += 1
        if direction == "down" and kind == "finish" and self._last != "finish":
            self.marks.append(time.process_time())
        if direction == "down" and kind not in SECURE:
            self._last = kind
        if self.marks and self._last == "round":
            for part, size in bytes_by_kind(data).items():
                self.bytes[part] += size

    def seconds(self) -> np.ndarray:
        return np.diff(self.marks)


def fit(table: pd.DataFrame, secure: bool, **settings: object) -> tuple[Rounds, FLFL]:
    model = FLFL(effort="quick", secure=secure, rank=RANK, rounds=5, season=0, **settings)
    model.tap = watch = Rounds(SITES)
    model.fit(table, sites=list(table.columns))
    return watch, model


def round_cost(repeats: int) -> None:
    table = readings()
    print("| projection | numbers | plain s | secure s | ratio | payload bytes | added bytes |")
    print("|---|---|---|---|---|---|---|")
    for label, settings in (
        ("guard off, a window a slot", {"max_exposure": 1.0, "projection": "fixed"}),
        ("default", {}),
    ):
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for secure in (False, True):
                watch, model = fit(table, secure, **settings)
                times[secure] += watch.seconds().tolist()
                if secure:
                    hidden = watch.bytes
                else:
                    plain = watch.bytes
        numbers = len(model.windows_) * RANK + 2 * RANK**2 + 2
        least, full = (float(np.median(times[secure])) for secure in (False, True))
        added = sum(hidden[kind] for kind in SECURE)
        print(
            f"| {label} | {numbers} | {least:.3f} | {full:.3f} | {full / least:.2f}"
            f" | x {hidden['round'] / plain['round']:.4f}"
            f" | + {100 * added / plain['round']:.1f} % |",
            flush=True,
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
        sums, sites = inprocess.secure([f"s{i:03d}" for i in range(n)])
        spent: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        values = np.arange(NUMBERS)

        def carry(
            outbox: list, sums=sums, sites=sites, spent=spent, sent=sent, values=values
        ) -> None:
            while outbox:
                name, data = outbox.pop()
                kind = peek(data).kind
                start = time.process_time()
                if kind == "ask":
                    asked = sites[name].open(data)
                    middle = time.process_time()
                    spent["rest"] += middle - start
                    start, kind = middle, "mask"
                    answer = sites[name].mask(asked, values, [values.shape])
                else:
                    answer = sites[name].receive(data)
                end = time.process_time()
                spent[{"hello": "keys", "bundle": "keys", "mask": "mask"}.get(kind, "rest")] += (
                    end - start
                )
                outbox += sums.receive(answer)
                spent["coordinator"] += time.process_time() - end
                for message in (data, answer):
                    sent.update(bytes_by_kind(message))

        carry(sums.start())
        keys = 1e3 * spent["keys"] / n
        repeats = 3 if n <= 50 else 1
        for counter in (spent, sent):
            counter.clear()
        for _ in range(repeats):
            start = time.process_time()
            envelopes = sums.ask(bytes(8 * SLOTS * RANK), "round")
            spent["coordinator"] += time.process_time() - start
            carry(envelopes)
            assert np.array_equal(sums.take().total, n * values)
        each = 1e3 / repeats / n
        added = (sent["shares"] + sent["unmask"]) / 1e3 / repeats / n
        degree = graph.degree_for(n, 2 * n // 3 + 1).degree
        print(
            f"| {n} | {degree} | {keys:.1f} | {spent['mask'] * each:.2f}"
            f" | {spent['rest'] * each:.2f} | {1e3 * spent['coordinator'] / repeats:.0f}"
            f" | {added:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["round", "growth"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most", type=int, default=200)
    arguments = parser.parse_args()
    with threadpool_limits(limits=1):
        if arguments.what == "round":
            round_cost(arguments.repeats)
        else:
            growth(arguments.most)


if __name__ == "__main__":
    main()
