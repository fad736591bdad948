"""A site's part of a run: a chain of frozen states and one table of handlers.

A handler is a pure function ``(outgoing, state, body) -> (state, answer)``. It gets what the owner
lets out, never a clean reading. What it refuses, it refuses with a code from a fixed list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from flfl.errors import FLFLError, InputError
from flfl.model import loadings
from flfl.model.transforms import fit_offsets, season_rows
from flfl.protocol import public
from flfl.protocol.owner import Outgoing, Owner
from flfl.protocol.plan import Plan
from flfl.protocol.public import Facts, Network
from flfl.protocol.schema import (
    FACT_FIELDS,
    LARGEST,
    PROTOCOL,
    chained,
    facts_from_wire,
    facts_to_wire,
    loadings_fit,
    statement,
    unpack_text,
)
from flfl.protocol.state import network_from_arrays

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Body = Mapping[str, np.ndarray]
Answer = dict[str, "np.ndarray | float"]

REFUSALS = (
    "asked in a wrong order",
    "asked for slots that are not next",
    "asked for a transform that was not voted on",
    "told of sites that do not fit",
    "told of facts that are not its own",
    "told of sums that do not fit",
    "told of loadings that do not fit",
    "told of another history than it saw",
    "a signature is wrong",
    "its readings cannot be copied",
)
"""All that others are told when a site refuses. None depends on a reading."""
LARGEST_PART = 2.0**20
"""Largest number that a site adds to a sum."""
LARGEST_SUM = 2.0**33
"""Largest sum that fixed point has room for."""
FEWEST_IN_PILOT = 30
"""Copies of a sensor without which a pilot says nothing of its noise."""


class Refusal(FLFLError):  # noqa: N818 - it is an answer, not a fault
    """A question that this site does not answer."""

    def __init__(self, code: str) -> None:
        assert code in REFUSALS
        super().__init__(code)


class Signer(Interface):
    """Signs what this site publishes, and checks what others did."""

    def sign(self, data: bytes) -> bytes:
        """64 bytes."""

    def verify(self, name: str, signature: bytes, data: bytes) -> None:
        """Raises an `FLFLError` for a wrong one."""


@dataclass(frozen=True)
class Joined:
    """Before anything was published.

    Attributes
    ----------
    name : of the site; signer : None where nobody signs (no secure sums)
    positions : (N,) of the slots that it has
    network : an earlier run's public state, None at founding
    seen : hash of all questions so far, in their order
    """

    name: str
    plan: Plan
    positions: Array
    signer: Signer | None = None
    network: Network | None = None
    resumed: bool = False
    seen: bytes = bytes(32)


@dataclass(frozen=True)
class Published(Joined):
    """Its facts of a stretch are known to the coordinator."""

    offsets: Array = field(kw_only=True)
    trial: tuple[str, int] = field(kw_only=True)
    stop: int = field(kw_only=True)
    facts: Facts = field(kw_only=True)


@dataclass(frozen=True)
class Released(Published):
    """Its part of the sums is given; it knows everybody's facts."""


@dataclass(frozen=True)
class Fitted(Published):
    """It has fitted its loadings at least once."""

    P: Array = field(kw_only=True)
    r: Array = field(kw_only=True)


@dataclass(frozen=True)
class Finished(Published):
    """It has everybody's last loadings: nothing leaves any more."""


State = Joined
Handler = Callable[[Outgoing, State, Body], tuple[State, Answer]]


def _need(condition: object, code: str) -> None:
    if not condition:
        raise Refusal(code)


# --- handlers ------------------------------------------------------------------------------------


