"""The coordinator's part of a run: what is asked, in which order.

A run of the default method, without a pilot::

    vote -> publish -> release (one secure sum) -> begin -> refit x (rounds - 1) -> finish

With a pilot, a first stretch of slots goes from ``publish`` to the last ``refit`` before the rest
does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flfl.errors import FLFLError, InputError
from flfl.model.state_space import Dynamics
from flfl.protocol import public
from flfl.protocol.plan import Plan
from flfl.protocol.public import Facts, Network
from flfl.protocol.schema import (
    FACT_FIELDS,
    SIGNATURE,
    chained,
    facts_from_wire,
    loadings_fit,
    pack_text,
    statement,
)
from flfl.protocol.session import Ask, Program, Replies
from flfl.protocol.state import network_to_arrays
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]
Verify = Callable[[str, bytes, bytes], None]

PILOT_ROUNDS = 4
LATER_ROUNDS = 1
"""Rounds when slots are added to a finished run."""
FEWEST_SLOTS = 400
"""Slots below which a pilot is not worth its exchanges."""


class NobodyLeftError(FLFLError):
    """No site published anything, so there is nothing to release."""


@dataclass
class Coordination:
    """One run at the coordinator.

    Attributes
    ----------
    positions : (N,) elapsed steps of the slots
    earlier : public state of the run to which slots are added, None for a new network
    traffic : what travelled, and notes
    progress : told (round, rounds)
    verify : raises an `FLFLError` for (site, signature, text) where the signature is not the
        site's; with it, a site that signs wrongly is set aside instead of stopping the others
    sizes : dimensions of the answers to come, for a :class:`~flfl.protocol.session.Coordinator`
    network : the public state so far; after the run, what anybody may keep
    """

    plan: Plan
    positions: Array
    traffic: Traffic
    earlier: Network | None = None
    progress: Progress | None = None
    verify: Verify | None = None
    network: Network | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    _seen: bytes = bytes(32)
    _signatures: NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, SIGNATURE), np.int64)
    )
    _next: tuple[Array, Array] = field(default_factory=lambda: (np.empty((0, 0)), np.empty(0)))

    def program(self) -> Program:
        """The questions of the run."""
        plan, N = self.plan, len(self.positions)
        if self.earlier is not None:
            plan = replace(plan, box=self.earlier.plan.box)
            self.network = replace(self.earlier, plan=plan, positions=self.positions)
            yield self._ask("resume", **network_to_arrays(self.network))
            start, pilot = self.network.n_slots, 0
            trial = self._agreed(self.network)
        else:
            trial = yield from self._vote()
            start, pilot = 0, 0
        if self.earlier is None and plan.pilot > 0 and plan.added_error > 0 and N >= FEWEST_SLOTS:
            pilot = yield from self._pilot(trial)
        # After a pilot there is room for one more: 20 exchanges in all, 12 without.
        rounds = plan.rounds + (pilot > 0) if self.earlier is None else LATER_ROUNDS
        yield from self._stretch(trial, max(start, pilot), N, rounds)
        yield self._ask("finish", **self._loadings())
        self.traffic.rounds = rounds + (PILOT_ROUNDS if pilot else 0)

    def _agreed(self, network: Network) -> int:
        """The earlier run's transform and season among those of the plan."""
        trials: Sequence[tuple[str, int]] = self.plan.trials()
        if (network.transform, network.season) not in trials:
            raise FLFLError(
                f"the earlier run has the transform {network.transform} and the season"
                f" {network.season}, which this plan has not; plan for them, or start anew"
            )
        return trials.index((network.transform, network.season))

    def _ask(self, kind: str, **body: np.ndarray | float) -> Ask:
        self.traffic.exchanges[kind] += 1
        self._seen = chained(self._seen, kind, body)
        return Ask(kind, body)

    def _is_signed(self, name: str, body: Mapping[str, NDArray]) -> bool:
        """Whether a site has signed what it says, after it has seen what it was asked."""
        if self.verify is None:
            return True
        arrays = {k: v for k, v in body.items() if k not in ("seen", "signature")}
        try:
            signature = np.asarray(body["signature"], "<i8").tobytes()
            self.verify(name, signature, statement(name, arrays, self._seen))
        except FLFLError:
            return False
        return True

    def _vote(self) -> Generator[Ask, Replies, int]:
        """Transform and season by majority; a site with negative readings vetoes a root or log."""
        trials = self.plan.trials()
        if len(trials) == 1:
            return 0
        replies = yield self._ask("vote")
        return tally(
            trials,
            [
                (int(body["vote"]) % len(trials), bool(body["negative"]))
                for body in replies.by_site.values()
            ],
        )

    def _pilot(self, trial: int) -> Generator[Ask, Replies, int]:
        """A first stretch, long enough to say how much the network leaves open of each sensor."""
        N = len(self.positions)
        stop = max(int(self.plan.pilot * N), FEWEST_SLOTS // 4)
        yield from self._stretch(trial, 0, stop, PILOT_ROUNDS)
        return stop

    def _stretch(
        self, trial: int, start: int, stop: int, rounds: int
    ) -> Generator[Ask, Replies, None]:
        """Publish, release and fit one stretch of slots."""
        replies = yield self._ask("publish", trial=trial, start=start, stop=stop)
        read = self._facts(replies, stop - start)
        facts = {name: replies.by_site[name] for name in read}
        everybody = {
            key: np.concatenate([body[key] for body in facts.values()]) for key in FACT_FIELDS
        }
        self._extend(read, trial)
        network = self._the_network()
        self._note_twins(read)
        self.sizes["released"] = int(network.stretches[-1].numbers.sum())
        replies = yield self._ask(
            "release",
            names=pack_text("\n".join(facts)),
            sizes=np.array([len(body["error"]) for body in facts.values()]),
            signatures=np.array([body["signature"] for body in facts.values()]),
            **everybody,
        )
        present = tuple(name for name in replies.sites or facts if name in facts)
        self._note_dropped(facts, present)
        sums = replies.total["z"]
        if len(sums) != self.sizes["released"]:
            raise FLFLError(f"{len(sums)} sums came, not {self.sizes['released']}")
        network = public.with_release(network, sums, present)
        self.traffic.numbers += int(network.stretches[-1].numbers.sum())
        self.network = network if self.earlier is not None else public.restart(network)
        here = np.array([name in present for name in facts]).astype(int)
        ask = self._ask("begin", present=here, z=sums)
        for n in range(rounds):
            replies = yield ask
            self._take_loadings(replies)
            if self.progress is not None:
                self.progress(n + 1, rounds)
            if n < rounds - 1:
                ask = self._ask("refit", **self._loadings())

    def _facts(self, replies: Replies, n_slots: int) -> dict[str, Facts]:
        """What the sites published, without those who published something impossible."""
        read: dict[str, Facts] = {}
        taken: set[bytes] = set()
        for name in sorted(replies.by_site):
            try:
                fact = facts_from_wire(replies.by_site[name], n_slots)
            except InputError as error:
                self._set_aside(name, str(error))
                continue
            sensors = {row.tobytes() for row in fact.sensors}
            if not self._is_signed(name, replies.by_site[name]):
                self._set_aside(name, "its signature is wrong")
                continue
            if sensors & taken:
                self._set_aside(name, "it names a sensor of another site as its own")
                continue
            taken |= sensors
            read[name] = fact
        if not any(len(fact.error) for fact in read.values()):
            raise NobodyLeftError("no site published anything")
        return read

    def _set_aside(self, name: str, why: str) -> None:
        self.traffic.notes.append(f"{name} is set aside: {why}")

    def _extend(self, facts: Mapping[str, Facts], trial: int) -> None:
        if self.network is None:
            chosen = self.plan.trials()[trial]
            self.network = public.found(self.plan, facts, chosen, self.positions)
        else:
            self.network = public.extend(self.network, facts)

    def _the_network(self) -> Network:
        assert self.network is not None
        return self.network

    def _take_loadings(self, replies: Replies) -> None:
        """The sites' new loadings, and the dynamics that everybody computed."""
        network = self._the_network()
        dynamics = self._dynamics(network)
        P, r = network.P.copy(), network.r.copy()
        self._signatures = np.zeros((len(network.names), SIGNATURE), np.int64)
        for name in network.names:
            body, rows = replies.by_site.get(name), network.rows(name)
            if body is None:
                continue
            shapes = body["P"].shape == P[rows].shape and body["r"].shape == r[rows].shape
            if not (shapes and loadings_fit(body["P"], body["r"]) and self._is_signed(name, body)):
                self._set_aside(name, "its loadings do not fit, or its signature is wrong")
                continue
            P[rows], r[rows] = body["P"], body["r"]
            self._signatures[network.names.index(name)] = body["signature"]
        self.network = replace(network, dynamics=dynamics)
        self._next = P, r

    def _dynamics(self, network: Network) -> Dynamics:
        """The dynamics that everybody computes from the release."""
        try:
            with np.errstate(all="ignore"):
                return public.posterior(network)[1]
        except np.linalg.LinAlgError:
            raise FLFLError("the sums do not fit the sites' loadings; run again") from None

    def _loadings(self) -> MutableMapping[str, np.ndarray | float]:
        P, r = self._next
        self.network = replace(self._the_network(), P=P, r=r)
        return {"P": P, "r": r, "signatures": self._signatures}

    def _note_dropped(self, asked: Mapping[str, object], present: tuple[str, ...]) -> None:
        lost = [name for name in asked if name not in present]
        if lost:
            self.traffic.notes.append(
                f"{', '.join(lost)} left during the release: the sums are those of the others, and"
                " nothing of it is in them"
            )

    def _note_twins(self, facts: Mapping[str, Facts]) -> None:
        """Two owners of one station would give two copies of each reading."""
        seen: dict[bytes, str] = {}
        for name, fact in facts.items():
            for place, known in zip(fact.places, fact.known, strict=True):
                key = place.tobytes() + known.tobytes()
                other = seen.setdefault(key, name)
                if other != name and place.any() and not known.all() and known.any():
                    self.traffic.notes.append(
                        f"{other} and {name} have a sensor at the same place with the same gaps: if"
                        " it is one station, only one of them should take part with it"
                    )


def tally(trials: Sequence[tuple[str, int]], votes: list[tuple[int, bool]]) -> int:
    """The trial that wins: the transform by plurality, the season by majority.

    Examples
    --------
    >>> trials = [("none", 0), ("none", 24), ("sqrt", 0), ("sqrt", 24)]
    >>> tally(trials, [(2, False), (2, False), (1, False)]), tally(trials, [(2, False), (0, True)])
    (2, 0)
    """
    transforms = list(dict.fromkeys(transform for transform, _ in trials))
    seasons = list(dict.fromkeys(season for _, season in trials))
    if any(negative for _, negative in votes) and "none" in transforms:
        transforms = ["none"]
    for_transform = Counter(trials[vote][0] for vote, _ in votes)
    for_season = Counter(trials[vote][1] for vote, _ in votes)
    best = max(transforms, key=lambda name: for_transform[name])
    season = max(seasons, key=lambda length: for_season[length])
    return trials.index((best, season))
