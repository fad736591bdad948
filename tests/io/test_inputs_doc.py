"""The examples of docs/inputs.md print what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from flfl.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
EXAMPLES = [part for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.M)[1:]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.partition("\n")[0])
def test_example(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command, _, printed = example.partition("\n")
    if ".nc" in command:
        pytest.importorskip("h5netcdf")
    program, *arguments = shlex.split(command)
    assert program == "flfl"
    run = CliRunner().invoke(main, arguments)
    assert run.output == printed


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7
