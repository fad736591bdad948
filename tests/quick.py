"""Options that keep every method short in tests; a method that is not listed is quick as it is.

New slow methods are added here, and nowhere else.
"""

from typing import Any

from flfl.baselines import METHODS, create
from flfl.estimators.base import BaseRecoverer

QUICK: dict[str, dict[str, Any]] = {
    **{name: {"rounds": 5} for name, method in METHODS.items() if method.federated},
    "flfl": {"effort": "quick", "rounds": 5},
    "kalman-em": {"iterations": 2},
}


def quick(name: str, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """The method of that name with its quick options."""
    return create(name, seed=seed, **(QUICK.get(name, {}) | options))
