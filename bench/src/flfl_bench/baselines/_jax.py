"""The one place that imports JAX, and what the methods that use it share.

Importing this module does not import JAX: ``jax`` and ``jnp`` stand for it, and fetch it when one
of their names is first used. So the methods can be listed without it.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError

Tree = Any
"""Arrays in tuples, lists or named tuples, as JAX walks through them."""

_THREADS = "NPROC"
"""The number of threads of XLA's pool on the CPU. It reads it once, when it starts, and has no
other setting for it: XLA_FLAGS turns off threads inside products only. With more than one thread
it cuts sums over (35, 8647, 8) numbers into parts that cost 20 times the sum itself."""


@functools.cache
def load() -> Any:
    """JAX on one thread of the CPU.

    Raises
    ------
    InputError
        When it is not installed.
    """
    try:
        # A value that the user has set stays; child processes see none of ours.
        with _one_thread():
            jax = importlib.import_module("jax")
            jax.devices("cpu")
    except ImportError as error:
        raise InputError(
            f"this method needs JAX, which cannot be imported ({error})",
            remedy="Install it: pip install 'flfl-bench[neural]'",
        ) from None
    return jax


@contextmanager
def _one_thread() -> Iterator[None]:
    given = os.environ.get(_THREADS)
    os.environ.setdefault(_THREADS, "1")
    try:
        yield
    finally:
        if given is None:
            os.environ.pop(_THREADS, None)


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


@contextmanager
def on_cpu() -> Iterator[None]:
    """Computes on the CPU, whatever else the machine has."""
    with load().default_device(load().devices("cpu")[0]):
        yield


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
