"""Runs that go on: new slots on an old model, new sensors on it, and the file in between."""

import stat
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.exceptions import NotFittedError

from flfl import FLFL, load_model, recover, save_model
from flfl.cli import main
from flfl.codec import pack
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.io.write import write_result, write_sensors
from flfl.protocol.copier import Copier
from flfl.protocol.messages import Question, decode
from flfl.protocol.schema import PROTOCOL
from flfl.transport import local

N, OLD, NEW = 8, 240, 48
QUICK = {"effort": "quick", "secure": False}  # tests/protocol has warm starts with secure sums


def made(missing):
    return synthesize(
        N, OLD + NEW, rank=3, noise=0.5, missing=missing, rng=np.random.default_rng(3)
    )


@pytest.fixture(scope="module")
def network():
    table, sensors = made(missing=0.3)
    return table, sensors.with_sites([f"owner {i % 3}" for i in range(N)])


@pytest.fixture(scope="module")
def first(network):
    table, sensors = network
    return FLFL(**QUICK).fit(table.values.iloc[:OLD], sensors=sensors)


@pytest.fixture(scope="module")
def warm(network, first):
    """The first run goes on."""
    table, sensors = network
    return FLFL(**QUICK).fit(table.values, sensors=sensors, warm_start=first.remembered_)


def truth():
    """The same network without gaps."""
    return made(missing=0.0)[0].values.to_numpy()


def copies(run):
    return {name: kept.copies for name, kept in run.sites.items()}


def test_new_slots_take_few_exchanges_and_release_only_themselves(network, first):
    table, sensors = network
    warm = FLFL(**QUICK)  # the tap reads plain messages
    kinds, stretches = [], set()

    def tap(direction, _site, data):
        if direction == "down":
            question = decode(Question, data, PROTOCOL, {})
            kinds.append(question.kind)
            if question.kind == "publish":
                stretches.add((int(question.body["start"]), int(question.body["stop"])))

    warm.fit(table.values, sensors=sensors, warm_start=first.remembered_, tap=tap)
    assert stretches == {(OLD, OLD + NEW)}
    assert set(kinds) == {"resume", "publish", "release", "begin", "finish"}
    assert warm.n_rounds_ == 1
    assert warm.traffic_.numbers <= 0.5 * table.known[OLD:].sum()
    for site, before in copies(first.remembered_).items():
        np.testing.assert_array_equal(copies(warm.remembered_)[site][:, :OLD], before)


def test_going_on_is_nearly_as_good_as_starting_over(network, warm):
    table, sensors = network
    cold = FLFL(**QUICK).fit(table.values, sensors=sensors)
    gaps = ~table.known[OLD:]
    error = [np.abs(model.estimates_ - truth())[OLD:][gaps].mean() for model in (warm, cold)]
    assert error[0] < 1.25 * error[1]


def test_partial_fit_is_the_same(network, warm):
    table, sensors = network
    model = FLFL(**QUICK)
    model.partial_fit(table.values.iloc[:OLD], sensors=sensors)
    model.partial_fit(table.values.iloc[OLD:])
    np.testing.assert_array_equal(model.estimates_, warm.estimates_)
    assert model.transform(table.values).notna().all().all()


def test_a_new_sensor_folds_in_without_a_round(network):
    table, sensors = network
    there = np.arange(N) < N - 2
    model = FLFL(**QUICK).fit(table.values.iloc[:, : N - 2], sensors=sensors.subset(there))
    newcomers = table.values.iloc[:, N - 2 :]
    filled = model.fold_in(newcomers)
    known = newcomers.notna()
    pd.testing.assert_frame_equal(filled.where(known), newcomers.where(known))
    gaps = ~known.to_numpy()
    error = np.abs(filled.to_numpy() - truth()[:, N - 2 :])[gaps].mean()
    alone = newcomers.interpolate(limit_direction="both").to_numpy()
    assert error < np.abs(alone - truth()[:, N - 2 :])[gaps].mean()


def test_nothing_leaves_a_new_sensor(network, first, monkeypatch):
    """No message at all: neither is a site made, nor a copy."""
    table, _ = network
    said = []
    monkeypatch.setattr(local, "run", lambda *arguments: said.append(arguments))
    monkeypatch.setattr(Copier, "copy", lambda *arguments: said.append(arguments))
    newcomers = table.values.iloc[:OLD, :2].add_prefix("new ")
    assert first.fold_in(newcomers).notna().all().all()
    assert not said


