"""The name of a run: the same readings, settings and version give the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from flfl.estimators.saved_model import Remembered
from flfl.io.sensors import Sensors
from flfl.io.table import Table

_DIGITS = 16


def run_id(
    table: Table,
    network: Sensors,
    settings: Mapping[str, Any],
    warm_start: Remembered | None = None,
) -> str:
    """Sixteen hexadecimal digits that name what went into a run.

    Examples
    --------
    >>> from flfl.io.read import from_frame
    >>> table = from_frame(np.array([[1.0, 2.0], [np.nan, 3.0]]))
    >>> one, same, other = (
    ...     run_id(table, Sensors(("0", "1")), {"seed": seed}) for seed in (0, 0, 1)
    ... )
    >>> len(one), one == same, one == other
    (16, True, False)
    """
    index = table.values.index
    words = {
        "version": version("flfl"),
        "sensors": network.ids,
        "sites": network.sites,
        "regions": network.regions,
        "kind": network.kind,
        "settings": dict(settings),
    }
    arrays = [
        table.values.to_numpy(dtype=np.float64),
        index.asi8 if isinstance(index, pd.DatetimeIndex) else index.to_numpy(dtype=np.float64),
    ]
    if network.coordinates is not None:
        arrays.append(network.coordinates)
    if warm_start is not None:
        words["earlier"] = warm_start.network.digest.hex()
    digest = hashlib.sha256(json.dumps(words, sort_keys=True, default=str).encode())
    for array in arrays:
        # One bit pattern for every missing reading and for either zero.
        plain = np.where(array == array, array + 0, np.nan)
        digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()[:_DIGITS]
