"""The cost model that the package brings, as a file; reading it needs no XGBoost."""

from __future__ import annotations

import hashlib
from pathlib import Path

SHIPPED = Path(__file__).with_name("pretrained.model")
"""What a search begins with, and instant mode asks; `python -m benchmarks.search train` makes it."""


def shipped_digest() -> str:
    """SHA-256 of the file; "" where there is none."""
    return hashlib.sha256(SHIPPED.read_bytes()).hexdigest() if SHIPPED.exists() else ""
