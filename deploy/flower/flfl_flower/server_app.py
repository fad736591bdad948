"""What Flower starts beside the SuperLink."""

from flfl.deployment.flower import server as app

__all__ = ["app"]
