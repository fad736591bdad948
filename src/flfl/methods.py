"""All methods by name: those of this package, and those that other packages bring.

Another package registers a method as an entry point of the group ``flfl.methods``: its name, and a
:class:`Method` or an estimator class that obeys :class:`~flfl.estimators.base.BaseRecoverer`.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral
from typing import Any

from flfl.errors import InputError, nearest
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.flfl import FLFL
from flfl.estimators.interpolation import Interpolation
from flfl.paper.estimator import PaperFLFL

GROUP = "flfl.methods"
"""Entry points of this group are methods."""
BUDGET = 4
"""Settings that a method may try, the same for all."""


@dataclass(frozen=True)
class Method:
    """One entry of the registry: an estimator's class with the parameters (``fixed``) that make it
    this method.

    ``federated`` methods leave readings with their owners, ``pooled`` ones need them in one place.
    ``needs`` is the optional module that it needs, ``extra`` what to install for it. ``grid`` are
    the settings that tuning tries, at most :data:`BUDGET`; empty for a method without settings, or
    one that chooses its own.
    """

    name: str
    build: type[BaseRecoverer]
    summary: str
    federated: bool = False
    pooled: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
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
        model = self.build(**self.fixed)
        known = [name for name in model.get_params() if name not in self.fixed]
        for option in options:
            if option not in known:
                choice = f"Its options are {', '.join(known)}" if known else "Leave it out"
                raise InputError(
                    f"the method {self.name} has no option {option}",
                    remedy=choice,
                )
        if "random_state" in known:
            options.setdefault("random_state", int(seed))
        model.set_params(**options)
        return model


_NOTHING, _ALL = {"sharing": "nothing"}, {"sharing": "everything"}
_OWN: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "flfl",
            FLFL,
            "our default: a dynamic factor model of one release of noisy copies, finished at home",
            federated=True,
        ),
        Method("alone", FLFL, "flfl of each owner by itself, nothing shared", fixed=_NOTHING),
        Method("pooled", FLFL, "flfl as if one owner held all sensors", pooled=True, fixed=_ALL),
        Method(
            "flfl-paper",
            PaperFLFL,
            "the paper's method with its own protocol; its plain uploads reveal the readings",
            federated=True,
        ),
        *(
            Method(kind, Interpolation, f"each sensor alone: {what}", fixed={"kind": kind})
            for kind, what in (
                ("linear", "straight lines between its readings"),
                ("pchip", "shape-preserving cubics"),
                ("mean", "its mean"),
            )
        ),
    )
}


def _load(point: EntryPoint) -> Method:
    found = point.load()
    if isinstance(found, Method):
        return found
    return Method(point.name, found, (inspect.getdoc(found) or "").partition("\n")[0])


def methods() -> dict[str, Method]:
    """Every method that is installed, by name."""
    others = [point for point in entry_points(group=GROUP) if point.name not in _OWN]
    return _OWN | {point.name: _load(point) for point in others}


def find(name: str) -> Method:
    """The method of that name."""
    if name in _OWN:
        return _OWN[name]
    others = {point.name: point for point in entry_points(group=GROUP)}
    if name in others:
        return _load(others[name])
    raise InputError(f"unknown method {name!r}", remedy=nearest(name, [*_OWN, *others]))


def create(name: str, /, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """An estimator of the method of that name; see :meth:`Method.create`."""
    return find(name).create(seed=seed, **options)
