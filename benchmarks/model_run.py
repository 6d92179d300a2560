"""One whole model at one number of threads: untuned, tuned and the peers in turns, and the error of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import luthier
from benchmarks.bars import WRONG
from benchmarks.intervals import best_ratio
from compiler.pipeline import compile_program
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.workload.evaluate import evaluate_program
from compiler.workload.program import Program
from luthier.bench.engines import PEERS, Arrays, Engine, LuthierEngine, make_peer
from luthier.bench.reference import make_inputs, relative_error
from luthier.bench.turns import SETTLE_PEERS_S, Times, take_turns, timed
from luthier.build import build_module, make_options, read_program

ONE_THREAD = "one thread"
"""The tuned model on one thread, in turns with the tuned one on several: drift cancels in the gain."""
OWN = ("tuned", "untuned", ONE_THREAD)
_LEAST_DISTURBED = 10.0
"""Percentile for the gain: two threads need both cores at the same moment."""
_ROUNDS = 11
"""The least that an interval can be drawn from."""


@dataclass(frozen=True)
class ModelOptions:
    """How a model is tuned and timed.

    Attributes:
        trials, tuning_s: bounds of the tuning before; both None: "tuned" is what the tuning log knows already.
        database: URL of the tuning log; None for the user's own.
        seconds: how long the turns last, 11 rounds at least.
        peers: names of PEERS.
    """

    threads: int
    trials: int | None
    tuning_s: float | None
    database: str | None
    seconds: float
    peers: tuple[str, ...] = tuple(PEERS)


def run_model(path: Path, options: ModelOptions) -> dict[str, Any]:
    """The row of a model; where we refuse it, only the reason."""
    row: dict[str, Any] = {"model": path.stem, "threads": options.threads}
    try:
        if options.trials is not None or options.tuning_s is not None:
            luthier.tune(
                path,
                trials=options.trials,
                seconds=options.tuning_s,
                threads=options.threads,
                database=options.database,
            )
        return {**row, **_measure(path, options)}
    except luthier.LuthierError as error:
        return {**row, "refused": str(error)}


def _measure(path: Path, options: ModelOptions) -> dict[str, Any]:
    build = make_options(threads=options.threads, database=options.database)
    program = read_program(path, build)
    with ExitStack() as stack:
        own = {
            "tuned": build_module(program, build),
            "untuned": compile_program(program, build.target, build.threads, NoSource()),
        }
        if options.threads > 1:
            own[ONE_THREAD] = build_module(program, replace(build, threads=1))
        for module in own.values():
            stack.enter_context(closing(module))
        inputs = make_inputs(own["tuned"].inputs, program=program)
        peers, refused = _peers(path, inputs, options)
        engines = {**{name: LuthierEngine(m, inputs, name) for name, m in own.items()}, **peers}
        times = take_turns(
            {name: timed(engine.run) for name, engine in engines.items()},
            options.seconds,
            settle_s=SETTLE_PEERS_S,
            rounds=_ROUNDS,
        )
        errors = _errors(program, inputs, engines)
        lookups = _lookups(own["tuned"])
    return {
        "lookups": lookups,
        "engines": {
            name: {
                "version": e.version,
                **times[name].to_json(),
                "runs": times[name].runs,
                "error": errors[name],
            }
            for name, e in engines.items()
        },
        "refused_peers": refused,
        **_ratios(times, [name for name in peers if errors[name] <= WRONG]),
    }


def _ratios(times: Mapping[str, Times], peers: Sequence[str]) -> dict[str, Any]:
    """Best right peer over ours, tuned and untuned, and the gain of threads; None where there is nothing to compare."""
    best = min(peers, key=lambda name: times[name].median_s, default=None)
    return {
        "best_peer": best,
        "tuned": _ratio(times, peers, "tuned"),
        "untuned": _ratio(times, peers, "untuned"),
        "gain": _ratio(times, [ONE_THREAD] if ONE_THREAD in times else [], "tuned", _LEAST_DISTURBED),
    }


def _ratio(
    times: Mapping[str, Times], others: Sequence[str], ours: str, percentile: float = 50.0
) -> dict[str, float] | None:
    if not others:
        return None
    samples = [times[name].samples_s for name in others]
    return asdict(best_ratio(samples, times[ours].samples_s, percentile))


def _peers(path: Path, inputs: Arrays, options: ModelOptions) -> tuple[dict[str, Engine], dict[str, str]]:
    engines, refused = {}, {}
    for name in options.peers:
        try:
            engines[name] = make_peer(name, path, inputs, options.threads)
        except luthier.InputError as error:
            refused[name] = str(error)
    return engines, refused


def _errors(program: Program, inputs: Arrays, engines: Mapping[str, Engine]) -> dict[str, float]:
    """After the timing: what NumPy leaves behind (threads that spin, memory in pieces) would disturb it."""
    reference = evaluate_program(program, inputs)
    return {name: relative_error(engine.run(), reference) for name, engine in engines.items()}


def _lookups(module: Module) -> dict[str, int]:
    answers = [task.lookup for task in module.lookups]
    return {answer: answers.count(answer) for answer in sorted(set(answers))}
