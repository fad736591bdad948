"""Faults are found where they are, and real life is not taken for one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.errors import InputError
from flfl.io.read import from_frame
from flfl.io.suspicions import Suspicion, find_faults, without_faults

N = 2000


def network(sensors: int = 6, seed: int = 0, n: int = N) -> np.ndarray:
    """A positive quantity with one decimal, a daily course, and common ups and downs."""
    rng = np.random.default_rng(seed)
    shared, own = rng.standard_normal((n, 1)), rng.standard_normal((n, sensors))
    for t in range(1, n):
        shared[t] = 0.97 * shared[t - 1] + 0.25 * shared[t]
        own[t] = 0.8 * own[t - 1] + 0.25 * own[t]
    day = 0.3 * np.sin(2 * np.pi * np.arange(n) / 24)[:, None]
    return np.round(20 * np.exp(0.6 * (shared + own + day)), 1) + 0.1


def faults(values: np.ndarray) -> dict[str, tuple[str, ...]]:
    index = pd.date_range("2024-01-01", periods=len(values), freq="h")
    return {one.kind: one.sensors for one in find_faults(from_frame(pd.DataFrame(values, index)))}


@pytest.mark.parametrize("seed", range(5))
def test_a_sound_network_is_not_suspected(seed: int) -> None:
    values = network(seed=seed)
    values[np.random.default_rng(seed).random(values.shape) < 0.2] = np.nan
    assert faults(values) == {}


@pytest.mark.parametrize("code", [-99.9, 9999.0, -1.0, 88888.0, -50.5, 1e20])
@pytest.mark.parametrize("share", [0.002, 0.11, 0.3])
def test_codes_for_missing_readings(code: float, share: float) -> None:
    values = network()
    at = np.random.default_rng(1).random(values.shape) < share
    at[:, 3:] = False
    values[at] = code
    table = from_frame(values)
    (found,) = find_faults(table)
    assert (found.kind, found.sensors) == ("code", ("0", "1", "2"))
    np.testing.assert_array_equal(found.cells, at)
    assert f"are {code:g}, far" in found.sentence
    left = without_faults(table, [found])
    np.testing.assert_array_equal(np.isnan(left.values.to_numpy()), at)


def test_a_code_in_long_runs_is_a_code_and_one_known_code_is_enough() -> None:
    values = network()
    values[100:400, 2] = -99.9
    values[1999, 4] = -999.9
    (first, second) = find_faults(from_frame(values))
    assert [first.kind, second.kind] == ["code", "code"]
    assert (first.readings, second.readings) == (1, 300)


def test_two_codes_at_one_sensor() -> None:
    values = network()
    values[::50, 1], values[7::50, 1] = -99.9, 9999.0
    assert [one.readings for one in find_faults(from_frame(values))] == [40, 40]


def test_a_short_table_with_a_code() -> None:
    values = network(n=14)
    values[3:5, 0] = values[9, 2] = -99.9
    assert faults(values) == {"code": ("0", "2")}


@pytest.mark.parametrize("length", [24, 100])
def test_a_stuck_sensor(length: int) -> None:
    values = network()
    values[500 : 500 + length, 2] = 13.7
    values[900 : 900 + length, 2] = 22.2
    (found,) = find_faults(from_frame(values))
    assert (found.kind, found.sensors) == ("stuck", ("2",))
    assert found.cells is not None
    stuck = np.flatnonzero(found.cells[:, 2]).tolist()
    assert {*range(500, 500 + length), *range(900, 900 + length)} <= {*stuck}
    assert len(stuck) <= 2 * length + 4


def test_a_flat_line() -> None:
    values = network()
    values[:, 5] = 3.0
    assert faults(values) == {"flat": ("5",)}


@pytest.mark.parametrize("factor", [10.0, 0.001, 1000.0])
@pytest.mark.parametrize("end", [N, 1500])
def test_a_change_of_unit(factor: float, end: int) -> None:
    values = network()
    values[1200:end, 1] *= factor
    (found,) = find_faults(from_frame(values))
    assert (found.kind, found.sensors) == ("step", ("1",))
    assert found.cells is not None
    expected = np.zeros(N, dtype=bool)
    expected[1200:end] = True
    assert (found.cells[:, 1] == expected).mean() > 0.99
    assert "factor of" in found.sentence


def test_a_change_of_level_of_a_quantity_with_signs() -> None:
    values = np.random.default_rng(0).standard_normal((N, 5))
    values[1200:, 1] += 8.0
    assert faults(values) == {"step": ("1",)}


class TestRealLife:
    """Plateaus, limits and seasons that are no faults."""

    def test_rain(self) -> None:
        rng = np.random.default_rng(2)
        wet = np.repeat(rng.random((N // 20, 1)) < 0.15, 20, axis=0)
        assert faults(np.where(wet, np.round(rng.gamma(0.7, 4.0, (N, 6)), 1), 0.0)) == {}

    def test_whole_numbers_at_a_low_level(self) -> None:
        assert faults(np.round(network() / 8)) == {}

    def test_a_detection_limit_and_the_end_of_the_scale(self) -> None:
        assert faults(np.clip(network(), 12.0, 60.0)) == {}

    def test_the_first_frost_in_whole_degrees(self) -> None:
        t = np.arange(N)[:, None]
        rng = np.random.default_rng(3)
        degrees = 12 - 11.8 * np.sin(np.pi * t / N) + 0.5 * rng.standard_normal((N, 4))
        values = np.maximum(np.round(degrees), -1.0)
        assert (values == -1).sum() > 3
        assert faults(values) == {}

    def test_a_trend_and_a_season_of_one_sensor(self) -> None:
        t = np.arange(N)
        rng = np.random.default_rng(4)
        season = 15 + 10 * np.sin(2 * np.pi * t / N) + t / 200 + rng.standard_normal(N)
        assert faults(np.round(season, 2)[:, None]) == {}

    def test_a_spike(self) -> None:
        values = network()
        values[77, 0] = 4321.0
        assert faults(values) == {}

    def test_multiples_of_one_series(self) -> None:
        t = np.arange(200.0)
        assert faults(np.column_stack([np.sin(t / 9) * i + i for i in range(1, 5)])) == {}

    def test_all_sensors_constant(self) -> None:
        assert faults(np.zeros((100, 4))) == {}


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_any_table_can_be_looked_at(slots: int, sensors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([-99.9, 0.0, 1.0, 2.5, 1e9, np.nan], (slots + 1, sensors))
    values[0, 0] = 1.0
    table = from_frame(values)
    found = find_faults(table)
    for one in found:
        assert one.cells is not None
        assert not (one.cells & ~table.known).any()
        assert one.readings == one.cells.sum()
        assert one.as_dict()["readings"] == one.readings


def test_nothing_but_faults_is_refused() -> None:
    table = from_frame(np.arange(10.0).reshape(5, 2))
    all_of_it = Suspicion("code", table.sensor_ids, 10, "", table.known)
    with pytest.raises(InputError, match="nothing is left"):
        without_faults(table, [all_of_it])
