"""Writing files so that a reader sees the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from compiler.errors import InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside it and rename; raises InputError where the folder is missing or not writable."""
    with _replacing(path, "wb") as stream:
        stream.write(data)


@contextlib.contextmanager
def atomic_text(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name when the block ends well, and not at all otherwise.

    Raises:
        InputError: the folder is missing or not writable, or the disk is full.
    """
    with _replacing(path, "w") as stream:
        yield stream


def check_writable(path: Path) -> None:
    """Raise InputError early where `path` could not be written, before any long work."""
    if path.is_dir():
        msg = f"{path} is a folder; name a file in it"
        raise InputError(msg)
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _refused(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder with its parents; raises InputError where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from error


@contextlib.contextmanager
def _replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    encoding = None if "b" in mode else "utf-8"
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            mode, dir=path.parent, prefix=f".{path.name}.", delete=False, encoding=encoding
        ) as stream:
            temporary = Path(stream.name)
            yield stream
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _refused(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot write {path} ({error.strerror}); choose a folder that exists and that you may write to"
    )
