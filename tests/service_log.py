"""A fixture for services that are made in the tests' own process."""

import logging
from contextlib import contextmanager

import pytest


@contextmanager
def log_given_back():
    """A service takes the package's log for itself; other tests want it back."""
    log = logging.getLogger("flfl")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("handlers", "propagate", "level"):
            patch.setattr(log, name, getattr(log, name))
        yield
        for handler in log.handlers:
            handler.close()


@pytest.fixture
def own_log():
    with log_given_back():
        yield
