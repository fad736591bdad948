"""The command line as a user meets it: exit codes, words, files, JSON."""

import gzip
import inspect
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl import recover
from flfl.cli import FriendlyGroup, load_verb
from flfl.datasets.catalogue import load_dataset
from flfl.datasets.synthetic import synthesize
from flfl.io.read import from_frame
from flfl.recovery.selftest import SelfTest, verdict
from flfl.report import missing_libraries

QUICK = ("--effort", "quick")


def owned(described):
    """Give the eight sensors four owners, in the column that is returned."""
    table = pd.read_csv(described).assign(company=["a", "b", "c", "d"] * 2)
    table.to_csv(described, index=False)
    return "company"


def test_recover_fills_and_keeps_what_was_observed(run, files, tmp_path):
    readings, described = files
    out, flags = tmp_path / "filled.csv", tmp_path / "flags.csv"
    result = run(
        "recover", readings, "--sensors", described, "--out", out, "--flags", flags, *QUICK
    )
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
    assert pd.isna(marks.loc[marks["flag"] == "observed", ["lower", "upper"]]).all().all()
    assert "each sensor alone" in result.output
    # The sensors are all of one region, and so of one site.
    assert "nothing was shared between owners" in result.output
    assert "no copy of one, left any owner" in result.output
    assert f"flag and interval: {flags}" in result.output
    assert "\n\n" not in result.output


def test_recover_json_is_the_contract(run, files, tmp_path):
    readings, described = files
    out, flags = tmp_path / "filled.parquet", tmp_path / "flags.csv"
    result = run(
        "recover", readings, "--sensors", described, "--out", out, "--flags", flags,
        "--sites", owned(described), "--json", *QUICK,
    )  # fmt: skip
    document = json.loads(result.stdout)
    wanted = (
        "sensors slots observed recovered refused rounds seconds numbers_per_reading added_error"
        " guarantee secure bytes_up bytes_down bytes_raw self_test by_site sensors_gaining"
        " sensors_losing out flags publish"
    )
    assert set(wanted.split()) <= set(document)
    assert document["sensors"] == 8
    told = ("sensors_gaining", "sensors_losing", "sensors_too_close")
    assert sum(document[name] for name in told) == 8
    assert set(document["added_error"]) == {"median", "unit"}
    assert document["added_error"]["median"] > 0
    assert 0 < document["numbers_per_reading"] <= 0.5
    assert document["bytes_raw"] == 8 * document["observed"]
    assert document["flags"] == str(flags)
    assert document["observed"] + document["recovered"] == 8 * 240
    assert set(document["self_test"]) == {"flfl", "site", "alone", "linear"}
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
        " bytes_down coverage interval_width exchanges"
    )
    assert set(wanted.split()) <= set(rows[0])
    assert all(row["mae"] <= row["rmse"] for row in rows)
    assert all(row["coverage"] is None for row in rows)


def test_evaluate_says_how_often_the_interval_holds(run, files):
    readings, described = files
    given = (
        "evaluate", readings, "--sensors", described, "--sites", "each", "--rate", "0.7",
        "--methods", "flfl", "--json", *QUICK,
    )  # fmt: skip
    (row,) = json.loads(run(*given).stdout)["rows"]
    assert 0.5 < row["coverage"] <= 1
    assert row["interval_width"] > row["mae"]
    assert sum(row["exchanges"].values()) > 0


def test_evaluate_takes_owners_and_noise_and_has_both_ends_of_the_scale(run, files):
    readings, described = files
    given = (
        "evaluate", readings, "--sensors", described, "--sites", "each", "--rate", "0.6",
        "--pattern", "block", "--methods", "alone,flfl,pooled", "--json", *QUICK,
    )  # fmt: skip
    alone, some, pooled = json.loads(run(*given).stdout)["rows"]
    assert alone["mae"] > some["mae"] > pooled["mae"]
    assert (alone["numbers_per_reading"], pooled["bytes_up"]) == (0, 0)
    fewer = ("--methods", "alone,flfl", "--added-error", 30, "--share", 0.2)
    rows = json.loads(run(*given, *fewer).stdout)["rows"]
    assert rows[0]["mae"] == alone["mae"]
    assert rows[1]["mae"] > some["mae"]
    assert rows[1]["numbers_per_reading"] < some["numbers_per_reading"]


