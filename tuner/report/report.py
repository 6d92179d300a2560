"""The data of a report on a session, as plain JSON values: convergence, before and after, where the time went."""

from __future__ import annotations

from typing import Any

from tuner.outcome import SessionResult, TaskResult


def session_report(result: SessionResult) -> dict[str, Any]:
    """Everything that a page about a session shows.

    `model` sums weight times time over the Tasks that have both times: an estimate from kernels, no measurement of the
    whole model. Tasks are in order of the seconds that they save, the most first.
    """
    tasks = [_task(task) for task in result.tasks]
    timed = [task for task in tasks if task["untuned_s"] is not None and task["tuned_s"] is not None]
    untuned_s = sum(task["weight"] * task["untuned_s"] for task in timed)
    tuned_s = sum(task["weight"] * task["tuned_s"] for task in timed)
    return {
        "trials": result.trials,
        "failed_trials": result.failed_trials,
        "records_added": result.records_added,
        "cancelled": result.cancelled,
        "phase_seconds": dict(result.phase_seconds),
        "phase_shares": _shares(result.phase_seconds),
        "cost_model": dict(result.cost_model),
        "model": {
            "untuned_s": untuned_s if timed else None,
            "tuned_s": tuned_s if timed else None,
            "speedup": untuned_s / tuned_s if tuned_s > 0 else None,
            "tasks_timed": len(timed),
        },
        "tasks": sorted(tasks, key=lambda task: -(task["saved_s"] or 0.0)),
    }


def _task(result: TaskResult) -> dict[str, Any]:
    task, untuned_s, tuned_s = result.task, result.untuned_s, result.tuned_s
    return {
        "workload": task.workload.digest,
        "name": task.name,
        "weight": task.weight,
        "operations": task.workload.operations,
        "trials": result.trials,
        "failed_trials": result.failed,
        "status": result.status,
        "cached": result.cached,
        "untuned_s": untuned_s,
        "tuned_s": tuned_s,
        "saved_s": task.weight * (untuned_s - tuned_s) if untuned_s and tuned_s else None,
        "speedup": untuned_s / tuned_s if untuned_s and tuned_s else None,
        "gflops": task.workload.operations / tuned_s / 1e9 if tuned_s else None,
        "curve": [[trials, seconds, best_s] for trials, seconds, best_s in result.curve],
        "steps": None if result.schedule is None else len(result.schedule.steps),
    }


def _shares(phase_seconds: dict[str, float]) -> dict[str, float]:
    total_s = sum(phase_seconds.values())
    return {name: seconds / total_s if total_s > 0 else 0.0 for name, seconds in phase_seconds.items()}
