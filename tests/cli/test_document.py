"""The page on the command line is the one that the help makes; every verb has an example."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from flfl.cli import SUMMARIES, load_verb

DOCS = Path(__file__).parents[2] / "docs"


def commands():
    yield ()
    for name in SUMMARIES:
        yield (name,)
        for below in getattr(load_verb(name), "commands", {}):
            yield name, below


def test_the_page_is_up_to_date():
    made = runpy.run_path(str(DOCS / "make_cli_page.py"))["document"]()
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == made, "run `make docs`"


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_of_verbs_says_what_their_help_says(name):
    assert SUMMARIES[name] == load_verb(name).get_short_help_str(limit=200)


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


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_help_has_an_example(path, run):
    example = run(*path, "--help").output.partition("Example:")[2]
    assert " ".join(("flfl", *path)) in example
