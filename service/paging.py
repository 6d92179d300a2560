"""Pages of a list: `page_size` and an opaque `page_token`, stable while rows are added."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from service import json_text
from service.problems import Problem

T = TypeVar("T")
Row = TypeVar("Row")

PageSize = Annotated[int, Query(ge=1, le=1000, description="At most this many items.")]
PageToken = Annotated[str | None, Query(max_length=500, description="`next_page_token` of the page before.")]


class Page(BaseModel, Generic[T]):
    """Some items of a list; `next_page_token` is null on the last page."""

    items: list[T]
    next_page_token: str | None


def make_page(
    rows: Sequence[Row], page_size: int, item: Callable[[Row], T], place: Callable[[Row], list[Any]]
) -> Page[T]:
    """A page from `page_size + 1` rows (or fewer, on the last page); `place` says where a row stands in the order."""
    shown = rows[:page_size]
    token = _encode(place(shown[-1])) if len(rows) > page_size else None
    return Page(items=[item(row) for row in shown], next_page_token=token)


def page_place(token: str | None, *kinds: type) -> list[Any] | None:
    """The place that a token names; raises Problem on a token that this service did not make."""
    if token is None:
        return None
    try:
        place = json_text.parse(base64.urlsafe_b64decode(token.encode()).decode())
        if isinstance(place, list) and len(place) == len(kinds):
            return [kind(value) for kind, value in zip(kinds, place, strict=True)]
    except (ValueError, TypeError):
        pass
    detail = "page_token is not one that this service gave; start again without it"
    raise Problem(422, "invalid-request", detail)


def _encode(place: list[Any]) -> str:
    return base64.urlsafe_b64encode(json_text.dump(place).encode()).decode()
