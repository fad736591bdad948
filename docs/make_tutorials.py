"""Run every tutorial, and make a notebook and a page of each: ``python docs/make_tutorials.py``.

Their sources are scripts in the percent format; what is made is not kept in the repository. A cell
with the tag ``aside`` is folded away in the page; ``alt`` says in words what a cell draws.
"""

import base64
import os
import sys
import tempfile
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode

os.environ["TQDM_DISABLE"] = "1"  # pages need no progress
FOLDER = Path(__file__).with_name("tutorials")


def make(source: Path) -> None:
    """Run one tutorial in a folder of its own; an error in a cell ends this."""
    notebook = jupytext.read(source)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.source = cell.source.removesuffix("  # noqa: B018")
    jupytext.write(notebook, source.with_suffix(".ipynb"))
    parts = [part for cell in notebook.cells for part in page_of(cell, source.stem)]
    title, _, rest = parts[0].partition("\n")
    note = f"[The notebook]({source.stem}.ipynb) of this page, to run and change."
    text = "\n\n".join([title, note, rest.strip(), *parts[1:]])
    source.with_suffix(".md").write_text(text + "\n", encoding="utf-8")


def page_of(cell: NotebookNode, name: str) -> list[str]:
    """A cell as Markdown."""
    if cell.cell_type == "markdown":
        return [cell.source]
    code = f"```python\n{cell.source}\n```"
    if "aside" in cell.metadata.get("tags", ()):
        code = f"<details markdown><summary>The code</summary>\n\n{code}\n\n</details>"
    printed = "".join(one.text for one in cell.outputs if one.output_type == "stream").strip("\n")
    shown = [one.data for one in cell.outputs if "data" in one]
    return [
        code,
        *([framed(printed)] if printed else []),
        *(show(one, name, cell.metadata.get("alt")) for one in shown),
    ]


def show(data: NotebookNode, name: str, alt: str | None) -> str:
    """What a cell shows: a picture, HTML or text."""
    if "image/png" in data:
        if not alt:
            raise ValueError(f"{name}: a cell draws, and no alt says what")
        folder = FOLDER / f"{name}_files"
        folder.mkdir(exist_ok=True)
        number = len(list(folder.iterdir()))
        (folder / f"{number}.png").write_bytes(base64.b64decode(data["image/png"]))
        return f"![{alt}]({folder.name}/{number}.png)"
    if "text/html" in data:
        return '<div class="shown">' + data["text/html"].replace("\n", " ") + "</div>"
    return framed(data["text/plain"])


def framed(text: str) -> str:
    """What a cell printed."""
    return f'<div class="printed" markdown>\n\n```text\n{text}\n```\n\n</div>'


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.py")):
        if len(sys.argv) < 2 or path.stem in sys.argv[1:]:
            for old in FOLDER.glob(f"{path.stem}_files/*"):
                old.unlink()
            make(path)
            print(path.stem)
