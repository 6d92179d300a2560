"""Alembic's entry point: runs on the connection, and inside the transaction, that the caller hands over."""

from __future__ import annotations

from alembic import context

from service.db.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite changes a column by rewriting its table
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
