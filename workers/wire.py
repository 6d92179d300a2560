"""Tasks and options as JSON: with kernels (compiler.codegen.kernel) all that crosses a pipe or a cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from compiler.target import target_from_json, target_json
from compiler.workload.ir import workload_from_json, workload_json
from tuner.measure import MeasureOptions
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


def options_json(options: MeasureOptions) -> dict[str, Any]:
    """JSON form of the options, every field."""
    return asdict(options)


def options_from_json(data: Any) -> MeasureOptions:
    """Inverse of `options_json`; raises TypeError on anything else."""
    return MeasureOptions(**data)
