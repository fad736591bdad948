"""What Flower starts at a site."""

from flfl.service.flower import client as app

__all__ = ["app"]
