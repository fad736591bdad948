"""What Flower starts at a site for each message: it goes on from the site's own disk, and ends."""

from contextlib import closing
from pathlib import Path

from threadpoolctl import threadpool_limits

from flfl.config import SiteSettings, read_settings
from flfl.errors import InputError
from flfl.service.home import Home
from flfl.service.logs import start_logging
from flfl.service.site import SiteService, Tables, read_here, write_here
from flfl.transport.flower import ReplyLink, client_app

BUSY = 600.0
"""Seconds to wait for an earlier process of the site: one that was thought lost."""


def answer(node_config, request):
    """A site's signed reply. Which files are used, only the owner's ``--node-config`` says."""
    if "site" not in node_config:
        raise InputError(
            "the SuperNode does not know its site",
            where="--node-config",
            remedy="Start it with --node-config 'site=\"/path/of/site.toml\"'",
        )
    path = Path(str(node_config["site"])).expanduser()
    settings = read_settings(SiteSettings, path)
    start_logging(settings.report, settings.name)
    with threadpool_limits(limits=1), closing(Home.open(settings, str(path), BUSY)) as home:
        if home.identity is None:
            raise InputError(
                "under Flower a site is known by its identity",
                where=str(path),
                remedy="Make one with `flfl keys site`, and give identity and roster",
            )
        link = ReplyLink(request, settings.network, settings.name, home.identity)
        with closing(SiteService(home, link, Tables(read_here, write_here))) as service:
            service.take(link.heard)
        return link.signed()


app = client_app(answer)
