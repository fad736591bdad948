"""All that is public in a network, and what anybody can compute from it.

Coordinator and sites hold the same :class:`Network` and call the same functions, so a coordinator
can lie about the released sums only: the posterior of the factors follows from public numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.model import Array, Index, Mask, loadings
from flfl.model.basis import keyed_signs, smooth_basis
from flfl.model.state_space import Dynamics, Posterior, first_dynamics, learn, smooth
from flfl.model.transforms import season_rows
from flfl.protocol.late import Late
from flfl.protocol.plan import Addition, Fit, Plan

T = TypeVar("T", bound=np.generic)
Rows = Index | slice

OFFSETS = 1 + 2 * constants.HARMONICS
"""Numbers that describe a sensor's centre and season."""


@dataclass(frozen=True)
class Facts:
    """What a site publishes of its m sensors before a stretch of L slots is released."""

    sensors: Index  # (m, 4) digests of the permanent ids
    places: Array  # (m, 2) on the published map, zeros without one
    error: Array  # (m,) error in time, 0 for a sensor that stays at home
    sigma: Array  # (m,) added error in this stretch
    variance: Array  # (m,) of the centred copies
    shift: Array  # (m, OFFSETS) change of centre and season since the last stretch
    known: Mask  # (m, L) where there are copies


_BLOCK = 512
"""Slots whose designs are in memory at a time."""


def blocks(n_slots: int) -> Iterator[slice]:
    """All slots, some at a time."""
    for start in range(0, n_slots, _BLOCK):
        yield slice(start, min(start + _BLOCK, n_slots))


@dataclass(frozen=True)
class Own:
    """Some sensors' part of a release: rows (m,), copies in the network's units (m, N), zero where
    there is none, and where they are in it (m, N)."""

    rows: Index
    copies: Array
    there: Mask


@dataclass(frozen=True)
class Inferred:
    """The factors given the release of a network, and the dynamics that they suggest;
    ``information`` (N, k, k) and ``vector`` (N, k) are what the release tells of the factors."""

    information: Array
    vector: Array
    post: Posterior
    dynamics: Dynamics


