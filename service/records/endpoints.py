"""/v1/records and /v1/targets: the tuning log over HTTP."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterator
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from compiler.target import PRESETS, native_target, target_json
from service import json_text
from service.composition import Services, ServicesDep, TokenDep
from service.idempotency import Answer as StoredAnswer
from service.idempotency import IdempotencyKey, answer_once, fingerprint
from service.paging import Page, PageSize, PageToken, make_page, page_place
from service.problems import Problem
from service.records.convert import is_digest, record_json
from service.records.exchange import MAX_LINE_CHARS, export_lines, import_lines
from service.records.repository import RecordRepository
from service.records.schemas import (
    Answer,
    Digest,
    ImportReply,
    LookupReply,
    LookupRequest,
    Record,
    TargetView,
)
from tuner.record import CODEGEN_EPOCH, TuningRecord
from tuner.task import RecordKey

router = APIRouter(prefix="/v1", tags=["records"])
_IN_MEMORY_BYTES = 16 << 20
_JSONL = "application/jsonl"
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {_JSONL: {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("/records")
def list_records(
    services: ServicesDep,
    _token: TokenDep,
    page_size: PageSize = 50,
    page_token: PageToken = None,
    target: Annotated[Digest | None, Query(description="Only of this target.")] = None,
) -> Page[Record]:
    """Records, in the order their keys were first seen."""
    place = page_place(page_token, int)
    with services.database.read() as session:
        after = 0 if place is None else place[0]
        rows = RecordRepository(session).list_records(after, page_size + 1, target)
    return make_page(rows, page_size, lambda row: _view(row[1]), lambda row: [row[0]])


@router.post("/records/lookup")
def look_up(body: LookupRequest, services: ServicesDep, _token: TokenDep) -> LookupReply:
    """Many look-ups at once. A record of another code generator is a miss."""
    target = body.target if is_digest(body.target) else _target_digest(body.target)
    keys = [RecordKey(w, target, body.threads, body.error_class) for w in body.workloads]
    records = services.log.records(keys)
    answers = [_answer(key.workload, records.get(key)) for key in keys]
    hits = sum(answer.record is not None for answer in answers)
    return LookupReply(answers=answers, hits=hits, misses=len(answers) - hits)


@router.get("/records/export", response_class=StreamingResponse)
def export_records(
    services: ServicesDep, _token: TokenDep, trials: Annotated[bool, Query()] = True
) -> StreamingResponse:
    """The whole log as JSON lines."""

    def lines() -> Iterator[str]:
        with services.database.read() as session:
            for line in export_lines(RecordRepository(session), trials=trials):
                yield line + "\n"

    return StreamingResponse(lines(), media_type=_JSONL)


@router.post("/records/import", response_model=ImportReply, openapi_extra=_BODY)
async def import_records(
    request: Request, services: ServicesDep, token: TokenDep, idempotency_key: IdempotencyKey = None
) -> Response:
    """Merge exported lines (the body) by key, all or nothing."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(services.spool)) as file:
        digest = hashlib.sha256()
        async for chunk in request.stream():
            digest.update(chunk)
            file.write(chunk)
        same = fingerprint("POST import", digest.hexdigest())
        ask = (token, idempotency_key, same)
        status, body = await run_in_threadpool(_merge, services, file, ask)
    return JSONResponse(body, status)


@router.get("/targets", tags=["targets"])
def list_targets(services: ServicesDep, _token: TokenDep) -> Page[TargetView]:
    """The server's own target, the presets, and those that records or jobs name."""
    known = {
        t.digest: TargetView(digest=t.digest, name=t.name, fields=target_json(t)) for t in PRESETS.values()
    }
    native = native_target()
    known[native.digest] = TargetView(digest=native.digest, name="native", fields=target_json(native))
    with services.database.read() as session:
        for row in RecordRepository(session).targets():
            view = TargetView(digest=row.digest, name=row.name, fields=json_text.parse(row.body))
            known.setdefault(row.digest, view)
    return Page(items=sorted(known.values(), key=lambda view: (view.name, view.digest)), next_page_token=None)


def _target_digest(name: str) -> str:
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        detail = f"target {name[:50]!r} is neither a digest nor one of {known}; GET /v1/targets lists digests"
        raise Problem(422, "unknown-target", detail)
    return PRESETS[name].digest


def _answer(workload: str, record: TuningRecord | None) -> Answer:
    if record is None or record.codegen_epoch != CODEGEN_EPOCH:
        return Answer(workload=workload, lookup="miss", record=None)
    return Answer(workload=workload, lookup="exact", record=_view(record))


def _view(record: TuningRecord) -> Record:
    return Record.model_validate(record_json(record))


def _merge(services: Services, file: IO[bytes], ask: tuple[str, str | None, str]) -> StoredAnswer:
    file.seek(0)
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace")
    try:
        with services.database.write() as session:
            repository = RecordRepository(session)
            return answer_once(session, *ask, lambda: (200, import_lines(repository, _bounded_lines(text))))
    finally:
        text.detach()


def _bounded_lines(text: IO[str]) -> Iterator[str]:
    """Lines, cut where one is longer than an import may hold (which then refuses it)."""
    while line := text.readline(MAX_LINE_CHARS + 1):
        yield line
