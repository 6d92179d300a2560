"""What the API says about the tuning log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
MAX_LOOKUPS = 5_000


class Record(BaseModel):
    """A verified schedule worth serving, with its evidence (the form of the export)."""

    key: dict[str, Any]
    schedule: list[Any]
    measured: dict[str, Any]
    device: str
    seed: int
    codegen_epoch: int
    untuned_s: float
    provenance: dict[str, Any]


class LookupRequest(BaseModel):
    """Which workloads, compiled for what."""

    model_config = ConfigDict(extra="forbid")

    target: str = Field(max_length=100, description="Digest of a target, or the name of a preset.")
    threads: int = Field(ge=1, le=1024)
    error_class: str = Field(pattern=r"^\de[-+]\d{2,3}$", examples=["2e-05"])
    workloads: list[Digest] = Field(min_length=1, max_length=MAX_LOOKUPS)


class Answer(BaseModel):
    """What the log knows of one workload; `record` is null on a miss."""

    workload: str
    lookup: Literal["exact", "miss"]
    record: Record | None


class LookupReply(BaseModel):
    """One answer per workload, in the order of the request."""

    answers: list[Answer]
    hits: int
    misses: int


class ImportReply(BaseModel):
    """What an import added: lines read, records and trials that are new."""

    lines: int
    records: int
    trials: int


class TargetView(BaseModel):
    """A target that records or jobs name."""

    digest: str
    name: str
    fields: dict[str, Any]
