"""A party's status on a loopback port: ``/``, ``/status.json``, ``/metrics``, ``/healthz``.

Whoever asks gets the last status that the party's own loop has shown: no request reaches its state.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flfl.config import ReportSettings
from flfl.errors import InputError, explained
from flfl.service.status import Status, figures, health

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_EVERY = 1.0
"""Seconds between two statuses."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""Names under which a browser of this machine asks: a page elsewhere that has its own name point
here gets no answer."""


class StatusServer:
    """Serves the status that was last shown; without a port it does nothing."""

    def __init__(self, settings: ReportSettings) -> None:
        self._server: ThreadingHTTPServer | None = None
        self._status: Status | None = None
        self._shown = 0.0
        if not (port := settings.status_port):
            return
        try:
            import prometheus_client  # noqa: F401
        except ImportError:
            raise InputError(
                "the status page needs prometheus-client",
                where="report.status_port",
                remedy="pip install 'flfl[mqtt]', or leave it out",
            ) from None
        from http.server import ThreadingHTTPServer

        remedy = "Choose another status_port"
        with explained("the status cannot be served", where=f"port {port}", remedy=remedy):
            self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def show(self, status: Callable[[], Status], *, force: bool = False) -> None:
        """Show a status, at most one a second; it is made only where somebody may look."""
        if self._server is None or (not force and time.monotonic() - self._shown < _EVERY):
            return
        self._shown, self._status = time.monotonic(), status()

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Code, kind and content for a path."""
        status = self._status
        if status is None:
            return 503, "text/plain", b"starting\n"
        why = health(status)
        if path == "/":
            from flfl.service.status_page import page

            return 200, "text/html; charset=utf-8", page(status, why).encode()
        if path == "/status.json":
            document = status.document() | {"health": why or "ok"}
            return 200, "application/json", json.dumps(document).encode()
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4; charset=utf-8", _metrics(status)
        if path == "/healthz":
            return (503 if why else 200), "text/plain; charset=utf-8", f"{why or 'ok'}\n".encode()
        return 404, "text/plain", b"there are /, /status.json, /metrics and /healthz\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        from http.server import BaseHTTPRequestHandler

        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                host = self.headers.get("Host", "")
                name = host if host.endswith("]") else host.rpartition(":")[0] or host
                code, kind, content = 403, "text/plain", b"ask for 127.0.0.1 or localhost\n"
                if name in _HOSTS:
                    code, kind, content = answer(self.path.partition("?")[0])
                self.send_response(code)
                for header, value in (_HEADERS | {"Content-Type": kind}).items():
                    self.send_header(header, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Who looks is nobody's business."""

        return Handler


def _metrics(status: Status) -> bytes:
    """All figures as Prometheus' library writes them."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Figures(Collector):
        def collect(self) -> Iterator[Any]:
            families: dict[str, Any] = {}
            for name, text, labels, value in figures(status):
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                if name not in families:
                    families[name] = kind(name, text, labels=["party", *labels])
                families[name].add_metric([status.party, *labels.values()], value)
            yield from families.values()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    return generate_latest(registry)
