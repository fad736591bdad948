"""How far a run is, in a notebook or a terminal: one bar of tqdm, where that is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]


@contextmanager
def bar(given: Progress | None, verbose: int) -> Iterator[Progress | None]:
    """What a run tells its rounds to: the caller's own, or a bar; None where nobody looks.

    A bar is drawn in notebooks and on terminals only, never into a file.
    """
    looked_at = sys.stderr.isatty() or "ipykernel" in sys.modules
    if given is not None or not verbose or not looked_at:
        yield given
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc="rounds", leave=False, file=sys.stderr) as drawn:

        def tell(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield tell
