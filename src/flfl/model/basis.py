"""Smooth functions on a map: how the readings of a slot are added up.

The functions are fixed when a network is founded: a constant and Gaussian bumps on a full grid over
the published box, made orthonormal on that grid, from smooth to detailed. They do not change when
sensors join.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WIDTH = 0.8
"""Width of a bump, in distances between bumps."""
_FAINT = 1e-6
"""Functions fainter than that, relative to the strongest, are not told apart from rounding."""


@dataclass(frozen=True)
class Basis:
    """Smooth functions on a box of the map.

    Attributes
    ----------
    low, high : (2,) corners of the box
    side : bumps along each side
    mixture : (1 + side^2, size) the functions as mixtures of a constant and the bumps
    """

    low: Array
    high: Array
    side: int
    mixture: Array

    def at(self, places: Array) -> Array:
        """The functions at some places (M, 2): (M, size)."""
        return _bumps(places, self.low, self.high, self.side) @ self.mixture


def _bumps(places: Array, low: Array, high: Array, side: int) -> Array:
    """A constant and ``side`` x ``side`` Gaussian bumps over the unit square (M, 1 + side^2)."""
    span = np.maximum(high - low, 1e-9)
    x = np.clip((places - low) / span, -0.25, 1.25)
    step = 1.0 / max(side - 1, 1)
    knots = step * np.arange(side)
    along = np.exp(-0.5 * ((x[:, :, None] - knots) / (WIDTH * step)) ** 2)
    bumps = np.einsum("ma,mb->mab", along[:, 0], along[:, 1]).reshape(len(places), -1)
    return np.column_stack([np.ones(len(places)), bumps])


def smooth_basis(low: Array, high: Array, size: int) -> Basis:
    """``size`` functions over a box, of mean square one and orthogonal on its grid.

    Examples
    --------
    >>> basis = smooth_basis(np.zeros(2), np.ones(2), 4)
    >>> basis.at(np.array([[0.5, 0.5]])).shape
    (1, 4)
    """
    side = int(np.ceil(np.sqrt(max(size - 1, 1)))) + 1
    fine = np.linspace(0.0, 1.0, 3 * side)
    grid = low + (high - low) * np.stack(np.meshgrid(fine, fine), -1).reshape(-1, 2)
    B = _bumps(grid, low, high, side)
    _, d, Vt = np.linalg.svd(B / np.linalg.norm(B, axis=0), full_matrices=False)
    kept = int(min((d > _FAINT * d[0]).sum(), size))
    mixture = (Vt[:kept] / d[:kept, None]).T / np.linalg.norm(B, axis=0)[:, None]
    mixture *= np.sqrt(len(grid))
    # The sign of a singular vector is anybody's choice: the first large entry is positive.
    strongest = np.abs(mixture).argmax(axis=0)
    mixture *= np.sign(mixture[strongest, np.arange(kept)])
    return Basis(low, high, side, mixture)


def keyed_signs(names: Sequence[bytes], size: int) -> Array:
    """Without a map: a constant, then random signs that follow from each sensor's name (M, size).

    Examples
    --------
    >>> keyed_signs([b"a", b"b"], 3)[:, 0].tolist()
    [1.0, 1.0]
    """
    rows = np.ones((len(names), size))
    for i, name in enumerate(names):
        text = hashlib.shake_128(name).digest(-(-max(size - 1, 1) // 8))
        bits = np.unpackbits(np.frombuffer(text, np.uint8))[: size - 1]
        rows[i, 1:] = 2.0 * bits - 1.0
    return rows
