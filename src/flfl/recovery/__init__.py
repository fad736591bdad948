"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from flfl.recovery.recover import recover
from flfl.recovery.result import Recovery
from flfl.recovery.rules import Rules
from flfl.recovery.selftest import ALONE, SITE, GapScore, SensorScore

__all__ = ["ALONE", "SITE", "GapScore", "Recovery", "Rules", "SensorScore", "recover"]
