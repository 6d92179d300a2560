"""The official ONNX cases, as the tests run them, and the list of those that are refused.

    python -m tests.luthier.conformance --shrink     takes the cases that pass off the list

A case passes when every output has the type and shape of the expected one and is within the case's own tolerances.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

LIST = Path(__file__).with_name("unsupported_cases.txt")
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


def refused_cases() -> dict[str, str]:
    """The reason by case."""
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return dict(line.split("\t", 1) for line in lines)


@cache
def official_cases() -> dict[str, Any]:
    """Every case by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def outcome(case: Any) -> str:
    """`passed`, `wrong`, or what it was refused with; raises what is no refusal of ours."""
    from compiler.errors import LuthierError
    from luthier.backend import prepare

    model = case.model or onnx.load(str(Path(case.model_dir) / "model.onnx"))
    try:
        with compiled_code_only(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rep = prepare(model)
            right = all(
                _same(wanted, got, case.rtol, case.atol)
                for inputs, outputs in _data_sets(case, model)
                for wanted, got in zip(outputs, rep.run(list(inputs)), strict=True)
            )
    except LuthierError as error:
        return f"{type(error).__name__}: {error}"
    return "passed" if right else "wrong"


@contextmanager
def compiled_code_only() -> Iterator[None]:
    """The interpreter and ONNX's reference are out of reach."""

    def blocked(*args: Any, **kwargs: Any) -> None:
        msg = "a result was asked of something else than compiled code"
        raise AssertionError(msg)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compiler.loop.interpreter.interpret", blocked)
        patch.setattr("onnx.reference.ReferenceEvaluator.run", blocked)
        yield


def _data_sets(case: Any, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    if case.data_sets is not None:
        yield from case.data_sets
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield (
            [
                _read(folder / f"input_{i}.pb", info)
                for i, info in _present(folder, "input", model.graph.input)
            ],
            [
                _read(folder / f"output_{i}.pb", info)
                for i, info in _present(folder, "output", model.graph.output)
            ],
        )


def _present(folder: Path, word: str, infos: Any) -> list[tuple[int, onnx.ValueInfoProto]]:
    return [(i, info) for i, info in enumerate(infos) if (folder / f"{word}_{i}.pb").is_file()]


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    data = path.read_bytes()
    if info.type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if info.type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _same(wanted: Any, got: Any, rtol: float, atol: float) -> bool:
    if isinstance(wanted, list):
        return len(wanted) == len(got) and all(
            _same(w, g, rtol, atol) for w, g in zip(wanted, got, strict=True)
        )
    if wanted is None or got is None:
        return wanted is got
    w, g = (
        numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in (wanted, got)
    )
    if w.shape != g.shape or w.dtype != g.dtype:
        return False
    if w.dtype.kind in "biuOSU":
        return bool(np.array_equal(w, g))
    wide = np.complex128 if w.dtype.kind == "c" else np.float64
    return np.allclose(w.astype(wide), g.astype(wide), rtol=rtol, atol=atol, equal_nan=True)


def shrink() -> None:
    """Take what passes off the list; print what should not have come to be."""
    known, cases = refused_cases(), official_cases()
    results = {name: outcome(case) for name, case in cases.items()}
    for name, result in results.items():
        if result != "passed" and name not in known:
            sys.stdout.write(f"{name}: {result}\n")
    lines = LIST.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.startswith("#") or results.get(line.split("\t")[0]) != "passed"]
    LIST.write_text("".join(kept), encoding="utf-8")
    sys.stdout.write(f"{sum(r == 'passed' for r in results.values())} of {len(results)} cases pass\n")


if __name__ == "__main__":
    shrink()
