"""`flfl audit` as a user meets it."""

import json
import os
import stat

import numpy as np
import pytest
from click.testing import CliRunner

from flfl.audit import Finding, Report
from flfl.cli import main
from flfl.cli.audit import lines
from flfl.data.synth import synthesize
from flfl.data.write import write_recovered, write_sensors


@pytest.fixture
def run():
    def call(*arguments):
        return CliRunner().invoke(main, ["audit", *(str(a) for a in arguments)])

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    table, sensors = synthesize(24, 260, rank=2, rng=np.random.default_rng(0))
    write_recovered(folder / "readings.csv", table, table.values)
    write_sensors(folder / "sensors.csv", sensors)
    return folder / "readings.csv", "--sensors", folder / "sensors.csv"


def test_it_prints_a_table_in_words_and_a_verdict(run, files, tmp_path):
    view = tmp_path / "view.npz"
    result = run(*files, "--quick", "--save-view", view)
    assert result.exit_code == 0, result.output
    assert "masks-known (Gaussian)" in result.output
    assert "must withstand" in result.output
    assert "Verdict: This configuration" in result.output
    assert sorted(os.listdir(tmp_path)) == ["view.npz", "view.truth.npz"]
    assert stat.S_IMODE((tmp_path / "view.truth.npz").stat().st_mode) == 0o600


def test_json_holds_what_is_promised(run, files):
    result = run(*files, "--quick", "--json", "--max-exposure", 0.3, "--rate", 0.8)
    document = json.loads(result.stdout)
    assert document["max_exposure"] == 0.3
    promised = {"name", "adversary", "readings_exposed", "relative_error"}
    promised |= {"news_read_max", "news_read_median"}
    for attack in document["attacks"]:
        assert promised <= set(attack)
    assert document["verdict"]
    assert result.exit_code == int(document["private"] and document["exposed"])


def test_plain_uploads_are_audited_too(run, files):
    result = run(*files, "--disclosure", "plain", "--rank", 3, "--rounds", 8)
    assert result.exit_code == 0, result.output
    assert "plain-inversion (as sent)" in result.output
    assert "does not call itself private: uploads are plain" in result.output
    assert "EXPOSED" in result.output


def test_bad_input_is_said_before_the_work(run, files, tmp_path):
    for arguments, words in (
        (("--disclosure", "plain", "--save-view", tmp_path / "v.npz"), "not saved"),
        (("--save-view", tmp_path / "v.csv"), "suffix"),
        (("--disclosure", "plain", "--max-exposure", 0.5), "has no setting"),
    ):
        result = run(*files, *arguments)
        assert result.exit_code == 2, result.output
        assert words in result.output
    missing = run("no_such_data_set")
    assert missing.exit_code == 2
    assert "there is no data set" in missing.output
    assert run("no_such_file.csv").exit_code == 2


def test_a_data_set_may_be_named(run):
    result = run("germany_pm10", "--disclosure", "plain", "--rank", 2, "--rounds", 6, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sensors"] == 53


def test_a_broken_promise_is_a_failure():
    found = Finding("readouts", "the coordinator", "everything", "It reads it all.", judged=True)
    broken = Report(
        [Finding(**{**vars(found), "news_read_max": 0.9, "news_read_median": 0.2})],
        "sums",
        0.5,
        True,
        3,
        9,
    )
    assert broken.failed
    text = "\n".join(lines(broken))
    assert "0.90" in text
    assert "calls itself private, but it is EXPOSED: readouts reads 0.90" in text
