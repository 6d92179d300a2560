"""Counters in Prometheus' text format."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Requests by method, route and status. Thread-safe."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._requests: Counter[Labels] = Counter()
        self._seconds: dict[Labels, float] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        labels = (("method", method), ("route", route), ("status", str(status)))
        with self._lock:
            self._requests[labels] += 1
            self._seconds[labels[:2]] = self._seconds.get(labels[:2], 0.0) + seconds

    def text(self, jobs: Mapping[str, int], log: Mapping[str, int]) -> str:
        """All metrics; `jobs` by state, `log` by kind of row."""
        with self._lock:
            requests, seconds = dict(self._requests), dict(self._seconds)
        families: tuple[tuple[str, str, str, Mapping[Labels, float]], ...] = (
            ("luthier_http_requests_total", "counter", "Requests answered.", requests),
            ("luthier_http_request_seconds_total", "counter", "Seconds spent on requests.", seconds),
            ("luthier_jobs", "gauge", "Jobs by state.", {(("state", k),): v for k, v in jobs.items()}),
            (
                "luthier_log_rows",
                "gauge",
                "Rows of the tuning log.",
                {(("kind", k),): v for k, v in log.items()},
            ),
        )
        return "".join(_family(name, kind, help_, values) for name, kind, help_, values in families)


class CountRequests:
    """ASGI middleware that feeds Metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Wrap an app."""
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, start = 500, time.perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            # The route's pattern, not the path: ids would make a series each.
            route = getattr(scope.get("route"), "path", "unmatched")
            self._metrics.observe(scope["method"], route, status, time.perf_counter() - start)


def _family(name: str, kind: str, help_: str, values: Mapping[Labels, float]) -> str:
    lines = [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
    for labels, value in sorted(values.items()):
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
        lines.append(f"{name}{{{pairs}}} {value}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
