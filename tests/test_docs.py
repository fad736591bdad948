"""The documentation names files and commands that exist."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from flfl.cli import main

ROOT = Path(__file__).parents[1]
IGNORED = {".venv", ".git", "node_modules", "flfl-demo"}
PAGES = sorted(
    page for page in ROOT.rglob("*.md") if not IGNORED & set(page.relative_to(ROOT).parts)
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|toml|css|js)")


def _named(page):
    """Paths in backticks, without those that hold a placeholder."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return sorted({name for name in CODE.findall(text) if PATH.fullmatch(name)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_resolve(page):
    links = {link for link in LINK.findall(page.read_text(encoding="utf-8")) if ":" not in link}
    assert [link for link in sorted(links) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_named_path_exists(name):
    named = _named(ROOT / name)
    assert named, "no path was found in the page"
    places = ROOT, ROOT / "src" / "flfl", ROOT / "docs"
    assert [path for path in named if not any((at / path).exists() for at in places)] == []


def test_every_source_path_in_the_documentation_exists():
    """Whole paths; the changelog may name what is gone."""
    whole = re.compile(r"`((?:src|tests|bench|deploy|docs|examples|experiments)/[\w./-]+\w)`")
    missing = {
        (page.name, path)
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for path in whole.findall(page.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    }
    assert missing == set()


def test_every_verb_in_the_readme_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    verbs = set(re.findall(r"(?:^|`)flfl ([a-z]+)", text, flags=re.M))
    assert verbs >= {"recover", "evaluate", "audit", "inspect"}
    for verb in sorted(verbs):
        assert CliRunner().invoke(main, [verb, "--help"]).exit_code == 0, verb
