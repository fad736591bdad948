# %% [markdown]
# # Three owners over a broker
#
# The same run with real processes: a Mosquitto broker, a coordinator, and one process for each of three owners, with secure sums. All on this
# machine and without TLS; [Operating a network](../deployment.md) has the real setting. You need Mosquitto (`apt-get install mosquitto`).

# %%
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from flfl.datasets.synthetic import synthesize
from flfl.io.write import write_sensors

owners = ["harbour", "airport", "valley"]
table, sensors = synthesize(9, 480, missing=0.25, rng=np.random.default_rng(0))
readings = table.values.round(2)
readings.index = pd.date_range("2024-01-01", periods=480, freq="h", name="time")
write_sensors("sensors.csv", sensors)
for n, owner in enumerate(owners):
    readings.iloc[:, n::3].to_csv(f"{owner}.csv")
print(f"{readings.isna().mean().mean():.0%} of the readings are missing")

# %% [markdown]
# ## Keys
#
# Secure sums need an identity for each site, and a roster that says who takes part.


# %%
def flfl(*arguments):
    """Run the command, and show what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "flfl", *arguments], capture_output=True, text=True
    )
    print(done.stdout + done.stderr)
    return done.returncode


flfl("keys", "init", "--network", "tutorial")
for owner in owners:
    flfl("keys", "site", owner)
flfl("keys", "roster")

# %% [markdown]
# ## A broker on a free port

# %%
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
Path("mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
broker = subprocess.Popen([program, "-c", "mosquitto.conf"], stderr=subprocess.DEVNULL)

# %% [markdown]
# ## Settings
#
# The coordinator's say when and where; a site's say where its readings are, where its results go, and what its owner insists on.

# %%
connect = f'[broker]\nhost = "localhost"\nport = {port}\nplaintext = true\n'
Path("coordinator.toml").write_text(f"""\
network = "tutorial"
state = "coordinator-state"
{connect}
[sites]
roster = "keys/roster.json"
[grid]
start = "2024-01-01"
step = "1h"
stop = "2024-01-20T23:00"
[map]
sensors = "sensors.csv"
""")
for owner in owners:
    Path(f"{owner}.toml").write_text(f"""\
network = "tutorial"
name = "{owner}"
state = "{owner}-state"
identity = "keys/{owner}.identity"
roster = "keys/roster.json"
{connect}
[readings]
file = "{owner}.csv"
sensors = "sensors.csv"
[out]
file = "{owner}-filled.csv"
effort = "quick"
[terms]
added_error = 1.0
""")
print(Path("harbour.toml").read_text())

# %% [markdown]
# ## Run
#
# Each owner starts its own process; the coordinator calls them together.

# %%
command = [sys.executable, "-m", "flfl", "site", "--once"]
sites = [
    subprocess.Popen([*command, f"{owner}.toml"], stderr=subprocess.DEVNULL) for owner in owners
]
start = time.monotonic()
code = flfl("coordinator", "coordinator.toml")
print("the coordinator ended with", code, "after", round(time.monotonic() - start), "s")
print("the sites ended with", [site.wait(120) for site in sites])

# %% [markdown]
# ## What each owner has now
#
# Its own table, filled, in its own folder. Nobody else has it.

# %%
for owner in owners:
    before, after = pd.read_csv(f"{owner}.csv"), pd.read_csv(f"{owner}-filled.csv")
    gaps, left = before.isna().sum().sum(), after.isna().sum().sum()
    print(f"{owner}: {gaps} gaps before, {left} after")

# %%
broker.terminate()
print("the broker ended with", broker.wait())
