"""An owner's page and scores after a run of a network: its own sensors, with and without others.

``python -m flfl.report.owner`` takes what a site's process packs (:mod:`flfl.service.tables`) and
gives the page and the scores back; the memory that this takes ends with it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flfl.codec import pack, unpack
from flfl.errors import FLFLError
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.io.suspicions import find_faults
from flfl.io.table import Table
from flfl.io.write import flags_of
from flfl.protocol.traffic import Traffic
from flfl.recovery import Recovery, selftest
from flfl.recovery.rules import Rules
from flfl.report.content import content_of, strict_json
from flfl.report.page import check_report_extra, render
from flfl.service.status_page import nights
from flfl.service.tables import WORDS

JOINED = (
    "Nothing left this owner in this run: it had no part in it, and finished at home with what the"
    " others made public."
)


def owner_result(given: Mapping[str, Any]) -> tuple[Recovery, Table, Sensors]:
    """The result of a site as that of a table, with the scores of what it holds out anyway."""
    index = pd.DatetimeIndex(given["stamps"].astype("M8[s]"), name="time")
    table = from_frame(pd.DataFrame(given["values"].T, index, given["ids"]))
    sensors = Sensors(
        table.sensor_ids,
        given["coordinates"],
        given["geography"] or None,
        sites=(given["site"],) * len(table.sensor_ids),
    )
    hidden = ~np.isnan(given["holdout"])
    inside = float(np.nanmean(given["inside"][hidden])) if hidden.any() else None
    estimates = {"flfl": given["holdout"], selftest.SITE: given["site_holdout"]}
    rules = Rules()
    test = selftest.scored(table, hidden, estimates, rules.bounds, coverage=inside)
    parts = {name: given[name] for name in ("lower", "upper")} | {
        "values": given["filled"],
        "flags": flags_of(table, given["filled"], given["observed"]),
        **{name: np.array(WORDS, object)[given[name]] for name in ("reasons", "methods")},
    }
    frames: dict[str, Any] = {
        name: pd.DataFrame(part, index, table.values.columns) for name, part in parts.items()
    }
    sent: dict[str, Any] = {name: Counter(given["traffic"][name]) for name in given["traffic"]}
    released = given["numbers"] * int(table.known.sum()) if sent["up"] else 0
    traffic = Traffic(rounds=given["rounds"], numbers=round(released), **sent)
    result = Recovery(
        **frames,
        scores=test.overall,
        by_gap_length=test.by_gap_length,
        by_sensor=test.by_sensor,
        verdict=selftest.verdict(test, "flfl", shared=True),
        added_error=pd.Series(given["added_error"], table.values.columns),
        traffic=traffic,
        seconds=0.0,
        sites=sensors.sites or (),
        method="flfl",
        settings=given["settings"],
        rules=rules,
        run_id=given["run"],
        table=table,
        sensors=sensors,
        unit=table.unit,
        secure=given["secure"],
        notes=table.notes,
        suspicious=find_faults(table),
    )
    return result, table, sensors


def owner_page(given: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The page (empty where none is wanted) and the scores, as bytes."""
    result, table, sensors = owner_result(given)
    scores = result.summary() | {"site": given["site"], "nights": given["nights"]}
    page = b""
    if given["page"]:
        check_report_extra()
        title = f"{given['site']} in the network {given['network']}"
        content = content_of(result, table, sensors, given["settings"], title)
        if not result.traffic.numbers:
            content["verdict"] = [text for text in (result.verdict, JOINED) if text]
        if given["nights"]:
            content["nights"] = nights(given["nights"])
        page = render(result, table, sensors, content).encode()
    return page, strict_json(scores).encode()


if __name__ == "__main__":
    try:
        made = owner_page(unpack(sys.stdin.buffer.read()))
    except FLFLError as error:
        sys.exit(f"{error}")
    sys.stdout.buffer.write(pack(list(made)))
