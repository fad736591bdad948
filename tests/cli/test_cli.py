"""The command line as a user meets it: exit codes, words, files, JSON."""

import gzip
import json

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl.cli import main
from flfl.cli.say import FriendlyGroup
from flfl.data.synth import synthesize
from flfl.data.write import write_recovered, write_sensors


@pytest.fixture
def run():
    def call(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    return call


@pytest.fixture
def files(tmp_path):
    table, sensors = synthesize(8, 120, rank=2, rng=np.random.default_rng(0))
    readings, described = tmp_path / "readings.csv", tmp_path / "sensors.csv"
    write_recovered(readings, table, table.values)
    write_sensors(described, sensors)
    return readings, described


def test_recover_fills_and_keeps_what_was_observed(run, files, tmp_path):
    readings, described = files
    out, flags = tmp_path / "filled.csv", tmp_path / "flags.csv"
    result = run("recover", readings, "--sensors", described, "--out", out, "--flags", flags)
    assert result.exit_code == 0, result.output
    before, after = (
        pd.read_csv(path, dtype=str, keep_default_na=False) for path in (readings, out)
    )
    assert list(before.columns) == list(after.columns)
    observed = before != ""
    assert (after[observed] == before[observed]).where(observed, True).all().all()
    assert (after != "").all().all()
    marks = pd.read_csv(flags)
    assert set(marks["flag"]) == {"observed", "recovered"}
    filled = marks[marks["flag"] == "recovered"]
    assert (filled["lower"] < filled["value"]).all()
    assert (filled["value"] < filled["upper"]).all()
    assert "each sensor alone" in result.output


def test_recover_json_is_the_contract(run, files, tmp_path):
    readings, described = files
    out = tmp_path / "filled.parquet"
    result = run("recover", readings, "--sensors", described, "--out", out, "--json")
    document = json.loads(result.stdout)
    wanted = (
        "sensors slots observed recovered refused rounds seconds numbers_per_reading exposure"
        " bytes_up bytes_down bytes_raw self_test"
    )
    assert set(wanted.split()) <= set(document)
    assert document["sensors"] == 8
    assert document["observed"] + document["recovered"] == 8 * 120
    assert set(document["self_test"]) >= {"flfl", "alone", "linear"}
    assert set(document["self_test"]["flfl"]) == {"mae", "rmse", "coverage"}
    assert pd.read_parquet(out).notna().all().all()


def test_evaluate_rows(run, files):
    readings, described = files
    result = run(
        "evaluate", readings, "--sensors", described, "--rate", "0.5,0.8",
        "--pattern", "random,block,outage", "--methods", "linear,mean", "--seeds", "2", "--json",
    )  # fmt: skip
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) == 2 * 3 * 2 * 2
    wanted = (
        "method rate pattern seed mae rmse seconds peak_mb rounds numbers_per_reading bytes_up"
        " bytes_down"
    )
    assert set(wanted.split()) <= set(rows[0])
    assert all(row["mae"] <= row["rmse"] for row in rows)


def test_evaluate_is_the_same_every_time(run, files):
    readings, described = files

    def scores():
        result = run(
            "evaluate", readings, "--sensors", described, "--rate", "0.6",
            "--methods", "flfl-paper,lfa", "--json",
        )  # fmt: skip
        return [(r["mae"], r["rmse"], r["bytes_up"]) for r in json.loads(result.stdout)["rows"]]

    assert scores() == scores()


def test_methods_and_data_list(run):
    names = [m["name"] for m in json.loads(run("methods", "--json").stdout)["methods"]]
    assert {"flfl-paper", "lfa", "linear", "pchip", "mean"} <= set(names)
    assert "germany_pm10" in run("data", "list").output


