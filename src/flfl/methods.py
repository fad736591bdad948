"""All methods by name: those of this package, and those that other packages bring.

Another package registers a method as an entry point of the group ``flfl.methods``: its name, and a
:class:`Method` or an estimator class that obeys :class:`~flfl.estimators.base.BaseRecoverer`.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral
from typing import Any

from sklearn.base import clone

from flfl.errors import InputError, nearest
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.flfl import FLFL
from flfl.estimators.imputer import Imputer
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
        # A copy: options of an object within it are nobody else's.
        model = clone(self.build(**self.fixed), safe=False)
        known = [name for name in model.get_params() if name not in self.fixed]
        for option in options:
            if option not in known:
                choice = f"Its options are {', '.join(known)}" if known else "Leave it out"
                raise InputError(
                    f"the method {self.name} has no option {option}",
                    remedy=choice,
                )
        if "missing" in known:
            # A method by its name is given tables that were read: what was missing is NaN.
            options.setdefault("missing", ())
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
    told = (inspect.getdoc(found) or "").partition("\n")[0]
    return Method(point.name, found, told, pooled=True)


def methods() -> dict[str, Method]:
    """Every method that is installed, by name."""
    others = [point for point in entry_points(group=GROUP) if point.name not in _OWN]
    return _OWN | {point.name: _load(point) for point in others}


def find(name: Any) -> Method:
    """The method of that name; or a method of one's own: a class, an object, or where a class is,
    such as ``"my_package.fills:OthersMedian"``.

    An object obeys :class:`~flfl.estimators.base.BaseRecoverer`, or is any transformer of
    scikit-learn that fills the gaps of a time x sensor table.

    Examples
    --------
    >>> from sklearn.impute import KNNImputer
    >>> find(KNNImputer(n_neighbors=3)).name
    'KNNImputer'
    >>> find("sklearn.impute:KNNImputer").create(imputer__n_neighbors=3).imputer
    KNNImputer(n_neighbors=3)
    """
    if isinstance(name, Method):
        return name
    if not isinstance(name, str):
        return _own_method(name)
    if name in _OWN:
        return _OWN[name]
    others = {point.name: point for point in entry_points(group=GROUP)}
    if name in others:
        return _load(others[name])
    if ":" in name:
        return replace(_own_method(_imported(name)), name=name)
    raise InputError(f"unknown method {name!r}", remedy=nearest(name, [*_OWN, *others]))


def _imported(place: str) -> Any:
    """The class or object at ``module:name``."""
    try:
        return EntryPoint("own", place, GROUP).load()
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "Give module:Class; PYTHONPATH=. lets Python find modules of this folder"
        raise InputError(f"there is no method at {place!r} ({error})", remedy=remedy) from None


def _own_method(given: Any) -> Method:
    """A method from a class or an object that was given in place of a name."""
    kind = given if inspect.isclass(given) else type(given)
    told = (inspect.getdoc(kind) or "").partition("\n")[0]
    if issubclass(kind, BaseRecoverer):
        fixed = {} if inspect.isclass(given) else given.get_params(deep=False)
        return Method(kind.__name__, kind, told, pooled=True, fixed=fixed)
    if not all(callable(getattr(kind, name, None)) for name in ("fit", "transform")):
        problem = f"{given!r} is no method: it has no fit and transform"
        remedy = "Give a name, a BaseRecoverer, or a scikit-learn transformer that fills gaps"
        raise InputError(problem, where="method", remedy=remedy)
    made = given() if inspect.isclass(given) else given
    return Method(kind.__name__, Imputer, told, pooled=True, fixed={"imputer": made})


def described(name: str) -> Method:
    """What is known of a method by its name; one that is registered nowhere pools readings."""
    try:
        return find(name)
    except InputError:
        return Method(name, Imputer, "a method of one's own", pooled=True)


def create(name: str, /, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """An estimator of the method of that name; see :meth:`Method.create`."""
    return find(name).create(seed=seed, **options)
