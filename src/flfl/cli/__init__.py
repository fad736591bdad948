"""The command line: one file a verb. Each parses, calls and prints, nothing more."""

from __future__ import annotations

import click

from flfl.cli.audit import audit
from flfl.cli.coordinator import coordinator
from flfl.cli.data import data
from flfl.cli.demo import demo
from flfl.cli.evaluate import evaluate
from flfl.cli.keys import keys
from flfl.cli.methods import methods
from flfl.cli.recover import recover
from flfl.cli.say import FriendlyGroup
from flfl.cli.site import site
from flfl.cli.status import status


@click.group(cls=FriendlyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flfl")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def main(debug: bool) -> None:
    """Fill the gaps in the readings of a sensor network whose owners will not pool their data.

    \b
    Try:
      flfl demo
      flfl recover readings.csv --sensors sensors.csv --out filled.csv
    """


for verb in (demo, recover, evaluate, audit, methods, data):
    main.add_command(verb)
for service in (coordinator, site, status, keys):
    main.add_command(service)
