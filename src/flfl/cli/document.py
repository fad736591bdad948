"""``docs/cli.md`` from the help of every verb: ``python -m flfl.cli.document FILE``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from flfl.cli import main
from flfl.io.atomic import write_files

WIDTH = 88
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


def document() -> str:
    """The page."""
    main.load_all()
    return "\n".join([INTRODUCTION, *_sections(main, "flfl", None)])


def _sections(command: click.Command, name: str, above: click.Context | None) -> Iterator[str]:
    settings = command.context_settings
    with click.Context(command, above, name, terminal_width=WIDTH, **settings) as ctx:
        yield f"## {ctx.command_path}\n\n```\n{command.get_help(ctx)}\n```\n"
        if isinstance(command, click.Group):
            for below, verb in command.commands.items():
                yield from _sections(verb, below, ctx)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def write(file: Path) -> None:
    """Write the page to FILE."""
    content = document().encode()

    def fill(opened: BinaryIO) -> None:
        opened.write(content)

    write_files({file: fill})


if __name__ == "__main__":
    write()
