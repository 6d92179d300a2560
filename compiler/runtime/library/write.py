"""Writing `model.so` and `model.h`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from compiler.codegen.cpu_check import RAW_CODE, baseline
from compiler.codegen.kernel import phase_objects
from compiler.codegen.llvm import emit_object
from compiler.errors import InputError, TargetError
from compiler.runtime.files import Piece, write_whole
from compiler.runtime.image import Image
from compiler.runtime.library.header import header_text
from compiler.runtime.library.interface import FUNCTIONS, emit_interface
from compiler.runtime.library.machines import MACHINES
from compiler.runtime.library.objects import ObjectFile, Part, read_object
from compiler.runtime.library.shared import SharedLibrary, link_library
from compiler.target import Target
from compiler.workload.program import ALIGNMENT


def check_library(target: Target) -> None:
    """Raise TargetError where there are no shared libraries for the Target."""
    if target.instruction_set not in MACHINES or "linux" not in target.triple:
        msg = (
            f"no shared library can be made for {target.name} ({target.triple}); "
            "compile for Linux on x86_64 or aarch64, or name an output that ends in .luthier"
        )
        raise TargetError(msg)


def write_library(image: Image, path: Path) -> None:
    """Write the library and, under the same name with `.h`, its header; each appears whole or not at all.

    Raises InputError where the folder cannot be written or the model has open sizes, TargetError as `check_library`.
    """
    check_library(image.target)
    if image.symbols:
        names = ", ".join(symbol.name for symbol in image.symbols)
        msg = f"a shared library is for fixed sizes, and the model leaves {names} open; give --shape"
        raise InputError(msg)
    name = c_name(path.stem)
    offsets, size = _place(image.constants)
    library = _link(image, name, path.name, offsets, size)
    write_whole(path, _pieces(library, image.constants))
    write_whole(path.with_suffix(".h"), [header_text(image, name, path.name).encode()])


def c_name(stem: str) -> str:
    """A name that C allows: letters, digits and underscores, not a digit first."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    return name if re.match(r"[A-Za-z]", name) else f"model_{name}"


def _link(image: Image, name: str, file: str, offsets: list[int], size: int) -> SharedLibrary:
    # The check of the CPU must run on those that fail it.
    interface = emit_object(emit_interface(image, name, offsets), baseline(image.target))
    code = [interface, image.program, image.team, *phase_objects(image.kernels.values()).values()]
    raw = RAW_CODE[image.target.instruction_set]
    objects = [*map(read_object, code), *(_raw_object(*item) for item in raw.items())]
    exports = [f"{name}_{function}" for function in FUNCTIONS]
    return link_library(objects, MACHINES[image.target.instruction_set], file, exports, size)


def _raw_object(name: str, code: bytes) -> ObjectFile:
    return ObjectFile((Part("text", code, 16),), {name: (0, 0)})


def _place(constants: Iterable[np.ndarray]) -> tuple[list[int], int]:
    """Offset of each constant, and the size of all; never 0, since a segment of the library has to have bytes."""
    offsets, end = [], 0
    for array in constants:
        offsets.append(end)
        end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, max(end, ALIGNMENT)


def _pieces(library: SharedLibrary, constants: Iterable[np.ndarray]) -> Iterable[Piece]:
    yield library.head
    written = 0
    for array in constants:
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % ALIGNMENT)
        written += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    yield bytes(library.constants_bytes - written)
    yield library.tail
