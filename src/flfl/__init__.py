"""FLFL fills the gaps in the readings of a sensor network whose owners will not pool their data.

>>> from flfl import recover
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flfl.estimators import FLFL, PaperFLFL
    from flfl.estimators.memory import load_model, save_model
    from flfl.recovery import Recovery, recover

_HOMES = {
    "flfl.estimators": ("FLFL", "PaperFLFL"),
    "flfl.estimators.memory": ("load_model", "save_model"),
    "flfl.recovery": ("Recovery", "recover"),
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a site's process needs neither pandas nor scikit-learn."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = version("flfl")
__all__ = ["FLFL", "PaperFLFL", "Recovery", "load_model", "recover", "save_model"]
