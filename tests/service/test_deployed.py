"""Real processes over TLS with secure sums: the same bits as in one process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from broker import MOSQUITTO
from deployed import Deployment, check, in_process, pooled

pytest.importorskip("paho.mqtt")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(pooled(8, 120), tmp_path_factory.mktemp("wanted"))


def test_four_sites_with_tls_and_secure_sums_equal_one_process(tmp_path, wanted):
    deployment = Deployment(tmp_path, pooled(8, 120))
    try:
        codes = deployment.start().wait()
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-5:])
        check(tmp_path, wanted)
    finally:
        deployment.close()


@pytest.mark.slow
def test_a_site_that_was_away_finishes_with_what_the_run_published(tmp_path):
    deployment = Deployment(tmp_path, pooled(10, 200, n_sites=5), deadlines={"gather_within": 12})
    here = deployment.names[:4]
    try:
        deployment.start(*here).wait_for_connections(*here)
        deployment.start("coordinator")
        codes = deployment.wait()
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-4:])
        # The coordinator has ended, too: the broker keeps what the run published.
        deployment.start("site4")
        assert deployment.wait("site4") == {"site4": 0}, deployment.said("site4")[-4:]
        assert b",," not in deployment.filled("site4")
        assert not list((tmp_path / "site4-state" / "runs").glob("*/site.journal"))
    finally:
        deployment.close()


@pytest.mark.slow
def test_slots_are_released_once_and_runs_go_on_when_more_are_closed(tmp_path):
    deployment = Deployment(tmp_path, pooled(9, 420, n_sites=3))
    config = tmp_path / "coordinator.toml"
    text, times = config.read_text(), deployment.data[0].index
    try:
        networks = []
        for slots in (410, 410, 420):
            stop = str(times[slots - 1])
            config.write_text(text.replace(str(times[-1]), stop))
            # Nothing is new in the second run: the coordinator calls nobody.
            new = not networks or slots > networks[-1]["stops"][-1]
            codes = deployment.start(*([] if new else ["coordinator"])).wait()
            assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-4:])
            networks.append(deployment.shared())
        first, again, grown = (network["stops"].tolist() for network in networks)
        assert first == again == [100, 410]
        for name, array in networks[0].items():
            np.testing.assert_array_equal(networks[1][name], array)
        assert grown == [100, 410, 420]
        assert any("nothing is to be released" in s for s in deployment.said("coordinator"))
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
        timeout=1700,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("equal to the result of one process") == 5
    assert "killed east with -9" in result.stdout
