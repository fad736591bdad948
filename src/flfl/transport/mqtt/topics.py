"""The topic tree: who writes where.

::

    flfl/NETWORK/to/SITE       coordinator to one site
    flfl/NETWORK/from/SITE     one site to the coordinator
    flfl/NETWORK/status/SITE   whether the site is here (retained; its last will says no)
    flfl/NETWORK/all/...       coordinator to everyone (retained): status, plan, shared question

A broker that lets a site write to its own ``from`` and ``status`` and read its own ``to`` and
``all`` keeps every owner out of the others' affairs; ``deploy/acl`` is such a list.
"""

from __future__ import annotations

from urllib.parse import quote, unquote


class Topics:
    """Topics of one network.

    Examples
    --------
    >>> topics = Topics("north")
    >>> topics.from_site("a/b"), topics.parse("flfl/north/from/a%2Fb")
    ('flfl/north/from/a%2Fb', ('from', 'a/b'))
    """

    def __init__(self, network: str) -> None:
        self.root = f"flfl/{quote(network, safe='')}"

    def to_site(self, site: str) -> str:
        """Coordinator to one site."""
        return f"{self.root}/to/{quote(site, safe='')}"

    def from_site(self, site: str) -> str:
        """One site to the coordinator."""
        return f"{self.root}/from/{quote(site, safe='')}"

    def status(self, site: str) -> str:
        """Whether a site is here."""
        return f"{self.root}/status/{quote(site, safe='')}"

    def everyone(self, what: str) -> str:
        """Coordinator to all."""
        return f"{self.root}/all/{what}"

    def heard_by_site(self, site: str) -> list[str]:
        """What a site subscribes to."""
        return [self.to_site(site), f"{self.root}/all/#"]

    def heard_by_coordinator(self) -> list[str]:
        """What the coordinator subscribes to."""
        return [f"{self.root}/from/+", f"{self.root}/status/+", self.everyone("status")]

    def parse(self, topic: str) -> tuple[str, str]:
        """The branch of a topic and the name after it (without the number of a piece)."""
        parts = topic.removeprefix(self.root + "/").split("/")
        return parts[0], unquote(parts[1]) if len(parts) > 1 else ""
