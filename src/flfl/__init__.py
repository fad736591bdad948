"""FLFL fills the gaps in the readings of a sensor network whose owners will not pool their data.

>>> from flfl import recover
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flfl.estimators.flfl import FLFL
    from flfl.estimators.regional import RegionalFLFL
    from flfl.estimators.saved_model import load_model, save_model
    from flfl.paper.estimator import PaperFLFL
    from flfl.recovery import GapScore, Recovery, SensorScore
    from flfl.recovery.recover import recover
    from flfl.recovery.stored import load

__version__ = version("flfl")
__all__ = [
    "FLFL",
    "GapScore",
    "PaperFLFL",
    "Recovery",
    "RegionalFLFL",
    "SensorScore",
    "load",
    "load_model",
    "recover",
    "save_model",
]
_HOMES = {
    "flfl.estimators.flfl": ("FLFL",),
    "flfl.estimators.regional": ("RegionalFLFL",),
    "flfl.paper.estimator": ("PaperFLFL",),
    "flfl.estimators.saved_model": ("load_model", "save_model"),
    "flfl.recovery.stored": ("load",),
    "flfl.recovery": ("GapScore", "Recovery", "SensorScore", "recover"),
}


def __getattr__(name: str) -> object:
    """A public name, loaded when it is first used: the command line's help needs none of them."""
    for home, names in _HOMES.items():
        if name in names:
            return globals().setdefault(name, getattr(import_module(home), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
