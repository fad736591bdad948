"""What a party says of itself, and the refusal of a party that speaks otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from flfl.service.agreement import AgreementError
from flfl.service.diary import stamp

VERSION = version("flfl")
STARTED = os.environ.setdefault("FLFL_STARTED", stamp())
"""When this party was started; a site that replaces its process by a fresh one hands it on."""
CHECKED = "FLFL_CHECKED"
"""The variable that says that this party's settings were checked by the process before."""
WIRE = 3
"""Which messages parties exchange. Raised with every change of a message, an agreement or a release
that an older party would misread: then all parties of a network are upgraded between two runs."""


def own_version() -> dict[str, str | int]:
    """What goes with every call, every plan and every party's status."""
    return {"version": VERSION, "wire": WIRE}


def check_version(about: Mapping[str, Any]) -> None:
    """Refuse, with an :class:`AgreementError`, what a party of another protocol sends.

    Examples
    --------
    >>> check_version(own_version())
    >>> check_version({"version": "9.1", "wire": 9})
    Traceback (most recent call last):
    flfl.service.agreement.AgreementError: the coordinator runs flfl 9.1 ...
    """
    if about.get("wire") != WIRE:
        theirs = f"{about.get('version', '0.1 or older')}"[:40]
        raise AgreementError(
            f"the coordinator runs flfl {theirs} (protocol {about.get('wire', 1)}), this site"
            f" {VERSION} (protocol {WIRE}): install the same version at both"
        )
