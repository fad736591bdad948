"""What the federated baselines share: messages with a size, and readings kept back to stop by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.errors import DivergedError
from flfl.protocol.traffic import Traffic

WORD = 4
"""Bytes of a number or an index as these protocols send them (float32, int32)."""


@dataclass(frozen=True)
class Message:
    """Arrays under a name, from a client to the server or back.

    Examples
    --------
    >>> Message("gradient", {"rows": np.arange(2), "values": np.zeros((2, 3))}).nbytes
    32
    """

    kind: str
    body: Mapping[str, NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: :data:`WORD` a number, what a ciphertext says of itself."""
        return sum(
            sum(item.nbytes for item in array.flat) if array.dtype == object else WORD * array.size
            for array in self.body.values()
        )

    @property
    def numbers(self) -> int:
        """Real numbers in it: neither indices nor ciphertexts.

        >>> Message("gradient", {"rows": np.arange(2), "values": np.zeros((2, 3))}).numbers
        6
        """
        return sum(array.size for array in self.body.values() if array.dtype.kind == "f")


@dataclass
class Post:
    """Carries messages, and counts them in the traffic.

    The batched paths move no message: they report the sizes that these would have had
    (:meth:`count_up`, :meth:`count_down`), and a test holds both against each other.

    Examples
    --------
    >>> post = Post(Traffic())
    >>> post.count_up("gradient", nbytes=80, messages=2)
    >>> post.traffic.bytes_up, post.traffic.messages_up["gradient"]
    (80, 2)
    """

    traffic: Traffic

    def up(self, message: Message) -> Message:
        """From a client to the server."""
        self.count_up(message.kind, message.nbytes)
        return _delivered(message)

    def down(self, message: Message) -> Message:
        """From the server to a client."""
        self.count_down(message.kind, message.nbytes)
        return _delivered(message)

    def count_up(self, kind: str, nbytes: int, messages: int = 1) -> None:
        """So many messages of this many bytes together went up."""
        if messages:
            self.traffic.up[kind] += nbytes
            self.traffic.messages_up[kind] += messages

    def count_down(self, kind: str, nbytes: int, messages: int = 1) -> None:
        """So many messages of this many bytes together went down."""
        if messages:
            self.traffic.down[kind] += nbytes
            self.traffic.messages_down[kind] += messages


def _delivered(message: Message) -> Message:
    """Arrays of the receiver's own: what crosses a wire shares no memory with its sender."""
    return Message(message.kind, {name: array.copy() for name, array in message.body.items()})


def hold_back(
    known: NDArray[np.bool_], rng: np.random.Generator, share: float = 0.05
) -> NDArray[np.bool_]:
    """Known entries that every client keeps out of training, to stop by: never test entries.

    Examples
    --------
    >>> known = np.ones((2, 1000), dtype=bool)
    >>> bool(60 < hold_back(known, np.random.default_rng(0)).sum() < 140)
    True
    """
    held = known & (rng.random(known.shape) < share)
    # A sensor with a handful of readings needs them all.
    held[known.sum(axis=1) < 2 / share] = False
    return held


class EarlyStop:
    """Keeps the best state, says when to stop, and refuses to go on with numbers that ran away.

    Parameters
    ----------
    patience : checks without a gain before the run stops
    tolerance : a relative gain below this is none

    Examples
    --------
    >>> stop = EarlyStop(patience=2)
    >>> [stop.check(error, state) for state, error in enumerate([3.0, 1.0, 2.0, 2.0])]
    [False, False, False, True]
    >>> stop.best
    1
    """

    def __init__(self, patience: int = 10, tolerance: float = 1e-3) -> None:
        self.patience = patience
        self.tolerance = tolerance
        self.best: Any = None
        self.lowest = np.inf
        self._first: float | None = None
        self._idle = 0

    def check(self, error: float, state: Any) -> bool:
        """Whether to stop, given the error of readings that were kept back.

        Raises
        ------
        DivergedError
            When the first state already is no number, or the error is a thousand times that of
            the first state.
        """
        first = error if self._first is None else self._first
        self._first = first
        if not np.isfinite(error) or error > 1e3 * max(first, 1e-12):
            if self.best is None or self.lowest >= first:
                raise DivergedError(f"the error of the readings kept back rose to {error:.3g}")
            return True
        clearly = error < (1 - self.tolerance) * self.lowest
        if error < self.lowest:
            self.lowest, self.best = error, state
        self._idle = 0 if clearly else self._idle + 1
        return self._idle >= self.patience
