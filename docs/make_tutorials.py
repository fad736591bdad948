"""Run every tutorial, and make a notebook and a page of each: ``python docs/make_tutorials.py``.

Their sources are scripts in the percent format; what is made is not kept in the repository.
"""

import os
import sys
import tempfile
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

os.environ["TQDM_DISABLE"] = "1"  # pages need no progress
FOLDER = Path(__file__).with_name("tutorials")


def make(source: Path) -> None:
    """Run one tutorial in a folder of its own; an error in a cell ends this."""
    notebook = jupytext.read(source)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    jupytext.write(notebook, source.with_suffix(".ipynb"))
    exporter = MarkdownExporter(exclude_input_prompt=True, exclude_output_prompt=True)
    resources = {"output_files_dir": f"{source.stem}_files"}
    text, made = exporter.from_notebook_node(notebook, resources)
    for name, data in made["outputs"].items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    title, _, rest = text.lstrip().partition("\n")
    note = f"[The notebook]({source.stem}.ipynb) of this page, to run and change.\n"
    source.with_suffix(".md").write_text(f"{title}\n\n{note}{rest}", encoding="utf-8")


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.py")):
        if len(sys.argv) < 2 or path.stem in sys.argv[1:]:
            make(path)
            print(path.stem)
