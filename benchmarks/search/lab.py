"""The lab's report: held-out gates, what each group of features is worth, and strategies replayed on the pools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, median, stdev
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarks.search.pools import SHAPES, Pool, has_samples, pool_space
from benchmarks.search.replay import BATCH, Replay, candidates, replay
from benchmarks.search.settle import unsettled
from compiler.schedule.steps import Algorithm
from compiler.space.space import Assignment
from tuner.cost_model.gates import BARS, GAP, SLOWER, Gates, TaskSamples, differences, held_out, left_out
from tuner.cost_model.metrics import relative_throughput
from tuner.cost_model.relative import NAMES, RelativeFeatures
from tuner.cost_model.stored import ErrorKey, Seen, machine_of
from tuner.interval import RESAMPLES, Interval
from tuner.loading import default_space
from tuner.measure import FailureKind
from tuner.near import Relatives
from tuner.record import Relative

GROUPS = ("work", "machine", "tile", "level", "parallel", "nest", "cost")
MILESTONES = (1, 8, 32, 64)
SOLVED = 0.97
PROPOSALS = 3
"""Seeds of the searches whose first trials are settled."""
LEAST_ROWS = 12
"""Smaller pools say nothing."""
VERIFIED = 1_000
"""Uniform samples that gave right results, by which a Task is judged."""

Array = NDArray[np.float64]
Curves = dict[str, Array]


def task_samples(pools: Sequence[Pool], least: int = VERIFIED) -> list[TaskSamples]:
    """The pools as the gates take them, by network; those of fewer verified samples than `least` only teach."""
    extract, known = RelativeFeatures(), seen(pools)
    found = []
    for pool in pools:
        space = pool_space(pool)
        places = {row.assignment: place for place, row in enumerate(pool.rows)}
        begin = {places[a] for a in (space.default, *space.starts) if a in places}
        offered = [not row.searched or place in begin for place, row in enumerate(pool.rows)]
        default, made = places[space.default], candidates(pool)
        accurate = [known.is_accurate(c.schedule, pool.task.error_budget) for c in made]
        accurate[default] = True
        found.append(
            TaskSamples(
                pool.network,
                pool.key,
                extract(pool.task, made),
                relative_throughput([row.seconds for row in pool.rows]),
                np.array(offered, dtype=np.bool_),
                np.array(accurate, dtype=np.bool_),
                default,
                is_judged(pool, least),
            )
        )
    return found


def is_judged(pool: Pool, least: int = VERIFIED) -> bool:
    """Whether a pool of a network has so many verified samples, or all that its space has: others only teach."""
    if pool.network == SHAPES:
        return False
    verified = sum(row.seconds is not None for row in pool.uniform)
    return verified >= least or not has_samples(pool_space(pool), least)


def usable(pools: Sequence[Pool]) -> list[Pool]:
    """Pools that say something: of LEAST_ROWS or more, the default among them."""
    return [
        pool
        for pool in pools
        if len(pool.rows) >= LEAST_ROWS
        and any(r.seconds and r.assignment == pool_space(pool).default for r in pool.rows)
    ]


def seen(pools: Sequence[Pool]) -> Seen:
    """What the samples of some pools came from."""
    errors: dict[ErrorKey, float] = {}
    beyond: set[ErrorKey] = set()
    knobs: set[str] = set()
    for pool in pools:
        space = pool_space(pool)
        knobs |= {knob.name for knob in space.knobs}
        for candidate, row in zip(candidates(pool), pool.rows, strict=True):
            for step in candidate.schedule.steps:
                if isinstance(step, Algorithm):
                    key = (step.name, step.parameters)
                    errors[key] = max(row.error, errors.get(key, 0.0))
                    if row.failure == FailureKind.WRONG_OUTPUT:
                        beyond.add(key)
    return Seen(
        frozenset(machine_of(pool.task.target) for pool in pools),
        frozenset(pool.task.threads for pool in pools),
        frozenset(knobs),
        {key: error for key, error in errors.items() if key not in beyond},
        {pool.key: pool.lines for pool in pools},
    )


def leave_machine_out(pools: Sequence[Pool], tasks: Sequence[TaskSamples]) -> Gates | None:
    """The gates with every kind of machine left out in turn; None where there is only one."""
    return held_out(
        [
            replace(t, group=str(machine_of(p.task.target)), judged=True)
            for p, t in zip(pools, tasks, strict=True)
        ]
    )


def group_of(name: str) -> str:
    """The group of a feature: the first word of its name, without the level's number, alone or beside the default."""
    return name.removeprefix("beside_").split("_")[0].rstrip("0123456789")


