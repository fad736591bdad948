"""The audit of plain uploads, as in the paper: every reading is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from flfl.audit.attack import CLOSE, COORDINATOR, Array, Finding
from flfl.audit.attacks import plain_inversion
from flfl.audit.report import Report
from flfl.io.sensors import Sensors
from flfl.paper.estimator import PaperFLFL
from flfl.paper.objective import Weights
from flfl.paper.scaling import Scaling

RECORDED = 6
"""Consecutive rounds that the attack looks at."""
ROUNDS = 40
"""Rounds of the run unless asked otherwise: the first few are all that the attack needs."""


def audit_plain(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    say: Callable[[str], None],
) -> Report:
    """Run the paper's method and compute the readings from what its coordinator was sent."""
    say("running the paper's method")
    model = PaperFLFL(**{"rounds": ROUNDS, **settings})
    uploads = plain_inversion.record(partial(model.fit, values, sensors=sensors), RECORDED)
    raw = values.to_numpy(dtype=float).T
    raw = raw[~np.isnan(raw).all(axis=1)]
    weights = Weights(model.ridge, model.spatial_weight, model.temporal_weight)
    say("attacking: plain inversion")
    finding = _finding(plain_inversion.invert(uploads, weights).readings, raw)
    n_sites = len(model.partition_.members)
    return Report([finding], "plain", n_sites, len(raw), notes=model.traffic_.notes)


def _finding(readings: Array, raw: Array) -> Finding:
    """``readings`` (M, N) guessed in each sensor's own standardised units."""
    Z = Scaling.fit(raw).apply(raw)
    known = np.isfinite(readings) & np.isfinite(Z)
    close = np.abs(readings - Z)[known] <= CLOSE
    return Finding(
        "plain inversion",
        COORDINATOR,
        "the published weights and six consecutive rounds of plain uploads",
        readings_exposed=float(close.mean()),
        guessing_exposes=float((np.abs(Z)[known] <= CLOSE).mean()),
    )
