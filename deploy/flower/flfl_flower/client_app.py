"""What Flower starts at a site."""

from flfl.deployment.flower import client as app

__all__ = ["app"]
