"""One scale for a whole table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.paper.scaling import Scaling


def common_scaling(values: NDArray[np.float64]) -> Scaling:
    """Each sensor's own mean, and one scale for all: sensors that vary more still do.

    Examples
    --------
    >>> common_scaling(np.array([[1.0, 3.0, np.nan], [-7.0, 0.0, 7.0]])).scale
    array([4.47..., 4.47...])
    """
    center = Scaling.fit(values).center
    spread = values - center[:, None]
    largest = float(np.nanmax(np.abs(spread)))
    # Where nothing varies any scale will do, but one made of rounding errors.
    if largest <= 1e-14 * float(np.nanmax(np.abs(values))):
        return Scaling(center, np.ones_like(center))
    scale = largest * float(np.sqrt(np.nanmean(np.square(spread / largest))))
    return Scaling(center, np.full_like(center, scale))
