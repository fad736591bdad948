"""Two worlds that differ in one owner's clean readings and in nothing else, and a coordinator that
may ask anything."""

from dataclasses import dataclass, field, replace

import numpy as np

from flfl.errors import FLFLError
from flfl.model.transforms import BACKWARD, FORWARD, fit_offsets, season_rows
from flfl.protocol.added_error import AddedError, error_in_time
from flfl.protocol.client import Client
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.messages import Answer, Question, decode, encode
from flfl.protocol.network import of_the_absent
from flfl.protocol.owner import Owner, Table, digests
from flfl.protocol.plan import Addition, Plan
from flfl.protocol.schema import (
    FACT_FIELDS,
    LATE_FIELDS,
    PROTOCOL,
    chained,
    pack_known,
    pack_text,
    to_words,
)
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import Identity, Roster, SecureClient, SecureServer

HOUR = 3600
START = 1_700_000_000 // HOUR * HOUR
NAMES = ("a", "b", "c", "d")
TARGET = "b"
BOX = ((0.0, 0.0), (10.0, 10.0))
PLAN = Plan(transform="none", season=0, rank=4, rounds=2, box=BOX)
IDENTITIES = {name: Identity.generate() for name in NAMES}
ROSTER = Roster({name: identity.public for name, identity in IDENTITIES.items()})
SIGNERS = {name: SecureClient(name, identity, ROSTER) for name, identity in IDENTITIES.items()}


def secret(name):
    return name.encode().ljust(32, b"\0")


def walk(m, n, rng):
    """Slow series with sharp noise, around 50, positive."""
    slow = 0.3 * rng.standard_normal((m, n)).cumsum(axis=1)
    return 50 + slow - slow.mean(axis=1, keepdims=True) + rng.standard_normal((m, n))


def table(name=TARGET, m=2, n=240, seed=0, missing=0.15, raw=None):
    """An owner's table; the same name has the same places and gaps."""
    draw = np.random.default_rng([len(name), *name.encode(), m])
    places = draw.uniform(0, 10, (m, 2))
    known = np.random.default_rng([1, *name.encode()]).random((m, 4000))[:, :n] >= missing
    rng = np.random.default_rng([seed, *name.encode()])
    raw = walk(m, 4000, rng)[:, :n] if raw is None else raw
    ids = [f"{name}{i}" for i in range(m)]
    slots = np.arange(n)
    return Table(name, ids, raw, known, places, slots.astype(float), START + HOUR * slots, HOUR)


def unrelated(t, units, seed=99):
    """Other readings at the same slots, of the same error in time under a transform and season."""
    rng = np.random.default_rng([seed, len(t.ids)])
    X = np.where(t.known, FORWARD[units[0]](t.raw), 0.0)
    other = walk(*t.raw.shape, rng) - 50.0
    rows, J = season_rows(t.positions, units[1]), t.known.astype(float)

    def error(Y):
        return error_in_time(Y - fit_offsets(Y * J, J, rows) @ rows, t.known)[:, None]

    other *= error(X) / error(other)
    return replace(t, raw=BACKWARD[units[0]](other - other.min() + 1.0))


class ChosenNoise:
    """Noise that makes the copies of other readings agree with copies that were made already."""

    def __init__(self, key, like):
        self._key, self._like = key, like

    def normals(self, sensor, context, instants, readings):
        transform, sigma, *limited = context
        value = readings if limited else FORWARD[transform](readings)
        return (self._like.read(sensor, instants)[0] - value) / sigma

    def tags(self, instants, readings):
        return self._key.tags(instants, readings)


class ChosenCopier(Copier):
    """A copier of the second world."""

    def __init__(self, key, store, like):
        super().__init__(key, store)
        self._noise = ChosenNoise(self._noise, like)


def owner(t, store=None, added=None, owner_type=Owner, copier=None, late=False):
    copier = copier or Copier(secret(t.name), CopyStore() if store is None else store)
    return owner_type(t, copier, added or AddedError(), late)


