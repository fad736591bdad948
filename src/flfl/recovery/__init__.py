"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from flfl.recovery.recover import recover
from flfl.recovery.result import Recovery
from flfl.recovery.rules import Rules
from flfl.recovery.scores import GapScore, SensorScore

__all__ = [
    "GapScore",
    "Recovery",
    "Rules",
    "SensorScore",
    "recover",
]
