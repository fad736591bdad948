"""All methods by name: those of this package, and those that other packages bring.

Another package registers a method as an entry point of the group ``flfl.methods``: its name, and a
:class:`Method` or an estimator class that obeys :class:`~flfl.estimators.base.BaseRecoverer`.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral
from typing import Any

from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.flfl import FLFL
from flfl.estimators.interpolation import Linear, Mean, Pchip
from flfl.paper.estimator import PaperFLFL

GROUP = "flfl.methods"
"""Entry points of this group are methods."""
BUDGET = 4
"""Settings that a method may try, the same for all."""


_NOISE = "use added_error, the noise in the copies that leave (1 by default, 0 for none)"
GONE = {
    "max_exposure": _NOISE,
    "blur": _NOISE,
    "collusion": "leave it out: noisy copies hold against any coalition; see added_error",
    "epsilon": "use added_error; the result reports the epsilon that it means, as guarantee",
    "delta": "use added_error; the result reports the epsilon that it means, as guarantee",
    "projection": "leave it out; share says how many numbers are released for a reading",
    "account": "leave it out: a reading has one copy for ever, so further runs tell nothing more",
}
"""Options that are gone, and what replaces them."""


@dataclass(frozen=True)
class Method:
    """One entry of the registry.

    Attributes
    ----------
    name : lower case, as on the command line
    build : makes the estimator
    summary : one line
    federated : whether owners keep their readings at home and send something else
    pooled : whether it needs all readings in one place
    seeded : whether it draws random numbers
    needs : the optional module that it needs, if any
    extra : what to install for it
    grid : the settings that tuning tries, at most :data:`BUDGET` of them; empty for a method
        without settings, or one that chooses its own from the readings it is given
    """

    name: str
    build: Callable[..., BaseRecoverer]
    summary: str
    federated: bool = False
    pooled: bool = False
    seeded: bool = False
    needs: str | None = None
    extra: str = ""
    grid: tuple[Mapping[str, Any], ...] = ()

    @property
    def available(self) -> bool:
        """Whether the module that it needs is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    def require(self) -> None:
        """Refuse to go on where the module that it needs is not installed."""
        if not self.available:
            raise InputError(
                f"the method {self.name} needs {self.needs}, which is not installed",
                remedy=f"Install it: pip install '{self.extra}'",
            )

    def create(self, *, seed: int = 0, **options: Any) -> BaseRecoverer:
        """An estimator, seeded where the method draws random numbers.

        ``random_state`` among the options, as scikit-learn calls it, comes before ``seed``.
        """
        if not isinstance(seed, Integral) or seed < 0:
            raise InputError(f"{seed!r} is no seed", where="seed", remedy="Give 0 or more, whole")
        known = inspect.signature(self.build).parameters
        unknown = [option for option in options if option not in known]
        if unknown and unknown[0] in GONE:
            raise InputError(f"{unknown[0]} is gone: {GONE[unknown[0]]}")
        if unknown:
            choice = f"Its options are {', '.join(known)}" if known else "Leave it out"
            raise InputError(f"the method {self.name} has no option {unknown[0]}", remedy=choice)
        if self.seeded:
            options.setdefault("random_state", int(seed))
        return self.build(**options)


_OWN: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "flfl",
            FLFL,
            "our default: a dynamic factor model of one release of noisy copies, finished at home",
            federated=True,
            seeded=True,
        ),
        Method(
            "alone",
            partial(FLFL, sharing="nothing"),
            "flfl without a network: each owner from its own sensors, nothing shared",
            seeded=True,
        ),
        Method(
            "pooled",
            partial(FLFL, sharing="everything"),
            "flfl as if one owner held all sensors, central",
            pooled=True,
            seeded=True,
        ),
        Method(
            "flfl-paper",
            PaperFLFL,
            "the paper's federation as printed; its plain uploads reveal the readings",
            federated=True,
            seeded=True,
            # Beside the weights that validation chose once (docs/decisions/0003), smoother ones.
            grid=(
                {"spatial_weight": 0.1, "temporal_weight": 0.3},
                {"spatial_weight": 0.1, "temporal_weight": 1.0},
            ),
        ),
        Method("linear", Linear, "each sensor alone: straight lines between its readings"),
        Method("pchip", Pchip, "each sensor alone: shape-preserving cubics"),
        Method("mean", Mean, "each sensor alone: its mean"),
    )
}


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Method:
    found = point.load()
    if isinstance(found, Method):
        return found
    summary = (inspect.getdoc(found) or "").partition("\n")[0]
    seeded = "random_state" in inspect.signature(found).parameters
    return Method(point.name, found, summary, seeded=seeded)


def methods() -> dict[str, Method]:
    """Every method that is installed, by name."""
    others = {name: _load(point) for name, point in _registered().items() if name not in _OWN}
    return _OWN | others


def find(name: str) -> Method:
    """The method of that name.

    Examples
    --------
    >>> find("linear").federated
    False
    """
    if name in _OWN:
        return _OWN[name]
    others = _registered()
    if name in others:
        return _load(others[name])
    known = [*_OWN, *others]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise InputError(
        f"unknown method {name!r}", remedy=f"{hint}`flfl methods` lists them: {', '.join(known)}"
    )


def create(name: str, /, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """An estimator of the method of that name; see :meth:`Method.create`.

    Examples
    --------
    >>> create("flfl", seed=3).random_state
    3
    """
    return find(name).create(seed=seed, **options)
