"""A site's part of a run: a chain of frozen states and one table of handlers.

``Joined -> Published -> Released -> Fitted -> Finished``; after a pilot, a fitted site publishes
once more; with late copies, a site that has released is ``Offered`` in between. A handler is a pure
function ``(outgoing, state, body) -> (state, answer)``. It gets what the owner gives out, never a
clean reading. What it refuses, it refuses with a code from a fixed list. Replaying a journal is a
fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from flfl.constants import PILOT_COPIES
from flfl.errors import FLFLError, InputError
from flfl.model import Array, Index, Mask, loadings
from flfl.model.transforms import fit_offsets, season_rows
from flfl.protocol import network as public
from flfl.protocol import schema
from flfl.protocol.late import Late
from flfl.protocol.network import Facts, Network, Once
from flfl.protocol.owner import Outgoing, Owner
from flfl.protocol.plan import Addition, Fit, Plan
from flfl.secagg import SecureClient

Body = Mapping[str, np.ndarray]
Answer = dict[str, "np.ndarray | float"]

REFUSALS = (
    ORDER := "the question comes in a wrong order",
    SLOTS := "these slots are not the next ones",
    UNITS := "this transform and season were not agreed",
    SITES := "the sites' facts do not fit",
    OWN := "its own facts are not as it gave them",
    SUMS := "the sums do not fit",
    LOADINGS := "the loadings do not fit",
    HISTORY := "the history is not the one it saw",
    SIGNATURE := "a signature is wrong",
    READINGS := "its readings cannot be copied",
)
"""All that others learn when a site refuses. None depends on a reading."""
LARGEST_PART = 2.0**20
"""Largest number that a site adds to a sum."""
LARGEST_SUM = 2.0**33
"""Largest sum that fixed point has room for."""


class Refusal(FLFLError):  # noqa: N818 - it is an answer, not a fault
    """A question that this site does not answer."""

    def __init__(self, code: str) -> None:
        assert code in REFUSALS
        super().__init__(code)


@dataclass(frozen=True)
class Run:
    """What does not change in a run."""

    name: str  # of the site
    plan: Plan
    positions: Array  # (N,) elapsed steps of the slots
    signer: SecureClient | None = None  # nobody without secure sums
    once: Once = public.apart  # parties in one process may share what follows from questions
    earlier: Network | None = None  # what this site keeps of the runs before
    addition: Addition | None = None  # how slots are added to it, where they are

    @property
    def fit(self) -> Fit:
        """What is done with the loadings of an earlier run."""
        return Fit.ANEW if self.addition is None else self.addition.fit


@dataclass(frozen=True)
class State:
    """Where a site stands; ``seen`` is the hash of all questions so far."""

    run: Run
    seen: bytes


@dataclass(frozen=True)
class Joined(State):
    """Before anything was published; ``network`` is an earlier run's public state."""

    network: Network | None = None


@dataclass(frozen=True)
class Published(State):
    """Its facts of a stretch are known, and the centre and season of its copies are fixed."""

    network: Network | None
    units: tuple[str, int]
    offsets: Array
    facts: Facts


@dataclass(frozen=True)
class _Informed(State):
    """It knows everybody's facts."""

    network: Network
    offsets: Array


class Released(_Informed):
    """Its part of the sums is given."""


@dataclass(frozen=True)
class Offered(_Informed):
    """So are its copies that came late."""

    late: Late


@dataclass(frozen=True)
class Fitted(_Informed):
    """It has fitted its loadings ``P`` and residual variances ``r`` at least once."""

    P: Array
    r: Array


class Finished(_Informed):
    """It has everybody's last loadings: nothing leaves any more."""


S = TypeVar("S", bound=State)
T = TypeVar("T")
Handler = Callable[[Outgoing, State, Body], tuple[State, Answer]]


def _need(condition: object, code: str) -> None:
    if not condition:
        raise Refusal(code)


