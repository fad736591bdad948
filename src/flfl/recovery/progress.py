"""How far a run is, in a notebook or a terminal: one line of tqdm, for Python and every verb."""

from __future__ import annotations

import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Tell = Callable[..., None]
"""``tell(words, done, total)``: what is being done, and how much of it is over."""
# Seconds before a run says anything, and between two changes of what it says.
_QUIET, _PAUSE = 2.0, 0.2
_FORMAT = "{elapsed}  {desc}"
_WITH_BAR = "{elapsed}  {bar:20} {desc}"


@contextmanager
def shown(verbose: int = 1) -> Iterator[Tell]:
    """What a run tells where it is. It is drawn in notebooks and on terminals, never into a file,
    and nowhere with ``verbose`` 0. The line goes away when the run ends.

    A thread draws it, so that the seconds go on while a file is read.
    """
    if not verbose or not (sys.stderr.isatty() or _in_notebook()):
        yield lambda words, done=0, total=0: None
        return
    with warnings.catch_warnings():
        # Of a notebook without widgets, where the line is text.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
        from tqdm.std import tqdm as plain

        # Text in a notebook would be added to what is there, line by line.
        file = _Cell() if tqdm.mro()[1] is plain and not sys.stderr.isatty() else sys.stderr
        line = tqdm(file=file, leave=False, delay=_QUIET, bar_format=_FORMAT)
    if sys.stderr.isatty():
        # Some terminals do not tell their size.
        line.ncols, line.nrows = shutil.get_terminal_size()

    def tell(words: str, done: int = 0, total: int = 0) -> None:
        line.bar_format = _WITH_BAR if total else _FORMAT
        line.n, line.total = done, total or None
        line.set_description_str(words, refresh=False)

    over = threading.Event()
    drawing = threading.Thread(target=_draw, args=(line, over), daemon=True)
    drawing.start()
    try:
        yield tell
    finally:
        over.set()
        drawing.join()
        line.close()


class _Cell:
    """A line of text below a notebook's cell, which each new one replaces."""

    def __init__(self) -> None:
        self.handle: Any = None

    def write(self, text: str) -> None:
        """Show it, without what moves a terminal's cursor."""
        from IPython import display

        new: Any = display.DisplayHandle
        said = {"text/plain": text.strip("\r\n\x1b[A ")}
        if self.handle is None:
            self.handle = new()
            self.handle.display(said, raw=True)
        else:
            self.handle.update(said, raw=True)

    def flush(self) -> None:
        """It is shown at once."""


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def rounds(tell: Tell) -> Callable[[int, int], None]:
    """For the ``progress`` of a method."""
    return lambda done, total: tell(f"round {done} of at most {total}", done, total)


def _draw(line: Any, over: threading.Event) -> None:
    pause = _QUIET
    while not over.wait(pause):
        pause = _PAUSE
        line.refresh()
    if pause == _PAUSE:
        line.clear()
