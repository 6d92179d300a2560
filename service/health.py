"""/livez, /readyz and /metrics, without a token."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from service.composition import ServicesDep
from service.db.upgrade import schema_is_current
from service.metrics import MEDIA_TYPE
from service.problems import Problem

router = APIRouter(tags=["health"])


@router.get("/livez")
async def livez() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(services: ServicesDep) -> dict[str, str]:
    """Whether it can do its work: database, schema, orchestrator."""
    if not schema_is_current(services.database):
        detail = "the database has another schema than this server expects; run: luthier db upgrade"
        raise Problem(503, "database-unavailable", detail)
    if not services.orchestrator.is_alive or services.stopping.is_set():
        raise Problem(
            503, "busy", "the server is shutting down; try another one", headers={"Retry-After": "5"}
        )
    return {"status": "ok"}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(services: ServicesDep) -> PlainTextResponse:
    """Prometheus' text format."""
    text = services.metrics.text(services.ledger.count_states(), services.log.stats())
    return PlainTextResponse(text, media_type=MEDIA_TYPE)
