"""What commands write: one JSON document or a text on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer


def say(text: str) -> None:
    """A line for people, on stderr."""
    typer.echo(text, err=True)


@contextmanager
def only_json() -> Iterator[None]:
    """While it lasts, whatever Python, LLVM or another library writes to stdout goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def put_json(document: Mapping[str, Any]) -> None:
    """The one JSON document of a command."""
    typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))


def put_text(text: str) -> None:
    """The result for people, on stdout."""
    typer.echo(text)
