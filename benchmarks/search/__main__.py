"""`python -m benchmarks.search`: record pools, and report what searches make of them.

prepare --models DIR [--tasks N] [--threads N]   an empty pool for the heaviest Tasks of each network
record [--count N] [--live N] [--visits N] [--minutes M]  fill the pools evenly; run it again to go on
settle [--minutes M] [--proposed]                compare the best of each pool; run it again to go on
report [--seeds N] [--trials N] [--json FILE] [--plot FILE]
train [--model FILE]                             a cost model, kept where it is better than the one in use
fit                                              the rates of the predicted cycles (tuner/cost_model/cost.py)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.search.curves_plot import curves_svg
from benchmarks.search.fit import measured, rates_text
from benchmarks.search.lab import (
    LEAST_ROWS,
    VERIFIED,
    Findings,
    ablation,
    leave_machine_out,
    proposed,
    replay_all,
    seen,
    task_samples,
    usable,
)
from benchmarks.search.pools import SHAPES, Pool, PoolFile, load_pools
from benchmarks.search.record import LEAST_SPACE, OPTIONS, prepare, record
from benchmarks.search.settle import settle
from compiler.errors import InputError
from compiler.target import native_target
from tuner.cost_model.gates import TaskSamples, held_out, left_out
from tuner.cost_model.relative import NAMES
from tuner.cost_model.shipped import SHIPPED
from tuner.cost_model.stored import StoredModel, load_model, promoted, save_model
from tuner.cost_model.trees import POOLED, base_of, train
from tuner.phases import PhaseClock
from tuner.workbench import Workbench
from workers.cores import cores_apart
from workers.local_pair import local_workers

POOLS = Path(__file__).parent / "recorded"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "prepare":
            _prepare(options)
        case "record":
            _record(options)
        case "settle":
            _settle(options)
        case "train":
            _train(options)
        case "fit":
            print(rates_text([measured(pool) for pool in _usable_pools(options.pools)]))
        case _:
            _report(options)


def _prepare(options: argparse.Namespace) -> None:
    target = native_target()
    if options.vector_bytes:
        target = replace(target, name=f"native-{options.vector_bytes}", vector_bytes=options.vector_bytes)
    models = sorted(options.models.glob("*.onnx"))
    network = SHAPES if options.shapes else None
    prepare(models, options.pools, options.tasks, options.threads, target, options.least, network)


def _record(options: argparse.Namespace) -> None:
    clock = PhaseClock(time.monotonic)
    ahead = 1 if cores_apart(options.threads) is None else 3
    with _bench(options.threads, clock) as bench:
        pools = _pool_files(options)
        seconds, visits, live = 60 * options.minutes, options.visits, options.live
        _counted(
            record(pools, options.count, seconds, bench, ahead=ahead, visits=visits, live=live), "rows", clock
        )


def _settle(options: argparse.Namespace) -> None:
    clock = PhaseClock(time.monotonic)
    wanted = proposed(*_samples(options)) if options.proposed else {}
    compared = settle(
        _pool_files(options), 60 * options.minutes, lambda: _bench(options.threads, clock), wanted
    )
    _counted(compared, "rows compared", clock)


@contextmanager
def _bench(threads: int, clock: PhaseClock) -> Iterator[Workbench]:
    with (
        local_workers(threads, "lab", OPTIONS) as (builder, runner),
        closing(Workbench(builder, runner, clock)) as bench,
    ):
        yield bench


def _pool_files(options: argparse.Namespace) -> list[PoolFile]:
    files = [PoolFile(path) for path in sorted(options.pools.glob("*.jsonl"))]
    return [pool for pool in files if pool.task.threads == options.threads]


def _counted(counts: Counter[str], what: str, clock: PhaseClock) -> None:
    for name, count in sorted(counts.items()):
        print(f"{count:6d}  {name}")
    waited = ", ".join(f"{n} {s:.0f} s" for n, s in clock.seconds().items())
    print(f"{sum(counts.values()):6d}  {what}; waited for {waited}")


def _report(options: argparse.Namespace) -> None:
    pools, tasks = _samples(options)
    trees = left_out(tasks)
    gates = held_out(tasks, trees=trees)
    curves = replay_all(pools, tasks, options.seeds, options.trials, trees) if options.seeds else {}
    without = ablation(tasks) if options.ablation else {}
    found = Findings(pools, gates, leave_machine_out(pools, tasks), without, curves, options.seeds)
    print(found.text())
    if options.json:
        options.json.write_text(json.dumps(found.json(), indent=1) + "\n")
    if options.plot and curves:
        options.plot.write_text(curves_svg(curves))


def _train(options: argparse.Namespace) -> None:
    pools, tasks = _samples(options)
    gates = held_out(tasks)
    if gates is None:
        print("a model needs pools of two networks or more; prepare and record some first")
        raise SystemExit(1)
    print(Findings(pools, gates, leave_machine_out(pools, tasks), {}, {}, 0).text())
    kept = _kept(options.model)
    why = promoted(gates, None if kept is None else _judged_again(kept, options.pools, pools, tasks))
    if why:
        print(f"not kept: {why}")
        raise SystemExit(1)
    booster = train([(t.features, t.throughput) for t in tasks], POOLED, base=base_of(NAMES))
    assert booster is not None  # the gates have trained on fewer
    number = 1 if kept is None else kept.number + 1
    save_model(options.model, booster, gates, number, seen(pools))
    print(f"model {number} is in {options.model}, {options.model.stat().st_size >> 10} KiB")


def _judged_again(
    kept: StoredModel, folder: Path, pools: Sequence[Pool], tasks: Sequence[TaskSamples]
) -> Mapping[str, Mapping[str, float]]:
    """A model's figures by the samples of now, by Task: trees that are taught what it was taught.

    Its own figures where its pools are as they were. Raises InputError where one of them is not here any more.
    """
    now = {pool.key: pool.lines for pool in pools}
    missing = [key for key, lines in kept.seen.lines.items() if now.get(key, 0) < lines]
    if missing:
        msg = (
            f"{len(missing)} of the {len(kept.seen.lines)} pools that taught the model in use are not in {folder}, "
            "or are shorter than they were; bring them, or delete that model"
        )
        raise InputError(msg)
    if all(now[key] == lines for key, lines in kept.seen.lines.items()):
        by_task: Mapping[str, Mapping[str, float]] = kept.gates["by_task"]
        return by_task
    taught = task_samples(load_pools(folder, kept.seen.lines))  # Whatever is judged is of `tasks`.
    gates = held_out(tasks, taught=taught)
    assert gates is not None  # there are two networks or more
    return gates.by_task


def _samples(options: argparse.Namespace) -> tuple[list[Pool], list[TaskSamples]]:
    pools = _usable_pools(options.pools)
    tasks = task_samples(pools, options.verified)
    pairs = zip(pools, tasks, strict=True)
    for pool in (p for p, t in pairs if p.network != SHAPES and not t.judged):
        print(
            f"{pool.network} {pool.task.name} only teaches: it has less than {options.verified} verified samples"
        )
    return pools, tasks


def _usable_pools(folder: Path) -> list[Pool]:
    pools = usable(load_pools(folder))
    if not pools:
        print(f"no pool of {LEAST_ROWS} rows or more in {folder}; prepare and record some first")
        raise SystemExit(1)
    return pools


def _kept(path: Path) -> StoredModel | None:
    """The model in use; one for other rules is no rival."""
    try:
        return load_model(path) if path.exists() else None
    except InputError as refused:
        print(refused)
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__.splitlines()[0])
    parser.add_argument("--pools", type=Path, default=POOLS, help="folder of the pools")
    parser.add_argument(
        "--verified", type=int, default=VERIFIED, help=f"samples by which a Task is judged ({VERIFIED})"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="an empty pool for the heaviest Tasks of each network")
    preparing.add_argument("--models", type=Path, required=True, help="folder of ONNX files")
    preparing.add_argument("--tasks", type=int, default=5, help="Tasks of a network (5)")
    preparing.add_argument("--threads", type=int, default=1, help="of a Task (1)")
    preparing.add_argument(
        "--least", type=int, default=LEAST_SPACE, help=f"samples of a space ({LEAST_SPACE})"
    )
    preparing.add_argument("--shapes", action="store_true", help="of benchmarks.search.shapes: never judged")
    preparing.add_argument("--vector-bytes", type=int, help="as if this machine's vectors were shorter")
    recording = commands.add_parser("record", help="fill the pools evenly; run it again to go on")
    recording.add_argument("--count", type=int, default=3000, help="rows of each pool (3000)")
    recording.add_argument(
        "--live", type=int, default=0, help="more rows of each, by the tuner's own search (0)"
    )
    recording.add_argument(
        "--visits", type=int, default=1, help="times that each uniform sample is timed (1)"
    )
    settling = commands.add_parser("settle", help="compare the best of each pool; run it again to go on")
    for measuring in (recording, settling):
        measuring.add_argument("--minutes", type=float, default=1.0, help="wall clock (1)")
        measuring.add_argument("--threads", type=int, default=1, help="only pools of Tasks for so many (1)")
    settling.add_argument("--proposed", action="store_true", help="compare what searches try first too")
    training = commands.add_parser("train", help="a cost model from the pools, kept where it is better")
    training.add_argument("--model", type=Path, default=SHIPPED, help="where the model is, or will be")
    commands.add_parser("fit", help="rates of the predicted cycles that explain the pools best")
    reporting = commands.add_parser("report", help="gates, ablation, replay")
    reporting.add_argument("--seeds", type=int, default=10, help="of each replay; 0 for none (10)")
    reporting.add_argument("--trials", type=int, default=64, help="of each replay (64)")
    reporting.add_argument("--ablation", action="store_true", help="gates without each group of features too")
    reporting.add_argument("--json", type=Path, help="write the figures there")
    reporting.add_argument("--plot", type=Path, help="write the curves there, as an SVG")
    return parser


if __name__ == "__main__":
    try:
        main()
    except InputError as refused:
        sys.exit(str(refused))