def site_of(made, plan=PLAN, secure=False, client_type=Client, signed=True, earlier=None):
    name = made.table.name
    hiding = None
    if secure:
        hiding = SecureClient(name, IDENTITIES[name], ROSTER, secret(name + " sums"))
    client = client_type(made, plan, SIGNERS[name] if signed else None, earlier=earlier)
    return Site(name, client, PROTOCOL, hiding)


def outcome(site, data):
    """All that others see of a site that gets a message: its answer, or the text of its refusal."""
    try:
        return site.receive(data)
    except FLFLError as error:  # any other is a fault
        return f"{type(error).__name__}: {error}"


@dataclass
class Worlds:
    """The same site in two worlds, told the same.

    ``seam`` says how the copies come to agree: ``"noise"`` chooses the second world's noise,
    ``"store"`` lets both worlds have the copies that the first one makes.
    """

    one: Site
    other: Site
    heard: list = field(default_factory=list)

    @classmethod
    def of(cls, mine, theirs, seam, plan=PLAN, added=None, store=None, **how):
        kind, late = how.pop("owner_type", Owner), plan.late
        first = owner(mine, store, added, kind, late=late)
        again = first.store
        if seam == "noise":
            again = CopyStore() if store is None else copy_of(store, mine)
            second = owner(
                theirs, added=added, owner_type=kind, late=late,
                copier=ChosenCopier(secret(mine.name), again, first.store),
            )  # fmt: skip
        else:
            copier = Copier(b"?" * 32, again)
            second = owner(theirs, added=added, owner_type=kind, copier=copier, late=late)
        return cls(site_of(first, plan, **how), site_of(second, plan, **how))

    def tell(self, data):
        """Both get a message; whatever they say must be the same."""
        mine, theirs = outcome(self.one, data), outcome(self.other, data)
        assert mine == theirs, f"the worlds differ: {mine[:200]!r} and {theirs[:200]!r}"
        self.heard.append(mine)
        return mine


def copy_of(store, t):
    """Another store with the same copies of a table's sensors."""
    made = CopyStore()
    store._db.backup(made._db)
    return made


# --- an honest run


@dataclass
class Federation:
    """Four sites in one process, of which some may leave."""

    tables: dict
    plan: Plan = PLAN
    secure: bool = True
    stores: dict = field(default_factory=dict)
    earlier: object = None
    added: dict = field(default_factory=dict)
    addition: Addition = field(default_factory=Addition)
    late: tuple = ()  # who gives out late copies

    def __post_init__(self):
        for name in self.tables:
            self.stores.setdefault(name, CopyStore())
        self.sites = {
            name: site_of(
                owner(t, self.stores[name], self.added.get(name), late=name in self.late),
                self.plan, self.secure, earlier=self.earlier,
            )
            for name, t in self.tables.items()
        }  # fmt: skip
        self.traffic, self.told, self.said = Traffic(), [], []
        positions = next(iter(self.tables.values())).positions
        self.run = Coordination(
            self.plan, positions, self.traffic, self.earlier, verify=ROSTER.verify,
            addition=self.addition,
        )  # fmt: skip
        sums = SecureServer(ROSTER, "run") if self.secure else None
        self.coordinator = Coordinator(
            self.run.program(), PROTOCOL, list(self.tables), self.run.sizes, security=sums
        )

    def carry(self, lost=lambda name, number: False, change=None):
        """Carry messages until nothing is left; ``lost`` says who is gone at which message.

        ``change`` may alter a message before a site gets it.
        """
        outbox, gone = list(self.coordinator.start()), set()
        while outbox:
            name, data = outbox.pop(0)
            number = len(self.told)
            if name in gone or lost(name, number):
                if name not in gone:
                    gone.add(name)
                    outbox += self.coordinator.absent(name)
                continue
            data = data if change is None else change(name, data)
            self.told.append((name, data))
            answer = self.sites[name].receive(data)
            self.said.append((name, answer))
            outbox += self.coordinator.receive(answer)
        return self

    @property
    def network(self):
        return self.run.network

    def client(self, name=TARGET):
        return self.sites[name].program

    def questions(self, name=TARGET):
        return [data for to, data in self.told if to == name]


