"""/v1/jobs: submit, watch, cancel, fetch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session

from service.composition import Services, ServicesDep, TokenDep
from service.db.blobs import blob_bytes, has_blob, read_chunk
from service.idempotency import Answer, IdempotencyKey, answer_once, fingerprint
from service.jobs.job import Deadlines, Job, JobSpec, State
from service.jobs.ledger import cancel_in, submit_in
from service.jobs.schemas import JobRequest, JobView, view_of
from service.models.repository import ModelRepository, model_id
from service.paging import Page, PageSize, PageToken, make_page, page_place
from service.problems import Problem, not_found

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
POLL_S = 0.25

LastEventId = Annotated[
    int | None, Header(ge=0, le=2**31 - 1, description="Number of the last event that was seen.")
]


def find_job(job: str, services: ServicesDep, _token: TokenDep) -> Job:
    """The job of the path; 404 where there is none."""
    found = services.ledger.get(job)
    if found is None:
        raise not_found(job, what="job")
    return found


JobDep = Annotated[Job, Depends(find_job)]


@router.post("", status_code=201, response_model=JobView)
def submit_job(
    body: JobRequest, services: ServicesDep, token: TokenDep, idempotency_key: IdempotencyKey = None
) -> Response:
    """Queue a job. The same request while it waits or runs finds it (200); after its end it runs afresh (201)."""
    spec = body.spec()
    deadlines = Deadlines(body.deadlines.start_s, body.deadlines.total_s)
    same = fingerprint("POST jobs", body.model_dump_json())
    with services.database.write() as session:
        status, answer = answer_once(
            session, token, idempotency_key, same, lambda: _submit(session, spec, deadlines)
        )
    services.orchestrator.wake()
    return JSONResponse(answer, status)


@router.get("")
def list_jobs(
    services: ServicesDep,
    _token: TokenDep,
    page_size: PageSize = 50,
    page_token: PageToken = None,
    state: Annotated[State | None, Query()] = None,
) -> Page[JobView]:
    """Jobs, newest first."""
    place = page_place(page_token, float, str)
    rows = services.ledger.page(None if place is None else (place[0], place[1]), page_size + 1, state)
    return make_page(rows, page_size, view_of, lambda row: [row.created_s, row.id])


@router.get("/{job}")
def get_job(job: JobDep) -> JobView:
    """One job."""
    return view_of(job)


@router.post("/{job}/cancel", response_model=JobView)
def cancel_job(
    job: JobDep, services: ServicesDep, token: TokenDep, idempotency_key: IdempotencyKey = None
) -> Response:
    """Cancel a job; one that has ended stays as it is. What it learned is kept."""
    same = fingerprint("POST cancel", job.id)
    with services.database.write() as session:
        status, answer = answer_once(session, token, idempotency_key, same, lambda: _cancel(session, job))
    services.orchestrator.wake()
    return JSONResponse(answer, status)


@router.get("/{job}/events", response_class=EventSourceResponse)
async def watch_job(
    job: JobDep, services: ServicesDep, last_event_id: LastEventId = None
) -> AsyncIterator[ServerSentEvent]:
    """Events task, trial, best and state, from the first one or behind Last-Event-ID; ends with the job."""
    after = int(last_event_id or 0)
    while not services.stopping.is_set():
        # The state first: events that come later are read in the next round.
        now = await run_in_threadpool(services.ledger.get, job.id)
        events = await run_in_threadpool(services.ledger.events, job.id, after)
        for event in events:
            after = event.seq
            data = {**event.data, "time_s": event.created_s}
            yield ServerSentEvent(data=data, event=event.type, id=str(event.seq))
        if not events:
            if now is None or now.is_finished:
                return
            await asyncio.sleep(POLL_S)


@router.get("/{job}/artifact", response_class=StreamingResponse)
def get_artifact(job: JobDep, services: ServicesDep) -> StreamingResponse:
    """The compiled model of a job that succeeded (a `.luthier` file). ETag is its SHA-256."""
    digest = job.artifact
    if digest is None:
        detail = f"the job is {job.state} and has no artifact; wait until it has succeeded"
        if job.state == "succeeded":
            detail = "the artifact was pruned; submit the job again, which makes it from the log"
        raise Problem(409, "conflict", detail)
    with services.database.read() as session:
        size = blob_bytes(session, digest)
    headers = {"ETag": f'"{digest}"', "Content-Length": str(size)}
    return StreamingResponse(
        _chunks(services, digest), headers=headers, media_type="application/octet-stream"
    )


def _submit(session: Session, spec: JobSpec, deadlines: Deadlines) -> Answer:
    if ModelRepository(session).get(spec.model) is None:
        raise not_found(model_id(spec.model), what="model")
    if not has_blob(session, spec.model):
        raise Problem(404, "not-found", f"model {model_id(spec.model)!r} was pruned; upload it again")
    job, queued = submit_in(session, spec, deadlines)
    return 201 if queued else 200, view_of(job).model_dump(mode="json")


def _cancel(session: Session, job: Job) -> Answer:
    return 200, view_of(cancel_in(session, job.id) or job).model_dump(mode="json")


def _chunks(services: Services, digest: str) -> Iterator[bytes]:
    # A short transaction a chunk: a slow reader must not hold one open.
    seq = 0
    while True:
        with services.database.read() as session:
            chunk = read_chunk(session, digest, seq)
        if chunk is None:
            return
        yield chunk
        seq += 1
