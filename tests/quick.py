"""Options that keep every method short in tests; a method that is not listed is quick as it is.

New slow methods are added here, and nowhere else.
"""

from typing import Any

import pytest

from flfl.estimators.base import BaseRecoverer
from flfl.methods import Method, create, methods

QUICK: dict[str, dict[str, Any]] = {
    **{name: {"rounds": 5} for name, method in methods().items() if method.federated},
    **{name: {"effort": "quick"} for name in ("flfl", "alone", "pooled")},
    "kalman-em": {"iterations": 2},
    "dynamic-factor": {"iterations": 2},
    "iterative": {"iterations": 2},
    **{name: {"epochs": 1, "window": 8} for name in ("saits", "brits", "imputeformer")},
    "metamf": {"rounds": 3, "rank": 4, "low_rank": 2, "memory": 4, "hidden": 4},
    "fesog": {"rounds": 3, "rank": 2},
    "fedgnn": {"rounds": 3, "rank": 2, "refresh": 2},
}


def quick(name: str, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """The method of that name with its quick options."""
    return create(name, seed=seed, **(QUICK.get(name, {}) | options))


def _param(name: str, method: Method) -> Any:
    """Methods on JAX are slow: each shape of a table is compiled anew."""
    marks = [pytest.mark.skipif(not method.available, reason=f"needs {method.needs}")]
    return pytest.param(name, marks=marks + [pytest.mark.slow] * (method.needs is not None))


EVERY_METHOD = [_param(name, method) for name, method in methods().items()]
"""Every method that can run here; the others are skipped with the reason."""
