"""What the demos cannot say in shell: readings, settings, waiting, and the comparison.

python demo.py readings|settings ENGINE|listening PORT|wait SITE|finished|compare
"""

import os
import random
import socket
import sqlite3
import sys
import time
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path

SITES = os.environ.get("DEMO_SITES", "north south east west").split()
SLOTS = int(os.environ.get("DEMO_SLOTS", "720"))


def readings():
    """A synthetic network of 16 sensors with gaps, dealt out to the owners in turn."""
    import numpy as np
    import pandas as pd

    from flfl.datasets.synthetic import synthesize
    from flfl.io.write import write_sensors

    table, places = synthesize(
        16, SLOTS, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0)
    )
    frame = table.values.round(2)
    frame.index = pd.date_range("2024-01-01", periods=SLOTS, freq="h", name="time")
    write_sensors("sensors.csv", places)
    frame.to_csv("pooled.csv")
    for number, site in enumerate(SITES):
        frame.iloc[:, number :: len(SITES)].to_csv(f"{site}.csv")


def settings(engine):
    """The settings of all parties; prints a free port."""
    port = _free_port()
    for name in ("coordinator", *SITES):
        carried = _broker(name, port) if engine == "mqtt" else ""
        report = f'[report]\nlog = "{name}.log"\n'
        if name == "coordinator":
            text = (
                f'network = "demo"\nstate = "coordinator-state"\n{carried}'
                '[sites]\nroster = "keys/roster.json"\n'
                f'[grid]\nstart = "2024-01-01"\nstep = "1h"\nstop = "{_stop()}"\n'
                '[map]\nsensors = "sensors.csv"\n'
                f"[deadlines]\ngather_within = 300\nanswer_within = 120\n{report}"
            )
        else:
            text = (
                f'network = "demo"\nname = "{name}"\nstate = "{name}-state"\n'
                f'identity = "keys/{name}.identity"\nroster = "keys/roster.json"\n{carried}'
                f'[readings]\nfile = "{name}.csv"\nsensors = "sensors.csv"\n'
                f'[out]\nfile = "{name}-filled.csv"\neffort = "quick"\n{report}'
            )
        Path(f"{name}.toml").write_text(text)
    print(port)


def _stop():
    """The last slot."""
    last = datetime(2024, 1, 1) + timedelta(hours=SLOTS - 1)
    return last.isoformat(timespec="minutes")


def _free_port():
    """The first of as many free ports as there are parties, below those that clients are given."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        if not any(_taken(port + number) for number in range(len(SITES) + 1)):
            return port


def _taken(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _broker(name, port):
    return (
        f'[broker]\nhost = "localhost"\nport = {port}\nauthority = "keys/authority.pem"\n'
        f'certificate = "keys/{name}.pem"\nkey = "keys/{name}.key"\n'
    )


def wait(site, questions=8, seconds=600):
    """Until the site has answered so many questions."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for journal in Path(f"{site}-state/runs").glob("*/journal"):
            if _entries(journal) >= int(questions):
                return
        time.sleep(0.05)
    sys.exit("demo: the run did not get half-way")


def listening(port, seconds=60):
    """Until somebody listens on a port."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if _taken(int(port)):
            return
        time.sleep(0.1)
    sys.exit(f"demo: nobody listens on port {port}")


def finished(seconds=1800):
    """Until the coordinator says that the run is over, well or not."""
    from flfl.service.files import load

    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        for ended in Path("coordinator-state/runs").glob("*/ended"):
            if why := load(ended)["failed"]:
                sys.exit(f"demo: the run failed: {why}")
            return
        time.sleep(0.2)
    sys.exit("demo: the run did not end")


def _entries(path):
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as journal:
        return journal.execute("select count(*) from entry").fetchone()[0]
    return 0


def compare():
    """The owners' files against one process with all readings and all secrets."""
    import numpy as np
    from one_process import in_one_process

    from flfl.protocol.schema import network_to_arrays
    from flfl.service.files import load

    paths = [Path(f"{site}.toml") for site in SITES]
    network, _ = in_one_process(Path("coordinator.toml"), paths, Path("one-process"))
    _, public = load(Path("coordinator-state/network"))
    arrays = network_to_arrays(network).items()
    same = [all(np.array_equal(public[name], array) for name, array in arrays)]
    print(f"demo: all that became public: {_verdict(same[0])}")
    for site in SITES:
        pair = [Path(folder, f"{site}-filled.csv").read_bytes() for folder in (".", "one-process")]
        same.append(pair[0] == pair[1])
        print(f"demo: {site}-filled.csv: {_verdict(same[-1])}")
    sys.exit(0 if all(same) else 1)


def _verdict(same):
    return "equal to the result of one process" if same else "DIFFERENT from one process"


if __name__ == "__main__":
    steps = (readings, settings, listening, wait, finished, compare)
    {step.__name__: step for step in steps}[sys.argv[1]](*sys.argv[2:])
