"""`bench`: one model in Luthier and its peers, as the JSON document of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import InputError
from compiler.runtime.module import Module
from compiler.seed import SEED
from compiler.workload.evaluate import evaluate_program
from luthier.bench.engines import Engine, LuthierEngine, make_peer
from luthier.bench.reference import relative_error
from luthier.bench.subject import Subject
from luthier.bench.turns import SETTLE_PEERS_S, Times, take_turns, timed
from luthier.build import BuildOptions


def bench(path: Path, options: BuildOptions, against: Sequence[str], seconds: float) -> dict[str, Any]:
    """Time a model (an ONNX file) or an artifact that `luthier compile` wrote.

    Raises:
        LuthierError: the model or the artifact cannot be read, or an engine cannot run it.
    """
    with closing(Subject(path, options)) as subject:
        if against and subject.program is None:
            msg = f"{path} is compiled code, which other engines cannot read; give the ONNX file to compare them"
            raise InputError(msg)
        module, inputs = subject.module, subject.inputs
        engines = [
            LuthierEngine(module, inputs),
            *(make_peer(n, path, inputs, options.threads) for n in against),
        ]
        times = _timed(engines, seconds)
        # After the timing: what NumPy leaves behind (threads that spin, memory in pieces) would disturb it.
        reference = None if subject.program is None else evaluate_program(subject.program, inputs)
        return _document(path, module, times, reference, draws=SEED in inputs)


def _timed(engines: Sequence[Engine], seconds: float) -> list[tuple[Engine, Times]]:
    times = take_turns({e.name: timed(e.run) for e in engines}, seconds, settle_s=SETTLE_PEERS_S)
    return [(engine, times[engine.name]) for engine in engines]


def _document(
    path: Path,
    module: Module,
    times: Sequence[tuple[Engine, Times]],
    reference: Mapping[str, np.ndarray] | None,
    *,
    draws: bool,
) -> dict[str, Any]:
    """`draws`: other engines draw other random numbers, so that their results cannot be compared."""
    (ours_engine, ours), *peers = times
    return {
        "model": path.stem,
        "target": module.target.name,
        "threads": module.threads,
        "results": [
            _result(engine, taken, None if draws and engine is not ours_engine else reference)
            for engine, taken in times
        ],
        "ratio": {engine.name: taken.median_s / ours.median_s for engine, taken in peers},
    }


def _result(engine: Engine, times: Times, reference: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    error = None if reference is None else relative_error(engine.run(), reference)
    p10, median, p90 = times.percentiles_s()
    return {
        "engine": engine.name,
        "version": engine.version,
        "median_ms": median * 1e3,
        "p10_ms": p10 * 1e3,
        "p90_ms": p90 * 1e3,
        "runs": times.runs,
        "max_relative_error": error,
    }