def ablation(tasks: Sequence[TaskSamples]) -> dict[str, Gates]:
    """The gates without each group of features."""
    found = {}
    for group in GROUPS:
        columns = [i for i, name in enumerate(NAMES) if group_of(name) != group]
        gates = held_out(tasks, columns=columns)
        if gates is not None:
            found[group] = gates
    return found


def replay_all(
    pools: Sequence[Pool],
    tasks: Sequence[TaskSamples],
    seeds: int,
    trials: int,
    trees: Mapping[str, xgb.Booster | None],
) -> Curves:
    """Curves of what is judged, by strategy; shape (n_judged * seeds, trials), the seeds of a pool together.

    `evolutionary` begins with nothing at all, `cold` with trees of the other networks, as a model ships with the
    package, and `warm` with the best candidates of their Tasks too, as a log has them. `trees`: of the other networks.
    """
    curves: dict[str, list[Array]] = {"random": [], "evolutionary": [], "cold": [], "warm": []}
    near = _near(pools)
    for pool, task in judged(pools, tasks):
        for seed in range(seeds):
            for strategy in ("random", "evolutionary"):
                curves[strategy].append(replay(pool, task.features, strategy, seed, trials).curve)
            for name, known in (("cold", ()), ("warm", near[pool.key])):
                found = replay(pool, task.features, "evolutionary", seed, trials, trees[pool.network], known)
                curves[name].append(found.curve)
    return {name: np.array(runs) for name, runs in curves.items()}


def warm_replays(
    pools: Sequence[Pool], tasks: Sequence[TaskSamples], seeds: int, trials: int
) -> Iterator[list[Replay]]:
    """Of every pool that is judged, a search per seed that knows what a log has of the other networks."""
    trees, near = left_out(tasks), _near(pools)
    for pool, task in judged(pools, tasks):
        yield [
            replay(pool, task.features, "evolutionary", s, trials, trees[pool.network], near[pool.key])
            for s in range(seeds)
        ]


def _near(pools: Sequence[Pool]) -> Mapping[str, list[Assignment]]:
    """What each Task begins with, by its key."""
    return dict(zip([pool.key for pool in pools], near_seeds(pools), strict=True))


def proposed(pools: Sequence[Pool], tasks: Sequence[TaskSamples]) -> dict[str, set[Assignment]]:
    """What warm searches try first, by the key of the Task."""
    replays = warm_replays(pools, tasks, PROPOSALS, BATCH)
    return {
        pool.key: {a for found in warm for a in found.asked}
        for (pool, _), warm in zip(judged(pools, tasks), replays, strict=True)
    }


def judged(pools: Sequence[Pool], tasks: Sequence[TaskSamples]) -> list[tuple[Pool, TaskSamples]]:
    """Those that do not only teach."""
    return [(p, t) for p, t in zip(pools, tasks, strict=True) if t.judged]


def near_seeds(pools: Sequence[Pool]) -> list[list[Assignment]]:
    """What each Task begins with where the log knows the best of every other network's."""
    best = []
    for pool in pools:
        row = min((r for r in pool.rows if r.seconds is not None), key=lambda r: r.seconds or 0.0)
        best.append(Relative(pool.task, pool_space(pool).schedule(row.assignment)))
    found = []
    for pool in pools:
        others = [
            relative for relative, other in zip(best, pools, strict=True) if other.network != pool.network
        ]
        found.append(Relatives(others, default_space).seeds(pool.task, pool_space(pool)))
    return found


