"""Who owns what: sensors with their sites, cut into regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.sensors import EACH, Sensors, read_sensors
from flfl.model.basis import find_regions

Sites = Sequence[object] | NDArray[Any] | pd.Series | Mapping[Any, object]

SENSORS_PER_REGION = 8


def resolve_sensors(
    ids: Sequence[str], sensors: Sensors | pd.DataFrame | None, sites: Sites | None
) -> Sensors:
    """The sensors of a table from what the caller knows of them.

    Examples
    --------
    >>> resolve_sensors(["a", "b"], None, {"a": "north", "b": "south"}).sites
    ('north', 'south')
    >>> resolve_sensors(["7", "8"], None, [1, 1]).sites
    ('1', '1')
    """
    if isinstance(sensors, pd.DataFrame):
        sensors = read_sensors(sensors, ids)
    resolved = sensors or Sensors(tuple(ids))
    if resolved.ids != tuple(ids):
        raise InputError("the sensors do not match the table's columns")
    if isinstance(sites, str) and sites == EACH:
        return resolved.with_sites(EACH)
    return resolved if sites is None else resolved.with_sites(_site_of_each(ids, sites))


def _site_of_each(ids: Sequence[str], sites: Sites) -> list[str]:
    """The site of each sensor: ids and sites may be numbers, a Series may be keyed by sensor."""
    if isinstance(sites, str):
        raise InputError(
            f"{sites!r} is one text, not a site for each sensor",
            where="sites",
            remedy="Give a list in column order, a mapping from sensor to site, or 'each'",
        )
    if isinstance(sites, pd.Series):
        keyed = set(ids) <= {str(name) for name in sites.index}
        sites = dict(sites.items()) if keyed else sites.tolist()
    if isinstance(sites, Mapping):
        owner = {str(sensor): site for sensor, site in sites.items()}
        lost = [sensor for sensor in ids if sensor not in owner]
        if lost:
            raise InputError(f"no site is given for sensor {lost[0]!r}", where="sites")
        sites = [owner[sensor] for sensor in ids]
    if any(site is None or site != site for site in sites):
        raise InputError("a site is missing", where="sites", remedy="Name one for each sensor")
    return [str(site) for site in sites]


@dataclass(frozen=True)
class Partition:
    """Region (a number) and site of each sensor; a region never spans two sites."""

    regions: NDArray[np.int64]
    sites: tuple[str, ...]

    @cached_property
    def members(self) -> dict[str, NDArray[np.intp]]:
        """Positions of each site's sensors; the sites in the order in which sensors name them."""
        owners = np.array(self.sites)
        return {site: np.flatnonzero(owners == site) for site in dict.fromkeys(self.sites)}


def partition(
    sensors: Sensors, n_regions: int | None = None, rng: np.random.Generator | None = None
) -> Partition:
    """Regions and sites as told by the sensors file, else found from the coordinates.

    Given sites are kept and cut into regions by k-means on the map; without sites each region is
    a site of its own (the paper's setting); without coordinates each sensor is.

    Examples
    --------
    >>> partition(Sensors(("a", "b"))).sites
    ('a', 'b')
    """
    M, sites = len(sensors.ids), sensors.sites
    if sensors.regions is not None:
        regions = pd.factorize(np.array(sensors.regions, dtype=object))[0]
        sites = sites or sensors.regions
    elif sensors.coordinates is not None and sensors.kind is not None:
        rng = rng or np.random.default_rng(0)
        regions, found = np.empty(M, dtype=np.int64), 0
        # A sensor of which nobody knows where it stands is in no region but its own.
        lost = np.isin(sensors.ids, sensors.unplaced)
        owners = sites or tuple(np.where(lost, sensors.ids, "").tolist())
        for here in Partition(regions, owners).members.values():
            wanted = n_regions if n_regions and not sites else None
            count = min(wanted or max(1, round(len(here) / SENSORS_PER_REGION)), len(here))
            labels = find_regions(sensors.coordinates[here], sensors.kind, count, rng)
            regions[here] = labels + found
            found += labels.max() + 1
        width = len(str(found))
        named = (f"region-{region + 1:0{width}d}" for region in regions)
        sites = sites or tuple(owner or region for owner, region in zip(owners, named, strict=True))
    else:
        # Without coordinates there is no graph, so a region says nothing: one for each sensor.
        regions, sites = np.arange(M), sites or sensors.ids
    home: dict[int, str] = {}
    for region, site in zip(regions.tolist(), sites, strict=True):
        if home.setdefault(region, site) != site:
            raise InputError(
                f"a region has sensors of site {home[region]!r} and of site {site!r}, but latent"
                " vectors are shared inside a region and must not leave a site",
                remedy="Give regions that lie inside one site, or leave the region column out",
            )
    return Partition(regions.astype(np.int64), tuple(sites))
