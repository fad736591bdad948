"""What Flower starts beside the SuperLink."""

from flfl.service.flower import server as app

__all__ = ["app"]
