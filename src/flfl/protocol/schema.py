"""Every message of the default method: who asks what, and what the answer holds.

Only ``release`` is a secure sum. All other answers are public, and functions of noisy copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.constants import LARGEST_RADIUS, MOST_NUMBERS
from flfl.errors import InputError
from flfl.model import Array, Index, Mask
from flfl.model.state_space import Dynamics
from flfl.model.transforms import TRANSFORMS
from flfl.protocol.late import Late
from flfl.protocol.messages import Exchange, Field, Protocol
from flfl.protocol.network import OFFSETS, Facts, Network
from flfl.protocol.plan import Plan

DIGEST, SIGNATURE = 4, 8
"""Lengths of a digest and a signature, in 8-byte numbers."""
LARGEST = 1e32
"""No length that a site publishes is larger, nor smaller than its inverse, except for 0."""

MOST_SLOTS = 10**7
"""Slots of a network, at the most."""

_FACTS = {
    "sensors": Field("int", ("*", DIGEST)),
    "places": Field("float", ("*", 2)),
    "error": Field("float", ("*",)),
    "sigma": Field("float", ("*",)),
    "variance": Field("float", ("*",)),
    "shift": Field("float", ("*", OFFSETS)),
    "known": Field("int", ("*", "*")),
}
FACT_FIELDS = tuple(_FACTS)
_ROW = {"P": Field("float", ("*", "*")), "r": Field("float", ("*",))}
_SIGNED = {"seen": Field("int", (DIGEST,)), "signature": Field("int", (SIGNATURE,))}
_ROWS = {
    **_ROW, "present": Field("int", ("*",)), "signatures": Field("int", ("*", SIGNATURE)),
}  # fmt: skip
_FROM_ALL = {
    "names": Field("int", ("*",)),
    "sizes": Field("int", ("*",)),
    "signatures": Field("int", ("*", SIGNATURE)),
}
_LATE = {
    "rows": Field("int", ("n",)),
    "slots": Field("int", ("n",)),
    "copies": Field("float", ("n",)),
    "sigma2": Field("float", ("n",)),
}
LATE_FIELDS = tuple(_LATE)
_NETWORK = {
    "names": Field("int", ("text",)),
    "transform": Field("int", ("word",)),
    "season": Field("int"),
    "scale": Field("float"),
    "quietest": Field("float"),
    "map": Field("int"),
    "site": Field("int", ("M",)),
    "order": Field("int", ("M",)),
    "sensors": Field("int", ("M", DIGEST)),
    "places": Field("float", ("M", 2)),
    "error": Field("float", ("M",)),
    "units_stop": Field("int", ("M",)),
    "stops": Field("int", ("S",)),
    "sigma": Field("float", ("M", "S")),
    "known": Field("int", ("M", "words")),
    "numbers": Field("int", ("N",)),
    "z": Field("float", ("N", "K")),
    "P": Field("float", ("M", "k")),
    "r": Field("float", ("M",)),
    "A": Field("float", ("k", "k")),
    "S": Field("float", ("k", "k")),
    "due": Field("int", ("M",)),
    "first": Field("int"),
    **{f"late_{name}": field for name, field in _LATE.items()},
}
"""A network's public state: M sensors, N slots in S stretches, K numbers a slot, k factors."""

PROTOCOL: Protocol = {
    # Which transform and season? One vote a site.
    "vote": Exchange({}, {"vote": Field("int"), "negative": Field("int")}),
    # Make copies of a stretch of slots, and publish where they are and how noisy. Units are a
    # transform and a season, by their number in the plan.
    "publish": Exchange(
        {"units": Field("int"), "start": Field("int"), "stop": Field("int")}, {**_FACTS, **_SIGNED}
    ),
    # Everybody's facts; the answer is this site's part of the sums.
    "release": Exchange({**_FROM_ALL, **_FACTS}, {"z": Field("sum", ("released",))}),
    # Which copies came after the release of their slots? In nights of a network that releases them.
    "late": Exchange({}, {**_LATE, **_SIGNED}),
    # Everybody's late copies.
    "add": Exchange(
        {
            **_LATE,
            "sizes": Field("int", ("*",)),
            "present": Field("int", ("*",)),
            "signatures": Field("int", ("*", SIGNATURE)),
        },
        {},
    ),
    # The sums; the answer is the loadings of this site's sensors.
    "begin": Exchange(
        {"present": Field("int", ("*",)), "z": Field("float", ("*",))}, {**_ROW, **_SIGNED}
    ),
    # Everybody's loadings; the answer is this site's next ones.
    "refit": Exchange(_ROWS, {**_ROW, **_SIGNED}),
    # Everybody's last loadings; nothing leaves after this.
    "finish": Exchange(_ROWS, {}),
    # Slots are added to an earlier run: the digest of all that became public until then, which
    # every site keeps, and how (``plan.Addition``).
    "resume": Exchange(
        {
            "digest": Field("int", ("*",)),
            "keep": Field("int"),
            "first": Field("int"),
            "fit": Field("int"),
        },
        {},
    ),
}


