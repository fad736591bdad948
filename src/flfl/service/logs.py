"""What a service logs: JSON lines without readings."""

from __future__ import annotations

import json
import logging
import sys
import time
from logging.handlers import RotatingFileHandler, WatchedFileHandler
from pathlib import Path

from flfl.config import ReportSettings
from flfl.errors import explained


class _Lines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = party

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, party, what happened."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "party": self._party,
            "part": record.name.removeprefix("flfl."),
            "says": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line | getattr(record, "facts", {}), ensure_ascii=False)


def _file(path: Path, size: int, files: int) -> logging.Handler:
    """A log that ends with a size, and a few older ones; or one that others may move away."""
    if size:
        return RotatingFileHandler(path, maxBytes=size, backupCount=files, encoding="utf-8")
    return WatchedFileHandler(path, encoding="utf-8")


def start_logging(settings: ReportSettings, party: str) -> None:
    """Send the services' logs where the settings say."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if settings.log is not None:
        remedy = "Choose another file for the log"
        with explained("the log cannot be written", where=str(settings.log), remedy=remedy):
            handler = _file(settings.log, settings.log_size, settings.log_files)
    handler.setFormatter(_Lines(party))
    root = logging.getLogger("flfl")
    for earlier in root.handlers:
        earlier.close()
    root.handlers, root.propagate = [handler], False
    root.setLevel(settings.level.upper())