def test_evaluate_is_the_same_every_time(run, files):
    readings, described = files

    def scores():
        result = run(
            "evaluate", readings, "--sensors", described, "--rate", "0.6",
            "--methods", "linear,flfl", "--json", *QUICK,
        )  # fmt: skip
        return [(r["mae"], r["rmse"], r["bytes_up"]) for r in json.loads(result.stdout)["rows"]]

    assert scores() == scores()


def test_methods_and_data_list(run):
    names = [m["name"] for m in json.loads(run("methods", "--json").stdout)["methods"]]
    assert {"flfl-paper", "alone", "linear", "pchip", "mean"} <= set(names)
    assert "germany_pm10" in run("data", "list").output


def test_pooled_sensors_have_one_owner_before_and_after(run, files, tmp_path):
    given = ("recover", files[0], "--method", "pooled", "--json")
    before, after = run(*given, "--dry-run"), run(*given, "--out", tmp_path / "o.csv", *QUICK)
    assert [json.loads(one.stdout)["sites"] for one in (before, after)] == [1, 1]


def test_synth_has_the_defaults_of_its_function():
    taken = inspect.signature(synthesize).parameters
    options = [one for one in load_verb("data").commands["synth"].params if one.name in taken]
    assert len(options) == 5
    assert {one.name: one.default for one in options} == {
        one.name: taken[one.name].default for one in options
    }


def test_synth_then_recover(run, tmp_path):
    folder = tmp_path / "made"
    assert run("data", "synth", "--sensors", 6, "--slots", 100, "--out", folder).exit_code == 0
    result = run(
        "recover", folder / "readings.csv", "--sensors", folder / "sensors.csv",
        "--out", tmp_path / "filled.csv.gz", *QUICK,
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
    "no sensor described": (GOOD_SENSORS.replace("a,", "x,").replace("b,", "y,"), ["none of"]),
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
        (["recover", "{in}", "--out", "{out}", "--flags", "{out}"], ["two outputs"]),
        (["recover", "{in}"], ["--out"]),
        (["recover", "{in}", "--out", "{out}", "--method", "flfl-papre"], ["flfl-paper"]),
        (["recover", "{in}", "--out", "{out}", "--added-error", "much"], ["'much'", "2 ug/m3"]),
        (["recover", "{in}", "--out", "{out}", "--share", "2"], ["--share"]),
        (["recover", "{in}", "--out", "{out}", "--sites", "owner"], ["owner"]),
        (
            ["recover", "{in}", "--out", "{out}", "--method", "linear", "--rank", "3"],
            ["linear has no option rank"],
        ),
        (
            ["recover", "{in}", "--out", "{out}", "--sensors", "{sensors}", "--sites", "owner"],
            ["Give --sites one of these names"],
        ),
        (["recover", "{in}", "--out", "{out}", "--time-column", "when"], ["when"]),
        (["evaluate", "{in}", "--rate", "1.5"], ["1.5", "--rate"]),
        (["evaluate", "{in}", "--rate", "half"], ["half"]),
        (["evaluate", "{in}", "--rate", "0.999", "--methods", "linear"], ["--rate", "hides none"]),
        (["evaluate", "{in}", "--rate", "0.001", "--methods", "linear"], ["--rate", "keeps none"]),
        (
            ["evaluate", "{in}", "--pattern", "block", "--block-length", "1000"],
            ["1000 slots", "--block-length"],
        ),
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
        "{sensors}": write(tmp_path / "sensors.csv", GOOD_SENSORS),
    }
    given = [str(places.get(a, a)).replace("{dir}", str(tmp_path)) for a in arguments]
    result = run(*given)
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in result.stderr
    assert not places["{out}"].exists()


@pytest.mark.parametrize("option", ["--out", "--flags"])
@pytest.mark.parametrize("name", ["readings", "sensors", "sites"])
@pytest.mark.parametrize("by_link", [False, True])
def test_no_file_of_the_user_is_overwritten(option, name, by_link, run, tmp_path):
    texts = {
        "readings": WIDE,
        "sensors": GOOD_SENSORS,
        "sites": "sensor,site\na,north\nb,south\n",
    }
    places = {key: write(tmp_path / f"{key}.csv", text) for key, text in texts.items()}
    target = places[name]
    if by_link:
        target = tmp_path / "link.csv"
        target.symlink_to(places[name])
    other = {"--out": "--flags", "--flags": "--out"}[option]
    result = run(
        "recover", places["readings"], "--sensors", places["sensors"], "--sites", places["sites"],
        option, target, other, tmp_path / "new.csv", "--method", "linear",
    )  # fmt: skip
    assert result.exit_code == 2, result.output
    assert "file that was read" in result.stderr
    assert {key: place.read_text() for key, place in places.items()} == texts
    assert not (tmp_path / "new.csv").exists()


