"""The cost model that the package brings, as a file; reading it needs no XGBoost."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

SHIPPED = Path(__file__).with_name("pretrained.model")
"""What a search begins with, and instant mode asks; `python -m benchmarks.search train` makes it."""


def shipped_digest() -> str:
    """SHA-256 of the file; "" where there is none, or one that is never surer than the default is good."""
    content = SHIPPED.read_bytes() if SHIPPED.exists() else b""
    return hashlib.sha256(content).hexdigest() if content and _chooses(content) else ""


def _chooses(content: bytes) -> bool:
    """Whether instant mode may take what the model likes best; what is wrong with a file is said where it is loaded."""
    try:
        return json.loads(content.partition(b"\n")[0])["gates"]["margin"] is not None
    except (ValueError, KeyError, TypeError):
        return True