@dataclass(frozen=True)
class Findings:
    """What the lab found. `curves` may be empty, as may `without`; `seeds`: of each curve."""

    pools: Sequence[Pool]
    gates: Gates | None
    machines: Gates | None
    without: Mapping[str, Gates]
    curves: Curves
    seeds: int

    def json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return {
            "pools": len(self.pools),
            "rows": sum(len(pool.rows) for pool in self.pools),
            "failures": dict(_failures(self.pools)),
            "agreement": agreement(self.pools),
            "gates": None if self.gates is None else self.gates.json(),
            "machines": None if self.machines is None else self.machines.json(),
            "without": {group: found.json() for group, found in self.without.items()},
            "curves": {name: runs.mean(axis=0).round(4).tolist() for name, runs in self.curves.items()},
        }

    def text(self) -> str:
        """The report."""
        lines = [*_about(self.pools), *_gates_text("a network at a time", self.gates)]
        lines += _gates_text("a kind of machine at a time", self.machines)
        if self.without and self.gates is not None:
            lines += ["", "without a group of features: change of pairwise accuracy, peak at 1 and instant"]
            lines += [
                f"  {group:10s} " + _changes(found, self.gates) for group, found in self.without.items()
            ]
        if self.curves:
            lines += _curves_text(self.curves, self.seeds)
        return "\n".join(lines)


def _about(pools: Sequence[Pool]) -> list[str]:
    networks, rows = len({pool.network for pool in pools}), sum(len(pool.rows) for pool in pools)
    epochs = ", ".join(sorted({str(pool.epoch) for pool in pools}))
    failures = _failures(pools)
    lines = [
        f"{len(pools)} pools of {networks} networks, {rows} rows, recorded with code generator {epochs}; "
        f"{failures.total()} failed" + "".join(f", {count} {kind}" for kind, count in failures.most_common())
    ]
    agreed = agreement(pools)
    if agreed is not None:
        lines.append(
            f"two halves of the visits agree on {agreed:.3f} of the pairs that differ by more than 3 %"
        )
    settled = [row.ratios for pool in pools for row in pool.rows if len(row.ratios) > 1]
    if settled:
        lines.append(f"{len(settled)} rows compared more than once" + _spread_text(settled))
    if open_fronts := sum(bool(unsettled(pool.rows, pool.beside)) for pool in pools):
        lines.append(f"the best of {open_fronts} pools may have been lucky: run settle")
    for pool in pools:
        uniform = relative_throughput([row.seconds for row in pool.rows])[[not r.searched for r in pool.rows]]
        lines.append(
            f"  {pool.network:20s} {pool.task.name[:44]:44s} {pool.task.threads} threads {len(pool.rows):5d} rows;"
            f" of the best: default {_default_share(pool):.2f}, best sample {uniform.max():.2f},"
            f" median {np.median(uniform):.2f}"
        )
    return lines


def agreement(pools: Sequence[Pool]) -> float | None:
    """Share of the pairs, apart by more than the gates' least, that both halves of the visits order alike; by pool.

    No model is right more often about half of the visits; None where there was one visit.
    """
    shares = []
    for pool in pools:
        visited = [row.said for row in pool.rows if len(row.said) > 1]
        halves = np.array([(geometric_mean(said[::2]), geometric_mean(said[1::2])) for said in visited])
        if len(halves) < LEAST_ROWS:
            continue
        one, other = (np.log(half[:, None] / half[None]) for half in halves.T)
        apart = np.triu(np.abs(one) > np.log1p(GAP), 1)
        if apart.any():
            shares.append(float(((one > 0) == (other > 0))[apart].mean()))
    return float(np.mean(shares)) if shares else None


