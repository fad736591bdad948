"""Flower's own servers: a deployment with three SuperNodes, and a simulation."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker import free_port
from deployed import check, pooled
from flfl.protocol.state import network_to_arrays
from flfl.service.simulation import COORDINATOR_FILE, in_one_process, site_files

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def environment(folder):
    """Flower's commands are beside this Python; its files in a folder of the test."""
    commands = Path(sys.executable).parent
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **QUIET, "PATH": path, "FLWR_HOME": str(folder / "flwr")}


def test_killed_supernode_and_superlink_end_equal(tmp_path):
    """TLS, SuperNode keys, secure sums; see the script."""
    result = subprocess.run(
        [str(ROOT / "deploy" / "flower-demo.sh"), str(tmp_path)],
        env={**environment(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    logs = [(tmp_path / name).read_text()[-2000:] for name in ("coordinator.log", "superlink.log")]
    assert result.returncode == 0, result.stdout + result.stderr + "\n".join(logs)
    assert result.stdout.count("equal to the result of one process") == 4
    assert "killed the SuperNode of east with -9" in result.stdout
    assert "killed the SuperLink with -9" in result.stdout
    # One run of ours, though Flower had two.
    assert len(list((tmp_path / "coordinator-state" / "runs").iterdir())) == 1


def wait_for_port(port, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the SuperLink does not listen")


@pytest.fixture
def simulating(tmp_path):
    """A SuperLink that simulates nodes, with Ray."""
    pytest.importorskip("ray", reason="needs the extra flfl[flower-simulation]")
    port, env = free_port(), environment(tmp_path)
    home = tmp_path / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "test"\n[superlink.test]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    with (tmp_path / "superlink.log").open("wb") as log:
        process = subprocess.Popen(
            ["flower-superlink", "--insecure", "--simulation", "--port", str(port)],
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for_port(port)
        yield env
    finally:
        process.terminate()
        process.wait(20)


def test_a_simulation_equals_one_process(tmp_path, simulating):
    frame, places, owners = pooled(9, 160, n_sites=3)
    frame.to_csv(tmp_path / "readings.csv")
    rows = zip(places.ids, *places.coordinates.T, owners, strict=True)
    lines = [f"{name},{north},{east},{owner}" for name, north, east, owner in rows]
    (tmp_path / "sensors.csv").write_text(
        "\n".join(["sensor_id,latitude,longitude,site", *lines, ""])
    )
    folder = tmp_path / "network"
    settings = {
        "readings": tmp_path / "readings.csv",
        "sensors": tmp_path / "sensors.csv",
        "folder": folder,
        "effort": "quick",
    }
    given = " ".join(f'{name}="{value}"' for name, value in settings.items())
    command = ["flwr", "run", str(ROOT / "deploy" / "flower"), "test", "--stream"]
    command += ["--federation-config", "num-supernodes=3", "--run-config", given]
    result = subprocess.run(command, env=simulating, capture_output=True, text=True, timeout=600)
    assert "every site has its filled table" in result.stdout + result.stderr
    paths, out = site_files(folder), tmp_path / "wanted"
    network, _ = in_one_process(folder / COORDINATOR_FILE, paths, out)
    files = {path.stem: (out / f"{path.stem}-filled.csv").read_bytes() for path in paths}
    check(folder, (network_to_arrays(network), files))
