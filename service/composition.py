"""What the endpoints work with, put together once per app."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from service.db.session import Database
from service.jobs.ledger import JobLedger
from service.jobs.orchestrator import Orchestrator
from service.metrics import Metrics
from service.problems import Problem
from service.records.log import SqlTuningLog
from service.tokens import TokenStore, token_id


@dataclass(frozen=True)
class Services:
    """Everything that lives as long as the app.

    Attributes:
        spool: folder for uploads on their way into the database.
        stopping: set when the server shuts down, so that open event streams end.
    """

    database: Database
    spool: Path
    orchestrator: Orchestrator
    metrics: Metrics = field(default_factory=Metrics)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def log(self) -> SqlTuningLog:
        """The tuning log."""
        return SqlTuningLog(self.database)

    @property
    def ledger(self) -> JobLedger:
        """The jobs."""
        return JobLedger(self.database)

    @property
    def tokens(self) -> TokenStore:
        """The tokens."""
        return TokenStore(self.database)


def get_services(request: Request) -> Services:
    """The app's services."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


ServicesDep = Annotated[Services, Depends(get_services)]
_BEARER = HTTPBearer(
    auto_error=False, description="A token that `luthier serve` or `luthier tokens` printed."
)
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


def authenticate(services: ServicesDep, credentials: _Credentials) -> str:
    """Id of the token that asks; 401 without a valid one."""
    if credentials is None:
        detail = "the request has no token; send Authorization: Bearer TOKEN"
    elif not services.tokens.accepts(credentials.credentials):
        detail = "this token is not known here or was revoked; use another one"
    else:
        return token_id(credentials.credentials)
    raise Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


TokenDep = Annotated[str, Depends(authenticate)]
