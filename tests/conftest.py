"""Settings for every test."""

import os

from hypothesis import settings

# Tiny tables: compiling JAX's programs well takes far longer than running them badly.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

settings.register_profile("flfl", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("flfl")
