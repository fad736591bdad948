"""Every message of the default method: who asks what, and what the answer holds.

Only ``release`` is a secure sum. All other answers are public: facts, loadings and signatures, each
a function of noisy copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.protocol.messages import Exchange, Field, Protocol
from flfl.protocol.public import OFFSETS, Facts

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

DIGEST, SIGNATURE = 4, 8
"""Lengths of a digest and a signature, in 8-byte numbers."""
LARGEST = 1e32
"""No length that a site publishes is larger, nor smaller than its inverse, except for 0."""

_FACTS = {
    "sensors": Field("int", ("*", DIGEST)),
    "places": Field("float", ("*", 2)),
    "error": Field("float", ("*",)),
    "sigma": Field("float", ("*",)),
    "variance": Field("float", ("*",)),
    "shift": Field("float", ("*", OFFSETS)),
    "known": Field("int", ("*", "*")),
}
_ROW = {"P": Field("float", ("*", "*")), "r": Field("float", ("*",))}
_SIGNED = {"seen": Field("int", (DIGEST,)), "signature": Field("int", (SIGNATURE,))}
_FROM_ALL = {
    "names": Field("int", ("*",)),
    "sizes": Field("int", ("*",)),
    "signatures": Field("int", ("*", SIGNATURE)),
}

PROTOCOL: Protocol = {
    # Which transform and season? One vote a site.
    "vote": Exchange({}, {"vote": Field("int"), "negative": Field("int")}),
    # Make copies of a stretch of slots, and publish where they are and how noisy.
    "publish": Exchange(
        {"trial": Field("int"), "start": Field("int"), "stop": Field("int")}, {**_FACTS, **_SIGNED}
    ),
    # Everybody's facts; the answer is this site's part of the sums.
    "release": Exchange({**_FROM_ALL, **_FACTS}, {"z": Field("sum", ("released",))}),
    # The sums; the answer is the loadings of this site's sensors.
    "begin": Exchange(
        {"present": Field("int", ("*",)), "z": Field("float", ("*",))}, {**_ROW, **_SIGNED}
    ),
    # Everybody's loadings; the answer is this site's next ones.
    "refit": Exchange({**_ROW, "signatures": Field("int", ("*", SIGNATURE))}, {**_ROW, **_SIGNED}),
    # Everybody's last loadings; nothing leaves after this.
    "finish": Exchange({**_ROW, "signatures": Field("int", ("*", SIGNATURE))}, {}),
    # An earlier run's public state, to which slots are added.
    "resume": Exchange(
        {
            "head": Field("int", ("*",)),
            "numbers": Field("int", ("*",)),
            "arrays": Field("float", ("*",)),
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


def facts_to_wire(facts: Facts) -> dict[str, NDArray]:
    """A site's facts as the arrays of a message."""
    return {**vars(facts), "known": pack_known(facts.known)}


def facts_from_wire(body: Mapping[str, NDArray], n_slots: int) -> Facts:
    """The facts back.

    Raises
    ------
    InputError
        When they do not fit together, or no site can have them.
    """
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


def chained(seen: bytes, kind: str, arrays: Mapping[str, NDArray | float]) -> bytes:
    """The hash of all that was seen, with one more message."""
    text = hashlib.sha256(seen + f"flfl {kind}\0".encode())
    for key in sorted(arrays):
        array = np.asarray(arrays[key])
        array = array.astype("<f8" if array.dtype.kind == "f" else "<i8", order="C")
        text.update(f"{key} {array.dtype.kind} {array.shape}\0".encode() + array.tobytes())
    return text.digest()


def statement(name: str, arrays: Mapping[str, NDArray | float], seen: bytes) -> bytes:
    """What a site signs: what it publishes, after it has seen what it has seen."""
    return chained(seen, f"from {name}", arrays)


FACT_FIELDS = tuple(_FACTS)
