"""Monotone transforms of the readings, their inverses and slopes.

A network agrees on one of them for life: the noise of the copies is added on the transformed scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Change = Callable[[Array], Array]
Transform = Literal["none", "sqrt", "log1p"]
TRANSFORMS: tuple[Transform, ...] = ("none", "sqrt", "log1p")


def _same(x: Array) -> Array:
    return x


FORWARD: dict[str, Change] = {
    "none": _same,
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
    "log1p": lambda x: np.log1p(np.maximum(x, 0.0)),
}
BACKWARD: dict[str, Change] = {
    "none": _same,
    "sqrt": lambda z: np.maximum(z, 0.0) ** 2,
    "log1p": lambda z: np.expm1(np.maximum(z, 0.0)),
}
SLOPE: dict[str, Change] = {
    "none": np.ones_like,
    "sqrt": lambda x: 0.5 / np.sqrt(np.maximum(x, 1e-12)),
    "log1p": lambda x: 1.0 / (1.0 + np.maximum(x, 0.0)),
}
"""Derivative of the forward transform: turns an error in the readings' units into one on the
transformed scale."""
