"""A party's link over the broker that its settings name."""

from __future__ import annotations

import logging

from flfl.errors import InputError
from flfl.service.config import BrokerSettings
from flfl.service.keys import check_certificate, check_private
from flfl.transport.mqtt.link import Broker, Certificates, Link
from flfl.transport.mqtt.packets import SMALLEST_PIECE

_LOG = logging.getLogger("flfl.broker")


def by_broker(settings: BrokerSettings | None, network: str, name: str, where: str) -> Link:
    """Connect a party to its broker; all that can be checked before is checked.

    Raises
    ------
    InputError
        For settings or files with which no connection can be made.
    """
    broker = broker_of(settings, where)
    if broker.certificates is None:
        _LOG.warning("the connection to the broker is not encrypted: plaintext = true")
    else:
        if warning := check_certificate(broker.certificates.certificate, name):
            _LOG.warning("%s", warning)
        check_private(broker.certificates.key)
    return Link(broker, network, name)


def broker_of(settings: BrokerSettings | None, where: str) -> Broker:
    """The broker; in the plain only where that was asked for."""
    if settings is None:
        raise InputError(
            "'broker' is missing",
            where=where,
            remedy="Add [broker] with host; a site under Flower needs none and is started by flwr",
        )
    files = (settings.authority, settings.certificate, settings.key)
    certificates = None
    if not settings.plaintext:
        if any(path is None for path in files):
            raise InputError(
                "TLS needs authority, certificate and key",
                where=f"{where}: [broker]",
                remedy="Make them with `flfl keys`; plaintext = true is for one machine only",
            )
        certificates = Certificates(*files)  # type: ignore[arg-type]
    _check_broker(settings, where)
    return Broker(
        settings.host,
        settings.port,
        certificates,
        settings.protocol,
        settings.keepalive,
        settings.piece,
        settings.largest,
        settings.compress,
    )


def _check_broker(settings: BrokerSettings, where: str) -> None:
    limits = {
        "port": (1, 65535),
        "protocol": (0, 5),
        "keepalive": (1, 65535),
        "piece": (SMALLEST_PIECE, 2**28),
        "largest": (SMALLEST_PIECE, 2**30),
    }
    for name, (least, most) in limits.items():
        value = getattr(settings, name)
        if not least <= value <= most or (name == "protocol" and value not in (0, 3, 5)):
            raise InputError(
                f"{name} is {value}",
                where=f"{where}: [broker]",
                remedy="Give 0, 3 or 5" if name == "protocol" else f"Give {least} to {most}",
            )