def federation(n=240, seed=0, m=2, **how):
    return Federation({name: table(name, m, n, seed) for name in NAMES}, **how)


# --- a coordinator that asks anything


class Hostile:
    """A coordinator with all other owners on its side: it makes up whatever they say, signs it with
    their keys, and remembers what the target said.

    ``wild`` (0 to 1) is how much of a message is made up where the protocol leaves a choice.
    """

    def __init__(self, rng, site, n_slots=240, earlier=None):
        self.rng, self.n_slots, self.earlier = rng, n_slots, earlier
        self._client = site.program
        self.number, self.seen, self.stop = 0, bytes(32), 0
        self.mine, self.names, self.z = {}, [TARGET], np.zeros(1)
        self.sizes = {name: int(rng.integers(0, 4)) for name in NAMES}
        self.answered, self.late = [], {}

    @property
    def network(self):
        """All that is public: anybody can work it out."""
        return self._client.state.network

    def ask(self, kind, wild=0.0, **over):
        """The bytes of a question."""
        body = getattr(self, f"_{kind}")(wild) | over
        self.number += 1
        fields = PROTOCOL[kind].question
        self.kind = kind
        self.body = {
            k: np.asarray(v, "<f8" if fields[k].type == "float" else "<i8") for k, v in body.items()
        }
        return encode(Question("run", self.number, kind, "*", self.body), PROTOCOL)

    def hear(self, answer):
        """Take note of an answer (refusals are texts)."""
        if isinstance(answer, str):
            return
        self.seen = chained(self.seen, self.kind, self.body)
        got = dict(decode(Answer, answer, PROTOCOL, {}).body)
        self.answered.append(self.kind)
        if self.kind == "resume":
            self.stop = self.network.stop
        elif self.kind == "publish":
            self.mine, self.stop = got, int(self.body["stop"])
            self.length = self.stop - int(self.body["start"])
        elif self.kind == "release":
            self.z = got["z"] * 2.0**-30
        elif self.kind == "late":
            self.late = got
        elif "P" in got:
            self.P, self.r, self.signature = got["P"], got["r"], got["signature"]

    def _sign(self, name, arrays):
        text = SIGNERS[name].sign(chained(self.seen, f"from {name}", arrays))
        return np.frombuffer(text, "<i8").astype(np.int64)

    def _vote(self, wild):
        return {}

    def _resume(self, wild):
        rng, N = self.rng, self.earlier.stop
        keep, first = sorted(rng.integers(-1, N + 2, 2)) if rng.random() < wild else (0, N // 2)
        digest = to_words(self.earlier.digest) + int(rng.random() < wild / 4)
        return {"digest": digest, "keep": keep, "first": first, "fit": int(rng.integers(0, 3))}

    def _publish(self, wild):
        stop = int(self.rng.integers(self.stop + 1, max(self.n_slots, self.stop + 1) + 1))
        start = self.stop if self.rng.random() > wild else int(self.rng.integers(-1, 300))
        return {"units": int(self.rng.random() < wild), "start": start, "stop": stop}

    def _release(self, wild):
        rng, L = self.rng, getattr(self, "length", 1)
        if not self.mine:
            self.mine = self._made_up(1, L)
        parts = {TARGET: {key: self.mine[key] for key in FACT_FIELDS}}
        signatures = {TARGET: self.mine.get("signature", np.zeros(8, np.int64))}
        for name in NAMES:
            if name != TARGET and rng.random() > 0.3 * wild:
                parts[name] = self._made_up(self.sizes[name], L, name)
                signatures[name] = self._sign(name, parts[name])
        self.names = sorted(parts)
        body = {k: np.concatenate([parts[n][k] for n in self.names]) for k in FACT_FIELDS}
        if rng.random() < wild / 4:
            key = rng.choice(["error", "sigma", "variance", "known", "sensors", "places"])
            body[key] = body[key] * rng.choice([0, 2, -1])
        return {
            "names": pack_text("\n".join(self.names)),
            "sizes": np.array([len(parts[n]["error"]) for n in self.names]),
            "signatures": np.array([signatures[n] for n in self.names]),
            **body,
        }

    def _made_up(self, m, L, name="x"):
        rng = self.rng
        known = rng.random((m, L)) < rng.choice([0.0, 0.5, 1.0])
        size = 10.0 ** rng.uniform(-3, 3)
        return {
            "sensors": digests([f"{name} {i}" for i in range(m)]),
            "places": rng.uniform(-5, 15, (m, 2)),
            "error": size * rng.choice([0.0, 1.0, 3.0], m),
            "sigma": size * rng.choice([0.0, 1.0], m),
            "variance": size**2 * rng.choice([0.0, 1.0, 9.0], m),
            "shift": rng.choice([0.0, 1.0]) * rng.standard_normal((m, 13)),
            "known": pack_known(known),
        }

    def _late(self, wild):
        return {}

    def _add(self, wild):
        network, rng, parts, signatures = self.network, self.rng, [], []
        for name in () if network is None else network.names:
            rows = network.rows(name)
            part = {"rows": rows, "slots": rows % 7 + network.first, "copies": 0.0 + rows}
            part |= {"sigma2": 1.0 + rows * 10.0 ** rng.uniform(-9, 9 * wild)}
            if name == TARGET and self.late:
                part = {key: self.late[key] for key in LATE_FIELDS}
            signed = name == TARGET and "signature" in self.late
            signatures.append(self.late["signature"] if signed else self._sign(name, part))
            parts.append(part)
        if parts and rng.random() < wild / 2:
            parts[-1][rng.choice(LATE_FIELDS)] = rng.integers(-1, 300, len(parts[-1]["rows"]))
        there = np.ones(len(parts), int)
        sizes = np.array([len(part["rows"]) for part in parts], int)
        whole = {k: np.concatenate([[], *(part[k] for part in parts)]) for k in LATE_FIELDS}
        signatures = np.array(signatures, int).reshape(-1, 8)
        return {**whole, "sizes": sizes, "present": there, "signatures": signatures}

    def _begin(self, wild):
        rng, z = self.rng, self.z
        if wild:
            z = rng.choice([1.0, 0.0, -1e3]) * z + rng.choice([0, 1]) * rng.standard_normal(z.shape)
        here = np.array([name == TARGET or rng.random() > wild / 2 for name in self.names])
        return {"present": here.astype(int), "z": z}

    def _refit(self, wild):
        network, rng = self.network, self.rng
        if network is None or not hasattr(self, "P") or len(network.P) != len(network.site):
            none = {"present": np.ones(1), "signatures": np.zeros((1, 8), int)}
            return {"P": np.zeros((2, 1)), "r": np.ones(2), **none}
        P, r, signatures = network.P.copy(), network.r.copy(), []
        for name in network.names:
            rows = network.rows(name)
            part = {"P": self.P, "r": self.r}
            if name != TARGET:
                spread = 10.0 ** rng.uniform(-1, 1) if wild else 1.0
                part = {
                    "P": spread * rng.standard_normal(P[rows].shape),
                    "r": spread * rng.uniform(0.1, 1, len(rows)),
                }
            if len(part["r"]) == len(rows):
                P[rows], r[rows] = part["P"], part["r"]
            signatures.append(self.signature if name == TARGET else self._sign(name, part))
        if rng.random() < wild / 4:
            P[rng.integers(len(P))] *= rng.choice([0.0, 1e9, -1.0])
        here = np.ones(len(signatures), int)
        away = network.site < 0
        if away.any() and not away.all():
            P[away] = of_the_absent(network, P, away, self._client.state.run.fit)
        return {"P": P, "r": r, "present": here, "signatures": np.array(signatures)}

    _finish = _refit
