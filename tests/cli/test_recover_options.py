"""Options of ``flfl recover``: rules, a dry run, the page."""

import json

import pandas as pd
import pytest

from flfl.report import missing_libraries

QUICK = ("--effort", "quick")


def folder(path):
    return sorted(p.name for p in path.iterdir())


def test_rules_reach_the_files(run, files, tmp_path):
    readings, described = files
    out, flags = tmp_path / "filled.csv", tmp_path / "flags.parquet"
    result = run(
        "recover", readings, "--sensors", described, "--out", out, "--flags", flags,
        "--max-gap", "2h", "--min-readings", 10, "--bounds", "0,", "--json", *QUICK,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    table = pd.read_parquet(flags)
    refused = table[table.flag == "refused"]
    assert found["refused"] == len(refused) == sum(found["refusals"].values()) > 0
    assert found["refusals"] == refused.reason.value_counts().to_dict()
    recovered = table[table.flag == "recovered"]
    assert (recovered[["value", "lower", "upper"]].min() >= 0).all()
    assert set(recovered.method) <= {"network", "site", "interpolation"}
    assert set(recovered.run_id) == {found["run_id"]}
    assert pd.read_csv(out).isna().sum().sum() == len(refused)


def test_a_rerun_gives_identical_files(run, files, tmp_path):
    readings, described = files
    for number in (1, 2):
        names = [tmp_path / f"{name}{number}.csv" for name in ("filled", "flags")]
        run("recover", readings, "--sensors", described, "--out", names[0], "--flags", names[1],
            *QUICK)  # fmt: skip
    for name in ("filled", "flags"):
        one, two = (tmp_path / f"{name}{number}.csv" for number in (1, 2))
        assert one.read_bytes() == two.read_bytes()


def test_a_dry_run_says_and_does_nothing(run, files, tmp_path):
    readings, described = files
    before = folder(tmp_path)
    given = ("recover", readings, "--sensors", described, "--max-gap", 1, "--dry-run")
    result = run(*given, "--out", tmp_path / "filled.csv", "--flags", tmp_path / "flags.csv")
    assert result.exit_code == 0, result.output
    assert "nothing was written" in result.stdout
    assert "gap longer than 1 slot" in result.stdout
    plan = json.loads(run(*given, "--json").stdout)
    assert folder(tmp_path) == before
    done = json.loads(
        run(*given[:-1], "--out", tmp_path / "o.csv", "--json", "--method", "linear").stdout
    )
    assert plan["would_recover"] == done["recovered"]
    assert plan["would_refuse"] == done["refused"]
    assert plan["refusals"] == done["refusals"]
    assert plan["sites"] == done["sites"]


def test_a_dry_run_finds_what_is_wrong(run, files, tmp_path):
    readings, _ = files
    result = run("recover", readings, "--dry-run", "--method", "magic")
    assert result.exit_code == 2
    assert "magic" in result.stderr


@pytest.mark.skipif(bool(missing_libraries()), reason="the extra report is not installed")
def test_the_page_is_written_and_named(run, files, tmp_path):
    readings, described = files
    page = tmp_path / "page.html"
    result = run(
        "recover", readings, "--sensors", described, "--out", tmp_path / "o.csv",
        "--report", page, "--json", *QUICK,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["report"] == str(page)
    assert found["run_id"] in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-gap", "soon"], "soon"),
        (["--bounds", "5,1"], "not a pair of limits"),
        (["--bounds", "5"], "not a pair of limits"),
        (["--min-readings", "-1"], "-1"),
        (["--report", "page.pdf"], ".pdf"),
        (["--flags", "flags.nc"], ".nc"),
    ],
)
def test_what_makes_no_sense_is_said_before_any_work(arguments, words, run, files, tmp_path):
    readings, _ = files
    before = folder(tmp_path)
    result = run("recover", readings, "--out", tmp_path / "o.csv", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert folder(tmp_path) == before


def test_rows_come_back_after_a_step(run, tmp_path):
    stamps = [f"2024-01-{1 + i // 24:02d} {i % 24:02d}:{7 * i % 50:02d}" for i in range(96)]
    rows = [f"{t},{i % 9}.5,{'' if 40 <= i < 44 else i % 7}" for i, t in enumerate(stamps)]
    readings, back = tmp_path / "r.csv", tmp_path / "rows.csv"
    readings.write_text("\n".join(["time,a,b", *rows]) + "\n")
    given = ("recover", readings, "--out", tmp_path / "o.csv", "--method", "linear")
    result = run(*given, "--step", "1h", "--rows", back, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["readings_of_a_cell"] == {"0": 4, "1": 188}
    before, after = readings.read_text().splitlines(), back.read_text().splitlines()
    changed = [i for i, (one, two) in enumerate(zip(before, after, strict=True)) if one != two]
    assert changed == [41, 42, 43, 44]
    assert all(after[i].startswith(before[i]) for i in changed)
    result = run(*given, "--rows", back)
    assert result.exit_code == 2
    assert "--step 1h" in result.stderr
