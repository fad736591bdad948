"""The page on the command line is the one that the help makes; every verb has an example."""

from pathlib import Path

import pytest

from flfl.cli import main
from flfl.cli.document import document, write

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def commands(command, path=()):
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def test_the_page_is_up_to_date(tmp_path):
    assert PAGE.read_text(encoding="utf-8") == document(), "run `make docs`"
    write.callback(tmp_path / "cli.md")
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("path", [path for path, _ in commands(main)], ids=" ".join)
def test_every_help_has_an_example(path, run):
    example = run(*path, "--help").output.partition("Example:")[2]
    assert " ".join(("flfl", *path)) in example
