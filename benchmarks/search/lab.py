"""The lab's report: held-out gates, what each group of features is worth, and strategies replayed on the pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.pools import Pool, pool_space
from benchmarks.search.replay import candidates, replay
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.gates import BARS, Gates, TaskSamples, held_out
from tuner.cost_model.metrics import relative_throughput
from tuner.cost_model.trees import XGBoostOptions, train

GROUPS = ("work", "machine", "tile", "level", "parallel", "nest")
MILESTONES = (1, 8, 32, 64)
SOLVED = 0.97
LEAST_ROWS = 24
"""Smaller pools say nothing."""

Curves = dict[str, NDArray[np.float64]]


def task_samples(pools: Sequence[Pool], extract: NestFeatures) -> list[TaskSamples]:
    """The pools as the gates take them."""
    found = []
    for pool in pools:
        throughput = relative_throughput([row.seconds for row in pool.rows])
        rows = extract(pool.task, candidates(pool))
        usual = _default_share(pool)
        found.append(TaskSamples(pool.network, pool.task.name, rows, throughput, usual))
    return found


def group_of(name: str) -> str:
    """The group of a feature: the part of its name before the first underscore, without the level's number."""
    return name.split("_")[0].rstrip("0123456789")


def ablation(tasks: Sequence[TaskSamples]) -> dict[str, Gates]:
    """The gates without each group of features."""
    found = {}
    for group in GROUPS:
        columns = [i for i, name in enumerate(FEATURE_NAMES) if group_of(name) != group]
        gates = held_out(tasks, columns=columns)
        if gates is not None:
            found[group] = gates
    return found


def replay_all(
    pools: Sequence[Pool], tasks: Sequence[TaskSamples], seeds: int, trials: int, extract: NestFeatures
) -> Curves:
    """Curves of every pool and seed, by strategy; shape (n_pools * seeds, trials), the seeds of a pool together.

    `pretrained` begins with trees of all other networks, `evolutionary` with nothing.
    """
    priors = {
        network: train([(t.features, t.throughput) for t in tasks if t.network != network], XGBoostOptions())
        for network in {pool.network for pool in pools}
    }
    curves: dict[str, list[NDArray[np.float64]]] = {"random": [], "evolutionary": [], "pretrained": []}
    for pool in pools:
        for seed in range(seeds):
            curves["random"].append(replay(pool, "random", seed, trials, extract))
            curves["evolutionary"].append(replay(pool, "evolutionary", seed, trials, extract))
            prior = priors[pool.network]
            curves["pretrained"].append(replay(pool, "evolutionary", seed, trials, extract, prior))
    return {name: np.array(runs) for name, runs in curves.items()}


def report(
    pools: Sequence[Pool], gates: Gates | None, without: Mapping[str, Gates], curves: Curves, seeds: int
) -> str:
    """Everything as text."""
    networks, rows = len({pool.network for pool in pools}), sum(len(pool.rows) for pool in pools)
    epochs = ", ".join(sorted({str(pool.epoch) for pool in pools}))
    lines = [f"{len(pools)} pools of {networks} networks, {rows} rows, recorded with code generator {epochs}"]
    lines += [
        f"  {pool.network:20s} {pool.task.name:44s} {len(pool.rows):5d} rows, default at "
        f"{_default_share(pool):.2f} of the best"
        for pool in pools
    ]
    if gates is not None:
        lines += ["", "held out, a network at a time (mean over Tasks, 95 % interval)"]
        for name, bar in BARS.items():
            figure = getattr(gates, name)
            lines.append(f"  {name:18s} {figure}   bar {bar}  {'met' if figure.value >= bar else 'MISSED'}")
        lines.append(f"  {'default':18s} {gates.usual}   what no model reaches")
    if without:
        lines += ["", "without a group of features: pairwise accuracy, peak at 1, peak at 5"]
        lines += [
            f"  {group:10s} {g.pairwise_accuracy.value:.3f}  {g.peak_at_1.value:.3f}  {g.peak_at_5.value:.3f}"
            for group, g in without.items()
        ]
    if curves:
        lines += [
            "",
            f"replayed, {seeds} seeds: mean share of the best known, and Tasks at {SOLVED:.0%} or more",
        ]
        for name, runs in curves.items():
            by_task = runs.reshape(len(pools), seeds, -1).mean(axis=1)
            at = [t for t in MILESTONES if t <= runs.shape[1]]
            lines.append(
                f"  {name:14s}"
                + "  ".join(
                    f"{t}: {by_task[:, t - 1].mean():.3f}, {np.mean(by_task[:, t - 1] >= SOLVED):.0%}"
                    for t in at
                )
            )
        lines += _regret(curves, len(pools), seeds)
    return "\n".join(lines)


def document(
    pools: Sequence[Pool], gates: Gates | None, without: Mapping[str, Gates], curves: Curves
) -> dict[str, Any]:
    """The figures as plain JSON values."""
    return {
        "pools": len(pools),
        "rows": sum(len(pool.rows) for pool in pools),
        "gates": None if gates is None else gates.json(),
        "without": {group: found.json() for group, found in without.items()},
        "curves": {name: runs.mean(axis=0).round(4).tolist() for name, runs in curves.items()},
    }


def _regret(curves: Curves, pools: int, seeds: int) -> list[str]:
    """Regret at 32 trials against random search's, on the Tasks that it has not solved by then."""
    at = min(32, curves["random"].shape[1]) - 1
    by_task = {name: runs.reshape(pools, seeds, -1).mean(axis=1)[:, at] for name, runs in curves.items()}
    open_tasks = by_task["random"] < SOLVED
    if not open_tasks.any():
        return [f"  random search has solved every Task by {at + 1} trials"]
    regret = {name: float((1 - shares[open_tasks]).mean()) for name, shares in by_task.items()}
    return [
        f"  regret at {at + 1} trials over random's, on the {int(open_tasks.sum())} Tasks that it has not solved: "
        + ", ".join(f"{name} {regret[name] / regret['random']:.2f}" for name in curves if name != "random")
    ]


def _default_share(pool: Pool) -> float:
    default = pool_space(pool).default
    seconds = next((row.seconds for row in pool.rows if row.assignment == default), None)
    return 0.0 if seconds is None else pool.best_s / seconds