def vote(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """One vote a site."""
    _need(type(state) is Joined, "asked in a wrong order")
    return state, {"vote": out.vote, "negative": int(out.negative)}


def resume(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Take up an earlier run's public state."""
    _need(type(state) is Joined and not state.resumed, "asked in a wrong order")
    try:
        network = network_from_arrays(body, state.plan)
    except InputError:
        raise Refusal("told of another history than it saw") from None
    _need(network.n_slots <= len(state.positions), "told of another history than it saw")
    return replace(state, network=replace(network, positions=state.positions), resumed=True), {}


def publish(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Where there are copies in a stretch, and how noisy they are."""
    trial, stretch = check_publish(state, body)
    rows = season_rows(state.positions, trial[1])
    known = np.isfinite(out.copies[:, stretch])
    offsets = now = _offsets(out, rows, _units(out, state, stretch.stop))
    if isinstance(state, Fitted):
        # After the pilot, centre and season follow all copies; the release is adjusted.
        now = _offsets(out, rows, np.full(len(known), stretch.stop))
    centred = np.where(np.isfinite(out.copies), out.copies - now @ rows, 0.0)[:, : stretch.stop]
    n = np.maximum(np.isfinite(out.copies[:, : stretch.stop]).sum(axis=1), 1)
    variance = (centred**2).sum(axis=1) / n
    facts = Facts(
        sensors=out.sensors,
        places=out.places,
        error=out.error,
        sigma=_typical(out.sigma[:, stretch], known),
        variance=np.where(variance > LARGEST**-2, variance, 0.0),
        shift=now - offsets,
        known=known,
    )
    kept = {name: vars(state)[name] for name in Joined.__dataclass_fields__}
    published = Published(**kept, offsets=now, trial=trial, stop=stretch.stop, facts=facts)
    return published, {**facts_to_wire(facts)}


def _typical(sigma: Array, known: Mask) -> Array:
    """Root mean square added error of each sensor's copies (m,), 0 where there are none.

    They are equal in most stretches, but one that was copied in several earlier runs.
    """
    most = sigma.max(axis=1, initial=0.0)
    share = (sigma / np.where(most > 0, most, 1.0)[:, None]) ** 2
    return np.asarray(most * np.sqrt(share.sum(axis=1) / np.maximum(known.sum(axis=1), 1)))


def _units(out: Outgoing, state: State, stop: int) -> Index:
    """Before which slot each sensor's copies say what its centre and season are (m,)."""
    units = np.full(len(out.sensors), stop)
    if state.network is not None:
        old = {row.tobytes(): i for i, row in enumerate(state.network.sensors)}
        for n, row in enumerate(out.sensors):
            at = state.network.units_stop[old[row.tobytes()]] if row.tobytes() in old else 0
            # A store that was lost has no copies of then: its sensors begin anew.
            units[n] = at if np.isfinite(out.copies[n, :at]).any() else stop
    return units


def _offsets(out: Outgoing, rows: Array, stops: Index) -> Array:
    """Centre and season of each sensor's copies before a slot of its own (m, OFFSETS)."""
    J = np.isfinite(out.copies) & (np.arange(out.copies.shape[1]) < stops[:, None])
    return fit_offsets(np.where(J, out.copies, 0.0), J.astype(float), rows)


def release(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """This site's part of the sums."""
    _need(type(state) is Published, "asked in a wrong order")
    assert isinstance(state, Published)
    facts = _everybody(state, body)
    start = state.stop - state.facts.known.shape[1]
    if state.network is None:
        network = public.found(state.plan, facts, state.trial, state.positions)
    else:
        network = public.extend(state.network, facts)
    rows = network.rows(state.name)
    C = _centred(out, state, network)[:, start : state.stop]
    numbers = network.stretches[-1].numbers
    z = loadings.released(C, network.weights[rows], network.phi[rows], numbers)
    # A copy that is so far off spoils its slot as it is; it must not end the run as well.
    part = np.clip(z[network.stretches[-1].used], -LARGEST_PART, LARGEST_PART)
    return Released(**vars(state) | {"network": network}), {"z": part}


def _centred(out: Outgoing, state: Published, network: Network) -> Array:
    """This site's copies in the network's units, zero where there is none (m, stop)."""
    rows = season_rows(state.positions, network.season)
    C = out.copies[:, : state.stop]
    return np.where(
        np.isfinite(C), (C - (state.offsets @ rows)[:, : state.stop]) / network.scale, 0.0
    )


def _there(out: Outgoing, network: Network, rows: Index) -> Mask:
    """Which of this site's copies in the release it still has (m, N)."""
    return network.known[rows] & np.isfinite(out.copies[:, : network.n_slots])


def _everybody(state: Published, body: Body) -> dict[str, Facts]:
    """Everybody's facts, with this site's own among them as it gave them."""
    code, L, m = "told of sites that do not fit", state.facts.known.shape[1], len(body["error"])
    try:
        names = unpack_text(body["names"]).split("\n")
    except (ValueError, OverflowError):
        raise Refusal(code) from None
    sizes = body["sizes"]
    _need(len(names) == len(sizes) == len(body["signatures"]), code)
    _need(names == sorted(set(names)) and state.name in names, code)
    _need(m > 0 and ((sizes >= 0) & (sizes <= m)).all() and sizes.sum() == m, code)
    _need(all(len(body[name]) == m for name in FACT_FIELDS), code)
    _need(len(np.unique(body["sensors"], axis=0)) == m, code)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    out = {}
    for n, name in enumerate(names):
        part = {key: body[key][edges[n] : edges[n + 1]] for key in FACT_FIELDS}
        _check(state, name, body["signatures"][n], part)
        try:
            out[name] = facts_from_wire(part, L)
        except InputError:
            raise Refusal(code) from None
    mine, sent = facts_to_wire(out[state.name]), facts_to_wire(state.facts)
    same = all(np.array_equal(mine[key], sent[key]) for key in FACT_FIELDS)
    _need(same, "told of facts that are not its own")
    return out


def begin(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """The sums are open: fit the first loadings."""
    _need(isinstance(state, Released), "asked in a wrong order")
    assert isinstance(state, Released)
    network = state.network
    assert network is not None
    z, present = body["z"], body["present"]
    code = "told of sums that do not fit"
    _need(len(z) == network.stretches[-1].numbers.sum(), code)
    _need(len(present) == len(network.names), code)
    _need(np.isin(present, (0, 1)).all() and np.abs(z).max(initial=0.0) <= LARGEST_SUM, code)
    names = [name for name, here in zip(network.names, present, strict=True) if here]
    _need(state.name in names, code)
    network = public.with_release(network, np.array(z), names)
    network = network if state.resumed else public.restart(network)
    return _fit(out, replace(state, network=network), code)


def _fit(out: Outgoing, state: Published, code: str) -> tuple[State, Answer]:
    """Loadings of this site's sensors, from its copies and the public posterior.

    Numbers that leave nothing to be computed are refused with the code.
    """
    network = state.network
    assert network is not None
    rows = network.rows(state.name)
    J = _there(out, network, rows).astype(float)
    C = J * _centred(out, state, network)
    try:
        with np.errstate(all="ignore"):
            post, dynamics = public.posterior(network)
            P, r = loadings.fit_loadings(C, J, network.sigma2[rows], post, network.r[rows])
            P, r = loadings.rounded(P, r, J, network.sigma2[rows], post)
    except np.linalg.LinAlgError:
        raise Refusal(code) from None
    _need(loadings_fit(P, r), code)
    kept = {name: vars(state)[name] for name in Published.__dataclass_fields__}
    kept["network"] = replace(network, dynamics=dynamics)
    return Fitted(**kept, P=P, r=r), {"P": P, "r": r}


def refit(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Everybody's loadings have come: fit the next ones."""
    return _fit(out, _with_loadings(state, body), "told of loadings that do not fit")


def finish(out: Outgoing, state: State, body: Body) -> tuple[State, Answer]:
    """Everybody's last loadings."""
    fitted = _with_loadings(state, body)
    kept = {name: vars(fitted)[name] for name in Published.__dataclass_fields__}
    return Finished(**kept), {}


def _with_loadings(state: State, body: Body) -> Fitted:
    code = "told of loadings that do not fit"
    _need(isinstance(state, Fitted), "asked in a wrong order")
    assert isinstance(state, Fitted)
    network = state.network
    assert network is not None
    P, r, signatures = body["P"], body["r"], body["signatures"]
    _need(P.shape == network.P.shape and r.shape == network.r.shape and loadings_fit(P, r), code)
    _need(len(signatures) == len(network.names), code)
    mine = network.rows(state.name)
    _need(np.array_equal(P[mine], state.P) and np.array_equal(r[mine], state.r), code)
    gone = network.site < 0
    for n, name in enumerate(network.names):
        rows = network.rows(name)
        if signatures[n].any() or name == state.name:
            _check(state, name, signatures[n], {"P": P[rows], "r": r[rows]})
        else:
            gone[rows] = state.signer is not None
    # Of those who left, the loadings stay as they were, but for rounding.
    kept = np.allclose(P[gone], network.P[gone]) and np.allclose(r[gone], network.r[gone])
    _need(kept, code)
    return replace(state, network=replace(network, P=np.array(P), r=np.array(r)))


HANDLERS: Mapping[str, Handler] = {
    "vote": vote,
    "resume": resume,
    "publish": publish,
    "release": release,
    "begin": begin,
    "refit": refit,
    "finish": finish,
}


# --- signatures ----------------------------------------------------------------------------------


def signed(state: State, answer: Answer) -> Answer:
    """What a site adds to what it publishes: the hash of all that it saw, and its signature."""
    signature = bytes(64)
    if state.signer is not None:
        signature = state.signer.sign(statement(state.name, answer, state.seen))
    return {
        "seen": np.frombuffer(state.seen, "<i8").astype(np.int64),
        "signature": np.frombuffer(signature, "<i8").astype(np.int64),
    }


def _check(state: State, name: str, signature: np.ndarray, arrays: Body) -> None:
    """Refuse what another site did not publish, or published after it saw something else."""
    if state.signer is None:
        return
    try:
        text = signature.astype("<i8").tobytes()
        state.signer.verify(name, text, statement(name, arrays, state.seen))
    except FLFLError:
        raise Refusal("a signature is wrong") from None


# --- the site's program --------------------------------------------------------------------------


class Client:
    """Answers questions with the handlers; asks the owner for copies when a question needs them.

    Attributes
    ----------
    state : where it stands in the run
    outgoing : what the owner has let out so far
    """

    def __init__(self, owner: Owner, plan: Plan, signer: Signer | None = None) -> None:
        self.owner = owner
        self.state: State = Joined(owner.table.name, plan, owner.table.positions, signer)
        self.outgoing = owner.public
        self.sizes: Mapping[str, int] = {}

    def answer(self, kind: str, body: Body) -> Answer:
        """Answer one question. After a refusal it stands where it stood."""
        self.outgoing = self._let_out(kind, body)
        state, answer = HANDLERS[kind](self.outgoing, self.state, body)
        self.state = replace(state, seen=chained(state.seen, kind, body))
        if "signature" in PROTOCOL[kind].answer:
            answer |= signed(self.state, answer)
        return answer

    def _let_out(self, kind: str, body: Body) -> Outgoing:
        """What the owner lets out for a question: its vote, or the copies of one more stretch.

        Whatever goes wrong with the readings, others get one code; the reason stays at home.
        """
        if kind == "vote" and type(self.state) is Joined:
            return self.owner.vote(self.state.plan.trials())
        if kind != "publish":
            return self.outgoing
        trial, stretch = check_publish(self.state, body)
        limit = bound(self.outgoing, self.state)
        try:
            return self.owner.copy(trial, stretch, self.state.plan.added_error, limit)
        except FLFLError as error:
            raise Refusal("its readings cannot be copied") from error

    @property
    def finished(self) -> bool:
        """Whether the run has ended for this site."""
        return isinstance(self.state, Finished)


def check_publish(state: State, body: Body) -> tuple[tuple[str, int], slice]:
    """The transform, season and stretch that a question to publish asks for, if they are right."""
    trials, number = state.plan.trials(), int(body["trial"])
    _need(0 <= number < len(trials), "asked for a transform that was not voted on")
    start, stop = int(body["start"]), int(body["stop"])
    ready = type(state) is Joined or isinstance(state, Fitted)
    _need(ready, "asked in a wrong order")
    network = state.network
    after = 0 if network is None else network.n_slots
    _need(start == after < stop <= len(state.positions), "asked for slots that are not next")
    agreed = network is None or trials[number] == (network.transform, network.season)
    _need(agreed, "asked for a transform that was not voted on")
    return trials[number], slice(start, stop)


def bound(out: Outgoing, state: State) -> Array | None:
    """What the public model leaves open of each sensor (m,) on the transformed scale, from copies.

    The error of its copies, each left out, less the added error, corrected for the numbers that
    were fitted; infinite for sensors with few copies. None before the pilot.
    """
    if not isinstance(state, Fitted) or state.network is None:
        return None
    network = state.network
    rows = network.rows(state.name)
    there, sigma2 = _there(out, network, rows), network.sigma2[rows]
    noise = np.where(there, network.noise(rows), 0.0)
    C = there * _centred(out, state, network)
    own = network.weights[rows], network.phi[rows]
    made, numbers = network.design(), network.numbers
    try:
        with np.errstate(all="ignore"):
            post, _ = public.posterior(network)
            total = loadings.unforeseen(C, state.P, noise, own, made, numbers, post)
    except np.linalg.LinAlgError:
        return None  # nothing can be said, so nothing is lowered
    n = there.sum(axis=1)
    spent = np.minimum(state.P.shape[1] / 2, n / 2)
    total = total * n / np.maximum(n - spent, 1.0)
    with np.errstate(invalid="ignore"):
        left = np.sqrt(np.maximum(total - sigma2.max(axis=1), 0.0)) * network.scale
    return np.where(n >= FEWEST_IN_PILOT, left, np.inf)
