"""`luthier.load`: it needs neither the tuning log nor the compiler's front, and imports none of them."""

from __future__ import annotations

from pathlib import Path

from compiler.runtime.module import Module, load_module


def load(path: str | Path) -> Module:
    """Load an artifact that `Module.save` or `luthier compile` wrote; raises InputError where it is none."""
    return load_module(path)
