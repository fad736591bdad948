"""All that is public in a network, and what anybody can compute from it.

Coordinator and sites hold the same :class:`Network` and call the same functions, so a coordinator
can lie about the released sums only: the posterior of the factors follows from public numbers.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from flfl.model import loadings
from flfl.model.basis import Basis, keyed_signs, smooth_basis
from flfl.model.state_space import Dynamics, Posterior, first_dynamics, learn, smooth
from flfl.model.transforms import HARMONICS, season_rows
from flfl.protocol.plan import COMPONENTS, Box, Plan

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

OFFSETS = 1 + 2 * HARMONICS
"""Numbers that describe a sensor's centre and season."""
SHORT, SHORT_PASSES = 4000, 3
"""Below so many slots the dynamics are learned so many times a round: it costs no exchange."""


@dataclass(frozen=True)
class Facts:
    """What a site publishes of its sensors before a stretch of slots is released.

    Attributes
    ----------
    sensors : (m, 4) digests of the permanent ids
    places : (m, 2) on the published map, zeros without one
    error : (m,) error in time, 0 for a sensor that stays at home
    sigma : (m,) added error in this stretch
    variance : (m,) of the centred copies
    shift : (m, OFFSETS) change of centre and season since the last stretch
    known : (m, L) where there are copies
    """

    sensors: Index
    places: Array
    error: Array
    sigma: Array
    variance: Array
    shift: Array
    known: Mask


@dataclass(frozen=True)
class Stretch:
    """A stretch of slots that is released at once.

    Attributes
    ----------
    known : (M, L) where copies are in the release
    sigma : (M,) added error
    numbers : (L,) how many numbers were released at each slot
    z : (L, K) the release, zero until it is made
    """

    known: Mask
    sigma: Array
    numbers: Index
    z: Array

    @property
    def used(self) -> Mask:
        """Which entries of z are released (L, K): as they travel, they stand in a row."""
        return np.arange(self.z.shape[1]) < self.numbers[:, None]


@dataclass(frozen=True)
class Network:
    """All that is public. Sensors of all sites are rows, in the order in which they joined.

    Attributes
    ----------
    names : the sites that take part now
    site : (M,) position of each sensor's site in ``names``, -1 for one that left
    order : (M,) its place among the sensors that its site names
    sensors, places, error : of :class:`Facts`
    scale : one number for all sensors, fixed at founding
    transform, season : agreed; positions : (N,) elapsed steps of the slots
    units_stop : (M,) centre and season are those of a sensor's copies before this slot
    P, r : (M, k) loadings and (M,) residual variances
    """

    plan: Plan
    names: tuple[str, ...]
    site: Index
    order: Index
    sensors: Index
    places: Array
    error: Array
    scale: float
    transform: str
    season: int
    positions: Array
    units_stop: Index
    stretches: tuple[Stretch, ...]
    P: Array
    r: Array
    dynamics: Dynamics

    @property
    def n_slots(self) -> int:
        """Slots of all stretches."""
        return sum(len(part.numbers) for part in self.stretches)

    @cached_property
    def known(self) -> Mask:
        """Where copies are in the release (M, N)."""
        return np.concatenate([part.known for part in self.stretches], axis=1)

    @cached_property
    def sigma2(self) -> Array:
        """Variance of the added error in units of the network's scale, 0 where unknown (M, N)."""
        parts = [part.known * (part.sigma**2)[:, None] for part in self.stretches]
        return np.concatenate(parts, axis=1) / self.scale**2

    @cached_property
    def numbers(self) -> Index:
        """Numbers released at each slot (N,)."""
        return np.concatenate([part.numbers for part in self.stretches])

    @cached_property
    def z(self) -> Array:
        """The release (N, K)."""
        return np.concatenate([part.z for part in self.stretches])

    @cached_property
    def weights(self) -> Array:
        """Weight of each sensor in the sums (M,): quiet sensors count more, within limits."""
        speaks = self.error > 0
        middle = float(np.median(self.error[speaks])) if speaks.any() else 1.0
        return np.where(speaks, self.scale / np.maximum(self.error, 0.5 * middle), 0.0)

    @cached_property
    def phi(self) -> Array:
        """The basis at the sensors, as the release uses it (M, K)."""
        size = self.stretches[0].z.shape[1]
        return basis_at(self.plan, self.places, self.sensors, size)

    @cached_property
    def digest(self) -> bytes:
        """What a site saw, in 32 bytes: everything that came in messages."""
        text = hashlib.sha256(
            repr((self.plan, self.names, self.transform, self.season, self.scale)).encode()
        )
        for part in self.stretches:
            for array in (part.known, part.sigma, part.numbers, part.z):
                text.update(np.ascontiguousarray(array).tobytes())
        for array in (self.site, self.order, self.sensors, self.places, self.error, self.P, self.r):
            text.update(np.ascontiguousarray(array).tobytes())
        return text.digest()

    def rows(self, name: str) -> Index:
        """The sensors of a site, in the order in which it names them."""
        rows = np.flatnonzero(self.site == self.names.index(name))
        return rows[np.argsort(self.order[rows])]

    def noise(self, rows: Index | slice = slice(None)) -> Array:
        """Variance of some sensors' copies around ``p . q``, 0 where there is no copy (m, N)."""
        return self.known[rows] * self.r[rows, None] + self.sigma2[rows]

    def design(
        self, rows: Index | slice = slice(None), there: Mask | None = None
    ) -> loadings.Design:
        """How some sensors enter the release, with all of their copies or with some (m, N)."""
        noise = self.noise(rows)
        noise = noise if there is None else np.where(there, noise, 0.0)
        return loadings.design(self.P[rows], noise, self.weights[rows], self.phi[rows])


