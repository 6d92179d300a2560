"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import SchemaItem

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_DIGEST = sa.String(64)
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.Float(53)
_TABLES = (
    *("events", "jobs", "trials", "records", "record_keys"),
    *("workloads", "targets", "models", "blobs", "tokens", "idempotency_keys"),
)


def upgrade() -> None:
    """To this revision."""
    _create_models()
    _create_jobs()
    _create_log()
    _create_access()


def downgrade() -> None:
    """Back to the revision before."""
    for table in _TABLES:
        op.drop_table(table)


def _create_models() -> None:
    op.create_table(
        "blobs",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "seq", name="pk_blobs"),
    )
    op.create_table(
        "models",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=True),
        sa.Column("created_s", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_models"),
    )
    op.create_table(
        "workloads",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_workloads"),
    )
    op.create_table(
        "targets",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_targets"),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _DIGEST, nullable=False),
        sa.Column("model", _DIGEST, nullable=False),
        sa.Column("target", _DIGEST, nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("report", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("artifact", _DIGEST, nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("owner_boot", sa.String(120), nullable=True),
        sa.Column("owner_pid", sa.Integer(), nullable=True),
        sa.Column("owner_start", sa.String(40), nullable=True),
        sa.Column("heartbeat_s", _TIME, nullable=True),
        sa.Column("start_by_s", _TIME, nullable=True),
        sa.Column("end_by_s", _TIME, nullable=True),
        sa.Column("next_event", sa.Integer(), nullable=False),
        sa.Column("created_s", _TIME, nullable=False),
        sa.Column("queued_s", _TIME, nullable=False),
        sa.Column("finished_s", _TIME, nullable=True),
        sa.ForeignKeyConstraint(["model"], ["models.digest"], name="fk_jobs_model_models"),
        sa.ForeignKeyConstraint(["target"], ["targets.digest"], name="fk_jobs_target_targets"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_created_s_id", "jobs", ["created_s", "id"])
    op.create_index("ix_jobs_state_queued_s", "jobs", ["state", "queued_s"])
    op.create_table(
        "events",
        sa.Column("job", _DIGEST, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created_s", _TIME, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_events_job_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "seq", name="pk_events"),
    )


def _create_log() -> None:
    op.create_table(
        "record_keys",
        sa.Column("id", _ID, nullable=False),
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("workload", _DIGEST, nullable=False),
        sa.Column("target", _DIGEST, nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("error_class", sa.String(16), nullable=False),
        sa.Column("protocol", sa.Integer(), nullable=False),
        sa.Column("language", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_record_keys"),
        sa.UniqueConstraint("digest", name="uq_record_keys_digest"),
    )
    op.create_index("ix_record_keys_target", "record_keys", ["target"])
    op.create_index("ix_record_keys_workload", "record_keys", ["workload"])
    op.create_table("records", *_measured_columns("evidence"), *_record_columns())
    op.create_table("trials", *_measured_columns("result"), *_trial_columns())
    op.create_index("ix_trials_job", "trials", ["job"])
    op.create_index("ix_trials_key_id_id", "trials", ["key_id", "id"])


def _measured_columns(result: str) -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("key_id", _ID, autoincrement=False, nullable=False),
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column(result, sa.Text(), nullable=False),
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("codegen_epoch", sa.Integer(), nullable=False),
        sa.Column("created_s", _TIME, nullable=False),
    )


def _record_columns() -> tuple[SchemaItem, ...]:
    return (
        sa.Column("median_s", _TIME, nullable=False),
        sa.Column("untuned_s", _TIME, nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["record_keys.id"], name="fk_records_key_id_record_keys"),
        sa.PrimaryKeyConstraint("key_id", name="pk_records"),
    )


def _trial_columns() -> tuple[SchemaItem, ...]:
    unique = ("key_id", "schedule_digest", "codegen_epoch")
    return (
        sa.Column("id", _ID, nullable=False),
        sa.Column("schedule_digest", _DIGEST, nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("job", sa.String(80), nullable=True),
        sa.ForeignKeyConstraint(["key_id"], ["record_keys.id"], name="fk_trials_key_id_record_keys"),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint(*unique, name="uq_trials_key_id_schedule_digest_codegen_epoch"),
    )


def _create_access() -> None:
    op.create_table(
        "tokens",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("created_s", _TIME, nullable=False),
        sa.Column("revoked_s", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("digest", name="pk_tokens"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("token", _DIGEST, nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("request", _DIGEST, nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_s", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("token", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_created_s", "idempotency_keys", ["created_s"])
