"""Nests whose loops are blocks and threads: what a grid of threads computes, and the PTX text that comes out."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.choice import default_schedule
from compiler.codegen.grid_entry import launch
from compiler.codegen.texts import nest_ir
from compiler.errors import CompileError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind, LoopNest
from compiler.pipeline import build_kernel, build_nest
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, ComputeAt, Reorder, Split, Step
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.codegen.simt import run_grid
from tests.compiler.codegen.test_targets import FOR_CROSS, REPRESENTATIVE, TOLERANCE
from tests.compiler.execute import relative_error, run_interpreted
from tests.compiler.workloads import KINDS, matmul, random_operands

GPU = PRESETS["nvptx64-sm80"]


def tiled(rows: int, columns: int) -> tuple[Step, ...]:
    """A matrix product in blocks of rows x columns threads."""
    return (
        Split("epilogue", "s0", rows),
        Split("epilogue", "s1", columns),
        Reorder("epilogue", ("s0.o", "s1.o", "s0.i", "s1.i")),
        *(Bind("epilogue", name, LoopKind.BLOCK) for name in ("s0.o", "s1.o")),
        *(Bind("epilogue", name, LoopKind.THREAD) for name in ("s0.i", "s1.i")),
    )


def shared(rows: int, columns: int, bound: tuple[str, ...]) -> Schedule:
    """The same, with the sums in shared memory, computed by the threads that `bound` loops name."""
    attached = ComputeAt("anchor", "epilogue", "s1.o")
    threads = (Bind("anchor", name, LoopKind.THREAD) for name in bound)
    return Schedule((*tiled(rows, columns), attached, *threads))


def in_registers(rows: int, columns: int) -> Schedule:
    return Schedule((*tiled(rows, columns), ComputeAt("anchor", "epilogue", "s1.i")))


def phases(workload: Workload, schedule: Schedule) -> list[str]:
    """The assembly of each phase."""
    return [phase.object_code.decode() for phase in build_kernel(workload, schedule, GPU).phases]


def ptx(workload: Workload, schedule: Schedule) -> str:
    return "\n".join(phases(workload, schedule))


def check_on_threads(workload: Workload, schedule: Schedule) -> LoopNest:
    nest = build_nest(workload, schedule)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_grid(nest, GPU, operands), expected) < TOLERANCE
    return nest


@pytest.mark.parametrize("kind", REPRESENTATIVE)
def test_a_thread_per_element_computes_the_reference(kind: str) -> None:
    workload = REPRESENTATIVE[kind]
    space = build_space(workload, GPU, 1)
    for assignment in (space.default, space.sample(random.Random(kind))):
        check_on_threads(workload, space.schedule(assignment))


@pytest.mark.parametrize("bound", [("s0", "s1"), ("s0",), ()], ids=["tile", "rows", "one thread"])
def test_threads_share_what_their_block_computes(bound: tuple[str, ...]) -> None:
    nest = check_on_threads(matmul(7, 21, 9), shared(4, 8, bound))
    assert nest.by_name["t0"].scope == "shared"
    text = ptx(matmul(7, 21, 9), shared(4, 8, bound))
    assert text.count("bar.sync") == 1
    assert "st.shared" in text
    assert ".shared .align 16 .b8" in text


def test_every_stage_without_a_place_is_a_phase_of_its_own() -> None:
    workload = matmul(5, 12, 7)
    rows = (("s0", LoopKind.BLOCK), ("s1", LoopKind.THREAD))
    schedule = Schedule(tuple(Bind(stage, *loop) for stage in ("anchor", "epilogue") for loop in rows))
    assert len(check_on_threads(workload, schedule).phases) == 2
    assert ptx(workload, schedule).count(".visible .entry") == 2


def test_loops_that_are_not_bound_belong_to_thread_0() -> None:
    workload = matmul(3, 4, 5)
    for schedule in (Schedule(), Schedule((Bind("epilogue", "s0", LoopKind.THREAD),))):
        assert len(check_on_threads(workload, schedule).phases) == 1


def test_a_grid_is_launched_as_its_loops_say() -> None:
    (body,) = build_nest(matmul(37, 53, 21), in_registers(4, 32)).phases
    assert launch(body).blocks == (2, 10, 1)
    assert launch(body).threads == (32, 4, 1)


def test_the_interpreter_agrees() -> None:
    workload, schedule = matmul(7, 21, 9), shared(4, 8, ("s0", "s1"))
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < TOLERANCE


def test_the_text_of_a_matrix_product() -> None:
    text = ptx(matmul(37, 53, 21), in_registers(4, 32))
    assert re.search(r"\.visible \.entry k_\w+\(", text)
    assert len(re.findall(r"^\s*\.param \.u64 \.ptr", text, re.MULTILINE)) == 3
    assert ".target sm_80" in text
    assert ".reqntid 32, 4, 1" in text
    assert text.count("fma.rn.f32") == 1
    assert text.count("ld.global.nc") == 2
    assert text.count("st.global") == 1
    assert "%ctaid.y" in text
    assert "bar.sync" not in text


@pytest.mark.parametrize("kind", FOR_CROSS)
def test_memory_is_addressed_by_its_space_and_no_library_is_called(kind: str) -> None:
    text = ptx(FOR_CROSS[kind], default_schedule(FOR_CROSS[kind], GPU, 1))
    instructions = [line.split()[0] for line in text.splitlines() if line.startswith("\t") and line.split()]
    loads = {i for i in instructions if i.startswith(("ld.", "st."))}
    assert loads
    assert all(i.split(".")[1] in ("param", "global") for i in loads)
    assert not any(i.startswith("call") for i in instructions)


def test_ptxas_assembles_every_kernel(tmp_path: Path) -> None:
    assembler = shutil.which("ptxas")
    if assembler is None:
        pytest.skip("this machine has no ptxas; it comes with NVIDIA's CUDA toolkit")
    texts = [text for w in FOR_CROSS.values() for text in phases(w, default_schedule(w, GPU, 1))]
    texts += phases(matmul(7, 21, 9), shared(4, 8, ("s0", "s1")))
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.ptx"
        path.write_text(text)
        command = [assembler, f"-arch={GPU.cpu}", "--warning-as-error", "-o", tmp_path / "out.cubin", path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_a_cpu_has_no_grid_and_a_gpu_no_team() -> None:
    with pytest.raises(CompileError, match=r"s0\.o is block, which native"):
        build_kernel(matmul(7, 21, 9), in_registers(4, 8), native_target())
    with pytest.raises(CompileError, match="t0 is shared by the threads of a block, which native lacks"):
        build_kernel(matmul(7, 21, 9), shared(4, 8, ()), native_target())
    with pytest.raises(CompileError, match="is parallel, which nvptx64-sm80"):
        build_kernel(KINDS["add_relu"], default_schedule(KINDS["add_relu"], native_target(), 2), GPU)


def test_a_block_that_is_too_large() -> None:
    with pytest.raises(CompileError, match="2048 threads in a block, nvptx64-sm80 has 1024"):
        nest_ir(build_nest(matmul(64, 64, 4), in_registers(32, 64)), GPU)
    with pytest.raises(CompileError, match="shares 65536 bytes in a block, nvptx64-sm80 has 49152"):
        nest_ir(build_nest(matmul(128, 128, 4), shared(128, 128, ())), GPU)


def test_a_stage_between_two_thread_loops() -> None:
    schedule = Schedule((*tiled(4, 8), ComputeAt("anchor", "epilogue", "s0.i")))
    with pytest.raises(CompileError, match="between two thread loops"):
        build_kernel(matmul(7, 21, 9), schedule, GPU)