def pack_known(known: Mask) -> Index:
    """Gaps as bits (m, words).

    Examples
    --------
    >>> known = np.array([[True, False, True]])
    >>> unpack_known(pack_known(known), 3).tolist()
    [[True, False, True]]
    """
    bits = np.packbits(known, axis=1, bitorder="little")
    bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    return np.ascontiguousarray(bits).view("<i8").astype(np.int64)


def unpack_known(words: Index, n_slots: int) -> Mask:
    """The gaps back (m, n_slots)."""
    bits = np.ascontiguousarray(words.astype("<i8")).view(np.uint8)
    return np.unpackbits(bits, axis=1, bitorder="little")[:, :n_slots].astype(bool)


def pack_text(text: str) -> Index:
    """A text as numbers."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


def unpack_text(numbers: Index) -> str:
    """The text back."""
    return bytes(numbers.astype(np.uint8)).decode()


def to_words(digest: bytes) -> Index:
    """A digest or a signature as numbers."""
    return np.frombuffer(digest, "<i8").astype(np.int64)


def facts_to_wire(facts: Facts) -> dict[str, NDArray]:
    """Facts as the arrays of a message."""
    return {**vars(facts), "known": pack_known(facts.known)}


def facts_from_wire(body: Mapping[str, NDArray], n_slots: int) -> Facts:
    """The facts back; an `InputError` when they do not fit together, or no site can have them."""
    m, words = len(body["error"]), -(-n_slots // 64)
    fits = {len(body[name]) for name in _FACTS} == {m} and body["known"].shape[1] == words
    if not fits or len(np.unique(body["sensors"], axis=0)) != m:
        raise InputError("facts of a site do not fit together")
    for name, power in (("error", 1), ("sigma", 1), ("variance", 2)):
        values = body[name]
        if not ((values == 0) | ((values > LARGEST**-power) & (values < LARGEST**power))).all():
            raise InputError(f"facts of a site hold an impossible {name}")
    if max(np.abs(body[name]).max(initial=0.0) for name in ("places", "shift")) > LARGEST:
        raise InputError("facts of a site hold an impossible place or shift")
    arrays = {name: np.array(body[name]) for name in _FACTS if name != "known"}
    return Facts(**arrays, known=unpack_known(body["known"], n_slots))


def loadings_fit(P: Array, r: Array) -> bool:
    """Whether loadings and residual variances are such as a fit can have."""
    usual = np.abs(P).max(initial=0.0) < LARGEST
    return bool(usual and ((r > LARGEST**-2) & (r < LARGEST**2)).all())


def late_fits(late: Late, network: Network, stop: int) -> bool:
    """Whether late copies are such as sensors of a network can have before a slot: one a sensor and
    slot, where none was released in time."""
    inside = (late.rows >= 0) & (late.rows < len(network.r))
    if not (inside & (late.slots >= network.first) & (late.slots < stop)).all():
        return False
    taken = network.known[late.rows, late.slots - network.first]
    twice = len(np.unique(np.stack([late.rows, late.slots]), axis=1).T) < len(late)
    values = np.abs(late.copies).max(initial=0.0) < LARGEST
    added = ((late.sigma2 == 0) | ((late.sigma2 > LARGEST**-2) & (late.sigma2 < LARGEST**2))).all()
    return bool(not taken.any() and not twice and values and added)


def network_to_arrays(network: Network) -> dict[str, NDArray]:
    """A network's public state as plain arrays: for a message, and for files of a finished run."""
    special = {
        "names": pack_text("\n".join(network.names)),
        "transform": pack_text(network.transform),
        "map": int(network.plan.box is not None),
        "known": pack_known(network.known),
        "due": network.due.astype(np.int64),
        "A": network.dynamics.A,
        "S": network.dynamics.S,
        **{f"late_{name}": array for name, array in vars(network.late).items()},
    }
    arrays = {name: special.get(name, getattr(network, name, None)) for name in _NETWORK}
    return {name: np.asarray(array) for name, array in arrays.items()}


