"""NetCDF needs the extra ``netcdf``; without it the tests that read such files are skipped."""

from importlib.util import find_spec
from pathlib import Path

import pytest

MISSING = [name for name in ("h5netcdf", "xarray") if find_spec(name) is None]
READ_NETCDF = {"test_sentences_of_files"}
"""Tests that read such a file without naming it in their parameters."""


def pytest_collection_modifyitems(items):
    """Skip what cannot be read here, with the reason."""
    for item in items:
        reads = ".nc" in item.name or item.name in READ_NETCDF
        if MISSING and reads and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason=f"needs {MISSING[0]} (flfl[netcdf])"))
