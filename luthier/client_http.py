"""HTTP of the client: authentication, problems as ServiceError, retries that are safe, event streams that resume."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from compiler.errors import ServiceError

TIMEOUT_S = 30.0
UPLOAD_TIMEOUT_S = 600.0
KEEP_ALIVE_S = 45.0
"""The service says something at least every 15 s; an event stream that is silent for longer is dead."""
RETRIES = 5
RECONNECT_S = 60.0
"""An event stream is given up after this long without the service."""
RECONNECT_PAUSE_S = 0.5
_TRY_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job: task, trial, best or state, numbered within it."""

    seq: int
    type: str
    data: Mapping[str, Any]


class Unreachable(ServiceError):
    """The service did not answer at all."""


class Http:
    """One service. Thread-safe."""

    def __init__(self, url: str, token: str | None) -> None:
        """Check the URL; nothing is sent yet."""
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            parsed = httpx.URL(url.rstrip("/"))
            if parsed.scheme not in ("http", "https") or not parsed.host or not headers_are_plain(headers):
                raise httpx.InvalidURL(url)
        except (httpx.InvalidURL, TypeError):
            msg = f"{url!r} is no address of a service; give one such as http://127.0.0.1:8765 and a plain token"
            raise ServiceError(msg) from None
        self._url = str(parsed)
        self._client = httpx.Client(base_url=parsed, headers=headers, timeout=TIMEOUT_S)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def json(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """A JSON request. A service that is away for a moment is asked again: all that we send may be repeated."""
        wait_s = 0.2
        for attempt in range(RETRIES):
            try:
                response = self._client.request(method, path, json=body, params=params, headers=headers)
                if response.status_code not in _TRY_AGAIN or attempt == RETRIES - 1:
                    return self._object(response)
            except httpx.TransportError as error:
                if attempt == RETRIES - 1:
                    raise self._unreachable(error) from None
            time.sleep(wait_s)
            wait_s *= 2
        raise AssertionError

    def upload(self, path: str, content: bytes, **params: str) -> dict[str, Any]:
        """Send bytes as the body."""
        headers = {"Content-Type": "application/octet-stream"}
        with self._reaching():
            response = self._client.post(
                path, content=content, params=params, headers=headers, timeout=UPLOAD_TIMEOUT_S
            )
        return self._object(response)

    def download(self, path: str) -> bytes:
        """A body whose ETag is its SHA-256, checked."""
        with self._reaching():
            response = self._client.get(path, timeout=UPLOAD_TIMEOUT_S)
        self._check(response)
        if response.headers.get("etag", "").strip('"') != hashlib.sha256(response.content).hexdigest():
            msg = f"what {self._url} sent is damaged; try again"
            raise ServiceError(msg)
        return response.content

    def events(
        self, path: str, after: int, timeout_s: float | None, ended: Callable[[], bool]
    ) -> Iterator[Event]:
        """Events behind number `after`; goes on where it was when the connection breaks, until `ended`."""
        start_s = reached_s = time.monotonic()
        while True:
            try:
                for event in self._stream(path, after, timeout_s):
                    reached_s = time.monotonic()
                    _check_time(start_s, timeout_s)
                    if event is not None:
                        after = event.seq
                        yield event
                if ended():
                    return
                reached_s = time.monotonic()
            except (httpx.TransportError, Unreachable) as error:
                _check_time(start_s, timeout_s)
                if time.monotonic() - reached_s > RECONNECT_S:
                    raise self._unreachable(error) from None
            _check_time(start_s, timeout_s)
            time.sleep(RECONNECT_PAUSE_S)

    def _stream(self, path: str, after: int, timeout_s: float | None) -> Iterator[Event | None]:
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        silence_s = KEEP_ALIVE_S if timeout_s is None else min(KEEP_ALIVE_S, timeout_s)
        timeout = httpx.Timeout(TIMEOUT_S, read=silence_s)
        with self._client.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.status_code in _TRY_AGAIN:
                msg = "the service is away"
                raise httpx.ReadError(msg)
            if response.is_error:
                response.read()
            self._check(response)
            yield from parse_events(response.iter_lines())

    def _object(self, response: httpx.Response) -> dict[str, Any]:
        self._check(response)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            msg = f"{self._url} does not answer like a Luthier service; check the address"
            raise ServiceError(msg)
        return answer

    def _check(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        try:
            detail = str(response.json()["detail"])
        except (ValueError, KeyError, TypeError):
            detail = f"it answered {response.status_code}; check that a Luthier service listens there"
        msg = f"{self._url} refused: {detail}"
        raise ServiceError(msg)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> ServiceError:
        if isinstance(error, Unreachable):
            return error
        why = str(error) or type(error).__name__
        return Unreachable(
            f"the service at {self._url} cannot be reached ({why}); "
            "start it with `luthier serve` or set LUTHIER_SERVER"
        )


def parse_events(lines: Iterator[str]) -> Iterator[Event | None]:
    """Events of a `text/event-stream`, None for a comment (a sign of life); incomplete events are dropped."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
        else:
            if fields.get("data") and fields.get("id", "").isdecimal():
                yield Event(int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}


def headers_are_plain(headers: Mapping[str, str]) -> bool:
    """Whether every value can be sent as a header."""
    return all(value.isascii() and value.isprintable() for value in headers.values())


def _check_time(start_s: float, timeout_s: float | None) -> None:
    if timeout_s is not None and time.monotonic() - start_s > timeout_s:
        msg = f"the job has not ended after {timeout_s:g} s; wait longer or cancel it"
        raise ServiceError(msg)
