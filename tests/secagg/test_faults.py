"""A thousand random fault schedules: no wrong sum, no hang, nothing opened below the threshold."""

import random
from collections import Counter

import numpy as np
import pytest

from flfl.secagg import BelowThresholdError, Outcome, SecureSumError
from flfl.secagg.wire import decode
from secure_parties import Party

SCHEDULES, BATCHES, QUICK = 1000, 10, 1
SUMS = 2
FAULTS = (
    "drop request", "drop response", "duplicate request", "duplicate response", "replay",
    "flip request", "flip response", "cut request", "cut response", "foreign",
)  # fmt: skip


class Chaos(Party):
    """Carries messages in random order with random faults, and keeps what the coordinator saw."""

    def __init__(self, rng):
        super().__init__(rng.randint(3, 6))
        self.rng, self.rate = rng, rng.choice((0.02, 0.1, 0.3))
        self.down, self.up = [], []
        self.refused, self.faults, self.steps = 0, Counter(), 0

    def refuse(self, act, *arguments):
        """A bad message must be refused, loudly."""
        with pytest.raises(SecureSumError):
            act(*arguments)
        self.refused += 1

    def damaged(self, data, how):
        if how == "cut":
            return data[: self.rng.randrange(len(data))]
        at = self.rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self.rng.randrange(8))]) + data[at + 1 :]

    def deliver(self, name, data):
        """One message to a site and its answer back, with at most one fault. Returns envelopes."""
        self.steps += 1
        fault = self.rng.choice(FAULTS) if self.rng.random() < self.rate else ""
        self.faults[fault] += 1
        if fault == "drop request":
            return self.sums.absent(name)
        if fault in ("flip request", "cut request"):
            self.refuse(self.answer, name, self.damaged(data, fault[:-8]))
        if fault == "foreign":
            others = [other for other in self.sites if other != name]
            self.refuse(self.answer, self.rng.choice(others), data)
        if fault == "replay" and self.up:
            self.refuse(self.sums.receive, self.rng.choice(self.up))
            old = [d for who, d in self.down if who == name]
            if old:
                self.refuse(self.answer, name, self.rng.choice(old))
        answer = self.answer(name, data)
        self.down.append((name, data))
        if fault == "duplicate request":
            self.refuse(self.answer, name, data)
        if fault == "drop response":
            return self.sums.absent(name)
        if fault in ("flip response", "cut response"):
            self.refuse(self.sums.receive, self.damaged(answer, fault[:-9]))
        envelopes = self.sums.receive(answer)
        self.up.append(answer)
        if fault == "duplicate response":
            self.refuse(self.sums.receive, answer)
        return envelopes

    def carry(self, envelopes, **_):
        outbox = list(envelopes)
        while outbox:
            come = self.deliver(*outbox.pop(self.rng.randrange(len(outbox))))
            assert self.steps < 1000, "it hangs"
            if isinstance(come, Outcome):
                return come
            outbox += come
        return None

    def opened(self):
        """By sum: the sites whose self-masks the answers that came in can open."""
        asked = {
            (who, frame.number): self.roster.unpack(frame.sections["survivors"])
            for who, frame in ((who, decode(data)) for who, data in self.down)
            if frame.kind == "reveal"
        }
        counts = Counter(
            (frame.number, name)
            for frame in map(decode, self.up)
            if frame.kind == "unmask"
            for name in asked[frame.site, frame.number]
        )
        by_sum = {}
        for (number, name), count in counts.items():
            if count >= self.roster.threshold:
                by_sum.setdefault(number, set()).add(name)
        return by_sum


@pytest.mark.parametrize(
    "batch",
    [
        *range(QUICK),
        *(pytest.param(n, marks=pytest.mark.slow) for n in range(QUICK, BATCHES)),
    ],
)
def test_random_fault_schedules(batch):
    endings, seen = Counter(), Counter()
    for schedule in range(SCHEDULES // BATCHES):
        party = Chaos(random.Random(1000 * batch + schedule))
        # One digit a site, base 4: a term that is counted twice or half shows.
        everyone = sorted(party.sites)
        ending = "opened"
        finished = {}
        try:
            party.start()
            for number in range(1, SUMS + 1):
                party.values = {
                    name: np.array([4**i, number * 4**i]) for i, name in enumerate(everyone)
                }
                outcome = party.sum(b"question %d" % number)
                members = [i for i, name in enumerate(everyone) if name in outcome.sites]
                wanted = sum(4**i for i in members)
                assert outcome.arrays[0].tolist() == [wanted, number * wanted]
                assert len(members) >= party.roster.threshold
                finished[number] = set(outcome.sites)
        except BelowThresholdError:
            ending = "given up"
            assert party.sums.phase == "failed"
        opened = party.opened()
        assert all(len(sites) >= party.roster.threshold for sites in opened.values())
        assert finished.items() <= opened.items()
        endings[ending] += 1
        seen += party.faults
    assert set(endings) == {"opened", "given up"}, "the schedules must reach both endings"
    assert all(seen[fault] for fault in FAULTS)
    assert sum(endings.values()) == SCHEDULES // BATCHES
