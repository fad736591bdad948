"""A party's link over the broker that its settings name, and the status that the broker keeps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flfl.config import BrokerSettings, CoordinatorSettings, SiteSettings, read_settings, read_toml
from flfl.errors import FLFLError, InputError
from flfl.service import certificates
from flfl.service.versions import STARTED, own_version
from flfl.transport.link import COORDINATOR
from flfl.transport.mqtt import Link

_LOG = logging.getLogger("flfl.broker")
_DAY = 86400.0


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
    elif not observer and (warning := certificates.check(settings, name)):
        _LOG.warning("%s", warning)
    link = Link(settings, network, name, observer=observer)
    ends = "" if observer else certificates.ends(settings, name).get("certificate", "")
    link.say(**own_version(), since=STARTED, certificate=ends)
    if not settings.plaintext and not observer:
        link.renewed = Renewal(settings, name, link.say).look
    return link


class Renewal:
    """Looks after a party's certificate while it runs: takes a renewed one, warns before the end.

    The three files are a whole only when they fit each other; until then the old ones are used.
    """

    def __init__(self, settings: BrokerSettings, name: str, say: Callable[..., None]) -> None:
        self._settings, self._name, self._say = settings, name, say
        self._seen, self._warn_at = certificates.stamps(settings), time.monotonic() + _DAY

    def look(self) -> bool:
        """Whether there are new files that can be used."""
        files = certificates.stamps(self._settings)
        changed = files != self._seen
        if not changed and time.monotonic() < self._warn_at:
            return False
        self._seen, self._warn_at = files, time.monotonic() + _DAY
        try:
            if warning := certificates.check(self._settings, self._name):
                _LOG.warning("%s", warning)
        except FLFLError as error:
            _LOG.warning("%s The certificate of before is used on.", error)
            return False
        if changed:
            ends = certificates.ends(self._settings, self._name).get("certificate", "")
            _LOG.info("a new certificate, until %s: connecting anew with it", ends)
            self._say(certificate=ends)
        return changed


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
