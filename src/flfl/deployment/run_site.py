"""A site's process, as ``flfl site`` starts it: ``python -m flfl.deployment.run_site CONFIG``."""

from __future__ import annotations

import ctypes
import signal
import sys
from contextlib import suppress
from pathlib import Path

from flfl.deployment.hold import HeldError
from flfl.deployment.resident import DOOR, HELD
from flfl.deployment.seat import serve_door
from flfl.deployment.site import SiteService
from flfl.errors import FLFLError, InputError

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Numbers of glibc's ``mallopt``."""
_IDLE_SECONDS = 600.0
"""After which a site that Flower's letters started ends; the next one starts it again."""


def _give_back() -> None:
    """Let large arrays go back to the system when they are freed, not stay for the next ones."""
    with suppress(OSError, AttributeError, ValueError):
        tune = ctypes.CDLL(None).mallopt
        tune(_MMAP_THRESHOLD, 2**17)
        tune(_ARENA_MAX, 1)


def main(arguments: list[str]) -> int:
    """``CONFIG [--once | --resident]``."""
    _give_back()
    try:
        service, once = SiteService(Path(arguments[0])), "--once" in arguments
        signal.signal(signal.SIGTERM, service.stop)
        signal.signal(signal.SIGINT, service.stop)
        if "--resident" in arguments:
            serve_door(service, service.config.state / DOOR, once=True, idle=_IDLE_SECONDS)
        elif service.config.flower is not None:
            serve_door(service, service.config.flower.socket, once)
        else:
            service.serve(once)
    except InputError as error:
        sys.stderr.write(f"flfl: {error}\n")
        return HELD if isinstance(error, HeldError) and "--resident" in arguments else 2
    except (FLFLError, OSError) as error:
        sys.stderr.write(f"flfl: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
