"""A fixture for services that are made in the tests' own process."""

import logging

import pytest


@pytest.fixture
def own_log(monkeypatch):
    """A service takes the package's log for itself; other tests want it back."""
    log = logging.getLogger("flfl")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(log, name, getattr(log, name))
    yield
    for handler in log.handlers:
        handler.close()
