"""The audit of plain uploads, as in the paper: every reading is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.audit.attack import Attack, Effort, Finding, compare
from flfl.audit.attacks import plain_inversion, region_peer
from flfl.data.scaling import Scaling
from flfl.data.sensors import Sensors
from flfl.estimators.paper import PaperFLFL
from flfl.model.objective import Weights

Array = NDArray[np.float64]

RECORDED = 6
"""Consecutive rounds that the attack looks at."""
ROUNDS = 40
"""Rounds of the run unless asked otherwise: the first few are all that the attack needs."""
NOISES = (0.01, 0.1)
"""Noise on the uploads, as a share of their size."""


@dataclass(frozen=True)
class PlainCase:
    """A run with plain uploads and the truth behind it; rows are the sensors with readings."""

    model: PaperFLFL
    uploads: plain_inversion.PlainUploads
    raw: Array
    scaling: Scaling
    weights: Weights
    effort: Effort
    seed: int

    @property
    def rank(self) -> int:
        """k."""
        return int(self.uploads.Q.shape[-1])


def watch_plain(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    effort: Effort,
    seed: int,
) -> PlainCase:
    """Run the paper's method and keep what its coordinator was sent."""
    model = PaperFLFL(**{"rounds": ROUNDS, **settings})
    uploads = plain_inversion.record(model, lambda m: m.fit(values, sensors=sensors), RECORDED)
    raw = values.to_numpy(dtype=float).T
    raw = raw[~np.isnan(raw).all(axis=1)]
    weights = Weights(model.ridge, model.spatial_weight, model.temporal_weight)
    return PlainCase(model, uploads, raw, Scaling.fit(raw), weights, effort, seed)


def _finding(case: PlainCase, attack: Attack, variant: str, readings: Array) -> Finding:
    """``readings`` (M, N) guessed in each sensor's own standardised units."""
    guess = case.scaling.undo(readings)
    known = np.isfinite(guess) & np.isfinite(case.raw)
    mean = np.broadcast_to(case.scaling.center[:, None], guess.shape)
    factors = case.model.estimates_.T
    factors = factors[~np.isnan(factors).all(axis=1)]
    found = compare(case.raw, {"attack": guess, "mean": mean, "factors": factors}, known)
    return attack.finding(
        variant,
        **found,
        sentence=f"{found['readings_exposed']:.1%} of the readings that were used are computed to"
        f" within 1 % of a deviation (relative error {found['relative_error'].mean:.1e}).",
    )


def _inversion(case: PlainCase, attack: Attack) -> list[Finding]:
    uploads = case.uploads
    observed = (uploads.G[0] != 0).any(axis=2)
    forms = {"as sent": uploads, "32-bit messages": plain_inversion.rounded(uploads)}
    rng = np.random.default_rng(case.seed)
    for noise in NOISES:
        forms[f"noise of {noise:.0%}"] = plain_inversion.noisy(uploads, noise, rng)
    return [
        _finding(
            case,
            attack,
            name,
            plain_inversion.invert(form, case.weights, observed).readings,
        )
        for name, form in forms.items()
    ]


def _region_peer(case: PlainCase, attack: Attack) -> list[Finding]:
    # What a peer computes from its neighbours' p and everyone's Q is the recovered series.
    estimates = case.model.estimates_.T
    estimates = estimates[~np.isnan(estimates).all(axis=1)]
    series = case.scaling.apply(estimates)
    errors = region_peer.relative_error(series, case.scaling.apply(case.raw))
    found = _finding(case, attack, "", np.where(np.isfinite(case.raw), series, np.nan))
    sentence = (
        f"A sensor of the same region reads its neighbours' series with a relative error of"
        f" {np.median(errors):.2f} (median; 1 is guessing the mean): a region must lie inside one"
        " owner's hands."
    )
    return [
        attack.finding(
            readings_exposed=found.readings_exposed,
            guessing_exposes=found.guessing_exposes,
            relative_error=found.relative_error,
            judged=False,
            sentence=sentence,
        )
    ]


PLAIN: tuple[Attack, ...] = (
    Attack(
        "plain-inversion",
        "the coordinator",
        "the published weights and six consecutive rounds of plain uploads",
        _inversion,
    ),
    Attack(
        "region-peer",
        "a sensor of the same region",
        "its neighbours' latent vectors and Q, which the algorithm hands to it",
        _region_peer,
    ),
)
