"""/v1/models: upload and list."""

from __future__ import annotations

import hashlib
import tempfile
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from service.composition import Services, ServicesDep, TokenDep
from service.db.blobs import file_chunks
from service.db.models import ModelRow
from service.idempotency import Answer, IdempotencyKey, answer_once, fingerprint
from service.models.inspect import count_tasks
from service.models.repository import ModelRepository, model_digest
from service.models.schemas import Model, model_of
from service.paging import Page, PageSize, PageToken, make_page, page_place
from service.problems import Problem, not_found

router = APIRouter(prefix="/v1/models", tags=["models"])
_IN_MEMORY_BYTES = 16 << 20

ModelName = Annotated[
    str,
    Query(
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="For people; not part of the id.",
    ),
]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("", status_code=201, response_model=Model, openapi_extra=_BODY)
async def upload_model(
    request: Request,
    services: ServicesDep,
    token: TokenDep,
    name: ModelName = "model",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Upload an ONNX file (the body). The same bytes are the same model."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(services.spool)) as file:
        digest = hashlib.sha256()
        async for chunk in request.stream():
            digest.update(chunk)
            file.write(chunk)
        same = fingerprint("POST models", name, digest.hexdigest())
        status, body = await run_in_threadpool(
            _store,
            services,
            file,
            ModelRow(digest=digest.hexdigest(), name=name),
            (token, idempotency_key, same),
        )
    return JSONResponse(body, status)


@router.get("")
def list_models(
    services: ServicesDep, _token: TokenDep, page_size: PageSize = 50, page_token: PageToken = None
) -> Page[Model]:
    """Uploaded models, newest first."""
    place = page_place(page_token, float, str)
    with services.database.read() as session:
        after = None if place is None else (place[0], place[1])
        rows = ModelRepository(session).page(after, page_size + 1)
        return make_page(rows, page_size, model_of, lambda row: [row.created_s, row.digest])


@router.get("/{model}")
def get_model(model: str, services: ServicesDep, _token: TokenDep) -> Model:
    """One model."""
    with services.database.read() as session:
        row = ModelRepository(session).get(model_digest(model))
        if row is None:
            raise not_found(model, what="model")
        return model_of(row)


def _store(services: Services, file: IO[bytes], row: ModelRow, ask: tuple[str, str | None, str]) -> Answer:
    row.size_bytes = file.tell()
    if row.size_bytes == 0:
        raise Problem(422, "invalid-model", "the body is empty; send the bytes of an ONNX file")
    with services.database.read() as session:
        known = ModelRepository(session).get(row.digest) is not None
    if not known:
        row.tasks = count_tasks(file)

    def store() -> Answer:
        return _store_in(session, file, row)

    with services.database.write() as session:
        return answer_once(session, ask[0], ask[1], ask[2], store)


def _store_in(session: Session, file: IO[bytes], row: ModelRow) -> Answer:
    models = ModelRepository(session)
    known = models.get(row.digest)
    if known is not None:
        return 200, model_of(known).model_dump()
    file.seek(0)
    models.add(row, file_chunks(file))
    stored = models.get(row.digest)
    assert stored is not None
    return 201, model_of(stored).model_dump()
