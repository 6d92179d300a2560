"""Whole models for other machines: an artifact's objects, linked and run, give what the reference gives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.codegen.kernel import phase_objects
from compiler.codegen.llvm import emit_object
from compiler.codegen.team import SIZE_OFFSET, emit_team, team_bytes
from compiler.errors import TargetError
from compiler.pipeline import compile_image, load_graph, lower
from compiler.runtime.artifact import image_bytes, read_image
from compiler.runtime.image import Image, TensorSpec
from compiler.schedule.source import NoSource
from compiler.target import PRESETS
from tests.compiler.codegen.cross import ALIGNMENT, Call, require_program, run_aarch64, run_wasm, zig
from tests.compiler.runtime.test_module import assert_close, expected, random_input, small_model


def image_for(name: str, threads: int = 1) -> Image:
    """What a `.luthier` file holds, read back."""
    image = compile_image(lower(load_graph(small_model())), PRESETS[name], threads, NoSource())
    return read_image(image_bytes(image))


class Memory:
    """An arena with everything that the slots of an Image point to."""

    def __init__(self, image: Image, x: np.ndarray) -> None:
        self._parts: list[np.ndarray] = []
        self._size = 0
        outputs = [np.full(spec.shape, np.nan, spec.dtype.numpy) for spec in image.outputs]
        starts = {
            "input": [self._place(x)],
            "output": [self._place(array) for array in outputs],
            "constant": [self._place(array) for array in image.constants],
        }
        arena, zeroed = (
            self._place(np.full(size, fill, np.uint8))
            for size, fill in ((image.arena_bytes, 255), (image.zeroed_bytes, 0))
        )
        self._outputs = list(zip(image.outputs, starts["output"], strict=True))
        bases = {"arena": arena, "zeroed": zeroed}
        self.table = tuple(
            bases[s.kind] + s.where if s.kind in bases else starts[s.kind][s.where] for s in image.slots
        )

    @property
    def arena(self) -> np.ndarray:
        return np.concatenate(self._parts)

    def results(self, arena: np.ndarray) -> dict[str, np.ndarray]:
        return {spec.name: _read(arena, spec, start) for spec, start in self._outputs}

    def _place(self, array: np.ndarray) -> int:
        start = self._size
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._parts.append(np.pad(data, (0, -data.size % ALIGNMENT)))
        self._size += self._parts[-1].size
        return start


def _read(arena: np.ndarray, spec: TensorSpec, start: int) -> np.ndarray:
    count = int(np.prod(spec.shape))
    return arena[start : start + count * spec.dtype.size_bytes].view(spec.dtype.numpy).reshape(spec.shape)


def test_a_model_for_wasm32(tmp_path: Path) -> None:
    image = image_for("wasm32")
    memory = Memory(image, random_input())
    objects = [*phase_objects(image.kernels.values()).values(), image.program, image.team]
    arena = run_wasm(objects, [Call("program_run", memory.table, None)], memory.arena, tmp_path)
    assert_close(memory.results(arena), expected(random_input()))


def test_a_model_for_aarch64(tmp_path: Path) -> None:
    image = image_for("aarch64-neoverse-n1")
    # The team needs a C library; that of a Target without threads stands in for it.
    alone = emit_object(emit_team(PRESETS["wasm32"]), image.target)
    memory = Memory(image, random_input())
    objects = [*phase_objects(image.kernels.values()).values(), image.program, alone]
    arena = run_aarch64(objects, [Call("program_run", memory.table, None)], memory.arena, tmp_path)
    assert_close(memory.results(arena), expected(random_input()))


_WITH_THREADS = """
#include <stdio.h>
static unsigned char arena[{size}] __attribute__((aligned(64))), team[{team}] __attribute__((aligned(64)));
int team_start(void *);
void team_stop(void *), program_run(void *, void **);
int main(void) {{
    void *table[] = {{{table}}};
    fread(arena, 1, sizeof arena, stdin);
    *(int *)(team + {size_offset}) = {threads};
    if (team_start(team)) return 1;
    for (int run = 0; run < 20; run++) program_run(team, table);
    team_stop(team);
    fwrite(arena, 1, sizeof arena, stdout);
    return 0;
}}
"""


@pytest.mark.slow  # a C library is built for the executable
def test_a_team_of_threads_for_aarch64(tmp_path: Path) -> None:
    emulator, threads = require_program("qemu-aarch64"), 3
    image = image_for("aarch64-neoverse-n1", threads)
    memory = Memory(image, random_input())
    table = ", ".join(f"arena + {offset}" for offset in memory.table)
    size, state = memory.arena.size, team_bytes(threads)
    source = tmp_path / "main.c"
    source.write_text(
        _WITH_THREADS.format(size=size, team=state, table=table, size_offset=SIZE_OFFSET, threads=threads)
    )
    objects = [*phase_objects(image.kernels.values()).values(), image.program, image.team]
    paths = [tmp_path / f"{number}.o" for number in range(len(objects))]
    for path, code in zip(paths, objects, strict=True):
        path.write_bytes(code)
    out = tmp_path / "model"
    zig(tmp_path, "cc", "-target", "aarch64-linux-musl", "-static", "-O1", source, *paths, "-o", out)
    done = subprocess.run([emulator, out], input=memory.arena.tobytes(), capture_output=True, timeout=120)
    assert done.returncode == 0
    assert_close(memory.results(np.frombuffer(done.stdout, np.uint8)), expected(random_input()))


def test_there_is_no_program_for_a_gpu() -> None:
    with pytest.raises(TargetError, match="only single kernels"):
        image_for("nvptx64-sm80")


def test_there_are_no_threads_in_wasm32() -> None:
    with pytest.raises(TargetError, match="1 thread instead of 2"):
        image_for("wasm32", 2)
