"""A site's process, as ``flfl site`` starts it: ``python -m flfl.service.run_site CONFIG``."""

from __future__ import annotations

import ctypes
import signal
import sys
from contextlib import suppress
from pathlib import Path

from flfl.errors import FLFLError, InputError
from flfl.service.site import SiteService

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Numbers of glibc's ``mallopt``."""


def _give_back() -> None:
    """Let large arrays go back to the system when they are freed, not stay for the next ones."""
    with suppress(OSError, AttributeError, ValueError):
        tune = ctypes.CDLL(None).mallopt
        tune(_MMAP_THRESHOLD, 2**17)
        tune(_ARENA_MAX, 1)


def main(arguments: list[str]) -> int:
    """``CONFIG [--once]``."""
    _give_back()
    try:
        service = SiteService(Path(arguments[0]))
        signal.signal(signal.SIGTERM, service.stop)
        signal.signal(signal.SIGINT, service.stop)
        service.serve("--once" in arguments)
    except InputError as error:
        sys.stderr.write(f"flfl: {error}\n")
        return 2
    except (FLFLError, OSError) as error:
        sys.stderr.write(f"flfl: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
