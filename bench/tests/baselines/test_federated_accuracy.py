"""The federated factors on real readings: far better than each sensor's mean."""

import numpy as np
import pytest

from flfl.datasets.catalogue import load_dataset
from flfl.evaluation import training_mask
from flfl.methods import create


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedmf", "fedrec", "fedrec++", "rfrec"])
def test_sea_surface_temperature_at_half(name):
    table, sensors = load_dataset("D2_sst_70x1733")
    known = training_mask(table, sensors, 0.5, "random", 0).T
    hidden, seen = table.known & ~known, table.values.where(known)
    mae, plain = (
        np.abs(create(method).fit(seen, sensors=sensors).estimates_ - table.values)
        .to_numpy()[hidden]
        .mean()
        for method in (name, "mean")
    )
    assert mae < 0.3 * plain
