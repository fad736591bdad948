"""What the methods on JAX share: JAX itself, Adam, float32 readings, the run of a federation.

Importing this module does not import JAX: ``jax`` and ``jnp`` stand for it, and fetch it when one
of their names is first used. So the methods can be listed without it.
"""

from __future__ import annotations

import functools
import importlib
import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling
from flfl_bench.baselines.federation import WORD, AtOnce, Mask, Post, hold_back, train

Tree = Any
"""Arrays in tuples, lists or named tuples, as JAX walks through them."""

_THREADS = "NPROC"
"""The number of threads of XLA's pool on the CPU. It reads it once, when it starts, and has no
other setting for it: XLA_FLAGS turns off threads inside products only. With more than one thread
it cuts sums over (35, 8647, 8) numbers into parts that cost 20 times the sum itself."""
_PATIENCE = 5
"""Scores without a gain before a run stops: a round is dear."""
_GRID = 2.0**20


@functools.cache
def load() -> Any:
    """JAX on one thread of the CPU.

    Raises
    ------
    InputError
        When it is not installed.
    """
    # A value that the user has set stays; child processes see none of ours.
    given = os.environ.get(_THREADS)
    os.environ.setdefault(_THREADS, "1")
    try:
        jax = importlib.import_module("jax")
        jax.devices("cpu")
    except ImportError as error:
        raise InputError(
            f"this method needs JAX, which cannot be imported ({error})",
            remedy="Install it: pip install 'flfl-bench[neural]'",
        ) from None
    finally:
        if given is None:
            os.environ.pop(_THREADS, None)
    return jax


class _Later:
    """A module of JAX that is fetched when a name in it is used."""

    def __init__(self, *path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Doctest and inspect look for these; JAX is not meant.
            raise AttributeError(name)
        return getattr(functools.reduce(getattr, self._path, load()), name)


jax: Any = _Later()
jnp: Any = _Later("numpy")


def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.jit``, applied when the function is first called; ``sizes`` is not traced."""

    @functools.cache
    def compiled() -> Any:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        return load().jit(function, static_argnames=[n for n in names if n == "sizes"])

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return compiled()(*args)

    return call


def single(values: NDArray[Any]) -> Any:
    """As a float32 array of JAX."""
    return jnp.asarray(values, dtype=np.float32)


def double(values: Any) -> NDArray[np.float64]:
    """As a float64 array of NumPy."""
    return np.asarray(values, dtype=np.float64)


class Adam(NamedTuple):
    """First and second moments of a tree's gradients, and the steps taken."""

    mean: Tree
    square: Tree
    steps: Any


def adam_start(weights: Tree) -> Adam:
    """Before the first step."""
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    return Adam(zeros, zeros, jnp.zeros((), np.float32))


def adam_step(weights: Tree, gradient: Tree, state: Adam, rate: Any) -> tuple[Tree, Adam]:
    """One step against the gradient: decay 0.9 and 0.999, bias corrected."""
    each = jax.tree_util.tree_map
    steps = state.steps + 1
    mean = each(lambda m, g: 0.9 * m + 0.1 * g, state.mean, gradient)
    square = each(lambda v, g: 0.999 * v + 0.001 * g * g, state.square, gradient)
    shrink = rate / (1 - 0.9**steps)
    spread = 1 / (1 - 0.999**steps)
    moved = each(
        lambda w, m, v: w - shrink * m / (jnp.sqrt(spread * v) + 1e-8), weights, mean, square
    )
    return moved, Adam(mean, square, steps)


@dataclass(frozen=True)
class Readings:
    """Standardised readings of some sensors: what one client has, or all of them.

    Attributes
    ----------
    Z : (M, N) array
        float32, zero where unknown.
    train, held : (M, N) arrays
        Masks of the readings to learn from and of those kept back.
    """

    Z: NDArray[np.float32]
    train: Mask
    held: Mask

    @classmethod
    def of(cls, Z: Array, rng: np.random.Generator) -> Readings:
        """From standardised readings, NaN = missing."""
        known = ~np.isnan(Z)
        held = hold_back(known, rng)
        # Rounded to what float32 holds anyway: the same readings in other units then give the
        # same bits.
        rounded = np.round(np.where(known, Z, 0.0) * _GRID) / _GRID
        return cls(rounded.astype(np.float32), known & ~held, held)

    def sums(self, estimates: Array) -> Array:
        """Squared error and number of the readings kept back, then of those learned from, (4,)."""
        square = np.square(estimates - self.Z)
        return np.array(
            [f for mask in (self.held, self.train) for f in (square[mask].sum(), mask.sum())]
        )


class NeuralBatch(AtOnce):
    """All clients in one compiled pass.

    Parameters
    ----------
    down, up : int, dict
        Numbers in the models of one round, and in its uploads by kind.
    """

    def __init__(
        self, readings: Readings, post: Post, state: Tree, down: int, up: dict[str, int]
    ) -> None:
        super().__init__(readings, len(readings.Z), post, state, ("model", down))
        self._up = up

    @abstractmethod
    def step(self) -> Tree:
        """The state after one more round."""

    def round(self, number: int) -> None:
        """As :meth:`ByMessage.round`."""
        self.send_model()
        for kind, numbers in self._up.items():
            self.post.count_up(kind, WORD * numbers, self.clients)
        self.state = self.step()


class NeuralRecoverer(BaseRecoverer):
    """What the estimators share; parameters are the fields of a dataclass."""

    rounds: int
    random_state: int

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling, traffic = Scaling.fit(Y), self.traffic_
        readings = Readings.of(scaling.apply(Y), np.random.default_rng(self.random_state))
        with load().default_device(load().devices("cpu")[0]):
            form = self.at_once(readings, sensors, Post(traffic))
            estimates = train(form, self.rounds, traffic, _PATIENCE)
        # Each client's own gradient, in every round: nothing is summed away.
        traffic.numbers = traffic.up["gradient"] // WORD
        traffic.notes.append(self._remark(readings))
        return scaling.undo(estimates)

    @abstractmethod
    def at_once(self, readings: Readings, sensors: Sensors, post: Post) -> NeuralBatch:
        """The federation."""

    @abstractmethod
    def _remark(self, readings: Readings) -> str:
        """What the uploads of this run give away, in a sentence."""