@dataclass(frozen=True)
class Network:
    """All that is public: M sensors of all sites, N slots in stretches, each released at once."""

    plan: Plan
    names: tuple[str, ...]  # the sites that take part now
    site: Index  # (M,) position of each sensor's site in ``names``, -1 for one that left
    order: Index  # (M,) its place among the sensors that its site names
    sensors: Index  # (M, 4) digests, in the order in which sensors joined
    places: Array  # (M, 2)
    error: Array  # (M,) error in time, 0 for a sensor that stays at home
    scale: float  # one number for all sensors, fixed at founding
    transform: str
    season: int
    positions: Array  # (N or more,) elapsed steps of the slots
    units_stop: Index  # (M,) centre and season are those of a sensor's copies before this slot,
    # 0 for one that has no copy in the release
    stops: Index  # (S,) the slot after each stretch
    sigma: Array  # (M, S) added error of each sensor in each stretch
    known: Mask  # (M, N) where copies are in the release
    numbers: Index  # (N,) how many numbers were released at each slot
    z: Array  # (N, K) the release, zero beyond each slot's numbers and until it is made
    P: Array  # (M, k) loadings
    r: Array  # (M,) residual variances
    dynamics: Dynamics
    due: Mask  # (M,) whose loadings their owner has not fitted, or on a few copies only
    quietest: float = 0.0  # no error in time counts as less: fixed when the first sensors speak
    first: int = 0  # slots of the network that came before these, and are not held here
    learns: bool = True  # False for a window, whose dynamics are those of a longer time
    late: Late = field(default_factory=Late)  # copies that came after the release of their slots

    @property
    def n_slots(self) -> int:
        """Slots that are held here."""
        return len(self.numbers)

    @property
    def stop(self) -> int:
        """The slot after the last one."""
        return self.first + self.n_slots

    @property
    def here(self) -> slice:
        """The slots that are held here, among all slots of the network."""
        return slice(self.first, self.stop)

    @property
    def last(self) -> slice:
        """The slots of the last stretch."""
        return slice(int(self.stops[-2]) if len(self.stops) > 1 else 0, self.n_slots)

    @cached_property
    def stretch(self) -> Index:
        """The number of each slot's stretch (N,)."""
        return np.repeat(np.arange(len(self.stops)), np.diff(self.stops, prepend=0))

    @property
    def sigma2(self) -> Array:
        """Variance of the added error in units of the network's scale, 0 where unknown (M, N)."""
        return self.sigma2_of(slice(None))

    def sigma2_of(self, rows: Rows, slots: slice = slice(None)) -> Array:
        """The same of some sensors (m,) at some slots (n,): (m, n)."""
        squares = (self.sigma[rows] / self.scale) ** 2
        return np.asarray(self.known[rows][:, slots] * squares[:, self.stretch[slots]])

    @cached_property
    def weights(self) -> Array:
        """Weight of each sensor in the sums (M,): quiet sensors count more, within limits."""
        length = np.maximum(np.maximum(self.error, self.quietest), 1e-300)
        return np.where(self.error > 0, self.scale / length, 0.0)

    @cached_property
    def phi(self) -> Array:
        """The basis at the sensors, as the release uses it (M, K)."""
        return self.basis(self.z.shape[1])

    @cached_property
    def digest(self) -> bytes:
        """All of it in 32 bytes, but for the positions of slots to come."""
        head = (self.plan, self.names, self.transform, self.season, self.scale, self.quietest)
        text = hashlib.sha256(repr(head).encode())
        for array in (
            self.site, self.order, self.sensors, self.places, self.error, self.units_stop,
            self.stops, self.sigma, self.known, self.numbers, self.z, self.P, self.r,
            self.dynamics.A, self.dynamics.S, self.due, np.array(self.first, np.int64),
            *vars(self.late).values(),
        ):  # fmt: skip
            text.update(np.ascontiguousarray(array).tobytes())
        return text.digest()

    def basis(self, size: int) -> Array:
        """The fixed functions at the sensors: smooth on the map, else keyed signs (M, size)."""
        if self.plan.box is None:
            return keyed_signs([row.tobytes() for row in self.sensors], size)
        return smooth_basis(self.places, self.plan.box, size)

    def rows(self, name: str) -> Index:
        """The sensors of a site, in the order in which it names them."""
        rows = np.flatnonzero(self.site == self.names.index(name))
        return rows[np.argsort(self.order[rows])]

    def design(
        self, slots: slice, rows: Rows = slice(None), there: Mask | None = None
    ) -> tuple[Array, Array]:
        """How some sensors enter the release of some slots, with all of their copies or with some
        of them (m, N)."""
        # Variance of the copies around p . q, 0 where there is no copy.
        known = self.known[rows][:, slots]
        noise = known * self.r[rows, None] + self.sigma2_of(rows, slots)
        noise = noise if there is None else np.where(there[:, slots], noise, 0.0)
        return loadings.design(self.P[rows], noise, self.weights[rows], self.phi[rows])

    @cached_property
    def inferred(self) -> Inferred:
        """What anybody infers from it."""
        return infer(self)

    @cached_property
    def learned(self) -> Network:
        """The same with the dynamics that its factors suggest; those of a window stay."""
        return replace(self, dynamics=self.inferred.dynamics) if self.learns else self

    @cached_property
    def solved(self) -> loadings.Solved:
        """The release with its noise taken out."""
        return loadings.solved(self._designs(), self.weights[:, None] * self.phi)

    @cached_property
    def quality(self) -> tuple[Array, float]:
        """How well the release fits: chi^2 of each slot over its numbers (N,), 1 without numbers,
        and the median. The residual ``z - F m`` has the covariance ``R - F V F'`` given all the
        data."""
        post, designs = self.inferred.post, zip(blocks(self.n_slots), self._designs(), strict=True)
        square = np.concatenate(
            [loadings.misfit(F, R, z, post.mean[at], post.cov[at]) for at, (F, R, z, _) in designs]
        )
        seen = self.numbers > 0
        ratio = np.where(seen, square / np.maximum(self.numbers, 1), 1.0)
        return ratio, float(np.median(ratio[seen])) if seen.any() else 1.0

    def _designs(self) -> Iterator[loadings.Design]:
        for at in blocks(self.n_slots):
            numbers = self.numbers[at]
            yield *loadings.used(*self.design(at), numbers), self.z[at], numbers

    def without(self, own: Own) -> tuple[Array, Array]:
        """What the release tells of the factors without some sensors: information and vector.

        The part of a lone sensor is a correction of rank one, where there are many numbers.
        """
        weights, phi = self.weights[own.rows], self.phi[own.rows]
        if len(own.rows) == 1 and phi.shape[1] >= constants.CORRECTED_NUMBERS:
            row, found = int(own.rows[0]), self.inferred
            noise = own.there[0] * (self.r[row] + self.sigma2_of(own.rows)[0])
            part = (self.P[row], weights[0] * phi[0], noise, own.copies[0])
            made = self.solved.without(row, *part, found.information, found.vector)
            if len(mine := self.late.where(self.late.rows == row)):
                late = mine.information(self.P, self.r, self.here)
                made = made[0] - late[0], made[1] - late[1]
            return made
        z = self.z - loadings.released(own.copies, weights, phi, self.numbers)
        k = self.P.shape[1]
        information, vector = np.empty((self.n_slots, k, k)), np.empty((self.n_slots, k))
        for at in blocks(self.n_slots):
            (F, R), (own_F, own_R) = self.design(at), self.design(at, own.rows, own.there)
            made = loadings.information(F - own_F, R - own_R, z[at], self.numbers[at])
            information[at], vector[at] = made
        if len(others := self.late.where(~np.isin(self.late.rows, own.rows))):
            add_late(self, others, information, vector)
        return information, vector