def components(n_sensors: int) -> int:
    """Most numbers that a slot of so many sensors releases."""
    return max(1, min(COMPONENTS, n_sensors // 2))


def rank_of(plan: Plan, n_sensors: int, n_slots: int) -> int:
    """Number of factors: not more than sensors or slots allow."""
    return max(1, min(plan.rank, n_sensors - 1, n_slots // 10))


@lru_cache(maxsize=8)
def _founded(box: Box, size: int) -> Basis:
    """The functions that a network was founded with."""
    low, high = np.array(box, dtype=float)
    return smooth_basis(low, high, size)


def basis_at(plan: Plan, places: Array, sensors: Index, size: int) -> Array:
    """The fixed functions at the sensors: smooth on the map, else keyed signs (M, size)."""
    if plan.box is None:
        return keyed_signs([row.tobytes() for row in sensors], size)
    made = _founded(plan.box, size).at(places)
    rest = keyed_signs([row.tobytes() for row in sensors], size + 1)[:, 1 + made.shape[1] :]
    return np.concatenate([made, rest], axis=1)


def found(
    plan: Plan, facts: Mapping[str, Facts], trial: tuple[str, int], positions: Array
) -> Network:
    """A new network, before its first release, from what each site publishes.

    Where the sensors' places coincide there is no map, now nor when others join.
    """
    names = tuple(facts)
    M = sum(len(fact.error) for fact in facts.values())
    variance = np.concatenate([fact.variance for fact in facts.values()])
    places = np.concatenate([fact.places for fact in facts.values()])
    if len(np.unique(places, axis=0)) < max(3, M // 2):
        plan = replace(plan, box=None)
    speaks = variance > 0
    scale = float(np.sqrt(variance[speaks].mean())) if speaks.any() else 1.0
    empty = Network(
        plan,
        names,
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.empty((0, 4), np.int64),
        np.empty((0, 2)),
        np.empty(0),
        scale,
        trial[0],
        trial[1],
        positions,
        np.empty(0, np.int64),
        (),
        np.empty((0, 0)),
        np.empty(0),
        first_dynamics(1, 1.0),
    )
    network = extend(empty, facts)
    return restart(network) if M else network


def extend(network: Network, facts: Mapping[str, Facts]) -> Network:
    """The network with one more stretch, before its release.

    Sensors that are new get rows at the end; those that do not take part have no copies in the
    stretch. Earlier releases are adjusted to centres and seasons that have changed.
    """
    names = tuple(facts)
    old = {row.tobytes(): i for i, row in enumerate(network.sensors)}
    rows: dict[str, Index] = {}
    fresh: list[tuple[str, int]] = []
    for name, fact in facts.items():
        at = []
        for n, digest in enumerate(fact.sensors):
            key = digest.tobytes()
            if key not in old:
                old[key] = len(network.sensors) + len(fresh)
                fresh.append((name, n))
            at.append(old[key])
        rows[name] = np.array(at, dtype=np.int64)
    M, L = len(old), next(iter(facts.values())).known.shape[1]
    site, order = np.full(M, -1, np.int64), np.zeros(M, np.int64)
    known, sigma = np.zeros((M, L), bool), np.zeros(M)
    shift = np.zeros((M, OFFSETS))
    for n, (name, fact) in enumerate(facts.items()):
        site[rows[name]], known[rows[name]] = n, fact.known
        order[rows[name]] = np.arange(len(rows[name]))
        sigma[rows[name]], shift[rows[name]] = fact.sigma, fact.shift
    new = [
        (facts[name].sensors[n], facts[name].places[n], facts[name].error[n]) for name, n in fresh
    ]
    grown = replace(
        network,
        names=names,
        site=site,
        order=order,
        sensors=np.concatenate([network.sensors, *(s[None] for s, _, _ in new)]),
        places=np.concatenate([network.places, *(p[None] for _, p, _ in new)]),
        error=np.concatenate([network.error, np.array([e for _, _, e in new])]),
        stretches=tuple(_widen(part, M) for part in network.stretches),
    )
    K = grown.stretches[0].z.shape[1] if grown.stretches else components(M)
    moved = shift.any()
    stretches = _shifted(grown, shift) if moved else grown.stretches
    numbers = numbers_of(known, site, network.plan.share, K)
    stretch = Stretch(known, sigma, numbers, np.zeros((L, K)))
    grown = replace(grown, stretches=(*stretches, stretch))
    units = np.concatenate([network.units_stop, np.full(len(new), grown.n_slots)])
    # A site that is away keeps the units that its part of the release is in.
    units = np.where(moved & (site >= 0), grown.n_slots, units)
    grown = replace(grown, units_stop=units)
    return _with_newcomers(grown) if len(new) and network.P.size else grown


def numbers_of(known: Mask, site: Index, share: float, most: int) -> Index:
    """Numbers released at each slot: a share of its readings, at most half of them.

    Where only two sites have readings, each could take its own part off the sums: then at most
    half of the smaller one's readings. Nothing of a slot that one site alone has.
    """
    names = np.unique(site[site >= 0])
    counts = np.array([known[site == n].sum(axis=0) for n in names]).reshape(len(names), -1)
    total, present = counts.sum(axis=0), (counts > 0).sum(axis=0)
    smaller = np.where(counts > 0, counts, total).min(axis=0, initial=known.size)
    half = np.where(present > 2, total, np.where(present == 2, smaller, 0)) // 2
    return np.minimum(loadings.numbers_a_slot(np.where(half > 0, total, 0), share, most), half)


def _widen(part: Stretch, M: int) -> Stretch:
    more = M - len(part.sigma)
    return replace(
        part,
        known=np.pad(part.known, ((0, more), (0, 0))),
        sigma=np.pad(part.sigma, (0, more)),
    )


def _shifted(network: Network, shift: Array) -> tuple[Stretch, ...]:
    """Earlier releases as they would be with the new centres and seasons: linear in them."""
    rows = season_rows(network.positions, network.season)
    out, start = [], 0
    for part in network.stretches:
        stop = start + len(part.numbers)
        change = part.known * (shift @ rows[:, start:stop]) / network.scale
        z = part.z - loadings.released(change, network.weights, network.phi, part.numbers)
        out.append(replace(part, z=z))
        start = stop
    return tuple(out)


def _with_newcomers(network: Network) -> Network:
    """Sensors without loadings start where the basis puts them."""
    k, had = network.P.shape[1], len(network.P)
    P = np.concatenate([network.P, np.zeros((len(network.error) - had, k))])
    r = np.concatenate([network.r, _first_r(network)[had:]])
    return replace(network, P=P, r=r)


def _first_r(network: Network) -> Array:
    return np.maximum(2 * (network.error / network.scale) ** 2, 0.05)


def restart(network: Network) -> Network:
    """The state before the first round: loadings on the basis, slow factors."""
    k = rank_of(network.plan, len(network.error), network.n_slots)
    B = basis_at(
        network.plan, network.places, network.sensors, max(k, components(len(network.error)))
    )
    P = B[:, :k] / np.sqrt(np.maximum((B[:, :k] ** 2).mean(axis=0), 1e-12))
    variance = 1.0 / float((P**2).sum(axis=1).mean())
    return replace(network, P=P, r=_first_r(network), dynamics=first_dynamics(k, variance))


def with_release(network: Network, sums: Array, present: Sequence[str]) -> Network:
    """The network with the sums of its last stretch (n,), over the sites that were in them."""
    *before, last = network.stretches
    z = np.zeros_like(last.z)
    z[last.used] = sums
    inside = np.isin(network.site, [network.names.index(name) for name in present])
    if inside[network.site >= 0].all():
        last = replace(last, z=z)
    else:
        # Somebody dropped: the sums are those of the others, and so are the numbers.
        known = last.known & inside[:, None]
        numbers = numbers_of(
            known, np.where(inside, network.site, -1), network.plan.share, z.shape[1]
        )
        numbers = np.minimum(numbers, last.numbers)
        used = np.arange(z.shape[1]) < numbers[:, None]
        last = replace(last, known=known, numbers=numbers, z=np.where(used, z, 0.0))
    return replace(network, stretches=(*before, last))


_KEPT: OrderedDict[bytes, tuple[Posterior, Dynamics]] = OrderedDict()
_MOST_KEPT = 2


def posterior(network: Network) -> tuple[Posterior, Dynamics]:
    """The factors given the release, and the dynamics that they suggest.

    A pure function of public numbers. Parties in one process share its last results.
    """
    dynamics = network.dynamics.A.tobytes() + network.dynamics.S.tobytes()
    key = hashlib.sha256(network.digest + dynamics).digest()
    if key not in _KEPT:
        information, vector = loadings.information(network.design(), network.z, network.numbers)
        _KEPT[key] = _infer(information, vector, network.dynamics)
        while len(_KEPT) > _MOST_KEPT:
            _KEPT.popitem(last=False)
    _KEPT.move_to_end(key)
    return _KEPT[key]


def _infer(information: Array, vector: Array, dynamics: Dynamics) -> tuple[Posterior, Dynamics]:
    """Smooth and learn the dynamics, a few times where slots are few and that is cheap."""
    passes = SHORT_PASSES if len(vector) < SHORT else 1
    for _ in range(passes):
        post = smooth(information, vector, dynamics)
        dynamics = learn(post.moments, len(vector))
    return post, dynamics


def fit_quality(network: Network, post: Posterior) -> tuple[Array, float]:
    """How well the release fits: chi^2 of each slot over its numbers (N,), and the median.

    The residual ``z - F m`` has the covariance ``R - F V F'`` given all the data. Slots without
    numbers have 1.
    """
    F, R = loadings.used(network.design(), network.numbers)
    d = np.arange(R.shape[1])
    S = R - F @ post.cov @ F.swapaxes(1, 2)
    S[:, d, d] += 1e-3 * R[:, d, d]
    e = network.z - (F @ post.mean[:, :, None])[:, :, 0]
    square = np.einsum("tk,tk->t", e, np.linalg.solve(S, e[:, :, None])[:, :, 0])
    seen = network.numbers > 0
    ratio = np.where(seen, square / np.maximum(network.numbers, 1), 1.0)
    return ratio, float(np.median(ratio[seen])) if seen.any() else 1.0
