"""Limits on request bodies, kept before any endpoint sees them."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.json_text import depth
from service.problems import Problem

MAX_JSON_BYTES = 1 << 20
MAX_JSON_DEPTH = 32
MAX_MODEL_BYTES = 2 << 30
MAX_IMPORT_BYTES = 2 << 30
STREAMED = {
    "/v1/models": (MAX_MODEL_BYTES, "application/octet-stream"),
    "/v1/records/import": (MAX_IMPORT_BYTES, "application/jsonl"),
}
"""Paths whose bodies are streamed: their limit in bytes, and the type of their body."""


class BodyLimits:
    """ASGI middleware: refuses bodies that are too large, of the wrong type or nested too deep.

    A body that announces its size is refused before it is read; one that does not, as soon as it passes the limit.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what respects the limits."""
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            limit = _check_headers(scope["path"], headers)
            if scope["path"] in STREAMED:
                receive = _counted(receive, limit)
            else:
                receive = await _buffered(receive, limit)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _check_headers(path: str, headers: dict[bytes, str]) -> int:
    limit, wanted = STREAMED.get(path, (MAX_JSON_BYTES, "application/json"))
    length = headers.get(b"content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    has_body = b"transfer-encoding" in headers or (length.isdigit() and int(length) > 0)
    sent = headers.get(b"content-type", "").partition(";")[0].strip().lower()
    if has_body and sent != wanted:
        msg = f"the body is {sent or 'of no type'!r}; send it as Content-Type: {wanted}"
        raise Problem(415, "unsupported-media-type", msg)
    return limit


def _counted(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return counted


async def _buffered(receive: Receive, limit: int) -> Receive:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise _too_large(limit)
    if depth(body.decode("utf-8", "replace")) > MAX_JSON_DEPTH:
        msg = f"the JSON is nested more than {MAX_JSON_DEPTH} deep; send a flatter document"
        raise Problem(422, "invalid-request", msg)
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return replay


def _too_large(limit: int) -> Problem:
    size = f"{limit >> 30} GiB" if limit >= 1 << 30 else f"{limit >> 20} MiB"
    headers = {"Connection": "close"}
    return Problem(413, "too-large", f"the body is larger than {size}; send less", headers=headers)