def found(
    plan: Plan, facts: Mapping[str, Facts], units: tuple[str, int], positions: Array
) -> Network:
    """A new network, before its first release; ``units`` are the transform and the season. Where
    places coincide there is no map, for ever."""
    variance = np.concatenate([fact.variance for fact in facts.values()])
    places = np.concatenate([fact.places for fact in facts.values()])
    M, varies = len(places), variance > 0
    if len(np.unique(places, axis=0)) < max(3, M // 2):
        plan = replace(plan, box=None)
    scale = float(np.sqrt(variance[varies].mean())) if varies.any() else 1.0
    K = _width(M, plan)
    whole, real = np.empty(0, np.int64), np.empty(0)
    empty = Network(
        plan=plan, names=(), site=whole, order=whole, sensors=np.empty((0, 4), np.int64),
        places=np.empty((0, 2)), error=real, scale=scale, transform=units[0], season=units[1],
        positions=positions, units_stop=whole, stops=whole, sigma=np.empty((0, 0)),
        known=np.empty((0, 0), bool), numbers=whole, z=np.empty((0, K)), P=np.empty((0, 0)), r=real,
        dynamics=first_dynamics(1, 1.0), due=np.empty(0, bool),
    )  # fmt: skip
    return restart(extend(empty, facts))


def since(network: Network, slot: int) -> Network:
    """The network without the slots before ``slot``: at least its last one stays."""
    cut = int(np.clip(slot - network.first, 0, max(network.n_slots - 1, 0)))
    kept = network.stops > cut
    return replace(
        network, first=network.first + cut, stops=network.stops[kept] - cut,
        sigma=network.sigma[:, kept], known=network.known[:, cut:], numbers=network.numbers[cut:],
        z=network.z[cut:], late=network.late.where(network.late.slots >= network.first + cut),
    )  # fmt: skip


def window(network: Network, slot: int) -> Network:
    """The slots from ``slot`` on, with loadings and dynamics from all of them: what lies so far
    back that the factors have forgotten it is not looked at again."""
    return replace(since(network, slot), learns=False) if slot > network.first else network


def joined(whole: Network, part: Network) -> Network:
    """The state of ``part`` with the slots of ``whole`` that came before: the inverse of
    :func:`since`, whatever was added since."""
    cut, M, K = part.first - whole.first, len(part.sensors), part.z.shape[1]
    before = whole.stops[whole.stops <= cut]
    sigma, z = _longer(whole.sigma[:, : len(before)], M), _wider(whole.z[:cut], K)
    return replace(
        part,
        first=whole.first,
        learns=whole.learns,
        stops=np.concatenate([before, part.stops + cut]),
        sigma=np.concatenate([sigma, part.sigma], axis=1),
        known=np.concatenate([_longer(whole.known[:, :cut], M), part.known], axis=1),
        numbers=np.concatenate([whole.numbers[:cut], part.numbers]),
        z=np.concatenate([z, part.z]),
        late=whole.late.where(whole.late.slots < part.first).with_more(part.late),
    )


def extend(network: Network, facts: Mapping[str, Facts]) -> Network:
    """The network with one more stretch, before its release. New sensors get rows at the end.
    Earlier releases are adjusted to centres and seasons that have changed."""
    row_of = {digest.tobytes(): row for row, digest in enumerate(network.sensors)}
    rows = {}
    for name, fact in facts.items():
        own = [row_of.setdefault(digest.tobytes(), len(row_of)) for digest in fact.sensors]
        rows[name] = np.array(own, np.int64)
    had, M, N = len(network.sensors), len(row_of), network.n_slots
    L = next(iter(facts.values())).known.shape[1]
    sensors, places = _longer(network.sensors, M), _longer(network.places, M)
    error = _longer(network.error, M)
    site, order = np.full(M, -1, np.int64), np.zeros(M, np.int64)
    known, sigma, shift = np.zeros((M, L), bool), np.zeros(M), np.zeros((M, OFFSETS))
    for n, (name, fact) in enumerate(facts.items()):
        at, new = rows[name], rows[name] >= had
        site[at], order[at] = n, np.arange(len(at))
        known[at], sigma[at], shift[at] = fact.known, fact.sigma, fact.shift
        sensors[at[new]], places[at[new]] = fact.sensors[new], fact.places[new]
        # A sensor that stayed at home, with too few readings say, may speak later.
        error[at] = np.where(error[at] > 0, error[at], fact.error)
    grown = replace(
        network, names=tuple(facts), site=site, order=order, sensors=sensors, places=places,
        error=error, known=_longer(network.known, M),
        quietest=network.quietest or _quietest(error),
    )  # fmt: skip
    # More sensors allow for more numbers a slot.
    K = max(network.z.shape[1], _width(M, network.plan))
    z = _wider(network.z, K)
    grown, late = replace(grown, z=z), network.late
    if shift.any() and N:
        # Sums are linear in the copies, so also in their centres and seasons.
        season = season_rows(network.positions, network.season)[:, network.here]
        change = grown.known * (shift @ season) / network.scale
        z = z - loadings.released(change, grown.weights, grown.phi, network.numbers)
        moved = (shift[late.rows] * season[:, late.slots - network.first].T).sum(axis=1)
        late = replace(late, copies=late.copies - moved / network.scale)
    numbers = numbers_of(known, site, network.plan.share, K)
    # The others keep the units that their part of the release is in; without one there are none.
    units_stop = _longer(network.units_stop, M)
    anew = shift.any(axis=1) | ((units_stop == 0) & known.any(axis=1))
    P, r = network.P, network.r
    if P.size:  # newcomers have no loadings before they fit them
        P, r = _longer(P, M), np.concatenate([r, _first_residuals(grown)[had:]])
    return replace(
        grown,
        units_stop=np.where(anew, network.stop + L, units_stop),
        stops=np.append(network.stops, N + L),
        sigma=np.column_stack([_longer(network.sigma, M), sigma]),
        known=np.concatenate([grown.known, known], axis=1),
        numbers=np.concatenate([network.numbers, numbers]),
        z=np.concatenate([z, np.zeros((L, K))]),
        P=P,
        r=r,
        due=np.concatenate([network.due, np.ones(M - had, bool)]),
        late=late,
    )


def _longer(array: NDArray[T], M: int) -> NDArray[T]:
    """An array with rows of zeros for sensors that are new."""
    rows = np.zeros((M - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, rows])


def _quietest(error: Array) -> float:
    copied = error > 0
    return constants.QUIETEST_WEIGHT * float(np.median(error[copied])) if copied.any() else 0.0


def _wider(z: Array, K: int) -> Array:
    """Sums with columns of zeros for numbers that were not released then."""
    return np.pad(z, ((0, 0), (0, K - z.shape[1])))


def _first_residuals(network: Network) -> Array:
    squares = (network.error / network.scale) ** 2
    return np.maximum(constants.FIRST_RESIDUAL * squares, constants.LEAST_FIRST_RESIDUAL)


def numbers_of(known: Mask, site: Index, share: float, most: int) -> Index:
    """Numbers released at each slot: a share of its readings, at most half of them unless the
    share is larger.

    Where only two sites have readings, each could take its own part off the sums: then the limit
    counts the smaller one's readings. Nothing of a slot that one site alone has.
    """
    inside = site >= 0
    order = np.argsort(site[inside], kind="stable")
    _, first = np.unique(site[inside][order], return_index=True)
    counts = np.zeros((0, known.shape[1]), np.int64)
    if len(first):
        counts = np.add.reduceat(known[inside][order], first, axis=0, dtype=np.int64)
    total, present = counts.sum(axis=0), (counts > 0).sum(axis=0)
    smaller = np.where(counts > 0, counts, total).min(axis=0, initial=known.size)
    hidden = np.where(present > 2, total, np.where(present == 2, smaller, 0))
    limit = loadings.most_numbers(hidden, share)
    return np.minimum(loadings.numbers_a_slot(np.where(limit > 0, total, 0), share, most), limit)


def _width(M: int, plan: Plan) -> int:
    """Numbers that a slot can have, with all sensors there."""
    limit = int(loadings.most_numbers(np.array(M), plan.share))
    return max(1, min(constants.MOST_NUMBERS, limit))


def restart(network: Network, earlier: Network | None = None) -> Network:
    """The state before the first round: loadings on the basis, slow factors. Those of sensors whose
    owners are away follow from an earlier run's by :func:`carried`."""
    M = len(network.error)
    k = max(1, min(network.plan.rank, M - 1, network.n_slots // constants.SLOTS_A_FACTOR))
    B = network.basis(max(k, _width(M, network.plan)))[:, :k]
    P = B / np.sqrt(np.maximum((B**2).mean(axis=0), 1e-12))
    dynamics = first_dynamics(k, 1.0 / float((P**2).sum(axis=1).mean()))
    r = _first_residuals(network)
    if earlier is not None and (away := network.site < 0).any() and not away.all():
        P[away], r[away] = carried(network.P, P, away), network.r[away]
    return replace(network, P=P, r=r, dynamics=dynamics)


def carried(before: Array, now: Array, away: Mask) -> Array:
    """Loadings of sensors whose owners are away, in new factors (m, l).

    Factors are known up to a linear map: the others' loadings before (M, k) and now (M, l) say
    which one, by ridge regression.

    Examples
    --------
    >>> before = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> carried(before, 2 * before, np.array([False, False, True])).round(2)
    array([[2., 2.]])
    """
    here = before[~away]
    gram = here.T @ here
    ridge = (1e-3 * np.trace(gram) / len(gram) or 1.0) * np.eye(len(gram))
    return np.asarray(before[away] @ np.linalg.solve(gram + ridge, here.T @ now[~away]))


def with_release(network: Network, sums: Array, present: Sequence[str]) -> Network:
    """The network with the sums of its last stretch (n,), over the sites that were in them."""
    last, K = network.last, np.arange(network.z.shape[1])
    known, numbers = network.known[:, last], network.numbers[last]
    new = np.zeros_like(network.z[last])
    new[numbers[:, None] > K] = sums
    inside = np.isin(network.site, [network.names.index(name) for name in present])
    if not inside[network.site >= 0].all():
        # Somebody dropped: the sums are those of the others, and so are the numbers.
        known, site = known & inside[:, None], np.where(inside, network.site, -1)
        numbers = np.minimum(numbers_of(known, site, network.plan.share, len(K)), numbers)
        new = np.where(numbers[:, None] > K, new, 0.0)
    return replace(
        network,
        known=np.concatenate([network.known[:, : last.start], known], axis=1),
        numbers=np.concatenate([network.numbers[: last.start], numbers]),
        z=np.concatenate([network.z[: last.start], new]),
    )


def resumed(earlier: Network, plan: Plan, positions: Array, how: Addition) -> Network:
    """The part of an earlier run's state that slots are added to."""
    kept = replace(since(earlier, how.keep), plan=plan, positions=positions)
    return kept if how.fit == Fit.ANEW else window(kept, how.first)


def with_loadings(
    network: Network, P: Array, r: Array, present: Sequence[str], fit: Fit
) -> Network:
    """The network with loadings that these sites have fitted."""
    fitted = np.isin(network.site, [network.names.index(name) for name in present])
    late = np.bincount(network.late.rows, minlength=len(network.r))
    few = network.known.sum(axis=1) + late < constants.FEWEST_READINGS
    due = network.due & (few | ~fitted) if fit == Fit.KEPT else few | ~fitted
    return replace(network, P=P, r=r, due=due)


def of_the_absent(network: Network, P: Array, away: Mask, fit: Fit) -> Array:
    """Loadings of sensors whose owners have not fitted them, given all others' (m, k)."""
    if fit != Fit.ANEW or away.all() or not away.any():
        return network.P[away]
    return carried(network.P, P, away)


def infer(network: Network) -> Inferred:
    """The factors given the release, and the dynamics that they suggest.

    Sums of which nothing can be computed say nothing: somebody's part of them is nonsense.
    Everybody comes to the same conclusion.
    """
    k = network.P.shape[1]
    information, vector = np.empty((network.n_slots, k, k)), np.empty((network.n_slots, k))
    try:
        with np.errstate(all="ignore"):
            for at in blocks(network.n_slots):
                made = loadings.information(*network.design(at), network.z[at], network.numbers[at])
                information[at], vector[at] = made
            if len(network.late):
                add_late(network, network.late, information, vector)
            found = _smoothed(network, information, vector)
        parts = found.post.mean, found.dynamics.A, found.dynamics.S
        sensible = all((np.abs(part) < constants.LARGEST_FACTOR).all() for part in parts)
    except np.linalg.LinAlgError:
        sensible = False
    if sensible:
        return found
    nothing = np.zeros_like(information), np.zeros_like(vector)
    return Inferred(*nothing, smooth(*nothing, network.dynamics), network.dynamics)


def add_late(network: Network, late: Late, information: Array, vector: Array) -> None:
    """Add what late copies tell of the factors (N, k, k), (N, k), in place."""
    for at in blocks(network.n_slots):
        slots = slice(network.first + at.start, network.first + at.stop)
        more, toward = late.information(network.P, network.r, slots)
        information[at] += more
        vector[at] += toward


def _smoothed(network: Network, information: Array, vector: Array) -> Inferred:
    dynamics = network.dynamics
    if not network.learns:
        return Inferred(information, vector, smooth(information, vector, dynamics), dynamics)
    for _ in range(constants.SHORT_PASSES if network.n_slots < constants.SHORT_SLOTS else 1):
        post = smooth(information, vector, dynamics)
        dynamics = learn(post.moments, network.n_slots)
    return Inferred(information, vector, post, dynamics)


V = TypeVar("V")


class Once(Protocol):
    """Computes what follows from public questions, whose hash is the key."""

    def __call__(self, key: bytes, make: Callable[[], V]) -> V: ...


def apart(key: bytes, make: Callable[[], V]) -> V:
    """A party by itself computes everything."""
    return make()


def together() -> Once:
    """Parties in one process, asked the same questions: what one computed, the others reuse."""
    kept: dict[bytes, object] = {}

    def once(key: bytes, make: Callable[[], V]) -> V:
        made = kept.pop(key) if key in kept else make()
        kept.clear()  # parties are in step: the last one serves a round
        kept[key] = made
        return cast(V, made)

    return once
