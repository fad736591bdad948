"""A party's link over the broker that its settings name, and the status that the broker keeps."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from flfl.config import BrokerSettings, CoordinatorSettings, SiteSettings, read_settings, read_toml
from flfl.errors import FLFLError, InputError
from flfl.service.history import stamp
from flfl.service.keys import check_keys
from flfl.service.status import certificate_ends
from flfl.service.versions import spoken
from flfl.transport.link import COORDINATOR
from flfl.transport.mqtt import Link

_LOG = logging.getLogger("flfl.broker")


def connect(
    settings: BrokerSettings | None, network: str, name: str, *, observer: bool = False
) -> Link:
    """Connect a party to its broker; all that can be checked before is checked."""
    if settings is None:
        raise InputError(
            "this setting is missing",
            where="broker",
            remedy="Add [broker] with host; a site under Flower needs none and is started by flwr",
        )
    if settings.plaintext:
        _LOG.warning("the connection to the broker is not encrypted: plaintext = true")
    elif not observer and (warning := check_keys(settings, name)):
        _LOG.warning("%s", warning)
    link = Link(settings, network, name, observer=observer)
    ends = certificate_ends(settings).get("certificate", "")
    link.say(**spoken(), since=stamp(), certificate=ends)
    return link


def network_status(path: Path, within: float) -> dict[str, Any]:
    """The coordinator's last status; ``path`` is any party's settings."""
    settings: SiteSettings | CoordinatorSettings
    if "readings" in read_toml(path):
        settings = read_settings(SiteSettings, path)
        name = settings.name
    else:
        settings, name = read_settings(CoordinatorSettings, path), COORDINATOR
    link = connect(settings.broker, settings.network, name, observer=True)
    until = time.monotonic() + within
    try:
        if not link.wait(within):
            raise FLFLError(f"the broker cannot be reached: {link.problem or 'no answer'}")
        while (left := until - time.monotonic()) > 0:
            if (received := link.next(left)) is not None and received.branch == "status":
                return dict(received.status)
        raise FLFLError("the coordinator of this network was never here")
    finally:
        link.close()