def _spread_text(settled: Sequence[Sequence[float]]) -> str:
    """What two comparisons of the same pair differ by."""
    spread = median(stdev(map(math.log, ratios)) for ratios in settled)
    return f"; standard deviation of one's ratios {spread:.1%}, the median of all"


def _failures(pools: Sequence[Pool]) -> Counter[str]:
    return Counter(row.failure for pool in pools for row in pool.rows if row.seconds is None)


def _gates_text(left_out: str, gates: Gates | None) -> list[str]:
    if gates is None:
        return ["", f"held out, {left_out}: nothing, all pools are of one"]
    lines = ["", f"held out, {left_out} (mean over Tasks, 95 % interval)"]
    for name, bar in BARS.items():
        figure = getattr(gates, name)
        lines.append(f"  {name:18s} {figure:.3f}   bar {bar}  {'met' if figure.value >= bar else 'MISSED'}")
    return [
        *lines,
        f"  {'prediction':18s} {gates.prediction:.3f}   pairwise accuracy of the predicted cycles alone",
        f"  {'default':18s} {gates.usual:.3f}   what no model reaches",
        _instant_text(gates),
    ]


def _instant_text(gates: Gates) -> str:
    if gates.margin is None:
        return "  instant mode takes the default: no choice is better beyond doubt"
    return (
        f"  instant mode takes what leads by {gates.margin:.2f}; it is slower than the default, by over {SLOWER:.0%},"
        f" on {gates.worse:.0%} of the Tasks"
    )


def _changes(found: Gates, gates: Gates) -> str:
    names = ("pairwise_accuracy", "peak_at_1", "instant")
    changes = (differences(found, gates.by_task, name) for name in names)
    return "  ".join("-" if c is None else f"{c.value:+.3f} ({c.low:+.3f}..{c.high:+.3f})" for c in changes)


def _curves_text(curves: Curves, seeds: int) -> list[str]:
    pools = len(curves["random"]) // seeds
    lines = ["", f"replayed, {seeds} seeds: mean share of the best known, and Tasks at {SOLVED:.0%} or more"]
    for name, runs in curves.items():
        by_task = runs.reshape(pools, seeds, -1).mean(axis=1)
        at = [t for t in MILESTONES if t <= runs.shape[1]]
        lines.append(
            f"  {name:14s}"
            + "  ".join(
                f"{t}: {by_task[:, t - 1].mean():.3f}, {np.mean(by_task[:, t - 1] >= SOLVED):.0%}" for t in at
            )
        )
    return [*lines, *_regret(curves, pools, seeds)]


def _regret(curves: Curves, pools: int, seeds: int) -> list[str]:
    """Regret at 32 trials against random search's, on the Tasks that it has not solved by then."""
    at = min(32, curves["random"].shape[1]) - 1
    by_task = {name: runs.reshape(pools, seeds, -1).mean(axis=1)[:, at] for name, runs in curves.items()}
    open_tasks = by_task["random"] < SOLVED
    if not open_tasks.any():
        return [f"  random search has solved every Task by {at + 1} trials"]
    regret = {name: 1 - shares[open_tasks] for name, shares in by_task.items()}
    others = [name for name in curves if name != "random"]
    return [
        f"  regret at {at + 1} trials over random's, on the {int(open_tasks.sum())} Tasks that it has not solved: "
        + ", ".join(f"{name} {_ratio(regret[name], regret['random']):.3f}" for name in others)
    ]


def _ratio(one: Array, other: Array) -> Interval:
    """Of two means over the same Tasks, with the interval of resampled Tasks."""
    picks = np.random.default_rng(0).integers(0, len(one), (RESAMPLES, len(one)))
    return Interval.of(one.sum() / other.sum(), one[picks].sum(axis=1) / other[picks].sum(axis=1))


def _default_share(pool: Pool) -> float:
    default = pool_space(pool).default
    seconds = next((row.seconds for row in pool.rows if row.assignment == default), None)
    return 0.0 if seconds is None else min(1.0, pool.best_s / seconds)
