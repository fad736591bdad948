"""A party's certificates as they are now: do they fit, when do they end.

Another process looks at them and ends: its libraries would stay with a party that waits for months.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

from flfl.config import BrokerSettings
from flfl.errors import FLFLError, InputError

_DAY = 86400.0
_WITHIN = 60.0
"""Seconds that a look may take."""


def stamps(broker: BrokerSettings) -> tuple[Any, ...]:
    """What changes when one of the files does."""
    found: list[Any] = []
    for path in (broker.authority, broker.certificate, broker.key):
        with suppress(OSError):
            if path is not None:
                about = path.stat()
                found.append((about.st_mtime_ns, about.st_ino, about.st_size, about.st_mode))
    return tuple(found)


def check(broker: BrokerSettings, name: str) -> str:
    """Refuse files that do not fit each other, this party or this day; returns a warning."""
    said = _look(broker, name)
    if said["error"] is not None:
        problem, where, remedy = said["error"]
        raise InputError(problem, where=where, remedy=remedy)
    return str(said["warning"])


def ends(broker: BrokerSettings | None, name: str) -> dict[str, str]:
    """When a party's certificate and its authority's end, as far as they can be read."""
    if broker is None or broker.certificate is None:
        return {}
    return dict(_look(broker, name)["ends"])


def _look(broker: BrokerSettings, name: str) -> Any:
    """As the files are now, and on this day."""
    given = {"name": name, "broker": broker.model_dump(mode="json")}
    return _looked(json.dumps(given, sort_keys=True), stamps(broker), int(time.time() // _DAY))


@lru_cache(maxsize=4)
def _looked(given: str, files: tuple[Any, ...], day: int) -> Any:
    command = [sys.executable, "-m", "flfl.service.keys"]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_WITHIN)
        return json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise FLFLError(f"the certificates could not be looked at: {error}") from None
