"""A site's process loads nothing that it does not need."""

import subprocess
import sys
from pathlib import Path

import pytest

from deployed import Deployment, pooled
from waiting import PATIENCE, eventually


def test_a_site_starts_without_table_readers_and_trees():
    code = (
        "import sys, flfl.service.site\n"
        "heavy = ('pandas', 'pyarrow', 'sklearn', 'scipy', 'sqlalchemy', 'bokeh',\n"
        "         'cryptography.x509', 'http.server', 'flfl.protocol.client')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_site_is_as_small_after_a_run_as_before(tmp_path):
    """The same process, by its number, with what the run loaded gone; it takes part again."""
    deployment = Deployment(tmp_path, pooled(6, 150, 3))
    config, times = tmp_path / "coordinator.toml", deployment.data[0].index
    text = config.read_text()
    command = [sys.executable, "-m", "flfl", "site"]
    sites = [
        subprocess.Popen([*command, str(tmp_path / f"{name}.toml")], stderr=subprocess.DEVNULL)
        for name in deployment.names
    ]
    try:
        for run, slots in ((1, 140), (2, 150)):
            config.write_text(text.replace(str(times[-1]), str(times[slots - 1])))
            assert deployment.start("coordinator").wait() == {"coordinator": 0}
            deployment.wait_for("site0", f"run test-{run}-")
            assert eventually(lambda: private_bytes(sites[0].pid) < 38e6)
            assert sites[0].poll() is None
    finally:
        for site in sites:
            site.terminate()
            site.wait(PATIENCE)
        deployment.close()


def private_bytes(process):
    """Memory that a process has for itself, without the libraries' files that it maps."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
