"""A whole result in one file, and back: a zip archive of Parquet tables and one JSON document."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flfl.errors import InputError, explained
from flfl.io.files import read_bytes, write_files
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.io.suspicions import Suspicion
from flfl.protocol.traffic import Traffic
from flfl.recovery.result import Recovery
from flfl.recovery.rules import Rules
from flfl.recovery.selftest import GapScore, SensorScore

SUFFIX = ".zip"
_TABLES = tuple(one.name for one in fields(Recovery) if "DataFrame" in str(one.type))
_PLAIN = ("verdict", "seconds", "method", "run_id", "unit", "secure", "scores")


def save(path: str | Path, result: Recovery) -> None:
    """Write a result. The finished run (``remembered``) stays out: `save_model` is for that.

    The file holds readings: only its owner may read it.
    """
    whole = result.plain or result
    about = {name: getattr(whole, name) for name in _PLAIN}
    about |= {
        "version": 1,
        "sites": list(whole.sites),
        "notes": list(whole.notes),
        "units": None if whole.table.units is None else list(whole.table.units),
        "added_error": whole.added_error.tolist(),
        "settings": {name: _simple(value) for name, value in whole.settings.items()},
        "rules": {name: _simple(getattr(whole.rules, name)) for name in Rules.model_fields},
        "by_gap_length": [asdict(one) for one in whole.by_gap_length],
        "by_sensor": [asdict(one) for one in whole.by_sensor],
        "suspicious": [one.as_dict() for one in whole.suspicious],
        "traffic": {one.name: getattr(whole.traffic, one.name) for one in fields(Traffic)},
        "sensors": {
            "kind": whole.sensors.kind,
            "coordinates": _simple(whole.sensors.coordinates),
            "regions": whole.sensors.regions,
            "sites": whole.sensors.sites,
            "unplaced": whole.sensors.unplaced,
        },
    }

    def write(file: Any) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("about.json", json.dumps(about, default=_simple))
            for name in _TABLES:
                if (frame := getattr(whole, name)) is not None:
                    held = io.BytesIO()
                    frame.set_axis([str(c) for c in frame.columns], axis=1).to_parquet(held)
                    archive.writestr(f"{name}.parquet", held.getvalue())

    write_files({Path(path): write}, private=True)


def load(path: str | Path) -> Recovery:
    """Read what :func:`save` wrote."""
    where = str(path)
    remedy = "Give a .zip that `save` of a result wrote"
    with explained("this is not a saved result", where=where, remedy=remedy):
        data = read_bytes(Path(path))
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                about = json.loads(archive.read("about.json"))
                tables = {
                    name: pd.read_parquet(io.BytesIO(archive.read(f"{name}.parquet")))
                    for name in _TABLES
                    if f"{name}.parquet" in archive.namelist()
                }
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise InputError("this is not a saved result", where=where, remedy=remedy) from error
    known = tables["flags"] == "observed"
    table = from_frame(tables["values"].where(known), missing=())
    units = None if about["units"] is None else tuple(about["units"])
    table = replace(table, units=units, notes=tuple(about["notes"][:1]))
    place = about["sensors"]
    sensors = Sensors(
        table.sensor_ids,
        place["coordinates"] and np.array(place["coordinates"]),
        place["kind"],
        place["regions"] and tuple(place["regions"]),
        place["sites"] and tuple(place["sites"]),
        unplaced=tuple(place["unplaced"]),
    )
    traffic = about["traffic"]
    for name in ("up", "down", "messages_up", "messages_down", "exchanges"):
        traffic[name] = Counter(traffic[name])
    held: dict[str, Any] = {**tables, **{name: about[name] for name in _PLAIN}}
    return Recovery(
        **held,
        by_gap_length=tuple(GapScore(**one) for one in about["by_gap_length"]),
        by_sensor=tuple(SensorScore(**one) for one in about["by_sensor"]),
        added_error=pd.Series(about["added_error"], tables["values"].columns, dtype=float),
        traffic=Traffic(**traffic),
        sites=tuple(about["sites"]),
        settings=about["settings"],
        rules=Rules.check(about["rules"]),
        table=table,
        sensors=sensors,
        notes=tuple(about["notes"]),
        suspicious=tuple(
            Suspicion(s["kind"], tuple(s["sensors"]), s["readings"], s["sentence"])
            for s in about["suspicious"]
        ),
    )


def _simple(value: Any) -> Any:
    """What JSON can hold: lists, numbers, words; an infinite limit is none."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_simple(one) for one in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | dict | None) else str(value)
