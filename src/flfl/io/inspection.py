"""What was understood of a table, and what in it deserves a look. Nothing changes a reading."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.io.columns import listing
from flfl.io.sensors import Sensors
from flfl.io.suspicions import Suspicion, find_faults, no_tail, suspicion, without_faults
from flfl.io.table import Table

# Lower ends of the classes of gap lengths, in slots.
GAP_CLASSES = (1, 2, 7, 25, 169)
_WORST = 5
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_FORMATS = {"csv": "CSV", "sheet": "a spreadsheet", "parquet": "Parquet", "netcdf": "NetCDF"}
_PLACES = {"latlon": "latitude and longitude", "metric": "x and y in metres"}

# docs/inputs.md gives the rules: readings before anything is said of a sensor, the share of
# negative ones that are rather faults, interquartile ranges from the median, and how many times the
# median level of all sensors makes a unit doubtful.
_ENOUGH, _FEW_NEGATIVE, _FAR, _OTHER_UNIT = 20, 0.01, 10.0, 100.0


@dataclass(frozen=True)
class GapClass:
    """How many gaps are this long (in slots; ``longest`` None: no upper end), and their cells."""

    name: str
    shortest: int
    longest: int | None
    gaps: int
    cells: int


@dataclass(frozen=True)
class Inspection:
    """What a file holds, as it was understood.

    ``to_fill`` are the missing cells of sensors that have readings, ``worst`` sensors with the
    share that is missing. ``absent`` rows of a ``regular`` grid are not in the file.
    """

    file: str | None
    form: str | None
    zone: str | None
    units: tuple[str, ...]
    coordinates: str | None
    sensors: int
    slots: int
    first: str
    last: str
    step: str
    regular: bool
    absent: int
    observed: int
    missing: int
    to_fill: int
    empty: tuple[str, ...]
    worst: tuple[tuple[str, float], ...]
    gaps: tuple[GapClass, ...]
    suspicious: tuple[Suspicion, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        worst = [{"sensor": name, "missing": share} for name, share in self.worst]
        suspicious = [found.as_dict() for found in self.suspicious]
        bare = asdict(replace(self, suspicious=()))
        return bare | {"worst": worst, "suspicious": suspicious}

    def understood(self) -> tuple[str, ...]:
        """What was understood, for a person, most important first."""
        told = list(self.notes)
        if self.form is not None:
            zone = "" if self.zone else " The times name no zone and are taken as they stand."
            told.append(f"The file is {self.form}.{zone}")
        noun = "unit is" if len(self.units) == 1 else "units are"
        named = f"The {noun} {listing(self.units)}."
        told.append(named if self.units else "The file names no unit.")
        nowhere = "No coordinates are known, so the spatial part is off; a sensors file with id, "
        nowhere += "latitude and longitude (or x and y) turns it on."
        place = _PLACES.get(self.coordinates or "")
        told.append(f"The sensors have coordinates: {place}." if place else nowhere)
        gaps = "; ".join(f"{gap.gaps} of {gap.name}" for gap in self.gaps if gap.gaps)
        worst = ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in self.worst)
        told += [f"Gaps by length in slots: {gaps}."] * bool(gaps)
        told += [f"Most is missing at {worst}."] * bool(worst)
        return (*told, *(f"Suspicious: {found.sentence}" for found in self.suspicious))

    def sentences(self) -> tuple[str, ...]:
        """The same, and what `recover` would do."""
        empty = len(self.empty) * self.slots
        rest = f", and finds no reading to start from for {_count(empty, 'cell')}" if empty else ""
        plan = f"`recover` would keep {_count(self.observed, 'observed reading')} as they are and "
        return (*self.understood(), f"{plan}has {_count(self.to_fill, 'cell')} to fill{rest}.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def inspect_table(table: Table, sensors: Sensors | None = None) -> Inspection:
    """Say what was understood of a table.

    Examples
    --------
    >>> from flfl.io.read import from_frame
    >>> found = inspect_table(from_frame(np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])))
    >>> found.observed, found.to_fill, found.gaps[0].gaps
    (5, 1, 1)
    """
    known, source, grid, ids = table.known, table.source, table.grid, table.sensor_ids
    share = 1 - known.mean(axis=0)
    order = [i for i in np.argsort(-share, kind="stable")[:_WORST].tolist() if share[i] > 0]
    times = table.values.index if source is None else source.time_texts
    missing, empty = int(known.size - known.sum()), [ids[i] for i in np.flatnonzero(share == 1)]
    form = None if source is None else f"{_FORMATS[source.format]}, {source.layout}"
    if source is not None and source.format == "csv":
        mark = "comma" if source.dialect.decimal == "," else "point"
        form = f"{form}, delimited by {_DELIMITERS[source.dialect.delimiter]}, with decimal {mark}"
    return Inspection(
        file=None if source is None else str(source.path),
        form=form,
        zone=None if source is None else source.zone,
        units=tuple(sorted(set(table.units or ()) - {""})),
        coordinates=table.coordinate_kind if sensors is None else sensors.kind,
        sensors=known.shape[1],
        slots=known.shape[0],
        first=str(times[0]),
        last=str(times[-1]),
        step=grid.name,
        regular=grid.regular,
        absent=grid.absent,
        observed=int(known.sum()),
        missing=missing,
        to_fill=missing - len(empty) * len(known),
        empty=tuple(empty),
        worst=tuple((ids[i], float(share[i])) for i in order),
        gaps=_gap_classes(known[:, share < 1]),
        suspicious=find_suspicions(table),
        notes=table.notes,
    )


def _gap_classes(known: NDArray[np.bool_]) -> tuple[GapClass, ...]:
    """Runs of missing cells down each column, counted by length."""
    # A gap lies between two known cells, of which one is thought below each column.
    runs = (np.diff(np.flatnonzero(np.append(c, True)), prepend=-1) - 1 for c in known.T)
    lengths = np.concatenate([np.empty(0), *(run[run > 0] for run in runs)])
    found = []
    for low, above in zip(GAP_CLASSES, (*GAP_CLASSES[1:], None), strict=True):
        inside = lengths[(lengths >= low) & (lengths < (above or np.inf))]
        longest = None if above is None else above - 1
        name = f"{low} to {longest}" if longest else f"{low} and more"
        name = "1" if longest == 1 else name
        found.append(GapClass(name, low, longest, len(inside), int(inside.sum())))
    return tuple(found)


def find_suspicions(table: Table) -> tuple[Suspicion, ...]:
    """Readings that are probably faults, and others that deserve a look.

    Examples
    --------
    >>> from flfl.io.read import from_frame
    >>> readings = np.arange(60.0) % 7 + 1
    >>> readings[30] = 900.0
    >>> [found.kind for found in find_suspicions(from_frame(readings[:, None]))]
    ['far outside']
    """
    faults = find_faults(table)
    return (*faults, *_remarks(without_faults(table, faults) if faults else table))


def _remarks(table: Table) -> list[Suspicion]:
    """What is odd about sensors, and readings that may be right."""
    values, ids, found = table.values.to_numpy(), table.sensor_ids, list[Suspicion]()
    count = table.known.sum(axis=0)
    enough = np.flatnonzero(count >= _ENOUGH).tolist()
    below, total = values < 0, int(count.sum())
    if 0 < below.sum() <= _FEW_NEGATIVE * total:
        # Where low readings lead down to them, as on the coldest days, they are none.
        negative = [i for i, column in enumerate(values.T) if no_tail(column, below[:, i])]
        number = int(below[:, negative].sum())
        problem = f"{number} of {total} readings {'is' if number == 1 else 'are'} negative and "
        problem += "nearly all others are not; if the quantity cannot be, they are faults"
        found += [suspicion("negative", table, negative, number, problem)] if negative else []
    median = np.full(len(ids), np.nan)
    far: dict[int, tuple[int, float]] = {}
    whole, same = list[int](), dict[int, list[int]]()
    for i in enough:
        known = values[~np.isnan(values[:, i]), i]
        low, median[i], high = np.quantile(known, [0.25, 0.5, 0.75])
        away = np.abs(known - median[i])
        if high > low and (away > _FAR * (high - low)).any():
            far[i] = int((away > _FAR * (high - low)).sum()), float(known[np.argmax(away)])
        whole += [i] * bool((known == np.round(known)).all())
        # One bit pattern for every NaN, so that equal columns are equal bytes.
        bits = np.nan_to_num(values[:, i], nan=np.inf).tobytes()
        same.setdefault(hash(bits), []).append(i)
    if far:
        number = sum(one for one, _ in far.values())
        worst = max(far, key=lambda i: abs(far[i][1] - median[i]))
        problem = f"{number} {'reading is' if number == 1 else 'readings are'} more than {_FAR:g} "
        problem += "interquartile ranges from the sensor's median, for example "
        problem += f"{far[worst][1]:g} at {ids[worst]} (median {median[worst]:g})"
        found.append(suspicion("far outside", table, list(far), number, problem))
    level = float(np.median(np.abs(median[enough]))) if len(enough) >= 3 else 0.0
    ratio = np.abs(median) / (level or np.nan)
    odd = np.flatnonzero((ratio > _OTHER_UNIT) | ((ratio > 0) & (ratio < 1 / _OTHER_UNIT))).tolist()
    if odd:
        problem = "SENSORS a level a hundred times that of the others or a hundredth of it; the "
        problem += "unit may be another"
        found.append(suspicion("another level", table, odd, count[odd].sum(), problem))
    if whole and 2 * len(whole) <= len(enough):
        problem = "SENSORS whole numbers only, where others have decimals"
        found.append(suspicion("rounded", table, whole, count[whole].sum(), problem))
    if twins := [i for group in same.values() if len(group) > 1 for i in group]:
        problem = f"{len(twins)} sensors have exactly the readings of another"
        found.append(suspicion("repeated", table, twins, count[twins].sum(), problem))
    return found
