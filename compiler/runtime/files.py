"""Writing large files so that a reader sees the old one or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from compiler.errors import InputError

Piece = bytes | memoryview


def write_whole(path: Path, pieces: Iterable[Piece], *, durable: bool = True) -> None:
    """Write beside it and rename; raises InputError where the folder cannot be written.

    `durable`: the file is on the disk before its name is, which takes as long as the disk does.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.writelines(pieces)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror or error}; choose a folder that you may write to"
        raise InputError(msg) from error
