"""Real data for the audit's slow tests; skipped plainly where it is not at hand."""

import pytest

from flfl.datasets.catalogue import load_dataset
from flfl.errors import InputError
from flfl.evaluation import training_mask


def masked(name, rate, pattern="random", seed=0):
    """(table x sensors with gaps, sensors) of a data set in FLFL_DATA."""
    try:
        table, sensors = load_dataset(name)
    except InputError:
        pytest.skip(f"{name} is not at hand: set FLFL_DATA to the directory that holds it")
    kept = training_mask(table, sensors, rate, pattern, seed)
    return table.values.where(kept.T), sensors
