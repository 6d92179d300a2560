"""What the API says about models."""

from __future__ import annotations

from pydantic import BaseModel, Field

from service.db.models import ModelRow
from service.models.repository import model_id


class Model(BaseModel):
    """An uploaded model."""

    id: str = Field(examples=["sha256:9f86d081…"])
    name: str
    bytes: int
    tasks: int | None = Field(description="Distinct tasks; null where the model needs shapes first.")
    created_s: float


def model_of(row: ModelRow) -> Model:
    """What a row says."""
    return Model(
        id=model_id(row.digest), name=row.name, bytes=row.size_bytes, tasks=row.tasks, created_s=row.created_s
    )