def test_synth_then_recover(run, tmp_path):
    folder = tmp_path / "made"
    assert run("data", "synth", "--sensors", 6, "--slots", 100, "--out", folder).exit_code == 0
    result = run(
        "recover", folder / "readings.csv", "--sensors", folder / "sensors.csv",
        "--out", tmp_path / "filled.csv.gz",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    with gzip.open(tmp_path / "filled.csv.gz", "rt") as file:
        assert len(file.readlines()) == 101


def test_help_of_every_verb_has_an_example(run):
    for verb in ("demo", "recover", "evaluate", "methods"):
        assert "Example" in run(verb, "--help").output


def write(path, text):
    path.write_text(text)
    return path


WIDE = "time,a,b\n" + "\n".join(
    f"2024-01-01 {h:02d}:00,{h},{2 * h if h % 5 else ''}" for h in range(24)
)
BAD_READINGS = {
    "text in a number column": (WIDE.replace(",7,", ",seven,"), ["line 9", "'a'", "seven"]),
    "duplicate time": (WIDE + "\n2024-01-01 23:00,1,2", ["2024-01-01 23:00", "--duplicates"]),
    "no readings at all": ("time,a,b\n2024-01-01,,\n2024-01-02,,\n", ["no reading"]),
    "header only": ("time,a,b\n", ["readings.csv"]),
    "empty file": ("", ["empty"]),
    "only a time column": ("time\n2024-01-01\n2024-01-02\n", ["sensor"]),
    "duplicate column": (WIDE.replace("time,a,b", "time,a,a"), ["'a'", "columns 2 and 3"]),
    "ragged row": (WIDE.replace(",7,", ",7,8,9,"), ["line 9"]),
    "infinite value": (WIDE.replace(",7,", ",inf,"), ["line 9", "inf"]),
    "bad time": (WIDE.replace("2024-01-01 07:00", "yesterday"), ["line 9", "yesterday"]),
    "one slot": ("time,a\n2024-01-01,1\n", ["one"]),
}


@pytest.mark.parametrize("case", BAD_READINGS)
def test_bad_readings_exit_2_and_write_nothing(case, run, tmp_path):
    text, words = BAD_READINGS[case]
    readings = write(tmp_path / "readings.csv", text)
    out = write(tmp_path / "filled.csv", "what was there before")
    result = run("recover", readings, "--out", out)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr
    assert result.stdout == ""
    assert out.read_text() == "what was there before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["filled.csv", "readings.csv"]


GOOD_SENSORS = "sensor_id,latitude,longitude\na,50,8\nb,51,9\n"
BAD_SENSORS = {
    "coordinates missing for a sensor": (GOOD_SENSORS.replace("51,9", ","), ["'b'", "line 3"]),
    "sensor not described": (GOOD_SENSORS.replace("b,51,9\n", ""), ["no row: b"]),
    "latitude out of range": (GOOD_SENSORS.replace("51", "151"), ["'b'", "151"]),
    "text": (GOOD_SENSORS.replace("51", "north"), ["line 3", "north"]),
    "sensor twice": (GOOD_SENSORS + "a,50,8\n", ["'a'", "line"]),
}


@pytest.mark.parametrize("case", BAD_SENSORS)
def test_bad_sensors_exit_2_and_write_nothing(case, run, tmp_path):
    text, words = BAD_SENSORS[case]
    readings = write(tmp_path / "readings.csv", WIDE)
    sensors = write(tmp_path / "sensors.csv", text)
    out = tmp_path / "filled.csv"
    result = run("recover", readings, "--sensors", sensors, "--out", out)
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recover", "{no}", "--out", "{out}"], ["nothere.csv"]),
        (["recover", "{in}", "--out", "{dir}/no/such/filled.csv"], ["does not exist"]),
        (["recover", "{in}", "--out", "{dir}/filled.xyz"], [".xyz"]),
        (["recover", "{in}", "--out", "{in}"], ["file that was read"]),
        (["recover", "{in}"], ["--out"]),
        (["recover", "{in}", "--out", "{out}", "--method", "flfl-papre"], ["flfl-paper"]),
        (["recover", "{in}", "--out", "{out}", "--rank", "99"], ["rank 99"]),
        (["recover", "{in}", "--out", "{out}", "--sites", "owner"], ["owner"]),
        (["recover", "{in}", "--out", "{out}", "--time-column", "when"], ["when"]),
        (["evaluate", "{in}", "--rate", "1.5"], ["1.5", "--rate"]),
        (["evaluate", "{in}", "--rate", "half"], ["half"]),
        (["evaluate", "{in}", "--pattern", "stripes"], ["stripes", "outage"]),
        (["evaluate", "{in}", "--methods", "magic"], ["magic"]),
        (["evaluate", "{in}", "--methods", ","], ["--methods"]),
        (["unknown"], ["unknown"]),
    ],
)
def test_bad_arguments_exit_2(arguments, words, run, tmp_path):
    places = {
        "{no}": tmp_path / "nothere.csv",
        "{in}": write(tmp_path / "readings.csv", WIDE),
        "{out}": tmp_path / "filled.csv",
    }
    given = [str(places.get(a, a)).replace("{dir}", str(tmp_path)) for a in arguments]
    result = run(*given)
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in result.stderr
    assert not places["{out}"].exists()


def test_stated_behaviour_of_what_is_not_an_error(run, tmp_path):
    """Unsorted and absent rows, a sentinel, an all-empty and a constant sensor: said, and done."""
    lines = [
        f"2024-01-01 {h:02d}:00,{h % 7},3,,{-999 if h == 4 else h}" for h in range(24) if h != 9
    ]
    lines[2], lines[3] = lines[3], lines[2]
    readings = write(tmp_path / "readings.csv", "time,a,b,c,d\n" + "\n".join(lines))
    out = tmp_path / "filled.csv"
    result = run("recover", readings, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["refused"] == 23
    assert document["recovered"] == 1
    notes = " ".join(document["notes"])
    for word in (
        "absent",
        "-999",
        "no readings: c",
        "constant value: b",
        "order",
        "no coordinates",
    ):
        assert word in notes, word
    after = pd.read_csv(out)
    assert after["c"].isna().all()
    assert after["d"].notna().all()
    assert after["time"].tolist() == pd.read_csv(readings)["time"].tolist()


def test_an_unexpected_error_is_one_line_and_exit_1():
    group = FriendlyGroup("flfl", params=[click.Option(["--debug"], is_flag=True)])

    @group.command()
    def fall_over():
        raise RuntimeError("the dog ate it")

    result = CliRunner().invoke(group, ["fall-over"])
    assert result.exit_code == 1
    assert result.stderr == (
        "flfl: unexpected RuntimeError: the dog ate it (`flfl --debug ...` shows where)\n"
    )
    assert "Traceback" in CliRunner().invoke(group, ["--debug", "fall-over"]).stderr
