"""Make ``docs/cli.md`` from the help of every verb: ``python docs/make_cli_page.py``."""

from collections.abc import Iterator
from pathlib import Path

import click

from flfl.cli import load_verb, main

PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# The command line

Made by `make docs` from the help of each verb; a test holds the two equal.

Exit codes: 0 done, 1 failed, 2 bad input. With `--json` stdout holds one JSON document; notes and
progress go to stderr, and progress is silent when that is no terminal.

## Settings in a file

`flfl.toml` in the working directory, or the file that `flfl --config FILE VERB ...` names, holds
options under their long names. Those above the first table hold for every verb that has them,
those in a verb's table for that verb; the command line comes before both. Names of files are meant
from the working directory, as on the command line.

```toml
seed = 1

[recover]
sensors = "sensors.csv"
max-gap = "6h"
bounds = [0, 500]

[data.synth]
slots = 240
```
"""


def sections(command: click.Command, name: str, above: click.Context | None) -> Iterator[str]:
    """The help of a verb and of those below it."""
    with click.Context(command, above, name, terminal_width=88, **command.context_settings) as ctx:
        yield f"## {ctx.command_path}\n\n```\n{command.get_help(ctx)}\n```\n"
        for below in getattr(command, "commands", {}):
            verb = load_verb(below) if command is main else command.commands[below]
            yield from sections(verb, below, ctx)


def document() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *sections(main, "flfl", None)])


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
