"""Real processes over TLS with secure sums: the same bits as in one process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from broker import MOSQUITTO
from deployed import Deployment, in_process, pooled


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(pooled(), tmp_path_factory.mktemp("wanted"))


def check(deployment, wanted):
    model, files = wanted
    shared = deployment.shared()
    for name, array in model.items():
        np.testing.assert_array_equal(shared[name], array)
    for name, data in files.items():
        assert deployment.filled(name) == data


def test_four_sites_with_tls_and_secure_sums_equal_one_process(tmp_path, wanted):
    deployment = Deployment(tmp_path)
    try:
        codes = deployment.start().wait(120)
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-5:])
        check(deployment, wanted)
    finally:
        deployment.close()


@pytest.mark.slow
def test_a_new_site_joins_between_runs_and_nothing_of_it_leaves(tmp_path):
    deployment = Deployment(tmp_path, pooled(10, 96, n_sites=5), run="every = 600")
    config = tmp_path / "coordinator.toml"
    config.write_text(config.read_text().replace("gather_within = 60", "gather_within = 8"))
    try:
        deployment.start("coordinator", "site0", "site1", "site2", "site3")
        codes = deployment.wait(120, ["site0", "site1", "site2", "site3"])
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-4:])
        deployment.start("site4")
        assert deployment.wait(60, ["site4"]) == {"site4": 0}, deployment.said("site4")[-4:]
        deployment.wait_for("coordinator", "site4 has joined", 10)
        assert b",," not in deployment.filled("site4")
    finally:
        deployment.close()


@pytest.mark.slow
def test_the_demo_kills_a_site_and_ends_equal(tmp_path):
    demo = Path(__file__).resolve().parents[2] / "deploy" / "demo.sh"
    command = tmp_path / "flfl"
    main = "from flfl.cli import main; main()"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{main}' \"$@\"\n")
    command.chmod(0o755)
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed: the demo is not run here")
    result = subprocess.run(
        [str(demo), str(tmp_path / "out")],
        env={**os.environ, "FLFL": str(command), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("equal to the result of one process") == 5
    assert "killed east with -9" in result.stdout
