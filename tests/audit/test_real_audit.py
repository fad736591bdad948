"""The audit on real data: what the added error buys, and controls on which attacks must win."""

import pytest

from audit.real import masked
from flfl.audit import audit
from flfl.datasets.catalogue import load_dataset

pytestmark = pytest.mark.slow


def by_name(report):
    assert not report.failed, report.verdict
    return {one.name: one for one in report.findings}


def test_beijing_one_sensor_an_owner():
    X, sensors = masked("D3_beijing_pm25", 0.5)
    X, sensors = X.iloc[:1500], sensors.with_sites(list(sensors.ids))
    names = ["slot by slot", "with memory", "everything else", "all but one reading"]
    private, trusted = (
        by_name(audit(X, sensors, attacks=names, added_error=beta)) for beta in (1, 0)
    )
    assert private["slot by slot"].residual_read_median < 0.25
    assert private["with memory"].residual_read_max < 0.7
    assert private["all but one reading"].residual_read_median < 0.5
    assert trusted["with memory"].residual_read_median > 0.4
    assert trusted["everything else"].readings_exposed > 0.95
    assert private["everything else"].readings_exposed < 0.15


def test_the_bundled_data_with_its_own_agencies_night_by_night():
    table, sensors = load_dataset("germany_pm10")
    sensors = sensors.with_sites([name[:4] for name in sensors.ids])
    found = by_name(audit(table.values, sensors, nights=10))
    for name in ("slot by slot", "everything else", "all but one reading"):
        once, nightly = found[name], found[f"{name} (10 nights)"]
        assert nightly.residual_read_median < once.residual_read_median + 0.05
    refits = found["refits (10 nights)"].residual_read_median
    assert refits < found["slot by slot (10 nights)"].residual_read_median + 0.1
