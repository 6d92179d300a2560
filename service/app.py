"""The FastAPI app over the tuning log."""

from __future__ import annotations

import importlib.metadata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from service import health, problems
from service.composition import Services
from service.jobs import endpoints as jobs
from service.limits import BodyLimits
from service.metrics import CountRequests
from service.models import endpoints as models
from service.records import endpoints as records

_DESCRIPTION = """\
Tunes ONNX models for this machine and remembers what it learned.
Every error is a problem document (RFC 9457) with a stable `type`. POST requests take an `Idempotency-Key`.
Lists are paged with `page_size` and `page_token`.
"""
_PROBLEM: dict[str, Any] = {
    "description": "A problem document (RFC 9457).",
    "content": {
        problems.MEDIA_TYPE: {
            "schema": {
                "type": "object",
                "required": ["type", "title", "status", "detail"],
                "properties": {
                    "type": {"type": "string", "description": "urn:luthier:problem:…, stable"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string", "description": "One sentence that says what to do."},
                },
            }
        }
    },
}


def create_app(services: Services) -> FastAPI:
    """Put the app together; its lifespan starts and stops the orchestrator."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.orchestrator.start()
        yield
        services.stopping.set()
        await run_in_threadpool(services.orchestrator.stop)

    app = FastAPI(
        title="Luthier",
        version=version(),
        description=_DESCRIPTION,
        lifespan=lifespan,
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},
        redoc_url=None,
    )
    app.state.services = services
    problems.install(app)
    app.add_middleware(BodyLimits)
    app.add_middleware(CountRequests, metrics=services.metrics)
    for module in (models, jobs, records, health):
        app.include_router(module.router)
    return app


def version() -> str:
    """Luthier's version; "0" in a checkout that is not installed."""
    try:
        return importlib.metadata.version("luthier")
    except importlib.metadata.PackageNotFoundError:
        return "0"
