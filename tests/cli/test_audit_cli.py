"""`flfl audit` as a user meets it."""

import json
import os
import stat

import numpy as np
import pytest
from click.testing import CliRunner

from flfl.audit import Finding, Report
from flfl.cli import main
from flfl.cli.audit import print_report
from flfl.datasets.synthetic import synthesize
from flfl.io.write import write_result, write_sensors


@pytest.fixture
def run():
    def call(*arguments):
        return CliRunner().invoke(main, ["audit", *(str(a) for a in arguments)])

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    table, sensors = synthesize(10, 220, rank=2, rng=np.random.default_rng(0))
    write_result(folder / "readings.csv", None, table, table.values)
    write_sensors(folder / "sensors.csv", sensors)
    return folder / "readings.csv", "--sensors", folder / "sensors.csv", "--sites", "each"


def test_it_prints_a_table_in_words_and_a_verdict(run, files, tmp_path):
    view = tmp_path / "view.npz"
    result = run(*files, "--nights", 2, "--save-view", view)
    assert result.exit_code == 0, result.output
    assert "refits (2 nights)" in result.output
    assert "bound 0.50" in result.output
    assert "Verdict: All that left follows from the noisy copies" in result.output
    assert sorted(os.listdir(tmp_path)) == ["view.npz", "view.truth.npz"]
    assert stat.S_IMODE((tmp_path / "view.truth.npz").stat().st_mode) == 0o600


def test_json_holds_what_the_docs_name(run, files):
    result = run(*files, "--json", "--nights", 0, "--added-error", 0.5, "--rate", 0.8)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["bound"] == 0.8
    named = {"name", "adversary", "readings_exposed", "residual_read_max"}
    for attack in document["attacks"]:
        assert named | {"residual_read_median"} <= set(attack)
    assert document["verdict"]
    assert not document["failed"]


def test_plain_uploads_are_audited_too(run, files):
    result = run(*files, "--disclosure", "plain", "--rank", 3)
    assert result.exit_code == 0, result.output
    assert "plain inversion" in result.output
    assert "EXPOSED: plain uploads give 100% of the readings" in result.output


def test_bad_input_is_said_before_the_work(run, files, tmp_path):
    for arguments, words in (
        (("--disclosure", "plain", "--save-view", tmp_path / "v.npz"), "not saved"),
        (("--save-view", tmp_path / "v.csv"), "suffix"),
        (("--disclosure", "plain", "--added-error", 0.5), "has no option"),
    ):
        result = run(*files, *arguments)
        assert result.exit_code == 2, result.output
        assert words in result.output
    missing = run("no_such_data_set")
    assert missing.exit_code == 2
    assert "there is no data set" in missing.output
    assert run("no_such_file.csv").exit_code == 2


def test_a_data_set_may_be_named(run):
    result = run("germany_pm10", "--disclosure", "plain", "--rank", 2, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sensors"] == 53


def test_more_from_the_messages_than_from_the_copies_is_a_failure(capsys):
    found = Finding("slot by slot", "the coordinator", residual_read_max=0.9)
    broken = Report([Finding(**{**vars(found), "excess": 0.3, "excess_sensor": "a"})], "sums", 3, 9)
    assert broken.failed
    print_report(broken)
    text = capsys.readouterr().out
    assert "0.90" in text
    assert "FAILED: slot by slot reads 0.30 more of a from the messages than" in text
    assert not Report([found], "sums", 3, 9).failed
