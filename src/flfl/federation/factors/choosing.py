"""How the network chooses among its sites' heads: the coordinator's questions and sums."""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.federation.coordinator import Ask, Replies
from flfl.federation.factors.protocol import FactorPlan
from flfl.model.heads import mixing
from flfl.model.heads.candidates import LEAVE_ONE_OUT, NAMES

Array = NDArray[np.float64]
Steps = Generator[Ask, Replies, None]
AskFor = Callable[..., Ask]

_KNEE = 0.2
"""Errors below this share of the mean absolute error count as squares, above as absolutes."""
LEAST_KNEE = 1e-3
"""In model units, where readings have a spread of about one."""


def choose(plan: FactorPlan, sizes: MutableMapping[str, int], ask_for: AskFor) -> Steps:
    """Weights of the candidates, from sums of products of their held-out errors.

    ``sizes`` are those of the messages, kept up to date here; ``ask_for`` makes a question.
    """
    boost = plan.boost
    first, last = (len(LEAVE_ONE_OUT), len(NAMES) + 1) if boost else (len(NAMES), len(NAMES))
    # Sums of products over a run: one before the boosted head and two after it; two without.
    numbers = first * (first + 1) // 2 + (1 + boost) * last * (last + 1) // 2
    every = np.arange(mixing.BINS)
    sizes.update(bins=mixing.BINS, candidates=first)
    entries = (yield ask_for("heads", groups=every, detail=0)).total["entries"]
    groups, detail = mixing.group_bins(entries, numbers)
    sizes["bins"] = int(groups[-1]) + 1
    replies = yield ask_for("heads", groups=groups, detail=detail)
    if boost:
        ask = ask_for("boost", weights=_Mix.of(replies, knee=1.0).weights)
        sizes["candidates"] = last
        replies = yield ask
    # Least absolute instead of least squared error, by reweighting once.
    mix = _Mix.of(replies, knee=1.0)
    knee = max(_KNEE * mix.absolute, LEAST_KNEE)
    mix = _Mix.of((yield ask_for("mix", weights=mix.weights, knee=knee)), knee)
    replies = yield ask_for(
        "settle",
        weights=mix.weights,
        knee=mix.knee,
        scale=mix.scale,
        mean_weight=mix.mean_weight,
        spread=mix.spread,
    )
    yield ask_for("publish", snap=mixing.choose_width(replies.total["snap"]))


@dataclass(frozen=True)
class _Mix:
    """Weights (bins, candidates) and the sums they came from."""

    weights: Array
    knee: float
    scale: float
    mean_weight: float
    absolute: float
    spread: Array

    @classmethod
    def of(cls, replies: Replies, knee: float) -> _Mix:
        total = replies.total
        entries = max(float(total["entries"].sum()), 1.0)
        mean_weight = max(float(total["weight"]) / entries, 1e-12)
        G = total["errors"] / mean_weight
        absolute = float(total["absolute"]) / entries
        # Where no products were given the mean error has to do.
        scale = float(np.trace(G.sum(axis=0))) / G.shape[-1] / entries or absolute**2
        # Entries of one hidden run err alike: so many of them count for one.
        spread = np.maximum(total["runs"] / np.maximum(total["entries"], 1.0), 1.0)
        weights = mixing.network_weights(G, scale, spread)
        return cls(weights, knee, scale, mean_weight, absolute, spread)
