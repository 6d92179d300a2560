"""Shared libraries: what a C program computes, what is refused, and what the linker does with an object file."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.codegen.cpu_check import emit_cpu_check
from compiler.codegen.llvm import emit_object
from compiler.errors import CompileError, InputError, TargetError
from compiler.pipeline import compile_image, load_graph, lower, lower_any_size
from compiler.runtime.image import Image
from compiler.runtime.library.header import header_text
from compiler.runtime.library.interface import ERRORS
from compiler.runtime.library.machines import MACHINES
from compiler.runtime.library.objects import ObjectFile, Part, Relocation, read_object
from compiler.runtime.library.shared import link_library
from compiler.runtime.library.write import c_name, write_library
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import PRESETS, Target, native_target
from tests.compiler.codegen.cross import missing, require_package, require_program
from tests.compiler.runtime.test_module import assert_close, expected, random_input, small_model

EXAMPLE = Path(__file__).parents[3] / "examples" / "ahead_of_time" / "main.c"
CODES = {name: number for number, (name, _) in enumerate(ERRORS)}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared libraries are made for Linux")


def image_for(target: Target, threads: int = 2) -> Image:
    return compile_image(lower(load_graph(small_model())), target, threads, NoSource())


def open_model() -> onnx.ModelProto:
    """Any number of rows."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.fixture(scope="module")
def image() -> Image:
    return image_for(native_target())


