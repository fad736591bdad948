"""The worked examples of the documentation, run as they are written."""

import contextlib
import doctest
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flfl.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
ELSEWHERE = {
    "docs/inputs.md": "tests/io/test_inputs_doc.py",
    "docs/own-method.md": "tests/test_own_method.py",
    "docs/cli.md": "tests/cli/test_document.py",
    "docs/deployment.md": "tests/service/test_guide.py",
    "docs/flower.md": "tests/transport/test_flower.py, which runs deploy/flower-demo.sh",
    "docs/benchmark.md": "tests/test_docs.py: minutes to hours, so only that the commands exist",
    "docs/reproduction.md": "tests/test_docs.py, likewise",
    "CONTRIBUTING.md": "tests/test_docs.py, likewise",
    **{f"docs/tutorials/{path.stem}.md": path.name for path in DOCS.glob("tutorials/*.py")},
}
"""Pages whose blocks another test runs, or the building of the site."""
WRITTEN = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "bench" / "README.md"})
RUN = re.compile(r"^ *```(console|python|sh)\b", re.MULTILINE)
PAGES = [
    page
    for page in WRITTEN
    if RUN.search(page.read_text(encoding="utf-8"))
    and page.relative_to(ROOT).as_posix() not in ELSEWHERE
]
FENCED = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


LONG = {ROOT / "README.md", *(DOCS / name for name in ("how-to/index.md", "index.md", "start.md"))}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in PAGES],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_page_does_what_it_says(page, tmp_path, monkeypatch):
    shutil.copytree(EXAMPLES / "data", tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "pm10_2008.csv", tmp_path / "readings.csv")
    shutil.copy(tmp_path / "stations.csv", tmp_path / "sensors.csv")
    monkeypatch.chdir(tmp_path)
    session, printed = {}, ""
    text = page.read_text(encoding="utf-8")
    blocks = FENCED.findall(text)
    assert len(RUN.findall(text)) == sum(
        kind in ("console", "python", "sh") for kind, _, _ in blocks
    )
    assert {kind for kind, _, _ in blocks} <= {"console", "python", "sh", "text", "toml"}
    for kind, name, body in blocks:
        if kind == "console":
            for command, said in _commands(body):
                _agree(said, _run(command), command)
        elif kind == "python":
            printed = _execute(body, session)
        elif kind == "text":
            _agree(body, printed, "what was printed")
            printed = ""
        elif kind == "sh":  # sets a machine up, as CI does, or says nothing of what it prints
            for line in body.splitlines():
                if line.startswith("flfl "):
                    _run(line)
                else:
                    assert line.split()[0] in ("make", "pip")
        elif name:
            Path(name).write_text(body, encoding="utf-8")
    assert printed == "", "the page does not tell all that was printed"


def test_no_page_with_code_is_forgotten():
    with_code = {page for page in WRITTEN if "```" in page.read_text(encoding="utf-8")}
    assert with_code - {*PAGES} == with_code & {ROOT / name for name in ELSEWHERE}


def test_every_example_is_listed():
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (EXAMPLES / "README.md").read_text())
    assert sorted([*listed, "README.md"]) == sorted(path.name for path in EXAMPLES.glob("*.md"))


def _commands(body):
    """Each command of a block with the lines that it is said to print."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, said = part.partition("\n")
        yield command, said


def _run(command):
    program, *arguments = shlex.split(command, comments=True)
    if program == "flfl":
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout
    found = shutil.which(program, path=str(Path(sys.executable).parent)) or program
    done = subprocess.run([found, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _execute(code, session):
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        try:
            exec(compile(code, "the page", "exec"), session)
        except ModuleNotFoundError as error:
            pytest.skip(f"the page needs {error.name}, which is not installed")
    return heard.getvalue()


def _agree(said, heard, what):
    assert doctest.OutputChecker().check_output(said, heard, LOOSE), f"{what}:\n{heard}"
