"""Who masks with whom, and who holds whose shares.

Up to about a hundred sites everyone does so with everyone. Beyond, each site has neighbours on a
ring in random order (Bell et al. 2020): ``degree / 2`` on either side.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from flfl.secagg.keys import Roster, digest

COMPLETE_UP_TO = 100
"""Below this many sites a sparse graph saves too little to give up the simpler guarantee."""
SECURITY = 2.0**-40
CORRECTNESS = 2.0**-30
CORRUPT = 0.1
DROPOUT = 0.05


@lru_cache(maxsize=64)
def degree_for(n_sites: int, threshold: int) -> tuple[int, int]:
    """How many neighbours each of ``n_sites`` present sites has, and how many shares open a secret.

    The graph is complete (degree ``n - 1``, the roster's threshold) up to :data:`COMPLETE_UP_TO`
    sites, and where a sparse one would not be smaller. Else the smallest even k with a threshold t
    such that, for every site at once (hypergeometric tails, times n),

    * at most c of its k neighbours are corrupt, except with probability :data:`SECURITY`, where
      ``t > k/2 + 1 + c``: then corrupt holders cannot open a secret, no coordinator collects both
      kinds of share of one site, and no set of sites whose removal would split the ring leaves
      the sites at the split enough holders to be opened;
    * at least t of its k neighbours survive a dropout of the share :data:`DROPOUT`, except with
      probability :data:`CORRECTNESS` (otherwise the run stops; nothing is revealed).

    Examples
    --------
    >>> degree_for(36, 25), degree_for(1000, 667)
    ((35, 25), (152, 124))
    """
    if n_sites <= COMPLETE_UP_TO:
        return n_sites - 1, threshold
    from scipy.stats import hypergeom  # large, and needed for large networks only

    bad, gone = math.ceil(CORRUPT * n_sites), math.ceil(DROPOUT * n_sites)
    for k in range(2, n_sites - 1, 2):
        most_bad = int(hypergeom.isf(SECURITY / n_sites, n_sites - 1, bad, k))
        most_gone = int(hypergeom.isf(CORRECTNESS / n_sites, n_sites - 1, gone, k))
        t = k // 2 + 2 + most_bad
        if t <= k - most_gone:
            return k, t
    return n_sites - 1, threshold


def neighbours(names: Sequence[str], seed: bytes, degree: int) -> Mapping[str, tuple[str, ...]]:
    """Each site's neighbours, sorted: a Harary graph in the order of SHA-256(seed, name). The seed
    is the hash of all run keys, so nobody can choose its neighbours.

    Examples
    --------
    >>> neighbours(["a", "b", "c"], b"", 2)["a"]
    ('b', 'c')
    """
    n = len(names)
    if degree >= n - 1:
        return {name: tuple(sorted(other for other in names if other != name)) for name in names}
    ring = sorted(names, key=lambda name: hashlib.sha256(seed + name.encode()).digest())
    reach = range(1, degree // 2 + 1)
    return {
        name: tuple(sorted({ring[(i + s * d) % n] for d in reach for s in (1, -1)}))
        for i, name in enumerate(ring)
    }


@dataclass(frozen=True)
class Network:
    """Who takes part in a run, with which run keys (their hash, with run and roster), and who is
    whose neighbour. A site's neighbours and itself are the holders of its shares, of which
    ``threshold`` open a secret."""

    present: tuple[str, ...]
    digest: bytes
    threshold: int
    neighbours: Mapping[str, tuple[str, ...]]
    holders: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, roster: Roster, run: str, keys: Mapping[str, bytes]) -> Network:
        """From everyone's run keys; every party computes the same."""
        present = tuple(sorted(keys))
        pairs = [part for name in present for part in (name, keys[name])]
        hashed = digest("network", run, roster.digest, *pairs)
        degree, threshold = degree_for(len(present), roster.threshold)
        near = neighbours(present, hashed, degree)
        holders = {name: tuple(sorted((*near[name], name))) for name in present}
        return cls(present, hashed, threshold, near, holders)

    def view(self, number: int, members: bytes, question: bytes) -> bytes:
        """The hash of all that a site was told about a sum. Masks are made from it: those of sites
        that were told different things do not cancel, so a coordinator gains nothing by it."""
        return digest("view", self.digest, number, members, hashlib.sha256(question).digest())
