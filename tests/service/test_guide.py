"""The operator's page as it is printed: its commands, settings, units, alert rules and image."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from broker import MOSQUITTO, free_port, listens
from deployed import ROOT, pooled
from flfl.service.diary import stamp
from flfl.service.status import Status, figures
from waiting import PATIENCE, eventually

PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
DEPLOY = ROOT / "deploy"
SITES = ("harbour", "airport", "valley")


def blocks(section, kind="sh"):
    """The code of a section, block by block."""
    _, text = re.split(rf"^## {section}\n", PAGE, flags=re.MULTILINE)
    text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


class Machine:
    """A folder that stands for a machine: the page's commands run in it as they are printed, with
    the machine's own paths under it and another user in place of flfl."""

    def __init__(self, root, shims):
        self.root, self.home = root, root / "home"
        self.home.mkdir(parents=True)
        self._path = f"{shims}:{os.environ['PATH']}"

    def own(self, text):
        for folder in ("/etc/flfl", "/etc/mosquitto", "/var/lib/flfl", "/srv/readings"):
            text = text.replace(folder, f"{self.root}{folder}")
        return text.replace("-o flfl -g flfl", "-o nobody -g nogroup")

    def run(self, text):
        # A command in the folder of the operators finds deploy/ there.
        done = subprocess.run(
            ["bash", "-euc", self.own(text)],
            cwd=self.home, env={**os.environ, "PATH": self._path}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def machines():
    if os.name != "posix" or os.geteuid() != 0 or MOSQUITTO is None:
        pytest.skip("the page is followed as root, with Mosquitto")
    # A folder that the user mosquitto may enter.
    root = Path(tempfile.mkdtemp(dir="/tmp", prefix="flfl-guide-"))
    root.chmod(0o755)
    shims = root / "bin"
    shims.mkdir()
    main = "from flfl.cli import main; main()"
    for name, text in {
        "flfl": f"exec {sys.executable} -c '{main}' \"$@\"",
        "sudo": 'if [ "$1" = -u ]; then shift 2; fi\nexec "$@"',
        "apt-get": "exit 0",
        "systemctl": "exit 0",
    }.items():
        (shims / name).write_text(f"#!/bin/sh\n{text}\n")
        (shims / name).chmod(0o755)
    made = {name: Machine(root / name, shims) for name in ("operators", "broker", *SITES)}
    made["operators"].home.joinpath("deploy").symlink_to(DEPLOY)
    made["broker"].home = made["operators"].home
    yield made
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def with_keys(machines):
    """After the second section: everybody has the files that are meant for it."""
    lines = blocks("1. Install")[0].splitlines()
    folder, private = (line for line in lines if " install -d " in line)
    init, request, sign, accept, coordinator = blocks("2. Keys")
    operators = machines["operators"]
    for name in ("operators", *SITES):
        machines[name].run(f"{folder}\n{private}")
    operators.run(init.replace("broker.example.org", "localhost"))
    for name in SITES:
        said = machines[name].run(request.replace("harbour", name))
        assert "fingerprint" in said
        asked = machines[name].root / "etc/flfl/keys" / f"{name}.request"
        shutil.copy(asked, operators.home)
    assert "3 sites" in operators.run(sign)
    for name in SITES:
        for sent in (f"{name}.pem", "authority.pem", "roster.json"):
            shutil.copy(operators.home / "keys" / sent, machines[name].home)
        machines[name].run(accept.replace("harbour", name))
    operators.run(coordinator)
    return machines


@pytest.mark.slow
def test_keys_stay_where_they_were_made(with_keys):
    operators = {path.name for path in (with_keys["operators"].home / "keys").iterdir()}
    for name in SITES:
        folder = with_keys[name].root / "etc/flfl/keys"
        assert {f"{name}.key", f"{name}.identity", f"{name}.pem"} <= {
            p.name for p in folder.iterdir()
        }
        assert not {f"{name}.key", f"{name}.identity"} & operators
        for kind in ("key", "identity"):
            assert stat.S_IMODE((folder / f"{name}.{kind}").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.fixture(scope="module")
def with_broker(with_keys):
    """After the third section: Mosquitto, started by root as the system starts it."""
    broker, port = with_keys["broker"], free_port()
    conf = broker.root / "etc/mosquitto"
    (conf / "conf.d").mkdir(parents=True)
    kept = broker.root / "var/lib/mosquitto"
    kept.mkdir(parents=True)
    shutil.chown(kept, "mosquitto", "mosquitto")
    broker.run(blocks("3. Broker")[0])
    own = conf / "conf.d" / "flfl.conf"
    own.write_text(
        broker.own(own.read_text()).replace("listener 8883", f"listener {port} 127.0.0.1")
    )
    # As Debian's own file is.
    (conf / "mosquitto.conf").write_text(
        f"persistence true\npersistence_location {kept}/\nlog_dest stderr\n"
        f"include_dir {conf}/conf.d\n"
    )
    log = (broker.root / "log").open("wb")
    process = subprocess.Popen([MOSQUITTO, "-c", str(conf / "mosquitto.conf")], stderr=log)
    assert eventually(lambda: process.poll() is not None or listens(port))
    assert process.poll() is None, (broker.root / "log").read_text()
    yield with_keys, port, process, kept
    process.terminate()
    process.wait(PATIENCE)
    log.close()


@pytest.mark.slow
def test_the_broker_reads_its_keys_as_its_own_user(with_broker):
    machines, _, process, _ = with_broker
    owner = Path(f"/proc/{process.pid}").owner()
    assert owner == "mosquitto"
    key = machines["broker"].root / "etc/mosquitto/flfl/broker.key"
    assert (key.owner(), key.group(), stat.S_IMODE(key.stat().st_mode)) == (
        "root",
        "mosquitto",
        0o640,
    )


def settings(machine, section, port):
    """The page's settings with a port of this machine."""
    (text,) = blocks(section, "toml")
    text = machine.own(text).replace(
        'host = "broker.example.org"', f'host = "localhost"\nport = {port}'
    )
    assert tomllib.loads(text)["broker"]["port"] == port
    return text.replace("status_port = 9464", f"status_port = {free_port()}")


@pytest.mark.slow
def test_a_site_and_the_coordinator_are_ready_by_the_page(with_broker):
    machines, port, _, _ = with_broker
    coordinator, site = machines["operators"], machines["harbour"]
    (coordinator.root / "etc/flfl/coordinator.toml").write_text(
        settings(coordinator, "4. Coordinator", port)
    )
    (coordinator.root / "var/lib").mkdir(parents=True)
    check, *_ = blocks("4. Coordinator")[0].splitlines()
    assert coordinator.run(check).endswith("All is ready.\n")
    (site.root / "etc/flfl/site.toml").write_text(settings(site, "5. Site", port))
    frame, places, _ = pooled(4, 200, 2)
    (site.root / "srv/readings").mkdir(parents=True)
    frame.to_csv(site.root / "srv/readings" / "all.csv")
    rows = [f"{i},{a},{b}" for i, (a, b) in zip(places.ids, places.coordinates, strict=True)]
    (site.root / "etc/flfl/sensors.csv").write_text(
        "\n".join(["sensor_id,latitude,longitude", *rows])
    )
    make, check, *_ = blocks("5. Site")[0].splitlines()
    (site.root / "var/lib/flfl").mkdir(parents=True)
    said = site.run(f"{make}\n{check}")
    assert said.endswith("All is ready.\n"), said
    assert "its own topic, and no other's" in said


@pytest.mark.parametrize("name", ["coordinator", "site"])
def test_the_units_verify(tmp_path, name):
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd is not installed")
    text = (DEPLOY / f"flfl-{name}.service").read_text()
    assert f"flfl {name} /etc/flfl/{name}.toml" in text
    unit = tmp_path / f"flfl-{name}.service"
    unit.write_text(text.replace("/opt/flfl/bin/flfl", "/bin/true"))
    done = subprocess.run([command, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def all_metrics():
    """Names of all that the parties may tell."""
    run = {
        "run": "n-1",
        "question": 1,
        "round": 1,
        "waiting_for": [],
        "set_aside": [],
        "bytes_up": 1,
    }
    status = Status(
        "coordinator", "n", "", True, "", stamp(), next_run=stamp(), last_success=stamp(), run=run,
        certificates={"certificate": stamp()}, sites=({"site": "a"},),
        totals={"runs": 1, "failures": 0, "bytes_up": 1, "bytes_down": 1},
        counters={"dropped": 0, "answers": 0},
    )  # fmt: skip
    return {name for name, *_ in figures(status)}


def test_alert_rules_and_the_page_name_metrics_that_exist():
    text = (DEPLOY / "alerts.yml").read_text()
    asked = set(re.findall(r"\bflfl_\w+", text))
    assert asked <= all_metrics()
    (table,) = re.findall(r"\| metric \| what it is \|\n(.*?)\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`(flfl_\w+)", table)) == all_metrics()
    if command := shutil.which("promtool"):
        done = subprocess.run(
            [command, "check", "rules", DEPLOY / "alerts.yml"], capture_output=True
        )
        assert done.returncode == 0, done.stdout


def test_the_image_is_made_of_what_is_there():
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    words = [word for word, _ in steps]
    assert words[0] == "FROM"
    assert words.index("USER") < words.index("ENTRYPOINT")
    for word, rest in steps:
        if word == "COPY":
            assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.search(r"/src\[([\w,]+)\]", "\n".join(lines))[1].split(","))
    assert extras <= set(project["optional-dependencies"])
    assert '["flfl"]' in dict(steps)["ENTRYPOINT"]
    assert "flfl" in project["scripts"]
