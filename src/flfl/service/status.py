"""``flfl status``: what the coordinator last said, kept by the broker."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

from flfl.errors import FLFLError
from flfl.service.broker import broker_of
from flfl.service.config import CoordinatorConfig, SiteConfig, read_config
from flfl.transport.link import COORDINATOR
from flfl.transport.mqtt.link import Link


def network_status(path: Path, within: float) -> dict[str, Any]:
    """The coordinator's last status; ``path`` is any party's settings.

    Raises
    ------
    FLFLError
        When the broker cannot be reached, or nothing was ever said.
    """
    config = _settings(path)
    name = config.name if isinstance(config, SiteConfig) else COORDINATOR
    link = Link(broker_of(config.broker, str(path)), config.network, name, observer=True)
    until = time.monotonic() + within
    try:
        if not link.wait(within):
            raise FLFLError(f"the broker cannot be reached: {link.problem or 'no answer'}")
        while (left := until - time.monotonic()) > 0:
            heard = link.next(left)
            if heard is not None and heard.branch == "status":
                return dict(heard.status)
        raise FLFLError("the coordinator of this network was never here")
    finally:
        link.close()


def _settings(path: Path) -> SiteConfig | CoordinatorConfig:
    try:
        is_site = "readings" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        is_site = False
    return read_config(path, SiteConfig) if is_site else read_config(path, CoordinatorConfig)
