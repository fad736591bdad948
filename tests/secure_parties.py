"""Parties of a secure sum, and an engine for tests that shuffles, drops and damages messages."""

import random

import numpy as np

from flfl.secagg import Asked, Identity, Outcome, Roster, SecureClient, SecureServer
from flfl.secagg.wire import decode


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
        self.sums = SecureServer(self.roster, run)
        self.sites = {
            name: SecureClient(name, identity, self.roster)
            for name, identity in self.identities.items()
        }
        self.values = {name: np.zeros(1, np.int64) for name in self.sites}
        self.uploads = {}

    def answer(self, name, data):
        """What the site says to one message."""
        come = self.sites[name].receive(data)
        if isinstance(come, Asked):
            come = self.uploads[name] = self.sites[name].mask(come, [self.values[name]])
        return come

    def carry(self, envelopes, *, shuffle=None, lost=lambda name, kind, when: False):
        """Carry messages until nothing is left; ``lost`` says which site is gone when. Returns the
        sum that is finished then, if any.

        ``when`` is "request" (before it hears the message) or "response" (after it acted on it).
        """
        outbox = list(envelopes)
        while outbox:
            if shuffle is not None:
                shuffle.shuffle(outbox)
            name, data = outbox.pop(0)
            kind = decode(data).kind
            if lost(name, kind, "request"):
                come = self.sums.absent(name)
            else:
                answer = self.answer(name, data)
                gone = lost(name, kind, "response")
                come = self.sums.absent(name) if gone else self.sums.receive(answer)
            if isinstance(come, Outcome):
                return come
            outbox += come
        return None

    def start(self, **how):
        self.carry(self.sums.start(), **how)
        return self

    def sum(self, question=b"question", **how):
        return self.carry(self.sums.ask(question), **how)

    def plain(self, sites):
        """The fixed-point sum in the clear."""
        return np.sum([self.values[name] for name in sites], axis=0)


def draw_values(party, shape, seed, most=2**50):
    rng = np.random.default_rng(seed)
    for name in party.values:
        party.values[name] = rng.integers(-most, most, shape)


def shuffler(seed):
    return random.Random(seed)
