"""Every timing script starts: what it imports exists."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))
NEEDS = {
    "mqtt_engine": "paho.mqtt",
    "nights": "paho.mqtt",
    "reliability": "paho.mqtt",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_is_printed(script, monkeypatch, capsys):
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out
