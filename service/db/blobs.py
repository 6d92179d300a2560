"""Content-addressed blobs in the database, in chunks: one truth, and no path that a client could name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import IO

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session

from service.db.insert import affected, insert_new
from service.db.models import BlobChunk, JobRow, ModelRow

CHUNK_BYTES = 4 << 20


def file_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """The rest of a file, a chunk at a time."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def byte_chunks(data: bytes) -> Iterator[bytes]:
    """A value, a chunk at a time."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


def digest_of(chunks: Iterable[bytes]) -> str:
    """SHA-256 over all chunks, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def write_blob(session: Session, digest: str, chunks: Iterable[bytes]) -> None:
    """Store chunks under their digest, unless it is there already."""
    if has_blob(session, digest):
        return
    for seq, chunk in enumerate(chunks):
        insert_new(session, BlobChunk, [{"digest": digest, "seq": seq, "data": chunk}])


def has_blob(session: Session, digest: str) -> bool:
    """Whether it is stored."""
    return session.scalar(select(BlobChunk.seq).where(BlobChunk.digest == digest).limit(1)) is not None


def blob_bytes(session: Session, digest: str) -> int:
    """Its size, 0 where it is not stored."""
    size = select(func.sum(func.length(BlobChunk.data))).where(BlobChunk.digest == digest)
    return int(session.scalar(size) or 0)


def read_chunk(session: Session, digest: str, seq: int) -> bytes | None:
    """One chunk, None after the last."""
    return session.scalar(select(BlobChunk.data).where(BlobChunk.digest == digest, BlobChunk.seq == seq))


def read_blob(session: Session, digest: str) -> bytes:
    """The whole blob, empty where it is not stored."""
    chunks = select(BlobChunk.data).where(BlobChunk.digest == digest).order_by(BlobChunk.seq)
    return b"".join(session.scalars(chunks.execution_options(yield_per=1)))


def delete_unused_blobs(session: Session, before_s: float) -> int:
    """Delete blobs that no artifact is and no model that was stored or worked on since; how many chunks that were.

    Models and jobs keep their rows: what is gone is bytes that whoever needs them again has, or can make.
    """
    recent = or_(JobRow.finished_s.is_(None), JobRow.finished_s >= before_s)
    worked_on = ModelRow.digest.in_(select(JobRow.model).where(recent))
    models = select(ModelRow.digest).where(or_(ModelRow.created_s >= before_s, worked_on))
    artifacts = select(JobRow.artifact).where(JobRow.artifact.is_not(None))
    unused = BlobChunk.digest.not_in(models) & BlobChunk.digest.not_in(artifacts)
    return affected(session, delete(BlobChunk).where(unused))
