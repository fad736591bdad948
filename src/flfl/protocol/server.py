"""The coordinator's part of a run: what is asked, in which order.

A run of the default method, without a pilot::

    vote -> publish -> release (one secure sum) -> begin -> refit x (rounds - 1) -> finish

With a pilot, a first stretch of slots goes from ``publish`` to the last ``refit`` before the rest
does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flfl.constants import LATER_ROUNDS, PILOT_LEAST, PILOT_ROUNDS, PILOT_SLOTS
from flfl.errors import FLFLError, InputError
from flfl.model import Array
from flfl.protocol import network as public
from flfl.protocol import schema
from flfl.protocol.late import Late
from flfl.protocol.network import Facts, Network, Once
from flfl.protocol.plan import Addition, Fit, Plan
from flfl.protocol.session import Ask, Program, Replies
from flfl.protocol.traffic import Traffic

Progress = Callable[[int, int], None]
Verify = Callable[[str, bytes, bytes], None]
Loadings = dict[str, NDArray]


@dataclass
class Coordination:
    """One run at the coordinator.

    ``verify`` raises an `FLFLError` for (site, signature, text) where the signature is not the
    site's: with it, a site that signs wrongly is set aside instead of stopping the others.
    """

    plan: Plan
    positions: Array  # (N,) elapsed steps of the slots
    traffic: Traffic
    earlier: Network | None = None  # the run that slots are added to
    progress: Progress | None = None  # is called with (round, rounds)
    verify: Verify | None = None
    network: Network | None = None  # the public state so far; in the end, what anybody may keep
    sizes: dict[str, int] = field(default_factory=dict)  # dimensions of the answers to come
    once: Once = public.apart  # parties in one process may share what follows from questions
    seen: bytes = bytes(32)  # the hash of all questions so far
    addition: Addition = field(default_factory=Addition)  # how slots are added to an earlier run

    def program(self) -> Program:
        """The questions of the run."""
        plan, N = self.plan, len(self.positions)
        choices: list[tuple[str, int]] = [*plan.units()]
        start = units = 0
        rounds, before = plan.rounds, 0
        if self.earlier is not None:
            plan, how = replace(plan, box=self.earlier.plan.box), self.addition
            self.network = network = public.resumed(self.earlier, plan, self.positions, how)
            start, rounds = network.stop, plan.rounds if how.fit == Fit.ANEW else LATER_ROUNDS
            digest = schema.to_words(self.earlier.digest)
            yield self._ask("resume", digest=digest, keep=how.keep, first=how.first, fit=how.fit)
            if (network.transform, network.season) not in choices:
                raise FLFLError(
                    f"the earlier run has the transform {network.transform} and the season"
                    f" {network.season}, which this plan has not; plan for them, or start anew"
                )
            units = choices.index((network.transform, network.season))
        elif len(choices) > 1:
            replies = yield self._ask("vote")
            votes = [(int(b["vote"]), bool(b["negative"])) for b in replies.by_site.values()]
            units = tally(choices, votes)
        if self.earlier is None and plan.pilot > 0 and plan.added_error > 0 and N >= PILOT_SLOTS:
            # Long enough to say how much the network leaves open of each sensor. After it there
            # is room for one more round: 20 exchanges in all, 12 without.
            start, before = max(int(plan.pilot * N), PILOT_LEAST), PILOT_ROUNDS
            yield from self._stretch(units, 0, start, before)
            rounds += 1
        loadings = yield from self._stretch(units, start, N, rounds)
        yield self._ask("finish", **loadings)
        self.traffic.rounds = rounds + before
        if self.earlier is not None and self.network is not None:
            kept = public.since(self.earlier, self.addition.keep)
            self.network = public.joined(kept, self.network)

    @property
    def _fit(self) -> Fit:
        return Fit.ANEW if self.earlier is None else self.addition.fit

    def _ask(self, kind: str, **body: np.ndarray | float) -> Ask:
        self.traffic.exchanges[kind] += 1
        self.seen = schema.chained(self.seen, kind, body)
        return Ask(kind, body)

    def _stretch(
        self, units: int, start: int, stop: int, rounds: int
    ) -> Generator[Ask, Replies, Loadings]:
        """Publish, release and fit one stretch of slots; returns the last loadings."""
        replies = yield self._ask("publish", units=units, start=start, stop=stop)
        facts = self._facts(replies, stop - start)
        bodies = [replies.by_site[name] for name in facts]
        if self.network is None:
            network = public.found(self.plan, facts, self.plan.units()[units], self.positions)
        else:
            network = public.extend(self.network, facts)
        self.sizes["released"] = int(network.numbers[network.last].sum())
        replies = yield self._ask(
            "release",
            names=schema.pack_text("\n".join(facts)),
            sizes=np.array([len(fact.error) for fact in facts.values()]),
            signatures=np.array([body["signature"] for body in bodies]),
            **{key: np.concatenate([body[key] for body in bodies]) for key in schema.FACT_FIELDS},
        )
        sums = replies.total["z"]
        present = [name for name in replies.sites or facts if name in facts]
        if lost := [name for name in facts if name not in present]:
            self.traffic.notes.append(
                f"{', '.join(lost)} left during the release: the sums are those of the others, and"
                " nothing of it is in them"
            )
        network = yield from self._with_late(network)
        if len(sums) != self.sizes["released"]:
            raise FLFLError(f"{len(sums)} sums came, not {self.sizes['released']}")
        network = public.with_release(network, sums, present)
        self.traffic.numbers += int(network.numbers[network.last].sum())
        anew = self._fit == Fit.ANEW
        self.network = public.restart(network, self.earlier) if anew else network
        here = np.array([name in present for name in facts]).astype(int)
        ask = self._ask("begin", present=here, z=sums)
        self.network = self.once(self.seen, partial(_same, self.network))
        for n in range(rounds):
            replies = yield ask
            loadings = self._take_loadings(replies)
            if self.progress is not None:
                self.progress(n + 1, rounds)
            if n < rounds - 1:
                ask = self._ask("refit", **loadings)
                self.network = self.once(self.seen, partial(_same, self.network))
        return loadings

    def _with_late(self, network: Network) -> Generator[Ask, Replies, Network]:
        """The network with copies that came after the release of their slots, where it has any."""
        if self.earlier is None or not self.plan.late:
            return network
        replies = yield self._ask("late")
        stop = network.first + network.last.start
        whole, parts, sizes, signatures, present = network.late, [], [], [], []
        for name in network.names:
            body = replies.by_site.get(name)
            part = Late() if body is None else Late(*(body[key] for key in schema.LATE_FIELDS))
            here = body is not None and self._is_signed(name, body)
            fits = np.isin(part.rows, network.rows(name)).all()
            if here and not (fits and schema.late_fits(whole.with_more(part), network, stop)):
                here = False
            if body is not None and not here:
                self._set_aside(name, "its late copies do not fit, or its signature is wrong")
            part = part if here else Late()
            whole = whole.with_more(part)
            parts.append(part)
            sizes.append(len(part))
            present.append(int(here))
            signed = np.zeros(schema.SIGNATURE, np.int64)
            signatures.append(body["signature"] if body is not None and here else signed)
        yield self._ask(
            "add", sizes=np.array(sizes), present=np.array(present),
            signatures=np.array(signatures), **vars(Late().with_more(*parts)),
        )  # fmt: skip
        return replace(network, late=whole)

    def _facts(self, replies: Replies, n_slots: int) -> dict[str, Facts]:
        """What the sites published, without those who published something impossible."""
        read: dict[str, Facts] = {}
        owner_of: dict[bytes, str] = {}
        for name, body in sorted(replies.by_site.items()):
            try:
                fact = schema.facts_from_wire(body, n_slots)
            except InputError as error:
                self._set_aside(name, str(error))
                continue
            sensors = [row.tobytes() for row in fact.sensors]
            if not self._is_signed(name, body):
                self._set_aside(name, "its signature is wrong")
            elif any(sensor in owner_of for sensor in sensors):
                self._set_aside(name, "it names a sensor of another site as its own")
            else:
                read[name] = fact
                owner_of.update(dict.fromkeys(sensors, name))
        if not owner_of:
            raise FLFLError("no site published anything")
        self.traffic.notes.extend(notes_on_repeats(read))
        return read

    def _take_loadings(self, replies: Replies) -> Loadings:
        """The sites' new loadings, and the dynamics that everybody computed."""
        network = self.network
        assert network is not None
        try:
            with np.errstate(all="ignore"):
                network = network.learned
        except np.linalg.LinAlgError:
            raise FLFLError("the sums do not fit the sites' loadings; run again") from None
        P, r, away = network.P.copy(), network.r.copy(), np.ones(len(network.r), bool)
        present = np.zeros(len(network.names), np.int64)
        signatures = np.zeros((len(network.names), schema.SIGNATURE), np.int64)
        for n, name in enumerate(network.names):
            body, rows = replies.by_site.get(name), network.rows(name)
            if body is None:
                continue
            fits = body["P"].shape == P[rows].shape and body["r"].shape == r[rows].shape
            fits = fits and schema.loadings_fit(body["P"], body["r"])
            if not (fits and self._is_signed(name, body)):
                self._set_aside(name, "its loadings do not fit, or its signature is wrong")
                continue
            P[rows], r[rows], signatures[n] = body["P"], body["r"], body["signature"]
            present[n], away[rows] = 1, False
        P[away] = public.of_the_absent(network, P, away, self._fit)
        here = [name for name, answered in zip(network.names, present, strict=True) if answered]
        self.network = public.with_loadings(network, P, r, here, self._fit)
        return {"P": P, "r": r, "present": present, "signatures": signatures}

    def _is_signed(self, name: str, body: Mapping[str, NDArray]) -> bool:
        """Whether a site has signed what it publishes, after it has seen what it was asked."""
        if self.verify is None:
            return True
        arrays = {k: v for k, v in body.items() if k not in ("seen", "signature")}
        try:
            signature = np.asarray(body["signature"], "<i8").tobytes()
            self.verify(name, signature, schema.chained(self.seen, f"from {name}", arrays))
        except FLFLError:
            return False
        return True

    def _set_aside(self, name: str, why: str) -> None:
        self.traffic.notes.append(f"{name} is set aside: {why}")


