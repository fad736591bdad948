"""xarray, for NetCDF: imported here and nowhere else, and only when a NetCDF file is met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flfl.errors import InputError

NETCDF_SUFFIXES = (".nc",)


def import_xarray(path: Path) -> Any:
    """The xarray package with an engine for NetCDF 4; ``path`` is named when they are absent."""
    try:
        import h5netcdf  # noqa: F401
        import xarray
    except ImportError:
        raise InputError(
            "NetCDF needs the packages xarray and h5netcdf, which are not installed",
            where=str(path),
            remedy="Run: pip install 'flfl[netcdf]'",
        ) from None
    return xarray
