"""Who belongs together: sensors into regions, regions into sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.sensors import Sensors
from flfl.model.geometry import find_regions

SENSORS_PER_REGION = 8


@dataclass(frozen=True)
class Partition:
    """Region and site of each sensor; a region never spans two sites.

    Attributes
    ----------
    regions : (M,) integer labels
    sites : (M,) site names
    """

    regions: NDArray[np.int64]
    sites: tuple[str, ...]

    @property
    def site_names(self) -> tuple[str, ...]:
        """The sites in the order in which the sensors first name them."""
        return tuple(dict.fromkeys(self.sites))

    def members(self, site: str) -> NDArray[np.int64]:
        """Positions of the sensors of a site."""
        return np.flatnonzero(np.array(self.sites) == site)


def partition(
    sensors: Sensors, n_regions: int | None = None, rng: np.random.Generator | None = None
) -> Partition:
    """Regions and sites as told by the sensors file, else found from the coordinates.

    Given sites are kept and cut into regions; without sites each region is a site of its own
    (the paper's setting); without coordinates each sensor is.

    Examples
    --------
    >>> partition(Sensors.bare(("a", "b"))).sites
    ('a', 'b')
    """
    rng = rng or np.random.default_rng(0)
    if sensors.regions is not None:
        regions = _labels(sensors.regions)
    elif sensors.coordinates is not None:
        regions = _regions_within(sensors, n_regions, rng)
    else:
        # Without coordinates there is no graph, so a region says nothing: one per sensor.
        regions = np.arange(len(sensors.ids))
    sites = sensors.sites or _site_names(sensors, regions)
    _check_inside(regions, sites)
    return Partition(regions, tuple(sites))


def _labels(names: Sequence[str]) -> NDArray[np.int64]:
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], dtype=np.int64)


def _regions_within(
    sensors: Sensors, n_regions: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """k-means on the map of each site (of the whole network where no sites are given)."""
    assert sensors.coordinates is not None
    assert sensors.kind is not None
    sites = _labels(sensors.sites or ("",) * len(sensors.ids))
    regions = np.empty(len(sites), dtype=np.int64)
    found = 0
    for site in range(sites.max() + 1):
        here = np.flatnonzero(sites == site)
        wanted = n_regions if n_regions and not sensors.sites else None
        count = wanted or max(1, round(len(here) / SENSORS_PER_REGION))
        labels = find_regions(sensors.coordinates[here], sensors.kind, min(count, len(here)), rng)
        regions[here] = labels + found
        found += labels.max() + 1
    return regions


def _site_names(sensors: Sensors, regions: NDArray[np.int64]) -> tuple[str, ...]:
    if sensors.regions is not None:
        return sensors.regions
    if sensors.coordinates is None:
        return sensors.ids
    width = len(str(regions.max() + 1))
    return tuple(f"region-{region + 1:0{width}d}" for region in regions)


def _check_inside(regions: NDArray[np.int64], sites: Sequence[str]) -> None:
    home: dict[int, str] = {}
    for region, site in zip(regions.tolist(), sites, strict=True):
        if home.setdefault(region, site) != site:
            raise InputError(
                f"a region has sensors of site {home[region]!r} and of site {site!r}, but latent"
                " vectors are shared inside a region and must not leave a site",
                remedy="Give regions that lie inside one site, or leave the region column out",
            )