def test_evaluate_fails_when_nothing_could_be_scored(run, tmp_path):
    readings = write(tmp_path / "readings.csv", WIDE)
    # One reading is kept for two sensors: the other one cannot be estimated.
    given = ("evaluate", readings, "--rate", "0.02", "--methods", "linear,mean")
    result = run(*given, "--json")
    assert result.exit_code == 1
    assert "linear: diverged: the estimates are not finite" in result.stderr
    assert all(row["failed"] for row in json.loads(result.stdout)["rows"])
    assert run(*given).exit_code == 1


def test_words_for_one_sensor_and_no_scores(run, tmp_path):
    rows = "\n".join(f"2024-01-0{d},{d if d != 2 else ''}" for d in range(1, 5))
    readings = write(tmp_path / "readings.csv", "time,a\n" + rows)
    result = run("recover", readings, "--out", tmp_path / "o.csv", "--method", "linear")
    assert result.exit_code == 0, result.output
    assert "1 sensor of 1 owner, 4 slots: 3 observed, 1 recovered, 0 refused" in result.output
    assert "no copy of one, left any owner" in result.output
    assert "\n\n" not in result.output
    short = write(tmp_path / "short.csv", "time,a,b\n2024-01-01,1,\n2024-01-02,,2\n")
    result = run("recover", short, "--out", tmp_path / "o.csv", "--method", "mean")
    assert "no scores" in result.output
    assert "MAE" not in result.output
    assert "\n\n" not in result.output


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (0.8, "bought: the error is 20 % below each sensor alone."),
        (1.2, "nothing here: the error is 20 % above each sensor alone."),
        (1.001, "nothing here: the error is the same as that of each sensor alone."),
        (0.999, "nothing here: the error is the same as that of each sensor alone."),
    ],
)
def test_what_federation_bought(ours, words):
    scores = {"flfl": {"mae": ours}, "alone": {"mae": 1.0}, "linear": {"mae": 2.0}}
    said = verdict(SelfTest(scores, (), ()), "flfl", shared=True)
    assert words in said


def test_what_left_the_sites_follows_from_the_method(run, files, tmp_path):
    readings, described = files
    given = ("recover", readings, "--sensors", described, "--out", tmp_path / "o.csv")
    wanted = {
        "pooled": "brought to one place",
        "flfl-paper": "Nothing was added that would hide the readings",
        "mean": "no copy of one, left any owner",
        "alone": "no copy of one, left any owner",
    }
    for method, words in wanted.items():
        quick = QUICK if method in ("pooled", "alone") else ()
        quick = ("--rank", 2, "--rounds", 5) if method == "flfl-paper" else quick
        assert words in run(*given, "--method", method, *quick).output


def test_what_left_is_said_with_its_noise(run, files, tmp_path):
    readings, described = files
    given = (
        "recover", readings, "--sensors", described, "--sites", "each",
        "--out", tmp_path / "o.csv", *QUICK,
    )  # fmt: skip
    noisy = run(*given, "--added-error", "2 ug/m3").output
    assert "noisy copies" in noisy
    assert "an added error of typically 2" in noisy
    assert "told apart correctly at most 69 % of the time" in noisy
    assert "numbers for every 100 readings, each a sum over all owners" in noisy
    trusted = run(*given, "--added-error", 0).output
    assert "No noise was added" in trusted
    assert "told apart" not in trusted
    assert "private" not in noisy + trusted
    fewer = json.loads(run(*given, "--share", 0.2, "--json").stdout)["numbers_per_reading"]
    assert 0.1 < fewer <= 0.2


def test_the_table_to_publish_holds_no_reading(run, files, tmp_path):
    readings, described = files
    shown = tmp_path / "public.csv"
    given = (
        "recover", readings, "--sensors", described, "--sites", "each",
        "--out", tmp_path / "o.csv", "--publish", shown, *QUICK,
    )  # fmt: skip
    assert json.loads(run(*given, "--json").stdout)["publish"] == str(shown)
    before, after = pd.read_csv(readings), pd.read_csv(shown)
    assert list(after["time"]) == list(before["time"])
    assert after.notna().all().all()
    names = before.columns[1:]
    assert (after[names] == before[names]).to_numpy().mean() < 0.02
    for bare in (("--method", "alone"), ("--added-error", 0)):
        refused = run(*given, *bare)
        assert refused.exit_code == 2
        assert "no noisy copies" in refused.stderr


