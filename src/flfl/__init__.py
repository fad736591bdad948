"""FLFL fills the gaps in the readings of a sensor network whose owners will not pool their data.

>>> from flfl import recover
"""

from importlib.metadata import version

from flfl.estimators import FLFL, PaperFLFL
from flfl.estimators.memory import load_model, save_model
from flfl.recovery import GapScore, Recovery, SensorScore, recover

__version__ = version("flfl")
__all__ = [
    "FLFL",
    "GapScore",
    "PaperFLFL",
    "Recovery",
    "SensorScore",
    "load_model",
    "recover",
    "save_model",
]
