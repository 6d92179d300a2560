"""`python -m benchmarks.search`: record pools, and report what searches make of them.

prepare --models DIR [--tasks N]        an empty pool for the heaviest Tasks of each network
record [--count N] [--seconds S]        fill the pools evenly; run it again to go on
report [--seeds N] [--trials N] [--json FILE] [--plot FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.search.curves_plot import curves_svg
from benchmarks.search.lab import LEAST_ROWS, Curves, ablation, document, replay_all, report, task_samples
from benchmarks.search.pools import load_pools
from benchmarks.search.record import OPTIONS, prepare, record
from compiler.errors import InputError
from tuner.cost_model.features import NestFeatures
from tuner.cost_model.gates import held_out
from tuner.cost_model.stored import SHIPPED, StoredModel, load_model, promoted, save_model
from tuner.cost_model.trees import XGBoostOptions, train
from tuner.phases import PhaseClock
from tuner.workbench import Workbench
from workers.local import LocalBuilder, LocalRunner

POOLS = Path(__file__).parent / "pools"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "prepare":
            prepare(sorted(options.models.glob("*.onnx")), options.pools, options.tasks)
        case "record":
            _record(options)
        case "train":
            _train(options)
        case _:
            _report(options)


def _record(options: argparse.Namespace) -> None:
    clock = PhaseClock(time.monotonic)
    with (
        closing(LocalBuilder(processes=1)) as builder,
        closing(LocalRunner("lab", OPTIONS)) as runner,
        closing(Workbench(builder, runner, clock)) as bench,
    ):
        counts = record(options.pools, options.count, options.seconds, bench)
    for name, count in sorted(counts.items()):
        print(f"{count:6d}  {name}")


def _report(options: argparse.Namespace) -> None:
    pools = [pool for pool in load_pools(options.pools) if len(pool.rows) >= LEAST_ROWS]
    if not pools:
        print(f"no pool of {LEAST_ROWS} rows or more in {options.pools}; prepare and record some first")
        raise SystemExit(1)
    extract = NestFeatures()
    tasks = task_samples(pools, extract)
    gates = held_out(tasks)
    without = ablation(tasks) if options.ablation else {}
    curves: Curves = {}
    if options.seeds:
        curves = replay_all(pools, tasks, options.seeds, options.trials, extract)
    print(report(pools, gates, without, curves, options.seeds))
    if options.json:
        options.json.write_text(json.dumps(document(pools, gates, without, curves), indent=1) + "\n")
    if options.plot and curves:
        options.plot.write_text(curves_svg(curves))


def _train(options: argparse.Namespace) -> None:
    pools = [pool for pool in load_pools(options.pools) if len(pool.rows) >= LEAST_ROWS]
    tasks = task_samples(pools, NestFeatures())
    gates = held_out(tasks)
    if gates is None:
        print("a model needs pools of two networks or more; prepare and record some first")
        raise SystemExit(1)
    print(report(pools, gates, {}, {}, 0))
    kept = _kept(options.model)
    why = promoted(gates, kept)
    if why:
        print(f"not kept: {why}")
        raise SystemExit(1)
    booster = train([(task.features, task.throughput) for task in tasks], XGBoostOptions())
    assert booster is not None  # the gates have trained on fewer
    number = 1 if kept is None else kept.number + 1
    save_model(options.model, booster, gates, number, [pool.task.target for pool in pools])
    print(f"model {number} is in {options.model}")


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
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="an empty pool for the heaviest Tasks of each network")
    preparing.add_argument("--models", type=Path, required=True, help="folder of ONNX files")
    preparing.add_argument("--tasks", type=int, default=3, help="Tasks of a network (3)")
    recording = commands.add_parser("record", help="fill the pools evenly; run it again to go on")
    recording.add_argument("--count", type=int, default=1000, help="rows of each pool (1000)")
    recording.add_argument("--seconds", type=float, default=60.0, help="wall clock (60)")
    training = commands.add_parser("train", help="a cost model from the pools, kept where it is better")
    training.add_argument("--model", type=Path, default=SHIPPED, help="where the model is, or will be")
    reporting = commands.add_parser("report", help="gates, ablation, replay")
    reporting.add_argument("--seeds", type=int, default=10, help="of each replay; 0 for none (10)")
    reporting.add_argument("--trials", type=int, default=64, help="of each replay (64)")
    reporting.add_argument("--ablation", action="store_true", help="gates without each group of features too")
    reporting.add_argument("--json", type=Path, help="write the figures there")
    reporting.add_argument("--plot", type=Path, help="write the curves there, as an SVG")
    return parser


if __name__ == "__main__":
    main()
