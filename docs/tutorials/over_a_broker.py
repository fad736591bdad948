# %% [markdown]
# # Three owners over a broker
#
# You will run a real network on your own machine: a broker, a coordinator, and one process for each of three owners, with secure sums. You need Mosquitto
# (`apt-get install mosquitto`). It runs without TLS here; [Operating a network](../deployment.md) has the real setting.
#
# Three owners have three sensors each. A quarter of their readings is missing.

# %%
import json
import shutil
import socket
import subprocess
import sys
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

# %% [markdown]
# ## Keys
#
# Secure sums need an identity for each site, and a roster that says who takes part. On one machine we make all of them; in a real network each owner makes its own at home.


# %%
def flfl(*arguments, check=True):
    """Run the command; what it prints."""
    command = [sys.executable, "-m", "flfl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check)


flfl("keys", "init", "--network", "tutorial")
for owner in owners:
    flfl("keys", "site", owner)
print(flfl("keys", "roster").stdout)

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
# The coordinator's settings say which times, who takes part and where things are on the map:

# %%
connect = f'[broker]\nhost = "localhost"\nport = {port}\nplaintext = true\n'
_ = Path("coordinator.toml").write_text(f"""\
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
# %% [markdown]
# A site's settings say where its readings are, where its results go, and what its owner insists on. Here is the harbour's:

# %%
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
scores = "{owner}-scores.json"
effort = "quick"

[terms]
added_error = 1.0
""")
print(Path("harbour.toml").read_text())

# %% [markdown]
# Are they right? Each site can check before it joins anything:

# %%
checked = flfl("site", "harbour.toml", "--check", check=False)
print(checked.stdout.replace(f"{Path.cwd()}/", ""))

# %% [markdown]
# One line says NO, and rightly so: our broker lets anybody write anything. For this hour on one machine that is fine; a real broker gets `deploy/acl`.

# %% [markdown]
# ## Run
#
# Each owner starts its own process. The coordinator calls them together, and ends when the run is done.

# %%
command = [sys.executable, "-m", "flfl", "site", "--once"]
sites = [
    subprocess.Popen([*command, f"{owner}.toml"], stderr=subprocess.DEVNULL) for owner in owners
]
log = flfl("coordinator", "coordinator.toml").stderr
print("\n".join(json.loads(line)["says"] for line in log.splitlines()))
print("exit codes of the sites:", [site.wait(120) for site in sites])

# %% [markdown]
# ## What each owner has now
#
# Its own table, filled, in its own folder, and the scores of what the network brought it. Nobody else has them.

# %%
for owner in owners:
    before, after = pd.read_csv(f"{owner}.csv"), pd.read_csv(f"{owner}-filled.csv")
    gaps, left = before.isna().sum().sum(), after.isna().sum().sum()
    score = json.loads(Path(f"{owner}-scores.json").read_text())["self_test"]
    alone, together = score["site"]["mae"], score["flfl"]["mae"]
    print(
        f"{owner}: {gaps} gaps before, {left} after; error alone {alone:.2f}, together {together:.2f}"
    )

# %%
broker.terminate()
_ = broker.wait()

# %% [markdown]
# **Next.** [Operating a network](../deployment.md) does the same with TLS, every night, for years.
