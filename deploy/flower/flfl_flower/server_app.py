"""What Flower starts beside the SuperLink: it carries one run, from the coordinator's settings."""

from contextlib import closing
from pathlib import Path

from flwr.serverapp import ServerApp

from flfl.errors import FLFLError, InputError
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.transport.flower import GridLink

BUSY = 600.0
"""Seconds to wait for an earlier process of the coordinator: one that was thought lost."""
app = ServerApp()


@app.main()
def main(grid, context):
    """Carry one run; an error makes Flower show the reason."""
    given = str(context.run_config.get("coordinator", ""))
    if not given:
        raise InputError(
            "the run does not know its coordinator",
            where="--run-config",
            remedy="Start it with --run-config 'coordinator=\"/path/of/coordinator.toml\"'",
        )
    with closing(Setup.open(Path(given).expanduser(), BUSY)) as setup:
        if setup.settings.run.schedule:
            raise InputError(
                "a Flower run is one run",
                where=f"{given}: run.schedule",
                remedy="Leave it out, and start `flwr run` as often as you like",
            )
        with closing(GridLink(grid, setup.settings.network, setup.roster)) as link:
            service = CoordinatorService(setup, link)
            if service.serve():
                problem = service.problem or "the run did not finish; start it again to go on"
                raise FLFLError(problem)
