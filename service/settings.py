"""Settings from the environment: LUTHIER_DATABASE_URL, _SERVER, _TOKEN, _CACHE_DIR and _CACHE_BYTES.

Besides compiler.debug (LUTHIER_DEBUG), the only place that reads the environment.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import NonNegativeInt, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What the environment says; None where it says nothing."""

    model_config = SettingsConfigDict(
        env_prefix="LUTHIER_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    database_url: str | None = None
    server: str | None = None
    token: SecretStr | None = None
    cache_dir: Path | None = None
    cache_bytes: NonNegativeInt = 4 << 30
    """Most that compiled models may take in the cache folder; 0: none are kept."""

    @property
    def database(self) -> str:
        """URL of the tuning log; by default an SQLite file in the user's data folder."""
        return self.database_url or f"sqlite:///{default_database_path()}"

    @property
    def server_url(self) -> str:
        """URL of the service; by default the one that `luthier serve` listens on."""
        return self.server or "http://127.0.0.1:8765"

    @property
    def token_text(self) -> str | None:
        """The token in clear, for the Authorization header."""
        return self.token.get_secret_value() if self.token else None

    @property
    def cache_folder(self) -> Path:
        """Folder for files that may be lost at any time, such as an upload on its way into the database."""
        return self.cache_dir or platformdirs.user_cache_path("luthier")


def default_database_path() -> Path:
    """The SQLite file that is used when nobody names a database."""
    return platformdirs.user_data_path("luthier") / "luthier.db"
