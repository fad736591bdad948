"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from flfl.recovery.recovering import recover
from flfl.recovery.result import Recovery, numbers_per_reading
from flfl.recovery.rules import Rules
from flfl.recovery.scores import GapScore, SensorScore

__all__ = [
    "GapScore",
    "Recovery",
    "Rules",
    "SensorScore",
    "numbers_per_reading",
    "recover",
]
