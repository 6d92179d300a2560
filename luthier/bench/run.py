"""`bench`: one model in Luthier and its peers, as the JSON document of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import InputError
from compiler.runtime.module import Module, load_module
from compiler.workload.evaluate import evaluate_program
from luthier.bench.engines import Engine, LuthierEngine, make_peer
from luthier.bench.reference import make_inputs, relative_error
from luthier.bench.timing import Timing, time_engines
from luthier.build import BuildOptions, build_module, read_program

ARTIFACT_SUFFIX = ".luthier"


def bench(path: Path, options: BuildOptions, against: Sequence[str], seconds: float) -> dict[str, Any]:
    """Time a model (an ONNX file) or an artifact that `luthier compile` wrote.

    Raises:
        LuthierError: the model or the artifact cannot be read, or an engine cannot run it.
    """
    if path.suffix == ARTIFACT_SUFFIX:
        return _bench_artifact(path, against, seconds)
    program = read_program(path, options)
    module = build_module(program, options)
    try:
        inputs = make_inputs(module.inputs, program=program)
        engines = [
            LuthierEngine(module, inputs),
            *(make_peer(n, path, inputs, options.threads) for n in against),
        ]
        timings = time_engines(engines, seconds)
        # After the timing: what NumPy leaves behind (threads that spin, memory in pieces) would disturb it.
        return _document(path, module, timings, evaluate_program(program, inputs))
    finally:
        module.close()


def _bench_artifact(path: Path, against: Sequence[str], seconds: float) -> dict[str, Any]:
    if against:
        msg = f"{path} is compiled code, which other engines cannot read; give the ONNX file to compare them"
        raise InputError(msg)
    module = load_module(path)
    try:
        engine: Engine = LuthierEngine(module, make_inputs(module.inputs))
        return _document(path, module, time_engines([engine], seconds), None)
    finally:
        module.close()


def _document(
    path: Path, module: Module, timings: Sequence[Timing], reference: Mapping[str, np.ndarray] | None
) -> dict[str, Any]:
    ours = timings[0].percentile_ms(50)
    return {
        "model": path.stem,
        "target": module.target.name,
        "threads": module.threads,
        "results": [_result(timing, reference) for timing in timings],
        "ratio": {timing.engine.name: timing.percentile_ms(50) / ours for timing in timings[1:]},
    }


def _result(timing: Timing, reference: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    error = None if reference is None else relative_error(timing.engine.run(), reference)
    return {
        "engine": timing.engine.name,
        "version": timing.engine.version,
        "median_ms": timing.percentile_ms(50),
        "p10_ms": timing.percentile_ms(10),
        "p90_ms": timing.percentile_ms(90),
        "runs": timing.runs,
        "max_relative_error": error,
    }
