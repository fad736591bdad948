"""One scale for a whole table."""

import numpy as np
import pytest

from flfl_bench.maths.scaling import common_scaling


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_one_scale_for_all_is_the_spread_about_the_own_means(unit):
    values = unit * np.array([[1.0, 3.0, np.nan], [5.0, 5.0, 5.0], [-10.0, 0.0, 10.0]])
    scaling = common_scaling(values)
    expected = unit * np.sqrt((1 + 1 + 0 + 100 + 0 + 100) / 8)
    np.testing.assert_allclose(scaling.scale, expected)
    np.testing.assert_allclose(scaling.undo(scaling.apply(values)), values)


def test_nothing_varies():
    assert common_scaling(np.full((2, 3), 0.1)).scale.tolist() == [1.0, 1.0]
    assert common_scaling(np.zeros((2, 3))).scale.tolist() == [1.0, 1.0]
