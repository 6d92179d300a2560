"""Debugging by environment variable: LUTHIER_DEBUG=print,time,dump:DIR (any of them, separated by commas).

print      the IR after every pass that changed it, on stderr
time       seconds per pass, on stderr
dump:DIR   every level of every kernel as files in DIR
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path


@cache
def flags() -> frozenset[str]:
    """The words of LUTHIER_DEBUG."""
    return frozenset(word.strip() for word in os.environ.get("LUTHIER_DEBUG", "").split(",") if word.strip())


def enabled(word: str) -> bool:
    """Whether a word was given."""
    return word in flags()


def dump_folder() -> Path | None:
    """Where to write the levels of each kernel, or None."""
    for word in flags():
        if word.startswith("dump:"):
            return Path(word.removeprefix("dump:"))
    return None


def show(title: str, text: str) -> None:
    """Write a titled text to stderr."""
    sys.stderr.write(f"--- {title}\n{text.rstrip()}\n")
