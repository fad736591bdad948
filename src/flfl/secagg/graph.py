"""Who masks with whom, and who holds whose shares.

Up to about a hundred sites everyone does so with everyone. Beyond, each site has neighbours on a
ring in random order (Bell et al. 2020): ``degree / 2`` on either side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

COMPLETE_UP_TO = 100
"""Below this many sites a sparse graph saves too little to give up its simpler promise."""
SECURITY = 2.0**-40
CORRECTNESS = 2.0**-30
CORRUPT = 0.1
DROPOUT = 0.05


@dataclass(frozen=True)
class Degree:
    """How many neighbours a site has, and how many holders' shares open a secret.

    The holders of a site's shares are its neighbours and itself.
    """

    degree: int
    threshold: int


@lru_cache(maxsize=64)
def degree_for(
    n_sites: int, threshold: int, corrupt: float = CORRUPT, dropout: float = DROPOUT
) -> Degree:
    """Degree of the graph over ``n_sites`` present sites.

    Complete (degree ``n - 1``, shares open by the roster's threshold) up to
    :data:`COMPLETE_UP_TO` sites, and where a sparse one would not be smaller. Else the smallest
    even k with a threshold t such that, for every site at once,

    * at most c of its k neighbours are corrupt, except with probability :data:`SECURITY`, where
      ``t > k/2 + 1 + c``: then corrupt holders cannot open a secret, no coordinator collects both
      kinds of share of one site, and no set of sites whose removal would split the ring leaves
      the sites at the split enough holders to be opened;
    * at least t of its k neighbours survive a dropout of the share ``dropout``, except with
      probability :data:`CORRECTNESS` (otherwise the run stops; nothing is revealed).

    The tails are hypergeometric, times n for every site.

    Examples
    --------
    >>> degree_for(36, 25)
    Degree(degree=35, threshold=25)
    >>> degree_for(1000, 667).degree < 250
    True
    """
    complete = Degree(n_sites - 1, threshold)
    if n_sites <= COMPLETE_UP_TO:
        return complete
    # Large, and needed for large networks only.
    from scipy.stats import hypergeom

    bad, gone = int(np.ceil(corrupt * n_sites)), int(np.ceil(dropout * n_sites))
    for k in range(2, n_sites - 1, 2):
        most_bad = int(hypergeom.isf(SECURITY / n_sites, n_sites - 1, bad, k))
        most_gone = int(hypergeom.isf(CORRECTNESS / n_sites, n_sites - 1, gone, k))
        t = k // 2 + 2 + most_bad
        if t <= k - most_gone:
            return Degree(k, t)
    return complete


def neighbours(names: Sequence[str], seed: bytes, degree: int) -> Mapping[str, tuple[str, ...]]:
    """Each site's neighbours, sorted: a Harary graph over a permutation drawn from the seed.

    Every party computes the same graph from the hash of all signed run keys.

    Guarantees
    ----------
    * Symmetric, without loops, every site has ``degree`` neighbours.
    * The order on the ring is that of SHA-256(seed, name): nobody who cannot choose the hash can
      choose its neighbours.

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
