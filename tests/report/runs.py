"""Runs to make pages of."""

from dataclasses import replace

import numpy as np
import pandas as pd

from flfl import recover
from flfl.datasets.synthetic import synthesize
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors

NASTY = (
    "</script><b>bold</b>",
    "$$x^2$$",
    "\"'&amp; <i>",
    "{{ name }}",
    "naïve\u2028ключ",
    "empty",
)


def year(seed=0, **options):
    """36 sensors over a year of hours, with gaps that are filled and gaps that are refused."""
    table, sensors = synthesize(36, 8760, rng=np.random.default_rng(seed))
    options = {"method": "linear", "max_gap": 12} | options
    return recover(table, sensors, **options), table, sensors, options


def nasty():
    """Names that would break markup, scripts and typesetting; a sensor without readings."""
    rng = np.random.default_rng(1)
    values = np.round(rng.normal(20, 5, (200, len(NASTY))), 2)
    values[rng.random(values.shape) < 0.2] = np.nan
    values[:, -1] = np.nan
    index = pd.date_range("2024-03-30", periods=200, freq="h")
    table = from_frame(pd.DataFrame(values, index, list(NASTY)))
    table = replace(table, units=("$$m^2$$<b>",) * len(NASTY))
    settings = {"method": "linear", "note": "</script><script>alert(1)</script>"}
    return recover(table, method="linear"), table, Sensors(tuple(NASTY)), settings
