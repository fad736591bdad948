"""Parties of a secure sum, and an engine for tests that shuffles, drops and damages messages."""

import random

import numpy as np

from flfl.secagg import Identity, Roster, SecureSite, SecureSums
from flfl.secagg.wire import peek


def names(n):
    return [f"site{i:03d}" for i in range(n)]


class Party:
    """A coordinator and its sites, who answer every question with the numbers they are given."""

    def __init__(self, n, threshold=0, min_sites=3, run="run", identities=None):
        self.identities = identities or {name: Identity.generate() for name in names(n)}
        self.roster = Roster(
            {name: identity.public for name, identity in self.identities.items()},
            threshold,
            min_sites,
        )
        self.sums = SecureSums(self.roster, run)
        self.sites = {
            name: SecureSite(name, identity, self.roster)
            for name, identity in self.identities.items()
        }
        self.values = {name: np.zeros(1, np.int64) for name in self.sites}
        self.uploads = {}

    def answer(self, name, data):
        """What the site says to one message."""
        site = self.sites[name]
        if peek(data).kind != "ask":
            return site.receive(data)
        values = self.values[name]
        answer = site.mask(site.open(data), values.ravel(), [values.shape])
        self.uploads[name] = answer
        return answer

    def carry(self, envelopes, *, shuffle=None, lost=lambda name, kind, when: False):
        """Carry messages until nothing is left; ``lost`` says which site is gone when.

        ``when`` is "request" (before it hears the message) or "response" (after it acted on it).
        """
        outbox = list(envelopes)
        while outbox:
            if shuffle is not None:
                shuffle.shuffle(outbox)
            name, data = outbox.pop(0)
            kind = peek(data).kind
            if lost(name, kind, "request"):
                outbox += self.sums.absent(name)
                continue
            answer = self.answer(name, data)
            if lost(name, kind, "response"):
                outbox += self.sums.absent(name)
                continue
            outbox += self.sums.receive(answer)

    def start(self, **how):
        self.carry(self.sums.start(), **how)
        return self

    def sum(self, question=b"question", **how):
        self.carry(self.sums.ask(question), **how)
        return self.sums.take()

    def plain(self, sites):
        """The fixed-point sum in the clear."""
        return np.sum([self.values[name] for name in sites], axis=0)


def draw_values(party, shape, seed, most=2**50):
    rng = np.random.default_rng(seed)
    for name in party.values:
        party.values[name] = rng.integers(-most, most, shape)


def shuffler(seed):
    return random.Random(seed)