def _at(state: State, kind: type[S]) -> S:
    """The state, if it is of this kind; another one is a wrong order."""
    if not isinstance(state, kind):
        raise Refusal(ORDER)
    return state


def _once(state: State, kind: str, body: Body, make: Callable[[], T]) -> T:
    """What follows from the questions so far and this one."""
    return state.run.once(schema.chained(state.seen, kind, body), make)


def vote(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """One vote a site."""
    return _at(state, Joined), {"vote": out.vote, "negative": int(out.negative)}


def resume(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Take up an earlier run's public state: the one that this site keeps."""
    run = _at(state, Joined).run
    _need(run.addition is None, ORDER)
    earlier, keep, first = run.earlier, int(body["keep"]), int(body["first"])
    if earlier is None or not np.array_equal(body["digest"], schema.to_words(earlier.digest)):
        raise Refusal(HISTORY)
    fits = earlier.first <= keep <= first <= earlier.stop <= len(run.positions)
    _need(fits and int(body["fit"]) in list(Fit), HISTORY)
    how = Addition(keep, first, Fit(int(body["fit"])))
    plan = replace(run.plan, box=earlier.plan.box)
    network = _once(
        state, "resume", body, partial(public.resumed, earlier, plan, run.positions, how)
    )
    return Joined(replace(run, addition=how), state.seen, network), {}


def publish(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Where there are copies in a stretch, and how noisy they are."""
    network, units, stretch = check_publish(state, body)
    rows, there = season_rows(state.run.positions, units[1]), np.isfinite(out.copies)
    then = _units_stops(state, network, out, stretch)
    moves = _moving(state, out.sensors)
    earlier, now = (
        fit_offsets(np.where(J, out.copies, 0.0), J.astype(float), rows)
        for J in (there & (out.arrival < then), there & (out.arrival < stretch.stop))
    )
    # After the pilot, and in every fit anew, centre and season follow all copies, and the release
    # is adjusted.
    now = np.where(moves[:, None], now, earlier)
    centred = np.where(there, out.copies - now @ rows, 0.0)[:, : stretch.stop]
    n = np.maximum(there[:, : stretch.stop].sum(axis=1), 1)
    variance = (centred**2).sum(axis=1) / n
    # Root mean square added error. They are equal, but where earlier runs made the copies.
    known, sigma = there[:, stretch], out.sigma[:, stretch]
    most = sigma.max(axis=1, initial=0.0)
    share = (sigma / np.where(most > 0, most, 1.0)[:, None]) ** 2
    facts = Facts(
        sensors=out.sensors,
        places=out.places,
        error=out.error,
        sigma=most * np.sqrt(share.sum(axis=1) / np.maximum(known.sum(axis=1), 1)),
        variance=np.where(variance > schema.LARGEST**-2, variance, 0.0),
        shift=now - earlier,
        known=known,
    )
    answer: Answer = {**schema.facts_to_wire(facts)}
    return Published(state.run, state.seen, network, units, now, facts), answer


def _units_stops(state: State, network: Network | None, out: Outgoing, stretch: slice) -> Index:
    """Before which slot the copies are that centre and season are taken from (m, 1)."""
    there, whole = np.isfinite(out.copies), state.run.earlier or network
    then = np.full((len(there), 1), stretch.stop)
    if network is None or whole is None:
        return then
    ids = [row.tobytes() for row in network.sensors]
    stop_of = dict(zip(ids, network.units_stop.tolist(), strict=True))
    ends = whole.first + whole.stops
    for n, row in enumerate(out.sensors):
        at = stop_of.get(row.tobytes(), 0)
        arrival = out.arrival[n][there[n]]
        if (arrival < at).any():
            then[n] = at
        elif len(arrival):
            # A store that was lost has no copies of then: its sensors begin anew, with the stretch
            # of their first copy.
            stop = np.searchsorted(ends, arrival.min(), side="right")
            then[n] = ends[stop] if stop < len(ends) else stretch.stop
    return then


def _moving(state: State, sensors: Index) -> Mask:
    """Whose centre and season follow all copies so far (m,): everybody's where all is fitted, else
    those of newcomers, all of whose part in the release is at hand."""
    run = state.run
    if run.fit == Fit.ANEW or run.earlier is None or not isinstance(state, Joined):
        return np.ones(len(sensors), bool)
    whole, network = run.earlier, state.network
    if run.fit == Fit.ONWARD or network is None:
        return np.zeros(len(sensors), bool)
    young = network.due & ~whole.known[:, : network.first - whole.first].any(axis=1)
    young[whole.late.rows[whole.late.slots < network.first]] = False
    ids = {row.tobytes() for row in network.sensors[young]}
    return np.array([row.tobytes() in ids for row in sensors], bool)


def _lacking(state: State, network: Network | None, sensors: Index) -> Mask | None:
    """Where readings may come late: released slots of the window, without a copy of this sensor's
    (m, N). None where nothing is released late."""
    run = state.run
    if not run.plan.late or run.addition is None or network is None:
        return None
    out = np.zeros((len(sensors), len(run.positions)), bool)
    out[:, network.here] = True
    row_of = {digest.tobytes(): row for row, digest in enumerate(network.sensors)}
    for n, digest in enumerate(sensors):
        if (row := row_of.get(digest.tobytes())) is not None:
            out[n, network.here] = ~network.known[row]
    return out


def check_publish(state: State, body: Body) -> tuple[Network | None, tuple[str, int], slice]:
    """The network so far, and the units and stretch that a question asks for, if right."""
    choices, number = state.run.plan.units(), int(body["units"])
    _need(0 <= number < len(choices), UNITS)
    if not isinstance(state, Joined | Fitted):
        raise Refusal(ORDER)
    network, units = state.network, choices[number]
    start, stop = int(body["start"]), int(body["stop"])
    after = 0 if network is None else network.stop
    _need(start == after < stop <= len(state.run.positions), SLOTS)
    _need(network is None or units == (network.transform, network.season), UNITS)
    return network, units, slice(start, stop)


def release(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """This site's part of the sums."""
    state, run = _at(state, Published), state.run
    facts, network = _once(state, "release", body, partial(_informed, state, body))
    _need(run.name in facts, SITES)
    mine, sent = schema.facts_to_wire(facts[run.name]), schema.facts_to_wire(state.facts)
    _need(all(np.array_equal(mine[key], sent[key]) for key in schema.FACT_FIELDS), OWN)
    rows, _, C = _own_copies(out, run, network, state.offsets)
    numbers = network.numbers[network.last]
    z = loadings.released(C[:, network.last], network.weights[rows], network.phi[rows], numbers)
    # A copy that is so far off spoils its slot as it is; it must not end the run as well.
    part = np.clip(z[np.arange(z.shape[1]) < numbers[:, None]], -LARGEST_PART, LARGEST_PART)
    return Released(run, state.seen, network, state.offsets), {"z": part}


def _own_copies(
    out: Outgoing, run: Run, network: Network, offsets: Array
) -> tuple[Index, Mask, Array]:
    """This site's rows (m,), where it has copies in the release (m, N), and these in the network's
    units, zero elsewhere (m, N)."""
    rows = network.rows(run.name)
    C = out.copies[:, network.here]
    there = network.known[rows] & np.isfinite(C)
    season = offsets @ season_rows(run.positions[network.here], network.season)
    return rows, there, np.where(there, (C - season) / network.scale, 0.0)


def _informed(state: Published, body: Body) -> tuple[dict[str, Facts], Network]:
    """Everybody's facts, and the network with them."""
    facts, run = _everybody(state, body), state.run
    if state.network is None:
        return facts, public.found(run.plan, facts, state.units, run.positions)
    return facts, public.extend(state.network, facts)


def _everybody(state: Published, body: Body) -> dict[str, Facts]:
    """Everybody's facts, each as its site has signed them."""
    L, m, sizes = state.facts.known.shape[1], len(body["error"]), body["sizes"]
    try:
        names = schema.unpack_text(body["names"]).split("\n")
    except (ValueError, OverflowError):
        raise Refusal(SITES) from None
    _need(len(names) == len(sizes) == len(body["signatures"]), SITES)
    _need(names == sorted(set(names)), SITES)
    _need(m > 0 and ((sizes >= 0) & (sizes <= m)).all() and sizes.sum() == m, SITES)
    _need(all(len(body[name]) == m for name in schema.FACT_FIELDS), SITES)
    _need(len(np.unique(body["sensors"], axis=0)) == m, SITES)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    out = {}
    for n, name in enumerate(names):
        part = {key: body[key][edges[n] : edges[n + 1]] for key in schema.FACT_FIELDS}
        _check(state, name, body["signatures"][n], part)
        try:
            out[name] = schema.facts_from_wire(part, L)
        except InputError:
            raise Refusal(SITES) from None
    return out


def late(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """This site's copies of slots that were released without them, each by itself."""
    state, run = _at(state, Released), state.run
    _need(run.plan.late and run.addition is not None, ORDER)
    network = state.network
    rows, start, stop = network.rows(run.name), network.first, network.first + network.last.start
    C, past = out.copies[:, start:stop], slice(0, stop - start)
    units = network.units_stop[rows] > 0
    new = out.late & np.isfinite(C) & ~network.known[rows, past] & units[:, None]
    new &= ~network.late.dense(len(network.r), slice(start, stop))[2][rows]
    n, t = np.nonzero(new)
    season = state.offsets @ season_rows(run.positions[start:stop], network.season)
    copies = np.clip((C - season)[n, t] / network.scale, -LARGEST_PART, LARGEST_PART)
    sigma2 = (out.sigma[n, start + t] / network.scale) ** 2
    given = Late(rows[n], start + t, copies, sigma2)
    return Offered(run, state.seen, network, state.offsets, given), {**vars(given)}


def add(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Everybody's late copies."""
    state = _at(state, Offered)
    mine = state.network.names.index(state.run.name)
    parts = _late_parts(state, body)
    _need(body["present"][mine], OWN)
    sent = zip(vars(parts[mine]).values(), vars(state.late).values(), strict=True)
    _need(all(np.array_equal(one, other) for one, other in sent), OWN)
    network = _once(state, "add", body, partial(_with_late, state, body, parts))
    return Released(state.run, state.seen, network, state.offsets), {}


def _late_parts(state: Offered, body: Body) -> list[Late]:
    sizes, present = body["sizes"], body["present"]
    n, sites = len(body["rows"]), len(state.network.names)
    _need(len(sizes) == len(present) == len(body["signatures"]) == sites, SITES)
    _need(((sizes >= 0) & (sizes <= n)).all() and sizes.sum() == n, SITES)
    _need(np.isin(present, (0, 1)).all() and not sizes[present == 0].any(), SITES)
    edges = np.cumsum(sizes)[:-1]
    parts = (np.split(body[name], edges) for name in schema.LATE_FIELDS)
    return [Late(*arrays) for arrays in zip(*parts, strict=True)]


def _with_late(state: Offered, body: Body, parts: list[Late]) -> Network:
    network = state.network
    for name, part, here, signature in zip(
        network.names, parts, body["present"], body["signatures"], strict=True
    ):
        if here:
            _check(state, name, signature, {**vars(part)})
        _need(np.isin(part.rows, network.rows(name)).all(), SITES)
    whole = network.late.with_more(*parts)
    _need(schema.late_fits(whole, network, network.first + network.last.start), SITES)
    return replace(network, late=whole)


def begin(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """The sums are open: fit the first loadings."""
    state = _at(state, Released)
    network, z, present = state.network, body["z"], body["present"]
    _need(len(z) == network.numbers[network.last].sum(), SUMS)
    _need(len(present) == len(network.names), SUMS)
    _need(np.isin(present, (0, 1)).all() and np.abs(z).max(initial=0.0) <= LARGEST_SUM, SUMS)
    names = [name for name, here in zip(network.names, present, strict=True) if here]
    _need(state.run.name in names, SUMS)

    def opened() -> Network:
        made = public.with_release(network, np.array(z), names)
        earlier = None if state.run.addition is None else state.run.earlier
        return public.restart(made, earlier) if state.run.fit == Fit.ANEW else made

    return _fit(out, state, _once(state, "begin", body, opened), SUMS)


def refit(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Everybody's loadings have come: fit the next ones."""
    state = _at(state, Fitted)
    return _fit(out, state, _with_loadings(state, "refit", body), LOADINGS)


def finish(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Everybody's last loadings."""
    state = _at(state, Fitted)
    return Finished(state.run, state.seen, _with_loadings(state, "finish", body), state.offsets), {}


def _fit(
    out: Outgoing, state: Released | Fitted, network: Network, code: str
) -> tuple[State, Answer]:
    """Loadings of this site's sensors, from its copies and the public posterior: none where they
    would be no sensible numbers. What leaves nothing to be computed is refused with the code."""
    run, offsets = state.run, state.offsets
    rows, there, C = _own_copies(out, run, network, offsets)
    J, sigma2 = there.astype(float), network.sigma2_of(rows)
    if len(network.late):
        parts = network.late.dense(len(network.r), network.here)
        copies, added, came = (part[rows] for part in parts)
        C, J, sigma2 = C + copies, J + came, sigma2 + added
    try:
        with np.errstate(all="ignore"):
            post, learned = network.inferred.post, network.learned
            P, r = loadings.fit_loadings(C, J, sigma2, post, network.r[rows])
            P, r = loadings.rounded(P, r, J, sigma2, post)
        if run.fit == Fit.KEPT:
            due = network.due[rows]
            P, r = np.where(due[:, None], P, network.P[rows]), np.where(due, r, network.r[rows])
    except np.linalg.LinAlgError:
        raise Refusal(code) from None
    if not schema.loadings_fit(P, r):
        # Somebody's part of the sums is nonsense: they tell nothing of these sensors.
        P, r = np.zeros_like(P), np.ones_like(r)
    return Fitted(run, state.seen, learned, offsets, P, r), {"P": P, "r": r}


def _with_loadings(state: Fitted, kind: str, body: Body) -> Network:
    network, P, r, signatures = state.network, body["P"], body["r"], body["signatures"]
    fits = P.shape == network.P.shape and r.shape == network.r.shape and schema.loadings_fit(P, r)
    _need(fits and len(signatures) == len(network.names) == len(body["present"]), LOADINGS)
    _need(np.isin(body["present"], (0, 1)).all(), LOADINGS)
    mine = network.rows(state.run.name)
    _need(np.array_equal(P[mine], state.P) and np.array_equal(r[mine], state.r), LOADINGS)
    _need(body["present"][network.names.index(state.run.name)], SIGNATURE)
    return _once(state, kind, body, partial(_signed_loadings, state, body))


def _signed_loadings(state: Fitted, body: Body) -> Network:
    network, P, r, fit = state.network, body["P"], body["r"], state.run.fit
    gone, present = network.site < 0, []
    for n, name in enumerate(network.names):
        rows, signature = network.rows(name), body["signatures"][n]
        if body["present"][n]:
            _check(state, name, signature, {"P": P[rows], "r": r[rows]})
            present.append(name)
        else:
            gone[rows] = True
    # Of those who left, the loadings follow from the others', but for rounding.
    expected = public.of_the_absent(network, P, gone, fit)
    kept = np.allclose(P[gone], expected) and np.allclose(r[gone], network.r[gone])
    _need(kept, LOADINGS)
    return public.with_loadings(network, np.array(P), np.array(r), present, fit)


def _check(state: State, name: str, signature: np.ndarray, arrays: Body) -> None:
    """Refuse what another site did not publish, or published after it saw something else."""
    if state.run.signer is None:
        return
    try:
        text = signature.astype("<i8").tobytes()
        state.run.signer.verify(name, text, schema.chained(state.seen, f"from {name}", arrays))
    except FLFLError:
        raise Refusal(SIGNATURE) from None


HANDLERS: Mapping[str, Handler] = {
    handler.__name__: handler
    for handler in (vote, resume, publish, release, late, add, begin, refit, finish)
}


def bound(out: Outgoing, state: State) -> Array | None:
    """What the public model leaves open of each sensor (m,) on the transformed scale: the error of
    its copies, each left out, less the added error, corrected for the numbers that were fitted;
    infinite for sensors with few copies. None before the pilot."""
    if not isinstance(state, Fitted):
        return None
    network = state.network
    rows, there, C = _own_copies(out, state.run, network, state.offsets)
    own = network.weights[rows], network.phi[rows]
    try:
        with np.errstate(all="ignore"):
            found = network.inferred
            total = loadings.left_open(C, there, state.P, own, network.solved.W, found.post)
    except np.linalg.LinAlgError:
        return None  # nothing can be said, so nothing is lowered
    n = there.sum(axis=1)
    spent = np.minimum(state.P.shape[1] / 2, n / 2)
    total = total * n / np.maximum(n - spent, 1.0)
    with np.errstate(invalid="ignore"):
        left = np.sqrt(np.maximum(total - network.sigma2_of(rows).max(axis=1), 0.0)) * network.scale
    return np.where(n >= PILOT_COPIES, left, np.inf)


class Client:
    """Answers questions with the handlers; asks the owner for copies when a question needs them."""

    def __init__(
        self,
        owner: Owner,
        plan: Plan,
        signer: SecureClient | None = None,
        once: Once = public.apart,
        earlier: Network | None = None,
    ) -> None:
        self.owner = owner
        run = Run(owner.table.name, plan, owner.table.positions, signer, once, earlier)
        self.state: State = Joined(run, bytes(32))
        self.outgoing = owner.public
        self.sizes: Mapping[str, int] = {}

    def answer(self, kind: str, body: Body) -> Answer:
        """Answer one question; a refusal changes nothing. Whatever goes wrong with the readings,
        others get one code; the reason stays at home."""
        run = self.state.run
        if kind == "vote" and isinstance(self.state, Joined):
            self.outgoing = self.owner.vote(run.plan.units())
        elif kind == "publish":
            network, units, stretch = check_publish(self.state, body)
            limit, wish = bound(self.outgoing, self.state), run.plan.added_error
            past = _lacking(self.state, network, self.outgoing.sensors)
            try:
                self.outgoing = self.owner.copy(units, stretch, wish, limit, past)
            except FLFLError as error:
                raise Refusal(READINGS) from error
        state, answer = HANDLERS[kind](self.outgoing, self.state, body)
        if kind == "finish" and run.fit == Fit.ANEW and run.plan.pilot > 0:
            self.owner.remember(bound(self.outgoing, self.state))
        seen = schema.chained(state.seen, kind, body)
        self.state = replace(state, seen=seen)
        if "signature" in schema.PROTOCOL[kind].answer:
            text = schema.chained(seen, f"from {run.name}", answer)
            signature = bytes(64) if run.signer is None else run.signer.sign(text)
            answer["seen"] = np.frombuffer(seen, "<i8").astype(np.int64)
            answer["signature"] = np.frombuffer(signature, "<i8").astype(np.int64)
        return answer

    @property
    def finished(self) -> bool:
        """Whether the run has ended for this site."""
        return isinstance(self.state, Finished)

    @property
    def network(self) -> Network:
        """All that is public after the run, with the slots that it did not look at."""
        state, run = self.state, self.state.run
        assert isinstance(state, Finished)
        if run.earlier is None or run.addition is None:
            return state.network
        return public.joined(public.since(run.earlier, run.addition.keep), state.network)
