"""The documentation names files, commands and options that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl.cli import load_verb, main
from flfl_bench.cli import main as bench

ROOT = Path(__file__).parents[1]
IGNORED = {".venv", ".git", "node_modules", "flfl-demo", "site"}
PAGES = sorted(
    page for page in ROOT.rglob("*.md") if not IGNORED & set(page.relative_to(ROOT).parts)
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|toml|css|js)")
SOURCE = re.compile(r"(?:[\w.-]+/)+[\w-]+\.(?:py|js|sh|md)|(?:src|tests|bench|deploy)/[\w./-]+")


PLACES = ROOT, ROOT / "src" / "flfl", ROOT / "bench" / "src" / "flfl_bench", ROOT / "docs"


def _missing(page, pattern):
    """Paths in backticks that are nowhere, outside of blocks of code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    named = {name for name in CODE.findall(text) if pattern.fullmatch(name)}
    return sorted(n for n in named if not any((at / n).exists() for at in (*PLACES, page.parent)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_resolve(page):
    links = {link for link in LINK.findall(page.read_text(encoding="utf-8")) if ":" not in link}
    assert [link for link in sorted(links) if not _is_there(page.parent / link)] == []


def _is_there(path):
    """A page, or what the site makes one of: the script of a tutorial, a page at the root."""
    made = path.suffix in (".md", ".ipynb") and path.with_suffix(".py").exists()
    rooted = (ROOT / f"{path.stem.upper()}.md").exists() and path.parent.resolve() == ROOT / "docs"
    return path.exists() or made or rooted or path.name in ("settings.md", "messages.md")


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_of_the_maps_exists(name):
    assert _missing(ROOT / name, PATH) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_source_file_that_is_named_exists(page):
    assert _missing(page, SOURCE) == []


def _commands(page):
    """Every command of a page: lines of its blocks that are no Python, and code in a sentence."""
    text = page.read_text(encoding="utf-8")
    lines = []
    for kind, body in re.findall(r"^ *```([^\n`]*)\n(.*?)^ *```", text, flags=re.M | re.S):
        whole = body.replace("\\\n", " ").splitlines()
        # What a command prints is none.
        typed = [line for line in whole if kind != "console" or line.lstrip().startswith("$ ")]
        lines += typed if kind in ("", "sh", "console") else []
    lines += CODE.findall(re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))
    for line in lines:
        words = line.lstrip().removeprefix("$ ").split("#")[0].split()
        while words[:1] == ["sudo"] or words[:1] == ["-u"]:
            words = words[1:] if words[0] == "sudo" else words[2:]
        if words:
            yield words


def _unknown(command, words):
    """The first word that a command of click does not know."""
    while words and isinstance(command, click.Group):
        verb, *rest = words[2:] if words[0] == "--config" else words
        if not re.fullmatch("[a-z]+", verb):
            break
        if verb not in command.commands:
            return verb
        command, words = load_verb(verb) if command is main else command.commands[verb], rest
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    known |= {"--help", "-h"}
    given = [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
    return next((option for option in given if option not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_and_option_exists(page):
    gone = "CHANGELOG.md" if page.name == "CHANGELOG.md" else None  # names what was removed
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for program, *words in () if gone else _commands(page):
        if program in ("flfl", "flfl-bench"):
            assert _unknown(main if program == "flfl" else bench, words) is None, words
        elif program == "make" and words:
            assert words[0] in targets
        elif program == "python" and words and words[0].endswith(".py"):
            assert (ROOT / words[0]).is_file(), words[0]


@pytest.mark.slow
def test_flower_has_the_options_that_its_page_names():
    pytest.importorskip("flwr")
    found = 0
    for program, *words in _commands(ROOT / "docs" / "flower.md"):
        path = shutil.which(program, path=str(Path(sys.executable).parent))
        if not program.startswith(("flwr", "flower-")) or path is None:
            continue
        verbs = [word for word in words[:2] if re.fullmatch("run|supernode|register|log", word)]
        asked = [path, *verbs, "--help"]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        for option in (word for word in words if word.startswith("--")):
            assert option in said, (program, option)
            found += 1
    assert found >= 8


def test_every_verb_in_the_readme_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    verbs = set(re.findall(r"(?:^|`)flfl ([a-z]+)", text, flags=re.M))
    assert verbs >= {"recover", "evaluate", "audit", "inspect"}
    for verb in sorted(verbs):
        assert CliRunner().invoke(main, [verb, "--help"]).exit_code == 0, verb


def test_the_coverage_that_a_page_gives_is_that_of_the_rows():
    rows = pd.read_parquet(ROOT / "docs" / "results" / "ownership.parquet")
    rows = rows[(rows["label"] == "flfl") & rows["failed"].isna()]
    means = rows.groupby(["data", "pattern"])["coverage"].mean().unstack()
    page = (ROOT / "docs" / "concepts" / "intervals.md").read_text(encoding="utf-8")
    for data, found in means[["random", "block", "outage"]].iterrows():
        cells = ["" if pd.isna(share) else f"{share:.2f}" for share in found]
        assert f"| `{data}` | {' | '.join(cells)} |" in page
    assert f"{len(rows)} rows of version {', '.join(rows['flfl'].unique())}" in page