def network_from_arrays(arrays: Mapping[str, NDArray], plan: Plan) -> Network:
    """The state back, its slots a step apart; an `InputError` when the arrays do not fit
    together, or no run can have led to them."""
    try:
        # Networks of earlier versions have none.
        arrays = {**{f"late_{name}": array for name, array in vars(Late()).items()}, **arrays}
        sizes: dict[str | int, int] = {DIGEST: DIGEST, 2: 2}
        for name, field in _NETWORK.items():
            shape, kind = arrays[name].shape, arrays[name].dtype.kind
            same = all(sizes.setdefault(d, n) == n for d, n in zip(field.shape, shape, strict=True))
            if not same or kind != ("f" if field.type == "float" else "i"):
                raise InputError(f"{name} does not fit")
        if sizes["words"] != -(-sizes["N"] // 64):
            raise InputError("known does not fit")
        own: dict[str, Any] = {name: np.array(array) for name, array in arrays.items()}
        dynamics = Dynamics(own.pop("A"), own.pop("S"))
        own |= {
            "plan": plan if own.pop("map") else replace(plan, box=None),
            "names": tuple(unpack_text(own["names"]).split("\n")),
            "transform": unpack_text(own["transform"]),
            "season": int(own["season"]),
            "scale": float(own["scale"]),
            "quietest": float(own["quietest"]),
            "known": unpack_known(own["known"], sizes["N"]),
            "due": own["due"].astype(bool),
            "first": int(own["first"]),
            "positions": np.arange(int(own["first"]) + sizes["N"], dtype=float),
            "late": Late(*(own.pop(f"late_{name}") for name in LATE_FIELDS)),
        }
        network = Network(**own, dynamics=dynamics)
        sound = _is_sound(network)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        sound = False
    if not sound:
        raise InputError("the saved network is damaged")
    return network


def _is_sound(network: Network) -> bool:
    """Whether a run can have led to this state. A number that is not finite fails every test."""
    names, site, numbers, K = network.names, network.site, network.numbers, network.z.shape[1]
    A, S = network.dynamics.A, network.dynamics.S
    lengths = np.concatenate([network.error, network.sigma.ravel(), [network.quietest]])
    return bool(
        len(site) > 0
        and len(np.unique(network.sensors, axis=0)) == len(site)
        and list(names) == sorted(set(names))
        and ((site >= -1) & (site < len(names))).all()
        and (np.diff(network.stops, prepend=0) > 0).all()
        and network.stops[-1] == len(numbers)
        and 1 <= len(A) <= network.plan.rank
        and 1 <= K <= MOST_NUMBERS
        and ((numbers >= 0) & (numbers <= K)).all()
        and 0 <= network.first <= MOST_SLOTS
        and ((network.units_stop >= 0) & (network.units_stop <= network.stop)).all()
        and network.transform in TRANSFORMS
        and network.season >= 0
        and 1 / LARGEST < network.scale < LARGEST
        and ((lengths == 0) | ((lengths > 1 / LARGEST) & (lengths < LARGEST))).all()
        and all(np.abs(x).max(initial=0.0) < LARGEST for x in (network.places, network.z, A, S))
        and loadings_fit(network.P, network.r)
        # The factors keep a finite variance.
        and np.abs(np.linalg.eigvals(A)).max() < LARGEST_RADIUS + 1e-6
        and np.linalg.eigvalsh(S).min() > 0
        and late_fits(network.late, network, network.stop)
    )


def chained(seen: bytes, kind: str, arrays: Mapping[str, NDArray | float]) -> bytes:
    """The hash of all that was seen, with one more message. A site signs what it publishes after
    what it has seen: ``chained(seen, "from NAME", arrays)``."""
    text = hashlib.sha256(seen + f"flfl {kind}\0".encode())
    for key in sorted(arrays):
        array = np.asarray(arrays[key])
        array = array.astype("<f8" if array.dtype.kind == "f" else "<i8", order="C")
        text.update(f"{key} {array.dtype.kind} {array.shape}\0".encode() + array.tobytes())
    return text.digest()
