"""The documentation names files and commands that exist."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from flfl.cli import main

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


def test_every_verb_in_the_readme_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    verbs = set(re.findall(r"(?:^|`)flfl ([a-z]+)", text, flags=re.M))
    assert verbs >= {"recover", "evaluate", "audit", "inspect"}
    for verb in sorted(verbs):
        assert CliRunner().invoke(main, [verb, "--help"]).exit_code == 0, verb
