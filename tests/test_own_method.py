"""The page on methods of one's own runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

PAGE = Path(__file__).parents[1] / "docs" / "own-method.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    t = np.arange(80.0)
    readings = pd.DataFrame({name: np.sin(t / 5 + i) for i, name in enumerate("abc")})
    readings.iloc[10:14, 0] = np.nan
    readings.rename_axis("time").to_csv("readings.csv")
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    made: dict = {}
    exec(first, made)
    assert made["result"].method == "KNNImputer"
    exec(second, made)
    assert made["result"].method == "OthersMedian"
    assert [row.method for row in made["rows"]] == ["linear", "OthersMedian", "OthersMedian"]
