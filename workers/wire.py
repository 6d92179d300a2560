"""Tasks, kernels and options as JSON and bytes: all that crosses a pipe or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from compiler.codegen.kernel import Kernel, kernel_from_json, kernel_json
from compiler.target import target_from_json, target_json
from compiler.workload.ir import workload_from_json, workload_json
from tuner.measure import Built, MeasureOptions
from tuner.task import Task


def task_json(task: Task) -> dict[str, Any]:
    """JSON form of a Task."""
    return {
        "workload": workload_json(task.workload),
        "target": target_json(task.target),
        "threads": task.threads,
        "weight": task.weight,
        "name": task.name,
        "error_budget": task.error_budget,
    }


def task_from_json(data: Any) -> Task:
    """Inverse of `task_json`; raises ValueError, KeyError or TypeError on anything else."""
    return Task(
        workload=workload_from_json(data["workload"]),
        target=target_from_json(data["target"]),
        threads=int(data["threads"]),
        weight=int(data["weight"]),
        name=str(data["name"]),
        error_budget=float(data["error_budget"]),
    )


def kernels_json(built: Sequence[Built]) -> tuple[list[dict[str, Any]], tuple[bytes, ...]]:
    """Descriptions and object codes of kernels, in order."""
    return [kernel_json(b.kernel) for b in built], tuple(b.kernel.object_code for b in built)


def kernels_from_json(data: Sequence[Any], codes: Sequence[bytes]) -> list[Kernel]:
    """Inverse of `kernels_json`; raises ValueError, KeyError or TypeError on anything else."""
    return [kernel_from_json(d, code) for d, code in zip(data, codes, strict=True)]


def options_json(options: MeasureOptions) -> dict[str, Any]:
    """JSON form of the options, every field."""
    return asdict(options)


def options_from_json(data: Any) -> MeasureOptions:
    """Inverse of `options_json`; raises TypeError on anything else."""
    return MeasureOptions(**data)
