"""What `luthier doctor` finds out. Every check is a value; a failed one never stops the others."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata
from importlib.resources import files
from typing import Any

import numpy as np

from compiler.codegen.evict import emit_evict
from compiler.errors import LuthierError, MeasureError
from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.space.rules import build_space
from compiler.target import Target, native_target, target_json, usable_cores
from compiler.workload.program import Program
from luthier.build import open_log
from tuner.candidate import Candidate
from tuner.measure import MeasureFailed, MeasureInput
from tuner.task import Task
from workers.local import LocalBuilder, LocalRunner

_PACKAGES = (
    *("luthier", "llvmlite", "numpy", "onnx", "xgboost-cpu", "xgboost", "sqlalchemy", "alembic"),
    *("fastapi", "uvicorn", "ray", "psycopg", "onnxruntime"),
)
_TOLERANCE = 1e-5


def examine(database: str | None) -> dict[str, Any]:
    """The JSON document of the contract (docs/contracts/doctor.schema.json)."""
    target = native_target()
    checks = [
        _check("machine", lambda: _machine(target)),
        _check("tuning log", lambda: _database(database)),
        _check("compiler", lambda: _compiler(target)),
        _check("measurement", lambda: _measurement(target)),
    ]
    return {
        "ok": all(check["ok"] for check in checks),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "target": target_json(target),
        "usable_cores": usable_cores(),
        "checks": checks,
    }


def _check(name: str, examine_one: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"name": name, "ok": True, "detail": examine_one()}
    except (LuthierError, OSError) as error:
        return {"name": name, "ok": False, "detail": str(error)}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _machine(target: Target) -> str:
    caches = "/".join(f"{size >> 10}" for size in (target.l1_bytes, target.l2_bytes, target.l3_bytes))
    cores = f"{usable_cores()} of {target.cores} cores"
    return f"{target.cpu}, {cores}, {8 * target.vector_bytes}-bit vectors, caches {caches} KiB"


def _database(database: str | None) -> str:
    with open_log(database) as log:
        counts = log.stats()
        return f"{log.database.url}, {counts['records']} records, {counts['trials']} trials"


def _self_test_program() -> Program:
    """relu(x @ w + b) with 5 x 19 times 19 x 37."""
    return lower(load_graph((files("luthier") / "self_test.onnx").read_bytes()))


def _compiler(target: Target) -> str:
    """Compile the self test, run it, and compare with its formula in float64."""
    module = compile_program(_self_test_program(), target, 1, NoSource())
    try:
        x = np.random.default_rng(0).standard_normal((5, 19)).astype(np.float32)
        got = module.run({"x": x})["y"]
    finally:
        module.close()
    k, n = np.arange(19)[:, None], np.arange(37)[None, :]
    weights, bias = ((7 * k + 3 * n) % 11 - 5) / 8, (n[0] % 5 - 2) / 4
    expected = np.maximum(x.astype(np.float64) @ weights + bias, 0.0)
    error = float(np.max(np.abs(got - expected)) / np.max(np.abs(expected)))
    if not error <= _TOLERANCE:
        msg = (
            f"a small matrix product came out wrong (error {error:.1e}); please report it with this document"
        )
        raise LuthierError(msg)
    return f"compiled and ran a small matrix product, error {error:.1e}"


def _measurement(target: Target) -> str:
    """Build, verify and time the self test in child processes, as tuning does."""
    subgraph = _self_test_program().subgraphs[0]
    task = Task(subgraph.workload, target, 1, 1, subgraph.name)
    space = build_space(task.workload, target, 1)
    builder, runner = LocalBuilder(1), LocalRunner()
    try:
        (built,) = builder.build([MeasureInput(task, Candidate(space.schedule(space.default)))])
        result = built if isinstance(built, MeasureFailed) else runner.run(task, [built])[0]
    finally:
        runner.close()
        builder.close()
    if isinstance(result, MeasureFailed):
        msg = f"a small kernel could not be measured: {result.message}; see docs/debugging.md"
        raise MeasureError(msg)
    timed = f"{result.median_s * 1e6:.2f} µs"
    return (
        f"built, verified and timed a kernel ({timed}) in a child with {runner.sandbox}; {constants(target)}"
    )


def constants(target: Target) -> str:
    """Where trials find what a network brings from memory (docs/decisions/0050)."""
    if emit_evict(target) is not None:
        return "large constants come from memory in trials, as in networks"
    return (
        "programs on this CPU cannot drive memory out of its caches: trials find large constants near, "
        "where networks do not, and flatter schedules that need many"
    )