@pytest.fixture(scope="module")
def folder(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With model.so and model.h."""
    folder = tmp_path_factory.mktemp("library")
    write_library(image, folder / "model.so")
    return folder


class Library:
    """The interface of a shared library of the small model, in this process."""

    def __init__(self, path: Path) -> None:
        self.code = ctypes.CDLL(str(path))
        self.code.model_error.restype = ctypes.c_char_p
        self.code.model_destroy.argtypes = [ctypes.c_void_p]
        self.code.model_run.argtypes = [ctypes.c_void_p] * 3

    def create(self, threads: int) -> tuple[int, ctypes.c_void_p]:
        context = ctypes.c_void_p()
        return self.code.model_create(threads, ctypes.byref(context)), context

    def run(self, image: Image, x: np.ndarray, threads: int = 0, runs: int = 1) -> dict[str, np.ndarray]:
        code, context = self.create(threads)
        assert code == CODES["OK"]
        outputs = {s.name: np.full(s.sizes(), np.nan, s.dtype.numpy) for s in image.outputs}
        for _ in range(runs):
            assert self.code.model_run(context, _pointers([x]), _pointers(outputs.values())) == CODES["OK"]
        self.code.model_destroy(context)
        return outputs


def _pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    addresses = [array.ctypes.data for array in arrays]
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _assert_same(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array, strict=True)


def _build_and_run(
    command: Sequence[str], emulator: Sequence[str], folder: Path, threads: int
) -> dict[str, bytes]:
    """Build the example, run it on the small model's input, and give its outputs' files."""
    link = ["-I.", str(EXAMPLE), "-L.", "-l:model.so", "-Wl,-rpath,$ORIGIN", "-o", "run"]
    subprocess.run([*command, *link], cwd=folder, check=True, timeout=120)
    (folder / "x.bin").write_bytes(random_input().tobytes())
    run = [*emulator, "./run", str(threads), "x.bin", "y.bin", "d.bin"]
    subprocess.run(run, cwd=folder, check=True, timeout=120)
    return {name: (folder / f"{name}.bin").read_bytes() for name in "yd"}


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_c_program_computes_the_same_bits(image: Image, folder: Path, threads: int) -> None:
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    found = _build_and_run([require_program("cc"), *strict], [], folder, threads)
    module = Module(image)
    outputs = module.run({"x": random_input()})
    module.close()
    assert found == {name: array.tobytes() for name, array in outputs.items()}


def test_the_header_is_also_cpp(folder: Path) -> None:
    source = folder / "main.cpp"
    source.write_text(
        '#include "model.h"\nint main() { model_destroy(nullptr); return MODEL_INPUT_0_RANK - 4; }\n'
    )
    command = [
        require_program("c++"),
        "-Wall",
        "-Werror",
        "main.cpp",
        "-L.",
        "-l:model.so",
        "-Wl,-rpath,$ORIGIN",
    ]
    subprocess.run([*command, "-o", "cpp"], cwd=folder, check=True, timeout=60)
    subprocess.run(["./cpp"], cwd=folder, check=True, timeout=60)


def test_contexts_run_at_the_same_time(image: Image, folder: Path) -> None:
    library, x = Library(folder / "model.so"), random_input()
    wanted = library.run(image, x)
    assert_close(wanted, expected(x))
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda n: library.run(image, x, 1 + n % 3, runs=20), range(12)):
            _assert_same(got, wanted)


def test_errors_are_codes_with_a_text(folder: Path) -> None:
    library = Library(folder / "model.so")
    assert library.create(1025)[0] == library.create(-1)[0] == CODES["ARGUMENT"]
    assert library.code.model_create(1, None) == CODES["ARGUMENT"]
    code, context = library.create(1)
    assert code == CODES["OK"]
    one = (ctypes.c_void_p * 2)(None, None)
    assert library.code.model_run(context, None, one) == CODES["ARGUMENT"]
    assert library.code.model_run(context, one, one) == CODES["ARGUMENT"]
    assert library.code.model_run(None, one, one) == CODES["ARGUMENT"]
    library.code.model_destroy(context)
    library.code.model_destroy(None)
    texts = [library.code.model_error(code).decode() for code in range(len(ERRORS))]
    assert texts == [text for _, text in ERRORS]
    assert b"not an error code" in library.code.model_error(99)


def test_nothing_but_the_interface_can_be_seen(folder: Path) -> None:
    library = Library(folder / "model.so")
    for name in ("program_run", "team_start", "cpu_fits", "constants"):
        assert not hasattr(library.code, name)


@pytest.mark.skipif(native_target().instruction_set != "x86_64", reason="the features are of x86_64")
def test_a_cpu_that_lacks_a_feature_is_told_so(image: Image, tmp_path: Path) -> None:
    # No CPU has both: one was AMD's, and gone before the other came.
    newer = replace(image.target, features=("tbm", "avx10.1"))
    write_library(replace(image, target=newer), tmp_path / "model.so")
    code, context = Library(tmp_path / "model.so").create(0)
    assert code == CODES["CPU"]
    assert context.value is None


@pytest.mark.skipif(native_target().instruction_set != "x86_64", reason="the features are of x86_64")
def test_every_feature_that_llvm_tells_of_is_known() -> None:
    import llvmlite.binding as llvm

    everything = tuple(llvm.get_host_cpu_features())
    assert "@cpu_fits" in emit_cpu_check(replace(native_target(), features=everything))
    with pytest.raises(TargetError, match="avx99"):
        emit_cpu_check(replace(native_target(), features=("avx99",)))


def test_features_of_an_unknown_arm_cpu_are_not_guessed() -> None:
    with pytest.raises(TargetError, match="cortex-a72"):
        emit_cpu_check(replace(PRESETS["aarch64-neoverse-n1"], cpu="apple-m1"))


@pytest.mark.slow  # a C library is built for the executable
@pytest.mark.parametrize("target", ["aarch64-neoverse-n1", "aarch64-cortex-a72"])
def test_a_c_program_for_aarch64(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = require_program("qemu-aarch64")
    libraries = Path("/usr/aarch64-linux-gnu")
    if not libraries.is_dir():
        missing("this machine has no C library for aarch64 (libc6-arm64-cross)")
    image = image_for(PRESETS[target])
    write_library(image, tmp_path / "model.so")
    driver = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.34"]
    require_package("ziglang")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", str(tmp_path))
    found = _build_and_run(driver, [emulator, "-cpu", "max", "-L", str(libraries)], tmp_path, 3)
    outputs = {s.name: np.frombuffer(found[s.name], s.dtype.numpy).reshape(s.sizes()) for s in image.outputs}
    assert_close(outputs, expected(random_input()))
    old = [emulator, "-cpu", "cortex-a72", "-L", str(libraries), "./run", "1", "x.bin", "y.bin", "d.bin"]
    done = subprocess.run(old, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == (target != "aarch64-cortex-a72")
    assert ("lacks instructions" in done.stderr) == (target != "aarch64-cortex-a72")


def test_what_is_refused(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    with pytest.raises(TargetError, match="no shared library"):
        write_library(replace(image, target=PRESETS["wasm32"]), path)
    open_image = compile_image(lower_any_size(open_model()), native_target(), 1, NoSource())
    with pytest.raises(InputError, match="--shape"):
        write_library(open_image, path)
    with pytest.raises(InputError, match="cannot write"):
        write_library(image, tmp_path / "missing" / "model.so")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_object_is_refused(image: Image) -> None:
    whole = image.program
    assert read_object(whole).symbols.keys() == {
        "program_phases",
        "program_pieces",
        "program_phase",
        "program_is_small",
    }
    for code in (b"", b"\x7fELF", b"no object" * 20, whole[:200], whole[:-100]):
        with pytest.raises(CompileError):
            read_object(code)


def test_symbols_are_defined_once_and_known() -> None:
    machine = MACHINES["x86_64"]
    call = Part("text", bytes(16), 16, (Relocation(1, 4, "system", -4),))
    with pytest.raises(CompileError, match="system"):
        link_library([ObjectFile((call,), {"run": (0, 0)})], machine, "x.so", ["run"], 64)
    twice = [ObjectFile((Part("text", bytes(16), 16),), {"run": (0, 0)})] * 2
    with pytest.raises(CompileError, match="twice"):
        link_library(twice, machine, "x.so", ["run"], 64)
    with pytest.raises(CompileError, match="walk"):
        link_library(twice[:1], machine, "x.so", ["walk"], 64)


def test_writable_sections_are_refused() -> None:
    ir = "@state = global i32 1\ndefine i32 @read() {\n  %v = load i32, ptr @state\n  ret i32 %v\n}"
    target = replace(PRESETS["x86-64-v3"], cpu="x86-64", features=())
    with pytest.raises(CompileError, match="can be written"):
        read_object(emit_object(ir, target))


@pytest.mark.parametrize(
    ("kind", "code", "place", "value", "wanted"),
    [
        (283, 0x94000000, 0x1000, 0x1008, 0x94000002),  # bl .+8
        (283, 0x94000000, 0x1000, 0x0FFC, 0x97FFFFFF),  # bl .-4
        (275, 0x90000000, 0x1FFC, 0x5123, 0x90000020),  # adrp x0, .+4 pages
        (275, 0x90000000, 0x5000, 0x4FFF, 0xF0FFFFE0),  # adrp x0, .-1 page
        (277, 0x91000000, 0, 0x5123, 0x91048C00),  # add x0, x0, #0x123
        (286, 0xF9400000, 0, 0x5128, 0xF9409400),  # ldr x0, [x0, #0x128]
        (299, 0x3DC00000, 0, 0x5120, 0x3DC04800),  # ldr q0, [x0, #0x120]
    ],
)
def test_relocations_of_aarch64(kind: int, code: int, place: int, value: int, wanted: int) -> None:
    words = bytearray(code.to_bytes(4, "little"))
    MACHINES["aarch64"].patch(words, 0, kind, place, value)
    assert f"{int.from_bytes(words, 'little'):#x}" == f"{wanted:#x}"


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_relocations_that_do_not_fit_or_are_unknown(name: str) -> None:
    machine, near = MACHINES[name], {"x86_64": 4, "aarch64": 283}[name]
    with pytest.raises(CompileError, match="too large"):
        machine.patch(bytearray(4), 0, near, 0, 1 << 40)
    with pytest.raises(CompileError, match="relocation 999"):
        machine.patch(bytearray(4), 0, 999, 0, 0)


def test_names_that_c_allows(image: Image, tmp_path: Path) -> None:
    assert [c_name(n) for n in ("model", "my-model.v2", "3d", "_x", "été")] == [
        "model", "my_model_v2", "model_3d", "model__x", "model__t_",
    ]  # fmt: skip
    odd = replace(image.inputs[0], name='a*/"\n??/ü')
    text = header_text(replace(image, inputs=(odd,)), "model", "model.so")
    (tmp_path / "odd.h").write_text(text)
    assert r'"a*/\042\012\077\077/\303\274"' in text
    if shutil.which("cc"):
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "odd.h"]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
