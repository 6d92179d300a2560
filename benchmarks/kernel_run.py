"""One shape: tune it, then time our kernels, the whole model, the peers and the machine's ceilings in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.bars import ALONE
from benchmarks.kernel_shapes import Shape
from benchmarks.own_kernels import OwnKernels, kernel_subgraphs
from benchmarks.torch_engine import TorchEngine
from benchmarks.work import Work, count_work
from compiler.errors import InputError, LuthierError
from compiler.graph.pipeline import optimise
from compiler.pipeline import compile_image, compile_program, load_graph, lower
from compiler.runtime.artifact import image_bytes
from compiler.runtime.module import Module
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import NoSource, ScheduleSource
from compiler.schedule.steps import Algorithm
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace, Value
from compiler.target import Target
from compiler.workload.evaluate import evaluate_program
from compiler.workload.program import Program
from luthier.bench.canary import Canary
from luthier.bench.ceilings import Probes
from luthier.bench.engines import PEERS, Arrays, Engine
from luthier.bench.reference import make_inputs, relative_error
from luthier.bench.turns import SETTLE_PEERS_S, SETTLE_S, Sampler, Times, take_turns, timed
from service.db.upgrade import open_database
from service.jobs.in_model import withdraw
from service.jobs.tune import COMPARE_TIMEOUT_S
from service.records.log import SqlTuningLog
from service.records.source import SqlScheduleSource, task_error_budget
from tuner.options import SessionOptions
from tuner.session import TuningSession
from tuner.task import Task
from workers.end_to_end import compare_models
from workers.local_pair import local_workers

ENGINES: Mapping[str, Callable[[Path, Arrays, int], Engine]] = {**PEERS, "torch": TorchEngine}
_DIRECT = "direct"


@dataclass(frozen=True)
class RunOptions:
    """How a shape is tuned and timed.

    Attributes:
        trials, tuning_s: bounds of the tuning of one shape; None for none.
        seconds: how long the turns last, five rounds at least.
        peers: names of ENGINES.
        direct: only schedules that do every multiplication of the definition.
    """

    target: Target
    threads: int
    trials: int | None
    tuning_s: float | None
    seconds: float
    peers: tuple[str, ...]
    direct: bool = False


def run_shape(shape: Shape, folder: Path, options: RunOptions, canary: Canary) -> dict[str, Any]:
    """The row of a shape; where the compiler refuses it, only the reason. `canary`: of as many threads.

    `folder` keeps the tuning logs of the run: later rows of the shape go on with them, or take what one thread had.
    """
    row: dict[str, Any] = {"shape": shape.name, "group": shape.group, "threads": options.threads}
    path = shape.save(folder)
    try:
        graph = load_graph(path)
        own = lower(load_graph(shape.save_own_layout(folder)))
        program, work = lower(graph), count_work(optimise(graph), options.target)
    except LuthierError as error:
        return {**row, "refused": str(error)}
    with ExitStack() as stack:
        tuned = stack.enter_context(_tuned(shape, [own, program], folder, options))
        sources: dict[str, ScheduleSource] = {"default": NoSource(), "tuned": tuned}
        before = _log_of(shape, folder, 1)
        if options.threads > 1 and before.exists():
            database = stack.enter_context(closing(open_database(f"sqlite:///{before}")))
            sources[ALONE] = SqlScheduleSource(SqlTuningLog(database))
        elif options.threads > 1 and not options.direct:  # the default may be another algorithm
            sources[ALONE] = NoSource()
        return {**row, **_measure(path, own, program, work, sources, options, canary)}


def _log_of(shape: Shape, folder: Path, threads: int) -> Path:
    """Where a shape's tuning log lies."""
    return folder / f"{shape.name}.{threads}.db"


@contextmanager
def _tuned(
    shape: Shape, programs: list[Program], folder: Path, options: RunOptions
) -> Iterator[ScheduleSource]:
    """What a job that tunes every Task of the programs would serve: what is slower in the model is withdrawn."""
    workloads = {s.workload.digest: s for p in programs for s in p.subgraphs}
    tasks = [
        Task(s.workload, options.target, options.threads, 1, s.name, task_error_budget(None))
        for s in workloads.values()
    ]

    def space(task: Task) -> SearchSpace:
        full = build_space(task.workload, task.target, task.threads)
        return direct_only(full) if options.direct else full

    with closing(open_database(f"sqlite:///{_log_of(shape, folder, options.threads)}")) as database:
        log = SqlTuningLog(database)
        session_options = SessionOptions(trials=options.trials, seconds=options.tuning_s)
        with local_workers(options.threads) as (builder, runner):
            TuningSession(tasks, builder, runner, log, session_options, spaces=space).run()
        for program in programs if not options.direct else ():  # the default may be another algorithm
            _withdraw(shape, program, tasks, log, options)
        yield SqlScheduleSource(log)


