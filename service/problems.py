"""Problem documents (RFC 9457): every error of the service, with a stable `type` and what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from compiler.errors import (
    DatabaseError,
    InputError,
    LuthierError,
    ModelError,
    NotTuned,
    ScheduleError,
    TargetError,
    UnsupportedOperator,
)

MEDIA_TYPE = "application/problem+json"
_LOG = logging.getLogger("luthier.service")

_TITLES = {
    "invalid-request": "The request is not valid",
    "unauthorized": "A valid token is needed",
    "not-found": "There is no such thing",
    "method-not-allowed": "This method is not offered here",
    "conflict": "The state does not allow it now",
    "too-large": "The body is too large",
    "unsupported-media-type": "The body has the wrong type",
    "idempotency-key-reused": "The Idempotency-Key belongs to another request",
    "invalid-model": "The model cannot be used",
    "unsupported-operator": "The model uses an unsupported operator",
    "invalid-input": "A value cannot be used",
    "unknown-target": "The target cannot be used",
    "busy": "The service is at its limit",
    "database-unavailable": "The database cannot be used now",
    "internal-error": "The service failed",
}
_BY_STATUS = {401: "unauthorized", 404: "not-found", 405: "method-not-allowed", 413: "too-large"}
_BY_ERROR: tuple[tuple[type[LuthierError], int, str], ...] = (
    (UnsupportedOperator, 422, "unsupported-operator"),
    (ModelError, 422, "invalid-model"),
    (TargetError, 422, "unknown-target"),
    (InputError, 422, "invalid-input"),
    (ScheduleError, 422, "invalid-input"),
    (NotTuned, 404, "not-found"),
    (DatabaseError, 503, "database-unavailable"),
)


class Problem(Exception):
    """Raised anywhere below an endpoint; becomes the response."""

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        errors: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`slug` is a key of the table of titles; `detail` is one sentence that says what to do."""
        super().__init__(detail)
        self.status, self.slug, self.detail, self.errors, self.headers = status, slug, detail, errors, headers

    def document(self) -> dict[str, Any]:
        """The problem document."""
        body: dict[str, Any] = {
            "type": f"urn:luthier:problem:{self.slug}",
            "title": _TITLES[self.slug],
            "status": self.status,
            "detail": self.detail,
        }
        return body if self.errors is None else {**body, "errors": self.errors}

    def response(self) -> JSONResponse:
        """The response that carries it."""
        headers = dict(self.headers) if self.headers else None
        return JSONResponse(self.document(), self.status, headers, media_type=MEDIA_TYPE)


def not_found(name: str, *, what: str) -> Problem:
    """404 for a thing that has a list."""
    return Problem(
        404, "not-found", f"there is no {what} {name[:100]!r}; GET /v1/{what}s lists those there are"
    )


def problem_of(error: LuthierError) -> Problem:
    """What an error of the product means over HTTP."""
    for kind, status, slug in _BY_ERROR:
        if isinstance(error, kind):
            retry = {"Retry-After": "5"} if status == 503 else None
            return Problem(status, slug, str(error), headers=retry)
    _LOG.error("unexpected %s", type(error).__name__, exc_info=error)
    return Problem(500, "internal-error", str(error))


def install(app: FastAPI) -> None:
    """Answer every failure of the app with a problem document."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(LuthierError, _on_luthier_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_bug)


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return error.response()


async def _on_luthier_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LuthierError)
    return problem_of(error).response()


async def _on_invalid_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Only place and reason: the offending input itself may be a secret, or huge.
    errors = [
        {"pointer": "/" + "/".join(str(part) for part in e["loc"]), "detail": str(e["msg"])}
        for e in error.errors()[:20]
    ]
    first = errors[0]
    detail = f"{first['pointer']}: {first['detail']}; correct it and send the request again"
    return Problem(422, "invalid-request", detail, errors=errors).response()


async def _on_http_exception(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    slug = _BY_STATUS.get(error.status_code, "invalid-request")
    detail = f"{error.detail}; /docs lists what the service offers"
    return Problem(error.status_code, slug, detail, headers=error.headers).response()


async def _on_bug(_request: Request, error: Exception) -> JSONResponse:
    _LOG.error("a bug answered a request", exc_info=error)
    detail = "the service met a bug; its log has the details, try again or report it"
    return Problem(500, "internal-error", detail).response()
