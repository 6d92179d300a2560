"""The tables.

    models ─ blobs                what was uploaded, content-addressed, in chunks
    jobs ─ events                 what was asked for, and what happened
    record_keys ─ trials, records the tuning log
    workloads, targets            what the digests of a key stand for
    tokens, idempotency_keys      who may ask, and what was answered already

Times are seconds since 1970 (UTC). Documents are JSON text, written canonically where a digest depends on them.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Text
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
DIGEST = String(64)
BIG_ID = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows by itself only where the key's type is exactly INTEGER."""


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMING)


class BlobChunk(Base):
    """A piece of a blob; `digest` is the SHA-256 of the whole. Chunks of a blob are written in one transaction."""

    __tablename__ = "blobs"

    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class ModelRow(Base):
    """An uploaded model. `tasks` is None where it needs shapes before it can be split."""

    __tablename__ = "models"

    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    tasks: Mapped[int | None]
    created_s: Mapped[float] = mapped_column(Float(53))


class WorkloadRow(Base):
    """The canonical form behind a workload digest."""

    __tablename__ = "workloads"

    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    body: Mapped[str] = mapped_column(Text)


class TargetRow(Base):
    """The fields behind a target digest."""

    __tablename__ = "targets"

    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    body: Mapped[str] = mapped_column(Text)


class JobRow(Base):
    """A TuningJob. `attempt` fences: only the process that holds the newest attempt may write.

    Attributes:
        run: counts how often it was started afresh; trials are tagged with id and run.
        crashes: owners in a row that died without adding a trial.
        owner_*: the process that runs it (see service.jobs.owner).
        start_by_s, end_by_s: deadlines by the database's clock, None for none.
        next_event: number of its next event; never reset, so that Last-Event-ID stays meaningful.
    """

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "state", "queued_s"), Index(None, "created_s", "id"))

    id: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    model: Mapped[str] = mapped_column(ForeignKey("models.digest"))
    target: Mapped[str] = mapped_column(ForeignKey("targets.digest"))
    request: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    progress: Mapped[str] = mapped_column(Text)
    report: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)
    artifact: Mapped[str | None] = mapped_column(DIGEST)
    cancel_requested: Mapped[bool]
    run: Mapped[int]
    attempt: Mapped[int]
    crashes: Mapped[int]
    owner_boot: Mapped[str | None] = mapped_column(String(120))
    owner_pid: Mapped[int | None]
    owner_start: Mapped[str | None] = mapped_column(String(40))
    heartbeat_s: Mapped[float | None] = mapped_column(Float(53))
    start_by_s: Mapped[float | None] = mapped_column(Float(53))
    end_by_s: Mapped[float | None] = mapped_column(Float(53))
    next_event: Mapped[int]
    created_s: Mapped[float] = mapped_column(Float(53))
    queued_s: Mapped[float] = mapped_column(Float(53))
    finished_s: Mapped[float | None] = mapped_column(Float(53))


class EventRow(Base):
    """Something that happened to a job, numbered within it."""

    __tablename__ = "events"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    type: Mapped[str] = mapped_column(String(32))
    data: Mapped[str] = mapped_column(Text)
    created_s: Mapped[float] = mapped_column(Float(53))


class KeyRow(Base):
    """A RecordKey; `digest` is over all its fields."""

    __tablename__ = "record_keys"
    __table_args__ = (Index(None, "workload"), Index(None, "target"))

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    digest: Mapped[str] = mapped_column(DIGEST, unique=True)
    workload: Mapped[str] = mapped_column(DIGEST)
    target: Mapped[str] = mapped_column(DIGEST)
    threads: Mapped[int]
    error_class: Mapped[str] = mapped_column(String(16))
    protocol: Mapped[int]
    language: Mapped[int]


class TrialRow(Base):
    """One measured candidate. The same candidate is measured again only for another epoch of the code generator."""

    __tablename__ = "trials"
    __table_args__ = (Unique("key_id", "schedule_digest", "codegen_epoch"), Index(None, "key_id", "id"))

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    key_id: Mapped[int] = mapped_column(ForeignKey("record_keys.id"))
    schedule_digest: Mapped[str] = mapped_column(DIGEST)
    schedule: Mapped[str] = mapped_column(Text)
    result: Mapped[str] = mapped_column(Text)
    failed: Mapped[bool]
    device: Mapped[str] = mapped_column(String(200))
    seed: Mapped[int] = mapped_column(BigInteger)
    codegen_epoch: Mapped[int]
    job: Mapped[str | None] = mapped_column(String(80), index=True)
    created_s: Mapped[float] = mapped_column(Float(53))


class RecordRow(Base):
    """The schedule that a key is served with, and its evidence."""

    __tablename__ = "records"

    key_id: Mapped[int] = mapped_column(ForeignKey("record_keys.id"), primary_key=True, autoincrement=False)
    schedule: Mapped[str] = mapped_column(Text)
    evidence: Mapped[str] = mapped_column(Text)
    median_s: Mapped[float] = mapped_column(Float(53))
    untuned_s: Mapped[float] = mapped_column(Float(53))
    device: Mapped[str] = mapped_column(String(200))
    seed: Mapped[int] = mapped_column(BigInteger)
    codegen_epoch: Mapped[int]
    provenance: Mapped[str] = mapped_column(Text)
    created_s: Mapped[float] = mapped_column(Float(53))


class TokenRow(Base):
    """A bearer token; only its hash is kept. `prefix` is what people see of it."""

    __tablename__ = "tokens"

    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    prefix: Mapped[str] = mapped_column(String(16))
    created_s: Mapped[float] = mapped_column(Float(53))
    revoked_s: Mapped[float | None] = mapped_column(Float(53))


class IdempotencyRow(Base):
    """What a request with an Idempotency-Key was answered with. `request` is the digest of that request."""

    __tablename__ = "idempotency_keys"

    token: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request: Mapped[str] = mapped_column(DIGEST)
    status: Mapped[int]
    body: Mapped[str] = mapped_column(Text)
    created_s: Mapped[float] = mapped_column(Float(53), index=True)
