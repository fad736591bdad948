"""Other columns of a long file: what depends on the sensor or the time alone goes along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.build import Draft
from flfl.io.cells import decimal_mark, to_numbers
from flfl.io.rawfile import RawFile
from flfl.io.sensor_columns import COORDINATES
from flfl.io.table import listing

UNIT_NAMES = ("unit", "units")
PARAMETER_NAMES = ("parameter", "pollutant")
# What was said of each reading, even where it is the same word throughout: nobody said it of a
# recovered one.
_JUDGEMENT = re.compile(
    r"(?:.*[_ ])?(?:qc|qa|quality|flags?|status|valid|validity|validated|validation"
    r"|verified|verification)(?:[_ ](?:flags?|code|status))?"
)


def pick_parameter(raw: RawFile, parameter: str | None, used: set[int]) -> str | None:
    """Keep the rows of one parameter, and tell which; refuses several when none is chosen."""
    column = raw.find(PARAMETER_NAMES)
    if column is None or column in used:
        if parameter is not None:
            raise InputError(
                f"there is no column parameter to choose {parameter!r} from",
                where=raw.where(),
                remedy="Leave parameter out",
            )
        return None
    cells = pc.utf8_trim_whitespace(pc.cast(raw.columns[column], pa.string())).fill_null("")
    found = sorted(str(name) for name in pc.unique(cells).to_pylist())
    if parameter is None and len(found) > 1:
        raise InputError(
            f"the file holds {len(found)} parameters: {listing(found, 12)}",
            where=raw.where(column=raw.names[column]),
            remedy=f"Choose one with parameter, for example parameter={found[0] or found[1]}",
        )
    if parameter is not None and parameter not in found:
        raise InputError(
            f"there is no parameter {parameter!r}; the file holds {listing(found, 12)}",
            where=raw.where(column=raw.names[column]),
            remedy="Choose one of these with parameter",
        )
    if len(found) > 1:
        raw.pick(np.flatnonzero(pc.equal(cells, parameter).to_numpy(zero_copy_only=False)))
    return parameter or found[0] or None


def carry(
    draft: Draft, used: set[int], sensor: NDArray[np.intp], slot: NDArray[np.intp], slots: int
) -> None:
    """Sort the other columns of a long file into those that go along and those that cannot."""
    raw = draft.raw
    lost = []
    for column, name in enumerate(raw.names):
        if column in used:
            continue
        array = raw.columns[column]
        if _JUDGEMENT.fullmatch(name.lower()):
            lost.append(name)
        elif (cells := _one_cell_each(array, sensor, len(draft.ids))) is not None:
            draft.by_sensor_cells[name] = cells
        elif (cells := _one_cell_each(array, slot, slots)) is not None:
            draft.by_slot_cells[name] = cells
        else:
            lost.append(name)
    draft.columns = tuple(name for name in raw.names if name not in lost)
    if lost:
        draft.notes.append(f"Columns that are not used and not carried over: {listing(lost)}.")
    _units(draft, used)
    _coordinates(draft)


def _one_cell_each(array: pa.Array, key: NDArray[np.intp], count: int) -> pa.Array | None:
    """The cell that belongs to each key, where all rows of a key agree; else None."""
    if pa.types.is_nested(array.type):
        return None
    coded = array.dictionary_encode() if not pa.types.is_dictionary(array.type) else array
    code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    first = np.zeros(count, dtype=np.intp)
    first[key[::-1]] = np.arange(len(key))[::-1]
    if not (code[first][key] == code).all():
        return None
    return array.take(pa.array(first))


def _units(draft: Draft, used: set[int]) -> None:
    column = draft.raw.find(UNIT_NAMES)
    if column is None or column in used:
        return
    name = draft.raw.names[column]
    cells = draft.by_sensor_cells.get(name)
    if cells is None:
        raise InputError(
            "one sensor has readings in several units",
            where=draft.raw.where(column=name),
            remedy="Convert the readings of a sensor to one unit, or remove the column",
        )
    draft.units = tuple(str(unit or "").strip() for unit in cells.to_pylist())
    different = sorted(set(draft.units))
    if len(different) > 1:
        draft.notes.append(f"The sensors are in different units: {listing(different)}.")


def _coordinates(draft: Draft) -> None:
    """Coordinates that the long file itself gives, when every sensor has one place."""
    cells = {name.lower(): array for name, array in draft.by_sensor_cells.items()}
    for kind, first_names, second_names in COORDINATES:
        pair = [_first(cells, names) for names in (first_names, second_names)]
        if pair[0] is None or pair[1] is None:
            if draft.raw.find(first_names) is not None and draft.raw.find(second_names) is not None:
                draft.notes.append("The coordinates of a sensor change; they are not used.")
                return
            continue
        raw = _small_file(draft.raw, [first_names[0], second_names[0]], pair)
        decimal = decimal_mark(raw, [0, 1])
        try:
            places = np.column_stack([to_numbers(raw, i, decimal) for i in (0, 1)])
        except InputError:
            places = np.full((1, 2), np.nan)
        top = (90.0, 360.0) if kind == "latlon" else (np.inf, np.inf)
        if np.isfinite(places).all() and (np.abs(places) <= top).all():
            draft.coordinates, draft.coordinate_kind = places, kind
        else:
            draft.notes.append("The coordinates in the file are not all there; they are not used.")
        return


def _small_file(raw: RawFile, names: list[str], columns: list[pa.Array]) -> RawFile:
    """A few cells of a file as a file, so that they are read by the same rules."""
    return RawFile(raw.path, raw.format, names, lambda: columns, raw.delimiter)


def _first(cells: Mapping[str, pa.Array], names: Sequence[str]) -> pa.Array | None:
    return next((cells[name] for name in names if name in cells), None)
