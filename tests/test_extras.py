"""What an extra brings must not take anything away from the core."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
CORE = {"click", "cryptography", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy"}


def resolved(what):
    """The version of each package that a fresh installation would get."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--dry-run", "--ignore-installed", "--report", "-", what]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr[-2000:]
    rows = [row["metadata"] for row in json.loads(result.stdout)["install"]]
    return {row["name"].lower(): Version(row["version"]) for row in rows}


@pytest.fixture(scope="module")
def core():
    found = resolved(".")
    assert set(found) >= CORE
    return found


@pytest.mark.slow
def test_flower_downgrades_nothing_that_the_core_needs(core):
    both = resolved(".[flower]")
    assert "flwr" in set(both) - set(core)
    assert {name: both[name] for name in core} == core
