"""The compiler on one page: ONNX → Graph → Program → LoopNests → objects → Module.

load_graph        compiler.frontend     read, check, decompose into index expressions
lower             compiler.graph        named passes; then layouts, partition into Subgraphs
lower_any_size    compiler.workload     the same for several sizes, generalised: a Program over symbols
build_kernel      compiler.schedule     replay the Schedule, lower to a LoopNest, simplify, turn, peel, pair, promote
                  compiler.codegen      LLVM IR, object code
compile_image     compiler.choice       look every Workload up; a miss gets the analytic default
                  compiler.runtime      memory plan, packed constants, program and team: an Image
compile_program   compiler.runtime      the Image loaded into this process: a Module
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compiler import debug
from compiler.choice import Choice, choose_schedules, further_choices, without_record
from compiler.codegen.kernel import Kernel, Param, Phase
from compiler.codegen.llvm import kernel_object
from compiler.codegen.nest import PhaseModule, emit_nest
from compiler.codegen.team import check_team
from compiler.codegen.texts import nest_assembly, nest_ir
from compiler.collection import no_collection
from compiler.errors import CompileError, ModelError, ScheduleError, UnsupportedOperator
from compiler.graph.ir import Graph
from compiler.graph.pipeline import optimise
from compiler.loop.accumulate import accumulate
from compiler.loop.fold import fold
from compiler.loop.hoist import hoist
from compiler.loop.in_place import in_place
from compiler.loop.ir import LoopNest
from compiler.loop.merge import merge
from compiler.loop.pair import pair
from compiler.loop.peel import peel
from compiler.loop.printer import print_nest
from compiler.loop.promote import promote
from compiler.loop.segment import segment
from compiler.loop.settle import settle
from compiler.loop.sides import guard_sides
from compiler.loop.simplify import simplify
from compiler.loop.skew import skew
from compiler.loop.skip import skip
from compiler.loop.software_pipeline import software_pipeline
from compiler.loop.spread import spread
from compiler.loop.turn import turn
from compiler.loop.weave import weave
from compiler.runtime.constant_pool import ConstantPool
from compiler.runtime.image import Image, TaskLookup
from compiler.runtime.link import link
from compiler.runtime.module import Module
from compiler.schedule.lower import lower as lower_state
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import ScheduleSource
from compiler.symbol import Symbol
from compiler.target import Target
from compiler.workload.generalise import Values, sample_values
from compiler.workload.generalise_program import (
    check_outputs,
    generalise_program,
    refused,
    refused_at,
    with_constants_of,
)
from compiler.workload.ir import Workload
from compiler.workload.partition import partition
from compiler.workload.program import Program
from compiler.workload.reshapes import share_reshaped
from compiler.workload.verify import verify_program
from compiler.workload.windows import cut_windows
from compiler.workload.within_tables import within_tables

if TYPE_CHECKING:
    import onnx

    from compiler.frontend.builder import GraphBuilder, OpenValues

NEST_PASSES: tuple[Callable[[LoopNest], LoopNest], ...] = (
    simplify,
    software_pipeline,
    turn,
    settle,
    skip,
    segment,
    merge,
    weave,
    accumulate,
    hoist,
    peel,
    fold,
    pair,
    spread,
    promote,
    guard_sides,
    skew,
)
"""In this order, on every nest."""

Importing = Callable[[Values, "OpenValues"], "tuple[Graph, GraphBuilder]"]


def load_graph(
    model: str | Path | bytes | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Graph:
    """Read and check a model; `shapes` fixes inputs whose dimensions are symbolic. Raises ModelError."""
    # Workers build kernels with this module and need no ONNX: loading it would double their start-up time.
    from compiler.frontend.importer import import_model

    return import_model(model, shapes)


def lower(graph: Graph) -> Program:
    """Optimise the Graph and cut it into Subgraphs with canonical Workloads, verified."""
    program = cut_windows(share_reshaped(partition(optimise(graph))))
    verify_program(program)
    return program


def lower_any_size(
    model: str | Path | bytes | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    named: Sequence[Mapping[str, tuple[int, ...]]] = (),
) -> Program:
    """Read a model and lower it, once for all sizes of the input dimensions that neither it nor `shapes` fixes.

    `named`: shapes of inputs that matter most; the largest decide which schedules are chosen.

    Raises ModelError, also where the model has no form that holds for all sizes.
    """
    from compiler.frontend.importer import import_source
    from compiler.frontend.open_inputs import open_inputs
    from compiler.frontend.read import read_source

    given = dict(shapes or {})
    source = read_source(model)
    opened = open_inputs(source.model, given, named)
    if not opened.symbols:
        return lower(import_source(source, given, {})[0])

    def imported(values: Values, kept: OpenValues) -> tuple[Graph, GraphBuilder]:
        try:
            return import_source(source, given | opened.shapes_at(values), kept)
        except UnsupportedOperator:
            raise
        except ModelError as error:
            raise refused_at(opened.symbols, values, error) from error

    return lower_for_all(opened.symbols, sample_values(opened.symbols), imported)


def lower_for_all(symbols: tuple[Symbol, ...], points: Sequence[Values], imported: Importing) -> Program:
    """Lower a model once for all values of symbols, by examples.

    Args:
        symbols: of its sizes.
        points: values to lower it for; the first few differ by one.
        imported: the Graph for some values, and the builder that knows all values of the model; the second argument are
            those whose shape depends on the symbols (`GraphBuilder.open_values`).

    Raises ModelError where the model has no form that holds for all of them.
    """
    from compiler.frontend.open_inputs import open_values
    from compiler.frontend.reach import Reach, numbers_of, within_reach

    # As many as a fit needs: most models that have no common form are refused by these, at a fraction of the cost.
    few = points[: len(symbols) + 1]
    examples = [imported(values, {}) for values in few]
    kept = open_values([builder for _, builder in examples])
    if any(builder.asked or not kept.keys().isdisjoint(builder.constants) for _, builder in examples):
        examples = [imported(values, kept) for values in few]
    partial = examples[0][1].partial
    numbers = [numbers_of(builder) for _, builder in examples]
    graphs = [replace(graph, open_values=frozenset(kept)) for graph, _ in examples]
    programs = [_at_one_size(graphs[0])]
    programs += [with_constants_of(programs[0], _at_one_size(graph)) for graph in graphs[1:]]
    generalise_program(programs, few, symbols)
    for values in points[len(few) :]:
        graph, builder = imported(values, kept)
        numbers.append(numbers_of(builder))
        programs.append(with_constants_of(programs[0], _at_one_size(graph)))
    reach, base = Reach(numbers, points), points[0]
    near, why = within_reach(
        symbols, reach, base, lambda values: imported(values, kept)[1], downwards=partial
    )
    if why is not None and not partial:
        raise refused(symbols, f"{why!r} is not what it is for smaller ones where they are large")
    common = generalise_program(programs, points, near if partial else symbols)
    common = within_tables(common, base if partial else None)
    try:
        verify_program(common)
    except CompileError as error:  # Such as the product of two sizes that leaves a table.
        raise refused(symbols, str(error).partition("; this is a bug")[0]) from error
    smallest = {symbol.name: symbol.low for symbol in common.symbols}
    check_outputs(common, imported(smallest, kept)[0].types(), smallest)
    return common


def _at_one_size(graph: Graph) -> Program:
    """Lowered to be generalised: where a window begins may depend on sizes, and is no expression of them."""
    program = partition(optimise(graph))
    verify_program(program)
    return program


def build_nest(workload: Workload, schedule: Schedule) -> LoopNest:
    """The LoopNest of a Workload under a Schedule; raises ScheduleError where a Step is not legal."""
    nest = lower_state(replay(workload, schedule), kernel_name(workload, schedule))
    for each in NEST_PASSES:
        nest = each(nest)
    return nest


def build_kernel(workload: Workload, schedule: Schedule, target: Target) -> Kernel:
    """Machine code of a Workload under a Schedule; raises ScheduleError or CompileError."""
    draft, modules = _draft(workload, schedule, target)
    return _with_code(draft, {m.symbol: kernel_object(m.ir, target) for m in modules})


def _draft(workload: Workload, schedule: Schedule, target: Target) -> tuple[Kernel, tuple[PhaseModule, ...]]:
    """A Kernel without its code, and the IR of its phases; raises ScheduleError or CompileError."""
    with no_collection():
        nest = build_nest(workload, schedule)
        modules = emit_nest(nest, target)
    _dump(nest, target)
    replaced = in_place(nest)
    params = tuple(
        Param(b.name, b.role or "input", b.shape, b.dtype, b.packing, replaced.get(b.name, ()))
        for b in nest.params
    )
    symbols = tuple(symbol.name for symbol in nest.symbols)
    phases = (Phase(m.symbol, b"", n) for m, n in zip(modules, nest.parallel_extents, strict=True))
    return Kernel(nest.name, tuple(phases), params, symbols), modules


def _with_code(draft: Kernel, objects: Mapping[str, bytes]) -> Kernel:
    return replace(draft, phases=tuple(replace(p, object_code=objects[p.symbol]) for p in draft.phases))


def compile_image(
    program: Program,
    target: Target,
    threads: int,
    source: ScheduleSource,
    *,
    consume: bool = False,
    pool: ConstantPool | None = None,
) -> Image:
    """Look every Workload up, build its kernel, link. Measures nothing; `Image.lookups` says what was found.

    `consume`: the Program gives its constants up, which saves as much memory as they take. `pool`: of constants that
    were packed before, for other sizes of the same model.

    Raises TargetError where the Target has no program for so many threads, NotStatic where a Workload with symbols has
    no code for all sizes.
    """
    check_team(target, threads)
    try:
        return _compiled(program, target, threads, source, consume=consume, pool=pool)
    except CompileError as error:
        if not program.symbols:
            raise
        raise refused(program.symbols, str(error)) from error


def _compiled(
    program: Program,
    target: Target,
    threads: int,
    source: ScheduleSource,
    *,
    consume: bool,
    pool: ConstantPool | None,
) -> Image:
    chosen = choose_schedules(program, target, threads, source)
    # LLVM works without the interpreter's lock: it makes the code of one kernel while Python writes the next one's IR,
    # and the last ones' while constants are packed.
    llvm = ThreadPoolExecutor(1, thread_name_prefix="luthier-llvm")
    try:
        drafts, codes, lookups = {}, {}, []
        for digest, choice in chosen.items():
            drafts[digest], modules, lookup = _chosen_draft(choice, target, threads, source)
            lookups.append(lookup)
            for module in modules:
                if module.symbol not in codes:
                    codes[module.symbol] = llvm.submit(kernel_object, module.ir, target)
        kernels = [drafts[s.workload.digest] for s in program.subgraphs]
        image = link(program, kernels, target, threads, tuple(lookups), consume=consume, pool=pool)
        objects = {symbol: code.result() for symbol, code in codes.items()}
        built = {name: _with_code(kernel, objects) for name, kernel in image.kernels.items()}
    finally:
        llvm.shutdown(cancel_futures=True)
    return replace(image, kernels=built)


def _chosen_draft(
    choice: Choice, target: Target, threads: int, source: ScheduleSource
) -> tuple[Kernel, tuple[PhaseModule, ...], TaskLookup]:
    """The `_draft` of a Choice, and where its Schedule comes from.

    `without_record` where a record's does not apply, one of the `further_choices` where it has no code.
    """
    try:
        return *_draft(choice.workload, choice.found.schedule, target), choice.lookup
    except (ScheduleError, CompileError) as error:
        failed = error
    if choice.lookup.lookup == "exact" and isinstance(failed, ScheduleError):
        other = without_record(choice, target, threads, source.error_budget, failed)
        return _chosen_draft(other, target, threads, source)
    if choice.workload.symbols:  # each size gets code of its own
        raise failed
    for other in further_choices(choice, target, threads, source.error_budget, failed):
        with suppress(ScheduleError, CompileError):
            return *_draft(other.workload, other.found.schedule, target), other.lookup
    raise failed


def compile_program(program: Program, target: Target, threads: int, source: ScheduleSource) -> Module:
    """The Image loaded into this process; raises TargetError where this machine cannot run it."""
    return Module(compile_image(program, target, threads, source))


def kernel_name(workload: Workload, schedule: Schedule) -> str:
    """The name of a kernel: what it computes, and how."""
    return f"k_{workload.digest[:16]}_{schedule.digest[:8]}"


def digests_of(name: str) -> tuple[str, str]:
    """How the digests of the Workload and of the Schedule of a kernel begin; inverse of `kernel_name`."""
    _, workload, schedule = name.split("_")
    return workload, schedule


def _dump(nest: LoopNest, target: Target) -> None:
    """Every level of a kernel as files, where LUTHIER_DEBUG asks for them."""
    folder = debug.dump_folder()
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"loop": print_nest(nest), "ll": nest_ir(nest, target), "s": nest_assembly(nest, target)}
    for suffix, text in texts.items():
        (Path(folder) / f"{nest.name}.{suffix}").write_text(text)
