"""Tables, figures and the page: what they say, and that equal rows give equal files."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from flfl.errors import InputError
from flfl.report.content import figure
from flfl_bench import figures, tables
from flfl_bench.cells import json_text
from flfl_bench.experiment import VIEWS
from flfl_bench.figures import OUR_COLOUR, render
from flfl_bench.report import (
    SECTIONS,
    find_rows,
    pages,
    sections,
    write_page,
    write_report,
)
from flfl_bench.sentences import beside
from flfl_bench.store import SCORES, TIMINGS, read_rows

REPOSITORY = Path(__file__).parents[2]
D1, D2 = "D1_beijing_co", "D2_sst_70x1733"
ERRORS = {"flfl": 1.0, "flfl-paper": 1.6, "kalman-em": 0.8, "linear": 2.0, "pchip": 4.0}


def some_rows():
    rows = []
    for data, scale in ((D1, 0.2), (D2, 5.0)):
        for rate in (0.1, 0.5, 0.9):
            for label, error in ERRORS.items():
                for seed in (0, 1):
                    rows.append(
                        {
                            "data": data,
                            "pattern": "random",
                            "rate": rate,
                            "seed": seed,
                            "label": label,
                            "method": label,
                            "mae": scale * error * (1 + 0.01 * seed) / rate,
                            "rmse": 2 * scale * error / rate,
                            "seconds": error,
                            "cpu_seconds": error,
                            "peak_mb": 10 * error,
                            "bytes_up": int(1e6 * error) if "flfl" in label else 0,
                            "bytes_down": 0,
                            "sensors": 35 if data == D1 else 70,
                            "slots": 100 if rate < 0.5 else 200,
                            "options": "{}",
                            "alone_mae": scale * 2 / rate,
                            "everybody_worst": 0.4 if label == "flfl" else None,
                            "everybody_median": 0.2 if label == "flfl" else None,
                            "readings_exposed": 0.0 if "flfl" in label else None,
                        }
                    )
    return rows


def write(path, rows, views, name="some"):
    about = {"name": name, "title": "Some rows", "views": list(views)}
    schema = pa.schema(
        list((SCORES | TIMINGS).items()), metadata={b"flfl": json_text(about).encode()}
    )
    pa_parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


@pytest.fixture
def rows(tmp_path):
    return read_rows(write(tmp_path / "some.parquet", some_rows(), ()))[0]


def test_means_intervals_and_the_best_of_a_column(rows):
    (first, _) = tables.accuracy(rows, "mae")
    assert first.title == "D1, random: MAE"
    assert list(first.header) == ["method", "seeds", "0.1", "0.5", "0.9"]
    assert [line[0] for line in first.rows] == sorted(ERRORS, key=ERRORS.get)
    # Two seeds, 0.01 of the value apart: 12.7 times half of that.
    assert first.rows[0][2] == f"*{0.2 * 0.8 / 0.1 * 1.005:.4g} ± {12.706 * 0.005 * 1.6:.2g}*"
    assert first.rows[1][2].startswith("2.01 ± ")


def test_the_best_is_bold_whatever_the_last_bit_of_its_mean():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = pd.DataFrame(
            {"data": D1, "pattern": "random", "rate": 0.5, "seed": range(5), "label": "flfl",
             "mae": rng.random(5), "failed": None}
        )  # fmt: skip
        (grid,) = tables.accuracy(rows, "mae")
        assert grid.rows[0][2].startswith("*")


def test_failures_are_told_and_never_best(tmp_path):
    given = some_rows()
    for row in given:
        if row["label"] == "kalman-em" and row["seed"] == 1 and row["rate"] == 0.5:
            row.update(mae=None, rmse=None, failed="ran away")
    rows, _ = read_rows(write(tmp_path / "some.parquet", given, ()))
    (first, _) = tables.accuracy(rows, "mae")
    lines = {line[0]: line for line in first.rows}
    assert lines["kalman-em"][3] == "failed (1 of 2)"
    assert lines["flfl"][3].startswith("*")
    assert len(tables.failures(rows).rows) == 2


def test_markdown_and_latex_say_the_same():
    grid = tables.Grid("A_b & c", ("x", "y"), [("a_b", "*1 ± 2*"), ("50 %", "-")])
    assert grid.markdown().splitlines()[-2:] == ["| a_b | **1 ± 2** |", "| 50 % | - |"]
    assert r"a\_b & \textbf{1 $\pm$ 2} \\" in grid.latex()
    assert r"\caption{A\_b \& c}" in grid.latex()
    assert r"50 \% & - \\" in grid.latex()


def test_parts_are_changes_against_the_whole():
    rows = pd.DataFrame(
        {
            "data": ["A", "A", "B", "B"],
            "pattern": "random",
            "rate": 0.1,
            "seed": 0,
            "label": ["flfl", "less"] * 2,
            "method": "flfl",
            "mae": [1.0, 1.1, 2.0, 1.8],
            "failed": None,
        }
    )
    ((method, grid),) = tables.parts(rows)
    assert method == "flfl"
    assert grid.rows[1][:3] == ["less", "1.1 (+10.0 %)", "1.8 (-10.0 %)"]
    ((_, grid),) = tables.parts(rows.assign(failed=[None, None, "ran away", None]))
    assert grid.rows[1] == ["less", "1.1 (+10.0 %)", "1.8 (-)", "+10.0 %"]


def test_every_view_has_its_section(rows):
    found = {section.name for section in sections(rows, VIEWS)}
    assert found <= set(SECTIONS)
    assert found == {"statistics", "exposure", "peers", "bytes", "timings", "scaling"}
    found = {section.name for section in sections(rows, ["rates"])}
    assert found == {"accuracy", "timings"}


def test_a_piece_without_our_method_can_be_shown(rows):
    others = rows[rows["label"] != "flfl"]
    assert {s.name for s in sections(others, VIEWS)} <= {"accuracy", "timings", "scaling"}
    assert list(sections(rows.iloc[:0], VIEWS)) == []


PICTURES = {
    "rates": lambda rows: figures.rates(rows, "random"),
    "parts": lambda rows: figures.parts(rows.assign(method="flfl"), "flfl"),
    "bytes": lambda rows: figures.against(rows, "bytes"),
    "seconds": lambda rows: figures.against(rows, "seconds"),
    "exposure": figures.exposure,
    "scaling": figures.scaling,
    "ranks": figures.ranks,
}


@pytest.mark.parametrize("name", PICTURES)
def test_figures_are_the_same_file_twice_and_mark_our_method(rows, name):
    svg = render(PICTURES[name](rows), "svg")
    assert svg == render(PICTURES[name](rows), "svg")
    assert OUR_COLOUR.lower().encode() in svg.lower()
    assert b"<dc:date>" not in svg


def test_a_report_keeps_timings_apart(tmp_path):
    views = ["ranks", "seconds"]
    quick, slow = some_rows(), some_rows()
    for row in slow:
        row["seconds"] *= 3
        row["cpu_seconds"] *= 3
        row["peak_mb"] += 1
    contents = []
    for name, given in (("a", quick), ("b", slow)):
        folder = tmp_path / name
        folder.mkdir()
        write_report(folder, write(folder / "rows.parquet", given, views))
        kept = [*(folder / "tables").iterdir(), *(folder / "figures").iterdir()]
        contents.append({path.name: path.read_bytes() for path in kept})
        assert {path.name for path in (folder / "timings").iterdir()} == {
            "timings.md", "timings.tex", "seconds.png", "seconds.svg"
        }  # fmt: skip
    assert contents[0] == contents[1]
    assert {"rows.csv", "accuracy.md", "accuracy.tex", "statistics.md"} <= set(contents[0])


def test_a_failure_that_was_mended_leaves_no_table_behind(tmp_path):
    broken = some_rows()
    broken[0] |= {"failed": "took longer than 2 s", "mae": None, "rmse": None}
    own = tmp_path / "tables" / "notes.md"
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    write_report(tmp_path, write(tmp_path / "rows.parquet", broken, ["ranks"]), draw=False)
    assert (tmp_path / "tables" / "failures.md").is_file()
    write_report(tmp_path, write(tmp_path / "rows.parquet", some_rows(), ["ranks"]), draw=False)
    assert not (tmp_path / "tables" / "failures.md").exists()
    assert own.is_file()


def test_the_page_leads_and_every_link_leads_somewhere(tmp_path):
    write(tmp_path / "some.parquet", some_rows(), ["rates", "ranks"])
    write(tmp_path / "another.parquet", some_rows(), ["peers", "seconds"], "another")
    out = tmp_path / "results.md"
    write_page(out, find_rows(tmp_path))
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[2].startswith("**Beside what people use:** of 3 other methods that leave")
    assert "`flfl-bench run experiments/another.toml --out another`" in lines[2]
    linked = {out: [], tmp_path / "results/some.md": [], tmp_path / "results/another.md": []}
    for page, links in linked.items():
        links += re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        assert links
        assert all((page.parent / link).is_file() for link in links)
    assert {"results/some.md", "results/another.md"} <= set(linked[out])


def test_what_readers_got_stands_beside_the_error(rows):
    first, second = tables.exposure(rows.assign(owners="1"))
    assert (first.title, second.title) == ("D1", "D2")
    told = {line[1]: line for line in first.rows if line[2] == figure(0.2 / 0.5)}
    assert told["flfl"][0] == "single sensors"
    # Half of what the owners alone have; read by everybody else .4 at worst; nobody else looked.
    assert told["flfl"][3:] == ["-50 %", "", "0.40 / 0.20", "", "0.0 %"]
    assert {line[1] for line in first.rows} == {"flfl", "flfl-paper"}


def test_rows_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match="there are no rows"):
        find_rows(tmp_path)
    other = tmp_path / "other.parquet"
    pa_parquet.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(InputError, match="no rows of `flfl-bench run`"):
        read_rows(other)
    table = pa_parquet.read_table(write(tmp_path / "rows.parquet", some_rows(), []))
    pa_parquet.write_table(table.select(list(SCORES)), other)
    with pytest.raises(InputError, match=r"seconds is missing. Give a rows\.parquet"):
        read_rows(other)
    assert find_rows(tmp_path) == [tmp_path / "rows.parquet"]
    other.write_bytes(b"nothing")
    with pytest.raises(InputError, match="no Parquet file"):
        read_rows(other)


@pytest.mark.slow
def test_the_committed_page_is_what_the_committed_rows_say(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    for page, made in pages(Path("docs/results.md"), find_rows(Path("docs/results"))).items():
        assert made == page.read_text(encoding="utf-8"), (
            "run `flfl-bench results docs/results --out docs/results.md`"
        )


def test_names_of_points_cover_nothing():
    assert figures._covers((0, 2, 0, 2), [(1, 3, 1, 3)])
    assert not figures._covers((0, 2, 0, 2), [(2, 3, 0, 2), (0, 2, 2, 3)])


def test_relative_errors_are_geometric_means_over_common_cases(rows):
    found = figures.relative_error(rows)
    assert found.round(6).to_dict() == ERRORS
    assert np.isclose(found["flfl"], 1)
    lost = (rows["label"] == "pchip") & (rows["rate"] == 0.1)
    broken = rows.assign(
        mae=rows["mae"].mask(lost), failed=rows["failed"].astype(object).mask(lost, "ran away")
    )
    broken.loc[(rows["label"] == "linear") & (rows["rate"] == 0.1), "mae"] *= 8
    found = figures.relative_error(broken)
    assert "pchip" not in found
    # The case that pchip lost still counts against linear: one in three, eight times as bad.
    assert np.isclose(found["linear"], 2 * ERRORS["linear"])


def test_one_table_holds_error_time_and_memory(rows):
    slow = rows["label"].eq("pchip") & rows["data"].eq(D2)
    grid = tables.beside(rows[~slow])
    assert [line[0] for line in grid.rows] == sorted(ERRORS, key=ERRORS.get)
    by_label = {line[0]: line for line in grid.rows}
    assert grid.header[1:3] == ["D1 random 0.1", "D1 random 0.5"]
    # Against flfl, cases, seconds, megabytes.
    assert by_label["kalman-em"][-4:] == ["-20 %", "6", "0.8", "8"]
    assert by_label["pchip"][-4:-2] == ["+300 %", "3"]
    assert by_label["pchip"][4:7] == ["", "", ""]
    assert by_label["kalman-em"][1].startswith("*")


def test_the_best_at_home_and_the_best_with_all_readings_are_named(rows):
    told = beside(rows)
    assert "of 3 other methods that leave readings with their owners" in told
    assert "the best (`flfl-paper`) has 60 % more error than `flfl`" in told
    assert (
        "the best (`kalman-em`) has 20 % less (geometric mean over 6 cases that all of them" in told
    )
    assert beside(rows[rows["label"] != "kalman-em"]) == ""


def test_the_page_says_what_was_not_run(tmp_path):
    path = write(tmp_path / "some.parquet", some_rows(), ["rates"])
    table = pa_parquet.read_table(path)
    about = {"name": "some", "title": "Some rows", "views": ["rates"], "cells": 99}
    table = table.replace_schema_metadata({b"flfl": json_text(about).encode()})
    pa_parquet.write_table(table, path)
    made = pages(tmp_path / "results.md", [path])
    assert all("60 of 99" in page for page in made.values())
