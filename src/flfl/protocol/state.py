"""A network's public state as flat arrays: for messages, and for files of a finished run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.model.state_space import RADIUS, Dynamics
from flfl.protocol.plan import COMPONENTS, Plan
from flfl.protocol.public import Network, Stretch
from flfl.protocol.schema import (
    LARGEST,
    loadings_fit,
    pack_known,
    pack_text,
    unpack_known,
    unpack_text,
)

Arrays = Mapping[str, np.ndarray]


def network_to_arrays(network: Network) -> dict[str, NDArray]:
    """``head`` (JSON), whole ``numbers`` and ``arrays`` of numbers, each flat."""
    head = {
        "names": network.names,
        "transform": network.transform,
        "season": network.season,
        "scale": network.scale,
        "sensors": len(network.error),
        "rank": network.P.shape[1],
        "lengths": [len(part.numbers) for part in network.stretches],
        "components": network.z.shape[1],
        "map": network.plan.box is not None,
    }
    whole = [network.site, network.order, network.sensors, network.units_stop]
    real = [network.places, network.error, network.P, network.r]
    real += [network.dynamics.A, network.dynamics.S]
    for part in network.stretches:
        whole += [pack_known(part.known), part.numbers]
        real += [part.sigma, part.z]
    return {
        "head": pack_text(json.dumps(head)),
        "numbers": np.concatenate([np.ravel(a).astype(np.int64) for a in whole]),
        "arrays": np.concatenate([np.ravel(a).astype(float) for a in real]),
    }


def network_from_arrays(arrays: Arrays, plan: Plan) -> Network:
    """The state back; its slots are numbered from 0.

    Raises
    ------
    InputError
        When the arrays do not fit together, or no run can have led to them.
    """
    try:
        network = _read(arrays, plan)
        sound = _sound(network)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        sound = False
    if not sound:
        raise InputError("the saved network is damaged")
    return network


def _read(arrays: Arrays, plan: Plan) -> Network:
    head = json.loads(unpack_text(arrays["head"]))
    M, k, K = int(head["sensors"]), int(head["rank"]), int(head["components"])
    whole, real = _Reader(arrays["numbers"]), _Reader(arrays["arrays"])
    site, order, sensors, units = (whole.take(M), whole.take(M), whole.take(M, 4), whole.take(M))
    places, error, P, r = real.take(M, 2), real.take(M), real.take(M, k), real.take(M)
    dynamics = Dynamics(real.take(k, k), real.take(k, k))
    stretches = []
    for length in head["lengths"]:
        known = unpack_known(whole.take(M, -(-int(length) // 64)), int(length))
        numbers, sigma = whole.take(int(length)), real.take(M)
        stretches.append(Stretch(known, sigma, numbers, real.take(int(length), K)))
    if whole.left or real.left:
        raise InputError("the saved network is damaged")
    n_slots = sum(int(length) for length in head["lengths"])
    plan = plan if head["map"] else replace(plan, box=None)
    return Network(
        plan,
        tuple(head["names"]),
        site,
        order,
        sensors,
        places,
        error,
        float(head["scale"]),
        str(head["transform"]),
        int(head["season"]),
        np.arange(n_slots, dtype=float),
        units,
        tuple(stretches),
        P,
        r,
        dynamics,
    )


def _sound(network: Network) -> bool:
    """Whether a run can have led to this state."""
    names, site, numbers = network.names, network.site, network.numbers
    lengths = np.concatenate([network.error, *(part.sigma for part in network.stretches)])
    sizes = [network.places, network.z, network.P, network.dynamics.A, network.dynamics.S]
    return bool(
        len(site) > 0
        and len(np.unique(network.sensors, axis=0)) == len(site)
        and list(names) == sorted(set(names))
        and all(isinstance(name, str) for name in names)
        and ((site >= -1) & (site < len(names))).all()
        and min(len(part.numbers) for part in network.stretches) > 0
        and 1 <= network.P.shape[1] <= network.plan.rank
        and 1 <= network.z.shape[1] <= COMPONENTS
        and ((numbers >= 0) & (numbers <= network.z.shape[1])).all()
        and ((network.units_stop >= 0) & (network.units_stop <= network.n_slots)).all()
        and 1 / LARGEST < network.scale < LARGEST
        and ((lengths == 0) | ((lengths > 1 / LARGEST) & (lengths < LARGEST))).all()
        and all(np.abs(array).max(initial=0.0) < LARGEST for array in sizes)
        and loadings_fit(network.P, network.r)
        and _is_stable(network.dynamics)
    )


def _is_stable(dynamics: Dynamics) -> bool:
    """Whether factors of these dynamics keep a finite variance."""
    A, S = dynamics.A, dynamics.S
    radius = np.abs(np.linalg.eigvals(A)).max()
    return bool(radius < RADIUS + 1e-6 and np.linalg.eigvalsh(S).min() > 0)


class _Reader:
    """Takes arrays off a flat one, in order."""

    def __init__(self, flat: NDArray) -> None:
        self._flat, self._at = flat, 0

    @property
    def left(self) -> int:
        """Numbers that were not taken."""
        return len(self._flat) - self._at

    def take(self, *shape: int) -> NDArray:
        size = math.prod(shape)
        if min(shape, default=0) < 0 or size > self.left:
            raise InputError("the saved network is damaged")
        self._at += size
        return self._flat[self._at - size : self._at].reshape(shape).copy()
