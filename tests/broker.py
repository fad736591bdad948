"""A real Mosquitto on loopback and a free port, for tests."""

import getpass
import os
import random
import shutil
import socket
import subprocess

import pytest

from waiting import PATIENCE, eventually

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


LIMITS = ("max_queued_messages 0", "set_tcp_nodelay true", f"user {getpass.getuser()}")


_HELD = []
"""UDP ports of the numbers that this process was given."""


def free_port():
    """A TCP port below those that the system gives to clients, so that none of them takes it first.
    Whoever was given it holds the UDP port of that number: no other test is given it too."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        held = socket.socket(type=socket.SOCK_DGRAM)
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        _HELD.append(held)
        if not listens(port):
            return port


def listens(port):
    """Whether somebody does at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Mosquitto:
    """A broker process that can be killed and started again on the same port."""

    def __init__(self, folder, lines=("allow_anonymous true",), port=None):
        if MOSQUITTO is None:
            pytest.skip("mosquitto is not installed: the MQTT engine is not tested here")
        self.port = port or free_port()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "mosquitto.conf"
        config.write_text("\n".join([f"listener {self.port} 127.0.0.1", *lines, *LIMITS, ""]))
        self._command = [MOSQUITTO, "-c", str(config)]
        self._log = (folder / "mosquitto.log").open("ab")
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)
        ended = self._process.poll
        if not eventually(lambda: ended() is not None or listens(self.port)) or ended() is not None:
            text = (self.folder / "mosquitto.log").read_text()
            raise RuntimeError(f"mosquitto did not start: {text[-500:]}")

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()
