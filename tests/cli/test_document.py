"""The page on the command line is the one that the help makes; every verb has an example."""

import subprocess
import sys
from pathlib import Path

import pytest

from flfl.cli import SUMMARIES, main
from flfl.cli.document import document, write

main.load_all()
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def commands(command, path=()):
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def test_the_page_is_up_to_date(tmp_path):
    assert PAGE.read_text(encoding="utf-8") == document(), "run `make docs`"
    write.callback(tmp_path / "cli.md")
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("name", main.commands)
def test_the_list_of_verbs_says_what_their_help_says(name):
    assert SUMMARIES[name] == main.commands[name].get_short_help_str(limit=200)


def test_the_list_of_verbs_loads_none_of_them():
    """A person waits for it, and for the completion of their names."""
    program = (
        "import sys\n"
        "from flfl.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print({'numpy', 'pandas', 'pyarrow', 'scipy', 'sklearn'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.endswith("set()\n"), done.stderr
    assert all(summary[:30] in done.stdout for summary in SUMMARIES.values())


@pytest.mark.parametrize("path", [path for path, _ in commands(main)], ids=" ".join)
def test_every_help_has_an_example(path, run):
    example = run(*path, "--help").output.partition("Example:")[2]
    assert " ".join(("flfl", *path)) in example
