"""Runs that go on: new slots on an old model, new sensors on it, and the file in between."""

import stat

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl import FLFL, load_model, recover, save_model
from flfl.cli import main
from flfl.data.synth import synthesize
from flfl.data.write import write_recovered, write_sensors
from flfl.errors import InputError
from flfl.estimators.dynamic import _NewSensors
from flfl.federation.factors import PROTOCOL
from flfl.federation.messages import decode_question

OLD, NEW = 400, 80


@pytest.fixture(scope="module")
def network():
    return synthesize(14, OLD + NEW, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(3))


@pytest.fixture(scope="module")
def first(network):
    table, sensors = network
    return FLFL(effort="quick").fit(table.values.iloc[:OLD], sensors=sensors)


def truth(network):
    """The same network without gaps."""
    full, _ = synthesize(
        14, OLD + NEW, rank=3, noise=0.5, missing=0.0, rng=np.random.default_rng(3)
    )
    return full.values.to_numpy()


def test_new_slots_take_few_rounds_and_release_only_themselves(network, first):
    table, sensors = network
    warm = FLFL(effort="quick", secure=False)  # the tap reads plain messages
    kinds, new_slots = [], []

    def tap(direction, _site, data):
        if direction == "down":
            question = decode_question(data, PROTOCOL, {})
            kinds.append(question.kind)
            if question.kind == "round":
                new_slots.append(question.body["m"].shape[0])

    warm.tap = tap
    warm.fit(table.values, sensors=sensors, warm_start=first.remembered_)
    assert warm.n_rounds_ <= 6
    assert set(new_slots) == {NEW}
    assert not {"basis", "whiten", "guard", "trial", "units"} & set(kinds)
    assert warm.ledger_.numbers <= 0.3 * table.known[OLD:].sum()
    for site, (_, memory) in warm.remembered_.sites.items():
        before = first.remembered_.sites[site][1]
        np.testing.assert_array_equal(memory.B, before.B)
        np.testing.assert_array_equal(memory.P, before.P)


def test_going_on_is_nearly_as_good_as_starting_over(network, first):
    table, sensors = network
    warm = FLFL(effort="quick").fit(table.values, sensors=sensors, warm_start=first.remembered_)
    cold = FLFL(effort="quick").fit(table.values, sensors=sensors)
    gaps = ~table.known[OLD:]
    error = [np.abs(model.estimates_ - truth(network))[OLD:][gaps].mean() for model in (warm, cold)]
    assert error[0] < 1.25 * error[1]


def test_partial_fit_is_the_same(network, first):
    table, sensors = network
    warm = FLFL(effort="quick").fit(table.values, sensors=sensors, warm_start=first.remembered_)
    model = FLFL(effort="quick")
    model.partial_fit(table.values.iloc[:OLD], sensors=sensors)
    model.partial_fit(table.values.iloc[OLD:])
    np.testing.assert_array_equal(model.estimates_, warm.estimates_)
    assert model.transform(table.values).notna().all().all()


def test_a_new_sensor_folds_in_without_a_round(network):
    table, sensors = network
    there = np.arange(14) < 12
    model = FLFL(effort="quick").fit(table.values.iloc[:, :12], sensors=sensors.subset(there))
    newcomers = table.values.iloc[:, 12:]
    filled = model.fold_in(newcomers)
    known = newcomers.notna()
    pd.testing.assert_frame_equal(filled.where(known), newcomers.where(known))
    gaps = ~known.to_numpy()
    error = np.abs(filled.to_numpy() - truth(network)[:, 12:])[gaps].mean()
    alone = newcomers.interpolate(limit_direction="both").to_numpy()
    assert error < np.abs(alone - truth(network)[:, 12:])[gaps].mean()


def test_nothing_but_held_out_errors_leaves_a_new_sensor(network):
    table, sensors = network
    there = np.arange(14) < 12
    model = FLFL(effort="quick").fit(table.values.iloc[:, :12], sensors=sensors.subset(there))
    newcomer = _NewSensors(run=model.remembered_)
    newcomer.fit(table.values.iloc[:, 12:])
    assert newcomer.ledger_.rounds == 0
    assert newcomer.ledger_.numbers == 0
    kinds = set(newcomer.ledger_.up)
    assert kinds == {"adopt", "heads", "mix", "settle", "publish"}


def test_other_slots_or_sensors_are_refused(network, first):
    table, sensors = network
    with pytest.raises(InputError, match="goes on after"):
        FLFL().fit(table.values.iloc[:OLD], sensors=sensors, warm_start=first.remembered_)
    with pytest.raises(InputError, match="other sensors"):
        FLFL().fit(
            table.values.rename(columns={table.sensor_ids[0]: "stranger"}),
            warm_start=first.remembered_,
        )
    with pytest.raises(InputError, match="slots, but the model has"):
        first.fold_in(table.values.iloc[:50, :1])


def test_a_saved_model_is_the_same_model_and_yours_alone(network, first, tmp_path):
    table, sensors = network
    path = tmp_path / "run.npz"
    save_model(path, first.remembered_)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = load_model(path)
    one, other = (
        FLFL(effort="quick").fit(table.values, sensors=sensors, warm_start=run)
        for run in (first.remembered_, loaded)
    )
    np.testing.assert_array_equal(one.estimates_, other.estimates_)


@pytest.mark.parametrize("content", [b"", b"junk", None])
def test_what_is_not_a_model_is_refused(content, tmp_path):
    path = tmp_path / "run.npz"
    if content is None:
        np.savez(path, a=np.zeros(3))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match="not a saved model"):
        load_model(path)
    with pytest.raises(InputError, match="no such file"):
        load_model(tmp_path / "nothere.npz")


def test_the_command_line_goes_on(network, tmp_path):
    table, sensors = network
    readings, more, described = (tmp_path / f"{n}.csv" for n in ("old", "all", "sensors"))
    write_recovered(readings, table, table.values)
    lines = readings.read_text().splitlines()
    more.write_text("\n".join(lines) + "\n")
    readings.write_text("\n".join(lines[: OLD + 1]) + "\n")
    write_sensors(described, sensors)
    model, out = tmp_path / "run.npz", tmp_path / "filled.csv"
    common = ["--sensors", described, "--effort", "quick"]

    def run(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    assert run("recover", readings, "--out", out, "--save-model", model, *common).exit_code == 0
    result = run("recover", more, "--out", out, "--warm-start", model, *common)
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out).notna().all().all()
    assert "rounds" in result.output
    refused = run("recover", more, "--out", out, "--warm-start", readings, *common)
    assert refused.exit_code == 2
    assert "not a saved model" in refused.stderr
    wrong = run("recover", more, "--out", out, "--save-model", tmp_path / "m.csv", *common)
    assert wrong.exit_code == 2
    linear = run("recover", more, "--out", out, "--warm-start", model, "--method", "linear")
    assert linear.exit_code == 2


def test_recover_goes_on(network):
    table, sensors = network
    earlier = recover(table.values.iloc[:OLD], sensors, effort="quick")
    later = recover(table.values, sensors, effort="quick", warm_start=earlier.remembered)
    assert later.values.notna().all().all()
    assert later.ledger.rounds <= 6
