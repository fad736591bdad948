"""What Flower starts at a site for each message: it goes on from the site's own disk, and ends."""

import logging
from contextlib import closing
from pathlib import Path

from flwr.app import Message
from flwr.clientapp import ClientApp
from threadpoolctl import threadpool_limits

from flfl.config import SiteSettings, read_settings
from flfl.errors import FLFLError, InputError
from flfl.service.home import Home
from flfl.service.logs import start_logging
from flfl.service.site import SiteService
from flfl.transport.flower import ACTION, ReplyLink, seal, unseal

LOG = logging.getLogger("flfl.flower")
BUSY = 600.0
"""Seconds to wait for an earlier process of the site: one that was thought lost."""
app = ClientApp()


@app.query(ACTION)
def reply(message, context):
    """A site's reply; an empty one where it has none."""
    data = b""
    try:
        data = answer(context.node_config, unseal(message.content))
    except FLFLError as error:
        LOG.error("%s", error)
    except Exception:
        # Flower would send the text of the error to the SuperLink; it may quote a reading.
        LOG.exception("the message could not be answered")
    return Message(seal(data), reply_to=message)


def answer(node_config, request):
    """What the site signs. Which files are used, only the owner's ``--node-config`` says."""
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
        with closing(SiteService(home, link)) as service:
            service.take(link.received)
        return link.signed()
