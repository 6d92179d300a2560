"""Alembic migrations of the tuning log."""
