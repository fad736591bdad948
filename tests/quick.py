"""Options with which a method runs fast, and every method that can run here."""

import pytest

from flfl.baselines import METHODS

QUICK = {
    "flfl": {"effort": "quick", "rounds": 5},
    "flfl-paper": {"rounds": 5},
    "metamf": {"rounds": 3, "rank": 4, "low_rank": 2, "memory": 4, "hidden": 4},
    "fesog": {"rounds": 3, "rank": 2},
    "fedgnn": {"rounds": 3, "rank": 2, "refresh": 2},
}


def _param(name, method):
    why = f"needs the extra flfl[{method.needs}]"
    return pytest.param(name, marks=pytest.mark.skipif(not method.available, reason=why))


EVERY_METHOD = [_param(name, method) for name, method in METHODS.items()]
