"""What was understood of a table, before anything is done with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.io.grid import step_name
from flfl.io.sensors import Sensors
from flfl.io.suspicion import Suspicion, find_suspicions
from flfl.io.table import Source, Table, listing

# Lower ends of the classes of gap lengths, in slots.
GAP_CLASSES = (1, 2, 7, 25, 169)
_WORST = 5
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_FORMATS = {"csv": "CSV", "parquet": "Parquet", "netcdf": "NetCDF"}


@dataclass(frozen=True)
class GapClass:
    """How many gaps are this long (in slots; ``longest`` None: no upper end), and their cells."""

    shortest: int
    longest: int | None
    gaps: int
    cells: int

    @property
    def name(self) -> str:
        """``1``, ``2 to 6``, ``169 and more``."""
        if self.longest is None:
            return f"{self.shortest} and more"
        return str(self.shortest) if self.longest == 1 else f"{self.shortest} to {self.longest}"


@dataclass(frozen=True)
class Inspection:
    """What a file holds, as it was understood.

    Attributes
    ----------
    file, form, zone : str or None
        The file, how it is written, and the zone of its times; None where there is none.
    units : tuple of str
        The units that the file names.
    coordinates : {"latlon", "metric"} or None
        What is known of the sensors' places. None: the spatial part is off.
    sensors, slots : int
    first, last, step : str
        The first and the last time, and the name of the grid's step.
    regular : bool
        Every slot sits on the grid. If so, ``absent`` rows of it are not in the file.
    observed, missing : int
        Cells with a reading, and without.
    empty : tuple of str
        Sensors without any reading.
    worst : tuple of (sensor, share missing)
    gaps : tuple of GapClass
        Runs of missing cells of sensors that have readings.
    suspicious : tuple of Suspicion
    notes : tuple of str
        What the reader had to say.
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
    empty: tuple[str, ...]
    worst: tuple[tuple[str, float], ...]
    gaps: tuple[GapClass, ...]
    suspicious: tuple[Suspicion, ...]
    notes: tuple[str, ...]

    @property
    def to_fill(self) -> int:
        """Missing cells of sensors that have readings: what `recover` would look at."""
        return self.missing - len(self.empty) * self.slots

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        gaps = [asdict(gap) | {"name": gap.name} for gap in self.gaps]
        worst = [{"sensor": name, "missing": share} for name, share in self.worst]
        return asdict(self) | {"to_fill": self.to_fill, "gaps": gaps, "worst": worst}

    def sentences(self) -> tuple[str, ...]:
        """The same for a person, most important first, and what `recover` would do."""
        return (*self.understood(), self._plan())

    def understood(self) -> tuple[str, ...]:
        """What was understood, for a person, most important first."""
        said = [*self.notes, self._form(), self._units(), self._places()]
        said += self._missing()
        said += [f"Suspicious: {found.sentence}" for found in self.suspicious]
        return tuple(sentence for sentence in said if sentence)

    def _form(self) -> str:
        if self.form is None:
            return ""
        zone = "" if self.zone else " The times name no zone and are taken as they stand."
        return f"The file is {self.form}.{zone}"

    def _units(self) -> str:
        if not self.units:
            return "The file names no unit."
        noun = "unit is" if len(self.units) == 1 else "units are"
        return f"The {noun} {listing(self.units)}."

    def _places(self) -> str:
        if self.coordinates is None:
            return (
                "No coordinates are known, so the spatial part is off; a sensors file with id, "
                "latitude and longitude (or x and y) turns it on."
            )
        words = {"latlon": "latitude and longitude", "metric": "x and y in metres"}
        return f"The sensors have coordinates: {words[self.coordinates]}."

    def _missing(self) -> list[str]:
        said = []
        gaps = [gap for gap in self.gaps if gap.gaps]
        if gaps:
            listed = "; ".join(f"{gap.gaps} of {gap.name}" for gap in gaps)
            said.append(f"Gaps by length in slots: {listed}.")
        if self.worst:
            listed = ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in self.worst)
            said.append(f"Most is missing at {listed}.")
        return said

    def _plan(self) -> str:
        empty = len(self.empty) * self.slots
        rest = f", and finds no reading to start from for {_count(empty, 'cell')}" if empty else ""
        return (
            f"`recover` would keep {_count(self.observed, 'observed reading')} as they are and has "
            f"{_count(self.to_fill, 'cell')} to fill{rest}."
        )


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
    network = Sensors.of_table(table) if sensors is None else sensors
    known = table.known
    share = 1 - known.mean(axis=0)
    order = [i for i in np.argsort(-share, kind="stable")[:_WORST].tolist() if share[i] > 0]
    regular = bool((table.positions == np.round(table.positions)).all())
    times = _times(table)
    source = table.source
    return Inspection(
        file=None if source is None else str(source.path),
        form=None if source is None else _form_of(source),
        zone=None if source is None else source.zone,
        units=tuple(sorted(set(table.units or ()) - {""})),
        coordinates=network.kind,
        sensors=known.shape[1],
        slots=known.shape[0],
        first=times[0],
        last=times[1],
        step=step_name(table.step),
        regular=regular,
        absent=round(float(table.positions[-1])) + 1 - len(known) if regular else 0,
        observed=int(known.sum()),
        missing=int(known.size - known.sum()),
        empty=tuple(name for name, s in zip(table.sensor_ids, share, strict=True) if s == 1),
        worst=tuple((table.sensor_ids[i], float(share[i])) for i in order),
        gaps=_gap_classes(known[:, share < 1]),
        suspicious=find_suspicions(table),
        notes=table.notes,
    )


def _times(table: Table) -> tuple[str, str]:
    if table.source is not None:
        return table.source.time_texts[0], table.source.time_texts[-1]
    return str(table.values.index[0]), str(table.values.index[-1])


def _form_of(source: Source) -> str:
    if source.format != "csv":
        return f"{_FORMATS[source.format]}, {source.layout}"
    mark = "comma" if source.decimal == "," else "point"
    delimiter = _DELIMITERS[source.delimiter]
    return f"CSV, {source.layout}, delimited by {delimiter}, with decimal {mark}"


def _gap_classes(known: NDArray[np.bool_]) -> tuple[GapClass, ...]:
    """Runs of missing cells down each column, counted by length."""
    count = np.zeros(len(known) + 1, dtype=np.int64)
    for column in known.T:
        edges = np.flatnonzero(np.concatenate([[True], column, [True]]))
        count += np.bincount(np.diff(edges) - 1, minlength=len(count))
    lengths = np.arange(len(count))
    found = []
    for low, above in zip(GAP_CLASSES, (*GAP_CLASSES[1:], None), strict=True):
        inside = (lengths >= low) & (lengths < (np.inf if above is None else above))
        found.append(
            GapClass(
                shortest=low,
                longest=None if above is None else above - 1,
                gaps=int(count[inside].sum()),
                cells=int((count * lengths)[inside].sum()),
            )
        )
    return tuple(found)
