"""The cache of compiled models: what `luthier.compile` made before, found by everything that it was made from.

    FOLDER/<key>.tasks      the Workloads of a model, which tell what to look up in the tuning log
    FOLDER/<key>.luthier    the compiled model for one Target, team size and set of answers

A key is the SHA-256 of the model's bytes, shapes and name, of the compiler's own source and of the versions of the
libraries it works with; for a compiled model also of the Target, the threads and the tuning log's answers. Entries
appear whole or not at all, so that processes can share the folder. A damaged one is reported, deleted and made again.
The least recently used are deleted above LUTHIER_CACHE_BYTES; 0 switches the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import compiler
import tuner
from compiler import debug
from compiler.codegen.llvm import llvm_version
from compiler.errors import InputError
from compiler.runtime.artifact import image_pieces, read_image
from compiler.runtime.files import Piece, write_whole
from compiler.runtime.image import Image
from compiler.schedule.source import Found
from compiler.target import Target, target_json
from compiler.workload.ir import Workload, workload_from_json, workload_json
from service.settings import Settings

if TYPE_CHECKING:
    from onnx import ModelProto

_LOG = logging.getLogger("luthier.cache")
_LIBRARIES = ("llvmlite", "ml-dtypes", "numpy", "onnx")
_ABANDONED_S = 24 * 3600.0
"""Age of a file that some process began to write and never finished."""
_EXTERNAL = b"location"
"""Where a tensor's data are in a file of their own, ONNX names it by this key."""

_CHUNK = 1 << 20

Task = tuple[str, Workload]
"""A name for people, and what is computed."""


class Cache:
    """Files by key in one folder."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Keep at most `limit` bytes."""
        self._folder, self._limit = folder, limit

    def tasks(self, key: str) -> list[Task] | None:
        """The Workloads of a model; None where they are not known."""
        path = self._folder / f"{key}.tasks"
        with contextlib.suppress(FileNotFoundError):
            try:
                digest, _, text = path.read_text("utf-8").partition("\n")
                if hashlib.sha256(text.encode()).hexdigest() == digest:
                    self._used(path)
                    return [(str(name), workload_from_json(data)) for name, data in json.loads(text)]
            except (OSError, ValueError, KeyError, TypeError) as error:
                if isinstance(error, FileNotFoundError):
                    raise
            self._damaged(path)
        return None

    def image(self, key: str) -> Image | None:
        """A compiled model, mapped; None where there is none."""
        path = self._folder / f"{key}.luthier"
        if not path.is_file():
            return None
        try:
            image = read_image(path)
        except InputError:
            self._damaged(path)
            return None
        self._used(path)
        return image

    def put_tasks(self, key: str, tasks: Iterable[Task]) -> None:
        """Keep the Workloads of a model."""
        text = json.dumps([[name, workload_json(workload)] for name, workload in tasks])
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._put(self._folder / f"{key}.tasks", [f"{digest}\n{text}".encode()])

    def put_image(self, key: str, image: Image) -> None:
        """Keep a compiled model, unless it is larger than all that may be kept."""
        if sum(array.nbytes for array in image.constants) <= self._limit:
            self._put(self._folder / f"{key}.luthier", image_pieces(image))

    def enlarges(self, key: str) -> bool:
        """Whether the image of this key was found to enlarge errors, so that it is compiled again, with care."""
        path = self._folder / f"{key}.enlarges"
        if not path.is_file():
            return False
        self._used(path)
        return True

    def put_enlarges(self, key: str) -> None:
        """Keep that an image enlarges errors."""
        self._put(self._folder / f"{key}.enlarges", [b""])

    def _put(self, path: Path, pieces: Iterable[Piece]) -> None:
        """What cannot be kept is made again the next time; that is reported, and no error."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, pieces, durable=False)
            self._evict(path)
        except (OSError, InputError) as error:
            _LOG.warning("the compiled model is not kept for the next time: %s", error)

    def _evict(self, newest: Path) -> None:
        """Delete the least recently used files above the limit, and what was never finished."""
        found = []
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path.name.startswith("."):
                    if time.time() - status.st_mtime > _ABANDONED_S:
                        path.unlink()
                elif path != newest:
                    found.append((status.st_mtime_ns, status.st_size, path))
        total = newest.stat().st_size + sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                break
            path.unlink(missing_ok=True)
            total -= size

    def _used(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            os.utime(path)

    def _damaged(self, path: Path) -> None:
        _LOG.warning("%s is damaged; it is deleted, and the model compiled again", path)
        with contextlib.suppress(OSError):
            path.unlink()


def open_cache() -> Cache | None:
    """The user's cache; None where it is switched off, or every level is to be shown as it is made (LUTHIER_DEBUG)."""
    settings = Settings()
    if not settings.cache_bytes or debug.flags():
        return None
    return Cache(settings.cache_folder / "models", settings.cache_bytes)


def model_key(
    model: str | Path | bytes | ModelProto,
    shapes: Mapping[str, Sequence[int]],
    named: Sequence[Mapping[str, Sequence[int]]] = (),
    *,
    any_size: bool,
) -> str | None:
    """Of everything that a model's Workloads depend on; None where that cannot be told from its own bytes."""
    name = ""
    if isinstance(model, (str, Path)):
        path = Path(model)
        name = path.stem
        try:
            if not path.is_file():  # a pipe can be read but once
                return None
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):  # the model's reader says what is wrong
            return None
    elif isinstance(model, bytes):
        digest = hashlib.sha256(model).hexdigest()
    else:
        return None
    sizes = [{name: list(shape) for name, shape in size.items()} for size in (shapes, *named)]
    return _digest([_fingerprint(), digest, name, sizes, any_size])


def has_external_data(model: str | Path | bytes | ModelProto) -> bool:
    """Whether a model may have data beside its own bytes; a name in it can look as if."""
    if isinstance(model, bytes):
        return _EXTERNAL in model
    if not isinstance(model, (str, Path)):
        return True
    end = len(_EXTERNAL)
    window = bytearray(end + _CHUNK)  # the last bytes of what was read before, then what is read next
    with Path(model).open("rb", buffering=0) as file:
        while count := file.readinto(memoryview(window)[end:]):
            if window.find(_EXTERNAL, 0, end + count) >= 0:
                return True
            window[:end] = window[count : end + count]
    return False


def image_key(
    key: str,
    target: Target,
    threads: int,
    workloads: Sequence[Workload],
    answers: Sequence[Found | None],
    chooser: str,
) -> str:
    """Of everything that a compiled model depends on.

    `key`: of the model; `answers`: the tuning log's; `chooser`: what answers for the rest.
    """
    rows = [
        [w.digest, a and [a.schedule.digest, a.lookup, a.expected_loss]]
        for w, a in zip(workloads, answers, strict=True)
    ]
    return _digest([key, target_json(target), threads, rows, chooser])


@cache
def _fingerprint() -> str:
    """Of the compiler and what chooses for it: their source, and the libraries that they work with."""
    found = hashlib.sha256()
    for root in (Path(compiler.__file__).parent, Path(tuner.__file__).parent):
        for path in sorted(root.rglob("*.py")):
            found.update(f"{path.relative_to(root.parent)} {path.stat().st_size}\n".encode())
            found.update(path.read_bytes())
    versions = [metadata.version(name) for name in _LIBRARIES]
    return _digest([found.hexdigest(), llvm_version(), versions])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