def test_night_after_night(network):
    """Without limit, and every copy stays as it was made."""
    values = network[0].values.iloc[:, :6]
    sites = [f"owner {i % 3}" for i in range(6)]
    model = FLFL(rank=3, **QUICK).partial_fit(values.iloc[:120], sites=sites)
    kept = copies(model.remembered_)
    for night in range(4):
        model.partial_fit(values.iloc[120 + 15 * night : 135 + 15 * night])
        now = copies(model.remembered_)
        for site, before in kept.items():
            np.testing.assert_array_equal(now[site][:, : before.shape[1]], before)
        kept = now
    assert model.estimates_.shape == (180, 6)
    assert model.network_.n_slots == 180
    assert model.network_.numbers[120:].any()


def test_a_sensor_that_is_silent_at_first_joins_when_it_speaks(network):
    table, sensors = network
    values = table.values.copy()
    values.iloc[:OLD, 3] = np.nan
    model = FLFL(**QUICK).partial_fit(values.iloc[:OLD], sensors=sensors)
    assert np.isnan(model.estimates_[:, 3]).all()
    model.partial_fit(values.iloc[OLD:])
    assert np.isfinite(model.estimates_[:, 3]).all()


def test_without_a_network_slots_are_added_all_the_same(network):
    table, sensors = network
    alone = FLFL(sharing="nothing", **QUICK)
    alone.partial_fit(table.values.iloc[:OLD], sensors=sensors).partial_fit(table.values.iloc[OLD:])
    whole = FLFL(sharing="nothing", **QUICK).fit(table.values, sensors=sensors)
    np.testing.assert_array_equal(alone.estimates_, whole.estimates_)
    with pytest.raises(InputError, match="nothing was shared"):
        alone.fold_in(table.values.iloc[:, :2])
    with pytest.raises(NotFittedError):
        FLFL().fold_in(table.values.iloc[:, :2])


def test_a_fit_anew_forgets_the_earlier_run(network, first):
    table, sensors = network
    model = deepcopy(first)
    assert model.remembered_.network.n_slots == OLD
    model.set_params(sharing="nothing").fit(table.values, sensors=sensors)
    assert model.remembered_ is None


def test_other_slots_or_sensors_are_refused(network, first):
    table, sensors = network
    with pytest.raises(InputError, match="goes on after"):
        FLFL().fit(table.values.iloc[:OLD], sensors=sensors, warm_start=first.remembered_)
    with pytest.raises(InputError, match="slots, but the model has"):
        first.fold_in(table.values.iloc[:50, :1])


def test_a_saved_model_is_the_same_model_and_yours_alone(network, first, warm, tmp_path):
    table, sensors = network
    path = tmp_path / "run.flfl"
    save_model(path, first.remembered_)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = load_model(path)
    again = FLFL(**QUICK).fit(table.values, sensors=sensors, warm_start=loaded)
    np.testing.assert_array_equal(again.estimates_, warm.estimates_)
    assert loaded.network.plan == first.remembered_.network.plan
    assert copies(loaded).keys() == copies(first.remembered_).keys()


@pytest.mark.parametrize("content", [b"", b"junk", None])
def test_what_is_not_a_model_is_refused(content, tmp_path):
    path = tmp_path / "run.flfl"
    if content is None:
        path.write_bytes(pack({"format": 5, "sites": {}}))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match="not a saved model"):
        load_model(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path / "nothere.flfl")


def test_the_command_line_goes_on(network, tmp_path):
    table, sensors = network
    readings, more, described = (tmp_path / f"{n}.csv" for n in ("old", "all", "sensors"))
    write_result(readings, None, table, table.values)
    lines = readings.read_text().splitlines()
    more.write_text("\n".join(lines) + "\n")
    readings.write_text("\n".join(lines[: OLD + 1]) + "\n")
    write_sensors(described, sensors)
    model, out = tmp_path / "run.flfl", tmp_path / "filled.csv"
    common = ["--sensors", described, "--effort", "quick", "--no-secure"]

    def run(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    assert run("recover", readings, "--out", out, "--save-model", model, *common).exit_code == 0
    result = run("recover", more, "--out", out, "--warm-start", model, *common)
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out).notna().all().all()
    refused = run("recover", more, "--out", out, "--warm-start", readings, *common)
    assert refused.exit_code == 2
    assert "not a saved model" in refused.stderr
    wrong = run("recover", more, "--out", out, "--save-model", tmp_path / "m.csv", *common)
    assert wrong.exit_code == 2
    linear = run("recover", more, "--out", out, "--warm-start", model, "--method", "linear")
    assert linear.exit_code == 2


def test_recover_goes_on(network):
    table, sensors = network
    earlier = recover(table.values.iloc[:OLD], sensors, **QUICK)
    later = recover(table.values, sensors, **QUICK, warm_start=earlier.remembered)
    assert later.values.notna().all().all()
    assert later.traffic.rounds <= 6
