"""The environment that Ray reads: it takes these settings from nowhere else."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

_TOKEN_FILE = Path(".ray") / "auth_token"


def secure_new_ray_cluster() -> None:
    """Token authentication on and usage reports off, for a cluster that this process is about to start.

    What the user has set stays. Without a token of theirs, a fresh one is made that only this process and the ones
    that it starts know. To be called before Ray is imported; where it is imported already, its own default decides
    the mode, because it reads that only once.
    """
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    known = any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if not known and not (Path.home() / _TOKEN_FILE).is_file():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
