"""The command line: one file a verb. Each parses, calls and prints, nothing more."""

from __future__ import annotations

import re
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from flfl.errors import FLFLError, InputError

FAILED, BAD_INPUT = 1, 2
CONFIG = "flfl.toml"
SUMMARIES = {
    "demo": "Recover real air-quality readings: rural PM10 in Germany, 2005-2009.",
    "inspect": "Say what is understood of READINGS, and what `recover` would do.",
    "recover": "Fill the gaps of READINGS.",
    "evaluate": "Hide known entries of READINGS and score methods on them.",
    "audit": "Run every attack on a configuration, on READINGS (default: the bundled data).",
    "methods": "List the methods.",
    "data": "Data sets: list them, or make one up.",
    "coordinator": "Call the sites together and carry the run that CONFIG describes.",
    "site": "Take part in the network's runs with the readings that CONFIG names.",
    "status": "Ask the broker what the coordinator last said.",
    "keys": "Make the certificates, identities and the roster of a network.",
}
"""The first sentence of each verb's help, for the list of verbs."""


class FriendlyGroup(click.Group):
    """Turns exceptions into one line for a person: exit 2 for bad input, 1 for a failure."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            # click leaves quietly when a reader such as `head` has had enough.
            raise
        except Exception as error:
            problem, code = str(error), FAILED
            # The second is scikit-learn's; its class is not public.
            if isinstance(error, InputError) or type(error).__name__ == "InvalidParameterError":
                code = BAD_INPUT
            elif not isinstance(error, FLFLError):
                if ctx.params.get("debug"):
                    traceback.print_exc()
                problem = f"unexpected {type(error).__name__}: {error}"
                problem += " (`flfl --debug ...` shows where)"
            click.echo(f"flfl: {as_options(problem)}", err=True)
            raise click.exceptions.Exit(code) from None


_ARGUMENT = re.compile(
    r"\b(method|duplicates|layout|decimal|parameter|date_order|suspicious|extrapolate|encoding|sheet|step"
    r"|format|censored|time_unit|aggregate|missing)="
    r"|^(sites|rate)(?=: )"
    r"|((?<=\bwith )|(?<=\bLeave ))parameter\b|(?<=\bGive )(sites|sheet|step)\b"
    r"|(?<=\bLeave )format\b|\bbad_flags\b"
    r"|\b(\w+_column|complete_grid|block_length|added_error|max_gap|min_readings|time_zone"
    r"|date_order)(?!\.?\w)"
)


def as_options(text: str) -> str:
    """Python arguments that a message names, as they are spelled on the command line.

    Examples
    --------
    >>> as_options("choose duplicates=mean, or give time_column.")
    'choose --duplicates mean, or give --time-column.'
    """
    spelled = _ARGUMENT.sub(lambda match: "--" + match[0].replace("_", "-"), text)
    return re.sub(r"(--[a-z-]+)=", r"\1 ", spelled).replace("--bad-flags", "--bad-flag")


class _Verbs(FriendlyGroup):
    """Verbs that are loaded when they are run: their imports take seconds, the list of them none.

    Each is in the module ``flfl.cli.VERB`` under its own name.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Load the verb that is to be run, completed or explained."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_verb(name), rest


def load_verb(name: str) -> click.Command:
    """The verb with its options."""
    command: click.Command = getattr(import_module(f"flfl.cli.{name}"), name)
    return command


@click.group(
    cls=_Verbs,
    commands=[click.Command(name, help=summary) for name, summary in SUMMARIES.items()],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="flfl")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
@click.option("--quiet", is_flag=True, help="Show no progress in a terminal.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help=f"File with settings for the verbs.  [default: {CONFIG}, where there is one]",
)
@click.pass_context
def main(ctx: click.Context, debug: bool, quiet: bool, config_path: Path | None) -> None:
    """Fill the gaps in the readings of a sensor network whose owners will not pool their data.

    \b
    Example:
      flfl demo
      flfl inspect readings.csv
      flfl recover readings.csv --sensors sensors.csv --out filled.csv
      flfl --config network.toml recover readings.csv --out filled.csv
    """
    path = config_path or Path(CONFIG)
    if config_path is not None or path.is_file():
        from flfl.cli.options import read_config  # loads every verb, for their options

        click.echo(f"Settings: {path}", err=True)
        ctx.default_map = read_config(path)
