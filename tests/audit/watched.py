"""A run of the default method with its sites kept, so that an attack can be given what is public
(gaps, projection, weights) and scored against what is not."""

import numpy as np

from flfl.estimators.dynamic import FLFL


class Watched(FLFL):
    """FLFL that keeps what the coordinator saw and, apart from it, each site's program."""

    def _run(self, plan, programs, n_slots):
        self.programs_, self.seen_, self.vectors_ = programs, [], []

        def witness(ask, replies):
            self.seen_.append((ask, replies))
            if ask.kind in ("open", "round"):
                self.vectors_.append(self.stack("P").copy())

        self.witness = witness
        super()._run(plan, programs, n_slots)

    def stack(self, name):
        """An attribute of every site, in the table's order of sensors."""
        rows = np.concatenate([self.partition_.members(p.sensing.name) for p in self.programs_])
        parts = np.concatenate([getattr(p, name) for p in self.programs_])
        out = np.empty_like(parts)
        out[rows] = parts
        return out

    def rounds_seen(self):
        """Sums ``g`` (rounds, windows, k) and the ``m`` each answered (rounds, N, k)."""
        asked = [(a, r) for a, r in self.seen_ if a.kind in ("open", "round")]
        sums = np.array([replies.total["g"] for _, replies in asked])
        if self.max_exposure < 1:  # the readings came with the first upload only
            sums[1:] += sums[0]
        zero = np.zeros((self.programs_[0].J.shape[1], sums.shape[2]))
        means = np.array([ask.body.get("m", zero) for ask, _ in asked])
        return sums, means
