"""SQL over uploaded models. Nothing here commits."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from service.db.blobs import write_blob
from service.db.insert import insert_new
from service.db.models import ModelRow
from service.db.session import now_s

ID_PREFIX = "sha256:"


class ModelRepository:
    """Queries of one session."""

    def __init__(self, session: Session) -> None:
        """Use this session."""
        self._session = session

    def get(self, digest: str) -> ModelRow | None:
        """A model by its digest."""
        return self._session.get(ModelRow, digest)

    def add(self, row: ModelRow, chunks: Iterable[bytes]) -> None:
        """Store a model with its bytes, unless it is there already."""
        write_blob(self._session, row.digest, chunks)
        values = {
            "digest": row.digest,
            "name": row.name,
            "size_bytes": row.size_bytes,
            "tasks": row.tasks,
            "created_s": now_s(self._session),
        }
        insert_new(self._session, ModelRow, [values])

    def page(self, after: tuple[float, str] | None, limit: int) -> list[ModelRow]:
        """Newest first, from behind (created_s, digest)."""
        statement = select(ModelRow).order_by(ModelRow.created_s.desc(), ModelRow.digest.desc()).limit(limit)
        if after is not None:
            statement = statement.where(tuple_(ModelRow.created_s, ModelRow.digest) < tuple_(*after))
        return list(self._session.scalars(statement))


def model_id(digest: str) -> str:
    """The id that the API shows."""
    return ID_PREFIX + digest


def model_digest(text: str) -> str:
    """The digest in an id, whatever it is; the prefix may be left out."""
    return text.removeprefix(ID_PREFIX)
