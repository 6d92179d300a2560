"""Bringing a schema up to date with Alembic, which is loaded only where there is something to do."""

from __future__ import annotations

import importlib.resources
import logging

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def migrate(connection: Connection) -> None:
    """Run every migration that the database has not seen, inside the caller's transaction."""
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def known_revisions() -> dict[str, bool]:
    """Every revision there is, and whether it is the newest."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    script = ScriptDirectory.from_config(migrations_config())
    return {r.revision: r.is_head for r in script.walk_revisions()}


def migrations_config() -> Config:
    """Alembic's configuration for the package `migrations`."""
    config = Config()
    folder = importlib.resources.files("migrations")
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
