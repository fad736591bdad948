"""The page on methods of one's own runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "own-method.md"


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    t = np.arange(80.0)
    readings = pd.DataFrame({name: np.sin(t / 5 + i) for i, name in enumerate("abc")})
    readings.iloc[10:14, 0] = np.nan
    readings.rename_axis("time").to_csv("readings.csv")
    first, second, third, fourth = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S
    )
    made: dict = {}
    exec(first, made)
    assert made["result"].method == "KNNImputer"
    exec(second, made)
    assert made["result"].method == "OthersMedian"
    assert [row.method for row in made["rows"]] == ["linear", "OthersMedian", "OthersMedian"]
    # The class in a module of its own, as the page has it.
    Path("fills.py").write_text(second.partition("\n\n\ntable, ")[0])
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(
        main, ["recover", "readings.csv", "--method", "fills:OthersMedian", "--out", "filled.csv"]
    )
    assert result.exit_code == 0, result.output
    # It was given all readings, and nothing else is known of it.
    assert "Every reading was brought to one place" in result.output
    assert pd.read_csv("filled.csv").notna().all().all()
    exec(third, made)
    assert list(made["rows"]["label"]) == ["linear", "OthersMedian"]
    assert made["rows"]["failed"].isna().all()
    exec(fourth, made)
    assert made["entry"].federated
    assert made["entry"].create().weight == 1.0
