"""Settings for every test."""

from hypothesis import settings

settings.register_profile("flfl", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("flfl")
