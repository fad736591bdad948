"""What a service tells: JSON lines without readings, and figures for Prometheus."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flfl.config import ReportSettings
from flfl.errors import InputError, explained


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


def start_logging(settings: ReportSettings, party: str) -> None:
    """Send the services' logs where the settings say."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if settings.log is not None:
        remedy = "Choose another file for the log"
        with explained("the log cannot be written", where=str(settings.log), remedy=remedy):
            handler = logging.FileHandler(settings.log, encoding="utf-8")
    handler.setFormatter(_Lines(party))
    root = logging.getLogger("flfl")
    for earlier in root.handlers:
        earlier.close()
    root.handlers, root.propagate = [handler], False
    root.setLevel(settings.level.upper())


class Metrics:
    """Figures for Prometheus on a loopback port, if any: counters end in ``_total``."""

    def __init__(
        self, settings: ReportSettings, party: str, figures: Callable[[], Mapping[str, float]]
    ) -> None:
        self._figures, self._party, self._server = figures, party, None
        if not (port := settings.metrics_port):
            return
        try:
            from prometheus_client import start_http_server
        except ImportError:
            raise InputError(
                "metrics need prometheus-client",
                where="report.metrics_port",
                remedy="pip install 'flfl[mqtt]', or leave it out",
            ) from None
        remedy = "Choose another metrics_port"
        with explained("the metrics cannot be served", where=f"port {port}", remedy=remedy):
            self._server, _ = start_http_server(port, "127.0.0.1", self)

    def collect(self) -> Iterator[Any]:
        """All figures now, as Prometheus' library wants them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, value in self._figures().items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, name, labels=["party"])
            family.add_metric([self._party], value)
            yield family

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
