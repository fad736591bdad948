"""Trees that correct a base estimate, pooled over the sensors of a site.

Every feature of an entry is made *without that entry itself*, so the trees learn on known entries
what they will meet in the gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.ensemble.candidates import LEAVE_ONE_OUT, NAMES, Candidates

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]


def features(c: Candidates, base: Array, phase: Index, at: tuple[Index, Index]) -> NDArray:
    """Feature table of the entries ``at``, all relative to the base: trees see differences.

    Columns: candidates - base, neighbouring readings - base (NaN where absent), their distances,
    log deviations, the shared curve's slopes before and after, base, phase (hour or month), sensor,
    the shared curve with the neighbours' residuals - base.
    """
    rows, slots = at
    b = base[rows, slots]
    value, distance, residual = (
        x.reshape(-1, *base.shape)[:, rows, slots]
        for x in (c.near.value, c.near.distance, c.near_residual.value)
    )
    table = np.concatenate(
        [
            c.values[: len(LEAVE_ONE_OUT), rows, slots] - b,
            np.where(np.isfinite(distance), value - b, np.nan),
            np.minimum(distance, constants.TREE_FAR),
            np.log(np.maximum(c.deviations[:, rows, slots], 1e-6)),
            c.slopes[:, rows, slots],
            [b, phase[slots], rows],
            residual + c.values[NAMES.index("shared"), rows, slots] - b,
        ]
    )
    return table.T.astype(np.float32, order="C")


@dataclass(frozen=True)
class Trees:
    """What corrects a base estimate of a site's entries."""

    model: Any
    phase: Index

    def corrected(self, c: Candidates, base: Array, mask: Mask) -> Array:
        """The base (M, N), corrected where the mask says so."""
        out, (rows, slots) = base.copy(), np.nonzero(mask)
        if len(rows):
            out[rows, slots] += self.model.predict(features(c, base, self.phase, (rows, slots)))
        return out


def train(
    c: Candidates, base: Array, Y: Array, used: Mask, phase: Index, rng: np.random.Generator
) -> Trees:
    """Trees for a site, from the entries that are used (M, N), each without itself: so errors at
    others are honest.

    Absolute error: its minimiser is the median, which a monotone back-transform keeps.
    """
    # Large: a site loads it when a run comes to its trees, and only then.
    from sklearn.ensemble import HistGradientBoostingRegressor

    flat = np.flatnonzero(used)
    most = max(constants.TREE_ROWS * len(Y), constants.TREE_LEAST_ROWS)
    if len(flat) > most:
        flat = np.sort(rng.choice(flat, most, replace=False))
    at = np.unravel_index(flat, used.shape)
    X = features(c, base, phase, at)  # type: ignore[arg-type]
    model = HistGradientBoostingRegressor(
        loss="absolute_error",
        max_iter=constants.TREES,
        max_leaf_nodes=constants.TREE_LEAVES,
        learning_rate=constants.TREE_RATE,
        min_samples_leaf=min(constants.TREE_LEAST_IN_LEAF, max(len(X) // 20, 1)),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    # a neighbour that no training row has: the trees take a constant, but not a column of NaN
    nothing = np.isnan(X).all(axis=0)
    model.fit(np.where(nothing, np.float32(0.0), X), Y[at] - base[at])
    return Trees(model, phase)
