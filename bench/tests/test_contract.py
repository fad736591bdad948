"""scikit-learn's contract for the baselines; our own is in ``test_testing.py``."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from flfl.methods import create, methods
from quick import QUICK, quick

BASELINES = {
    name: method for name, method in methods().items() if "flfl_bench" in method.build.__module__
}
LARGE = [name for name, method in BASELINES.items() if method.needs is not None]


@parametrize_with_checks([quick(name) for name in BASELINES if name not in LARGE])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimators_unfitted,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize("name", LARGE)
def test_scikit_learn_checks_of_large_packages(name, check):
    """Only those that fit nothing: each shape of table is compiled anew, or a package missing."""
    check(BASELINES[name].build.__name__, create(name, **QUICK.get(name, {})))
