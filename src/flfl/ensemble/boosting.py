"""Trees that correct a base estimate, pooled over the sensors of a site.

Every feature of an entry is made *without that entry itself*, so the trees learn on known entries
what they will meet in the gaps.
"""

from __future__ import annotations

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


def correct(
    fit: Candidates,
    final: Candidates,
    bases: tuple[Array, Array],
    Y: Array,
    masks: tuple[Mask, Mask, Mask],
    phase: Index,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Corrected bases of a site, (M, N) each: the first at hold-out entries, the second at gaps.

    Elsewhere they stay as they are. Trained on the train entries only, each without itself, so
    that hold-out errors are honest. Absolute error: its minimiser is the median, which a monotone
    back-transform keeps.

    Parameters
    ----------
    fit, final : Candidates
        Without and with the hold-out entries; ``bases`` are the estimates to correct for each.
    masks : three (M, N) arrays
        Train entries, hold-out entries, gaps.
    """
    # Large: a site loads it when a run comes to its trees, and only then.
    from sklearn.ensemble import HistGradientBoostingRegressor

    train, held, gaps = masks
    flat = np.flatnonzero(train)
    most = max(constants.TREE_ROWS * len(Y), constants.TREE_LEAST_ROWS)
    if len(flat) > most:
        flat = np.sort(rng.choice(flat, most, replace=False))
    at = np.unravel_index(flat, train.shape)
    X = features(fit, bases[0], phase, at)  # type: ignore[arg-type]
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
    model.fit(np.where(nothing, np.float32(0.0), X), Y[at] - bases[0][at])
    corrected = bases[0].copy(), bases[1].copy()
    for out, c, base, mask in zip(corrected, (fit, final), bases, (held, gaps), strict=True):
        rows, slots = np.nonzero(mask)
        if len(rows):
            out[rows, slots] += model.predict(features(c, base, phase, (rows, slots)))
    return corrected
