"""Peak memory of a stretch of code, sampled from outside it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_PAGES = Path("/proc/self/statm")


class PeakMemory:
    """Context manager: the most memory the process held *above* its start, in MB.

    Sampled every 5 ms; None where the system does not tell (no ``/proc``).
    """

    def __init__(self) -> None:
        self.peak_mb: float | None = None
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        if _PAGES.exists():
            self._start = self._now()
            self._most = self._start
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _PAGES.exists():
            self._stop.set()
            self._thread.join()
            self.peak_mb = max(self._most, self._now()) - self._start

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self._most = max(self._most, self._now())

    @staticmethod
    def _now() -> float:
        return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
