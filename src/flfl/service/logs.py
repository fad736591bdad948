"""What a service tells: JSON lines without readings, and figures for Prometheus."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from flfl.errors import InputError, explained
from flfl.io.files import write_files
from flfl.service.config import ReportSettings

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

_LOG = logging.getLogger("flfl.metrics")
_METRICS_SECONDS = 5.0
_LEVELS = ("debug", "info", "warning", "error")


class _Lines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = party

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, party, what happened."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = {
            "time": stamp,
            "level": record.levelname.lower(),
            "party": self._party,
            "part": record.name.removeprefix("flfl."),
            "says": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line | getattr(record, "facts", {}), ensure_ascii=False)


def start_logging(settings: ReportSettings, party: str) -> logging.Logger:
    """Send the services' logs where the settings say."""
    if settings.level not in _LEVELS:
        raise InputError(
            f"{settings.level!r} is no level", where="report.level",
            remedy=f"Choose one of {', '.join(_LEVELS)}",
        )  # fmt: skip
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if settings.log is not None:
        remedy = "Choose another file for the log"
        with explained("the log cannot be written", where=str(settings.log), remedy=remedy):
            handler = logging.FileHandler(settings.log, encoding="utf-8")
    handler.setFormatter(_Lines(party))
    root = logging.getLogger("flfl")
    root.handlers, root.propagate = [handler], False
    root.setLevel(settings.level.upper())
    return root


def metrics_text(figures: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """Figures in Prometheus' text form.

    Examples
    --------
    >>> print(metrics_text({"flfl_questions_total": 3}, {"party": "north"}), end="")
    # TYPE flfl_questions_total counter
    flfl_questions_total{party="north"} 3
    """
    named = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    lines = []
    for name, value in figures.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name} {kind}", f"{name}{{{named}}} {value:g}"]
    return "\n".join(lines) + "\n"


class Metrics:
    """Figures on request: a file that is rewritten, a loopback port, or nothing at all."""

    def __init__(
        self, settings: ReportSettings, party: str, figures: Callable[[], Mapping[str, float]]
    ) -> None:
        self._path, self._figures, self._labels = settings.metrics_file, figures, {"party": party}
        self._written = -_METRICS_SECONDS
        self._server: ThreadingHTTPServer | None = None
        if settings.metrics_port:
            remedy = "Choose another metrics_port"
            where = f"port {settings.metrics_port}"
            with explained("the metrics cannot be served", where=where, remedy=remedy):
                self._server = self._serve(settings.metrics_port)

    def text(self) -> str:
        """All figures now."""
        return metrics_text(self._figures(), self._labels)

    def write(self) -> None:
        """Bring the file up to date, every few seconds."""
        if self._path is not None and time.monotonic() - self._written >= _METRICS_SECONDS:
            self._written = time.monotonic()
            text = self.text().encode()

            def put(file: BinaryIO) -> None:
                file.write(text)

            try:
                write_files({Path(self._path): put})
            except OSError as error:
                # A run does not end because of its figures.
                _LOG.warning("%s: the metrics cannot be written (%s)", self._path, error.strerror)

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _serve(self, port: int) -> ThreadingHTTPServer:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        metrics = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = metrics.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                """Quietly."""

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server
