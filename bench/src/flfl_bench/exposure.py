"""What readers of a run get to know of a sensor's residual: the audit's attacks, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd

from flfl.audit.run import ALL_BUT_ONE, COORDINATOR, EVERYBODY, audit
from flfl.io.sensors import Sensors

DISCLOSED = {"flfl": "sums", "flfl-paper": "plain"}
"""Methods that the audit can attack, and what they disclose."""
READERS = {"coordinator": COORDINATOR, "everybody": EVERYBODY, "one_reading": ALL_BUT_ONE}
READ = tuple(f"{reader}_{what}" for reader, what in product(READERS, ("worst", "median")))
"""Columns: R^2 of the residual under each reader's best attack, the worst and the median sensor."""
ATTACKS = ("slot by slot", "with memory", "refits", "everything else", "all but one reading")
"""Attacks on sums that an experiment makes; `flfl audit` has three more, left out here for time."""


def read(
    seen: pd.DataFrame,
    sensors: Sensors,
    sites: Sequence[str] | None,
    method: str,
    seed: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Run a configuration again, look on, attack, and say what each reader got.

    Plain uploads give away the readings themselves: there only the share of them is told.
    """
    attacks = None if DISCLOSED[method] == "plain" else ATTACKS
    report = audit(
        seen, sensors, sites=sites, disclosure=DISCLOSED[method], seed=seed, attacks=attacks,
        **options,
    )  # fmt: skip
    found = report.as_dict()["attacks"]
    told: dict[str, Any] = {"audit_seconds": report.seconds}
    told["readings_exposed"] = max((one["readings_exposed"] or 0.0 for one in found), default=0.0)
    for reader, adversary in READERS.items():
        own = [one for one in found if one["adversary"] == adversary]
        for what, figure in (("worst", "residual_read_max"), ("median", "residual_read_median")):
            # Less than nothing is nothing: such a guess is worse than none.
            values = [max(one[figure], 0.0) for one in own if one.get(figure) is not None]
            told[f"{reader}_{what}"] = max(values, default=None)
    return told