def _withdraw(
    shape: Shape, program: Program, tasks: list[Task], log: SqlTuningLog, options: RunOptions
) -> None:
    """As `service.jobs.tune` does: trials have constants come from memory, and here they may be near."""
    sources: dict[str, ScheduleSource] = {"untuned": NoSource(), "tuned": SqlScheduleSource(log)}
    images = {k: compile_image(program, options.target, options.threads, s) for k, s in sources.items()}
    artifacts = {name: image_bytes(image) for name, image in images.items()}
    if artifacts["untuned"] == artifacts["tuned"]:
        return
    compared = compare_models(
        artifacts, threads=options.threads, seed=0, seconds=options.seconds, timeout_s=COMPARE_TIMEOUT_S
    )
    withdraw(log, tasks, compared["untuned"], compared["tuned"], shape.name, "bench-kernels")


def direct_only(space: SearchSpace) -> SearchSpace:
    """The schedules of a space that do every multiplication of the definition."""
    # The likeliest comes last among the starts, and the default is likelier than any.
    *starts, default = [a for a in (*space.starts, space.default) if _is_direct(space.values(a))]
    return replace(
        space,
        default=default,
        legal=lambda values: _is_direct(values) and space.legal(values),
        starts=tuple(starts),
    )


def _is_direct(values: Mapping[str, Value]) -> bool:
    winograd = str(values.get("instruction", _DIRECT)).startswith("winograd")
    return values.get("algorithm", _DIRECT) == _DIRECT and not winograd


def _measure(
    path: Path,
    own: Program,
    program: Program,
    work: Work,
    sources: Mapping[str, ScheduleSource],
    options: RunOptions,
    canary: Canary,
) -> dict[str, Any]:
    target, threads = options.target, options.threads
    with ExitStack() as stack:
        subgraphs = kernel_subgraphs(own, own_layout=own.inputs.keys() != program.inputs.keys())
        kernels = {
            name: stack.enter_context(
                closing(OwnKernels(own, subgraphs, target, 1 if name == ALONE else threads, source))
            )
            for name, source in sources.items()
        }
        modules = {
            name: stack.enter_context(closing(compile_program(program, target, threads, source)))
            for name, source in sources.items()
            if name != ALONE
        }
        inputs = make_inputs(modules["tuned"].inputs, program=program)
        engines, refused = _peers(path, inputs, options)
        probes = stack.enter_context(closing(Probes(target, threads, work.bytes)))
        contenders: dict[str, Sampler] = {f"probe {k}": s for k, s in probes.samplers.items()}
        contenders |= {f"kernel {k}": s for k, s in kernels.items()}
        contenders |= {f"model {k}": timed(_runner(m, inputs)) for k, m in modules.items()}
        contenders |= {f"peer {k}": timed(e.run) for k, e in engines.items()}
        settle_s = 0.0 if threads == 1 else SETTLE_PEERS_S if engines else SETTLE_S
        times = take_turns(contenders, options.seconds, settle_s=settle_s, canary=canary)
        reference = evaluate_program(program, inputs)
        outputs = {"luthier": modules["tuned"].run(inputs), **{k: e.run() for k, e in engines.items()}}
    ceilings = probes.ceilings({k: times[f"probe {k}"].median_s for k in probes.samplers})
    bound_s, limit = work.bound(ceilings)
    return {
        "tasks": [s.name for s in subgraphs],
        "algorithms": _algorithms(kernels["tuned"].schedules.values()),
        "multiply_adds": work.multiply_adds,
        "operations": work.operations,
        "bytes": work.bytes,
        "ceilings": dict(ceilings.rates),
        "bound_us": bound_s * 1e6,
        "bound_by": limit,
        "disturbed": {name: time.disturbed for name, time in times.items()},
        "kernel": _figures(times, "kernel "),
        "model": {**_figures(times, "model "), **_figures(times, "peer ")},
        "versions": {name: engine.version for name, engine in engines.items()},
        "refused_peers": refused,
        "errors": {name: relative_error(arrays, reference) for name, arrays in outputs.items()},
    }


def _algorithms(schedules: Iterable[Schedule]) -> list[str]:
    """Algorithms other than the definition's own that the schedules use."""
    return [
        f"{s.name}{s.parameters}"
        for schedule in schedules
        for s in schedule.steps
        if isinstance(s, Algorithm)
    ]


def _runner(module: Module, inputs: Arrays) -> Callable[[], object]:
    return lambda: module.run(inputs)


def _peers(path: Path, inputs: Arrays, options: RunOptions) -> tuple[dict[str, Engine], dict[str, str]]:
    engines, refused = {}, {}
    for name in options.peers:
        try:
            engines[name] = ENGINES[name](path, inputs, options.threads)
        except InputError as error:
            refused[name] = str(error)
    return engines, refused


def _figures(times: Mapping[str, Times], prefix: str) -> dict[str, dict[str, float]]:
    return {name.removeprefix(prefix): t.to_json() for name, t in times.items() if name.startswith(prefix)}
