"""``write_page``: a run as one HTML file that opens anywhere and asks the network for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from flfl.errors import InputError
from flfl.io.atomic import write_files
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.recovery import Recovery
from flfl.report.content import write_content

SUFFIXES = (".html", ".htm")
"""What the name of a page may end in."""


def write_page(
    path: str | Path,
    result: Recovery,
    table: Table,
    sensors: Sensors,
    settings: Mapping[str, object],
    *,
    title: str = "",
) -> None:
    """Write the page of a run: map, series, heat map, scores, traffic, settings.

    Parameters
    ----------
    path : str or Path
        The file; it appears only when it is complete.
    result : Recovery
        What ``recover`` gave for ``table``.
    table, sensors : Table, Sensors
        What was read. Without coordinates there is a list in place of the map.
    settings : mapping
        The options of the run, shown as they are.
    title : str
        The heading; the name of the file that was read where none is given.
    """
    check_report_extra()
    from flfl.report.rendering import render

    _check_same(result, table)
    page = render(result, table, sensors, write_content(result, table, sensors, settings, title))

    def put(file: BinaryIO) -> None:
        file.write(page.encode("utf-8"))

    write_files({Path(path): put})


def check_report_extra() -> None:
    """Say how to get the libraries that a page needs, where they are not there."""
    try:
        import flfl.report.rendering  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"the page needs the library {error.name}",
            where="report",
            remedy="Install the extra: pip install 'flfl[report]'",
        ) from None


def _check_same(result: Recovery, table: Table) -> None:
    """A page that shows other readings than the run's would be worse than none."""
    shown, given = result.values.to_numpy(), table.values.to_numpy()
    if shown.shape != given.shape or not np.array_equal(shown[table.known], given[table.known]):
        raise InputError(
            "the result is not one of this table",
            where="result",
            remedy="Recover the table itself, then give both",
        )