def _same(network: Network) -> Network:
    return network


def notes_on_repeats(facts: Mapping[str, Facts]) -> list[str]:
    """Notes on owners that may have one station in common: they would give two copies of it."""
    seen: dict[bytes, str] = {}
    notes = []
    for name, fact in facts.items():
        for place, known in zip(fact.places, fact.known, strict=True):
            other = seen.setdefault(place.tobytes() + known.tobytes(), name)
            if other != name and place.any() and not known.all() and known.any():
                notes.append(
                    f"{other} and {name} have a sensor at the same place with the same gaps: if it"
                    " is one station, only one of them should take part with it"
                )
    return notes


def tally(choices: Sequence[tuple[str, int]], votes: Sequence[tuple[int, bool]]) -> int:
    """The transform and season that win: the transform by plurality, the season by majority.
    A site with negative readings vetoes a root or a logarithm.

    Examples
    --------
    >>> choices = [("none", 0), ("none", 24), ("sqrt", 0), ("sqrt", 24)]
    >>> tally(choices, [(2, False), (2, False), (1, False)])
    2
    >>> tally(choices, [(2, False), (0, True)])
    0
    """
    transforms = list(dict.fromkeys(transform for transform, _ in choices))
    seasons = list(dict.fromkeys(season for _, season in choices))
    if any(negative for _, negative in votes) and "none" in transforms:
        transforms = ["none"]
    voted = [choices[vote % len(choices)] for vote, _ in votes]
    for_transform = Counter(transform for transform, _ in voted)
    for_season = Counter(season for _, season in voted)
    best = max(transforms, key=lambda name: for_transform[name])
    season = max(seasons, key=lambda length: for_season[length])
    return choices.index((best, season))
