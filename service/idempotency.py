"""Idempotency-Key: the same key with the same request gets the same answer, once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header
from sqlalchemy import delete
from sqlalchemy.orm import Session

from service import json_text
from service.db.insert import insert_new
from service.db.models import IdempotencyRow
from service.db.session import now_s
from service.problems import Problem

KEPT_S = 86_400.0
"""How long an answer is kept."""

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200)]

Answer = tuple[int, dict[str, Any]]
"""Status and JSON body."""


def fingerprint(*parts: str) -> str:
    """Digest of what makes two requests the same."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def answer_once(
    session: Session, token: str, key: str | None, request: str, produce: Callable[[], Answer]
) -> Answer:
    """The stored answer of a repeated request, or a new one that is stored in the same transaction as what it did.

    Args:
        session: the transaction of the request.
        token: id of the token that asked; keys of different tokens do not meet.
        key: the header, None where the client sent none.
        request: fingerprint of the request.
        produce: does the work inside the transaction.

    Raises:
        Problem: the key was used for another request.
    """
    if key is None:
        return produce()
    clock_s = now_s(session)
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_s < clock_s - KEPT_S))
    row = {"token": token, "key": key, "request": request, "status": 0, "body": "", "created_s": clock_s}
    is_first = (
        insert_new(session, IdempotencyRow, [row]) == 1
    )  # a second one waits here for the first to commit
    stored = session.get_one(IdempotencyRow, (token, key))
    if is_first:
        stored.status, body = produce()
        stored.body = json_text.dump(body)
        return stored.status, body
    if stored.request != request:
        detail = "this Idempotency-Key was used for another request; use a new key"
        raise Problem(422, "idempotency-key-reused", detail)
    return stored.status, json_text.parse(stored.body)