@pytest.mark.slow
def test_the_demo_tells_each_agency_what_it_gained(run, tmp_path):
    result = run("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("owner "))
    rows = [line for line in lines[start + 1 :] if line.endswith(tuple("0123456789"))][:13]
    assert any(row.startswith("Federal agency (UBA)") for row in rows)
    gains = [float(row.split(" %")[0].split()[-1]) for row in rows]
    assert len(gains) == 13
    assert max(gains) < 0
    assert "noisy copies of its readings, with an added error of typically" in result.output
    assert "ug/m3" in result.output
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"prints \(shortened\):\n\n```\n(.*?)```", readme, re.DOTALL)[1]
    _shortened(shown.replace("flfl-demo/", ""), result.output.replace(f"{tmp_path / 'demo'}/", ""))


def _shortened(shown, whole):
    """What is shown, with dots for what is left out, is in the whole: word by word in this order,
    and figures as far as another processor may move them."""
    words = whole.split()
    for part in (text.split() for text in shown.split("...")):
        starts = range(len(words) - len(part) + 1)
        at = next((n for n in starts if all(map(_like, part, words[n : n + len(part)]))), None)
        assert at is not None, " ".join(part)
        words = words[at + len(part) :]


def _like(one, other):
    number = re.compile(r"[-+]?\d+(?:\.\d+)?")
    if number.sub("", one) != number.sub("", other):
        return False
    pairs = zip(number.findall(one), number.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= max(1, abs(float(a)) / 50) for a, b in pairs)


def test_the_demo_on_few_readings(run, tmp_path, monkeypatch):
    def few(name):
        table, sensors = load_dataset(name)
        return from_frame(table.values.iloc[:100]), sensors

    monkeypatch.setattr("flfl.cli.demo.load_dataset", few)
    monkeypatch.setattr("flfl.cli.demo.recover", partial(recover, effort="quick", secure=False))
    result = run("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert "Federal agency (UBA)" in result.output
    assert "added error (ug/m3)" in result.output
    wanted = {"filled.csv", "flags.csv"} | ({"page.html"} if not missing_libraries() else set())
    assert {path.name for path in (tmp_path / "demo").iterdir()} == wanted


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


def test_secure_can_be_chosen_and_is_said(run, files, tmp_path):
    readings, described = files
    base = ("recover", readings, "--sensors", described, "--out", tmp_path / "o.csv", *QUICK)
    table = pd.read_csv(described)
    table["owner"] = ["a", "b", "c", "d"] * 2
    table.to_csv(described, index=False)
    by_owner = (*base, "--sites", "owner")
    assert "each a sum over all owners" in run(*by_owner, "--secure").output
    open_sums = json.loads(run(*by_owner, "--no-secure", "--json").stdout)
    assert open_sums["secure"] is False
    assert any("secure sums are off" in note for note in open_sums["notes"])
    table["owner"] = ["a", "b"] * 4
    table.to_csv(described, index=False)
    refused = run(*by_owner, "--secure")
    assert refused.exit_code == 2
    assert "need 3 sites or more" in refused.output
    shown = run(*by_owner).output
    assert "not hidden from the coordinator" in shown
    assert "saw each owner's own part" in shown


def test_a_reader_that_has_had_enough_is_no_error():
    """As with ``flfl methods | head -1``."""
    command = [sys.executable, "-m", "flfl", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.stderr.read() == b""


@pytest.mark.parametrize(
    "verb", [("evaluate", "--methods", "linear"), ("audit", "--nights", "0", "--json")]
)
def test_codes_are_told_where_they_are_used(verb, run, tmp_path):
    t = np.arange(200)
    values = np.column_stack([np.sin(t / 9 + i) + 5 for i in range(3)]).round(3)
    values[::20, 0], values[7, 1] = -99.9, -999
    path = tmp_path / "codes.csv"
    index = pd.date_range("2024-01-01", periods=200, freq="h", name="time")
    pd.DataFrame(values, index, list("abc")).to_csv(path)
    name, *options = verb
    told = run(name, path, *options).stderr
    assert "Suspicious: 10 of 599 readings (1.7 %) are -99.9" in told
    said = "--missing -99.9 --missing -999 --missing -9999"
    assert f"Codes were used as readings; to have them missing, give {said}." in told
    told = run(name, path, *options, *said.split()).stderr
    assert "10 values equal to -99.9 read as missing." in told
    assert "1 value equal to -999 read as missing." in told
    assert "Suspicious" not in told
