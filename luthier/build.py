"""From a model and options to a Module: what `luthier.compile` and the commands share."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.collection import no_collection
from compiler.errors import InputError, ModelError, NotStatic, NotTuned, TargetError
from compiler.graph.ir import Graph
from compiler.pipeline import Importing, compile_image, load_graph, lower, lower_any_size, lower_for_all
from compiler.runtime.constant_pool import ConstantPool
from compiler.runtime.image import Image
from compiler.runtime.module import Module
from compiler.schedule.legal import is_legal
from compiler.symbol import Symbol
from compiler.target import Target, get_target, usable_cores
from compiler.workload.generalise import Values
from compiler.workload.index_operands import input_index_extents
from compiler.workload.ir import Workload
from compiler.workload.leeway import rounds_to_short_floats
from compiler.workload.program import Program
from luthier.arguments import checked_integer, checked_number, checked_shapes
from luthier.cache import Cache, Task, has_external_data, image_key, model_key, open_cache
from luthier.lookups import Lookups
from luthier.rounding import rounding_error
from luthier.size_one import shapes_at_one
from service.db.upgrade import open_database
from service.records.log import SqlTuningLog
from service.records.source import SqlScheduleSource, model_error_budget, task_error_budget
from service.settings import Settings

if TYPE_CHECKING:
    from onnx import ModelProto

    from luthier.dynamic import DynamicModule

_LOG = logging.getLogger("luthier")

Shapes = Mapping[str, tuple[int, ...]]

MAX_THREADS = 1024
_NAMED_MISSES = 3
_PATIENCE_S = 0.5
"""How long segments of changing sizes are evaluated before there is code for all of them: a few seconds' work."""


@dataclass(frozen=True)
class BuildOptions:
    """What a Module is made for; `make_options` checks it.

    Attributes:
        shapes: of inputs, by name.
        sizes: that were named: shapes of inputs for which a model with open sizes gets code of their own.
        error_budget: largest error of the model's outputs, relative to the largest; None for the default.
        database: URL of the tuning log; None for LUTHIER_DATABASE_URL, else SQLite in the user's data folder.
        predict: let the shipped cost model choose for Tasks without a record; otherwise they get the default.
        careful: Tasks round no more than sums in float32 do, for the model enlarges errors.
    """

    target: Target
    threads: int
    shapes: Shapes = field(default_factory=dict)
    error_budget: float | None = None
    database: str | None = None
    predict: bool = True
    sizes: tuple[Shapes, ...] = ()
    careful: bool = False

    @property
    def task_error_budget(self) -> float:
        """Largest error of a Task's outputs, relative to the largest."""
        return task_error_budget(self.error_budget, careful=self.careful)


def make_options(
    target: str | Target | None = None,
    threads: int | None = None,
    shapes: Shapes | Sequence[Shapes] | None = None,
    error_budget: float | None = None,
    database: str | None = None,
    *,
    predict: bool = True,
    runs_here: bool = True,
) -> BuildOptions:
    """Check options and fill in what was left open.

    Args:
        target: name or Target; None for this machine.
        threads: None for all usable cores.
        shapes: of inputs by name; of several such mappings each names a size.
        error_budget: None for the default.
        database: None for the environment's.
        predict: let the shipped cost model choose where there is no record.
        runs_here: the code will run on this machine.

    Raises:
        InputError: threads, shapes or error budget are out of range or of the wrong type.
        TargetError: the target is unknown, or this machine cannot run its code.
    """
    found = get_target(target)
    if runs_here and not found.is_native:
        msg = f"this machine cannot run code for target {found.name!r}; use native, or run Luthier on such a machine"
        raise TargetError(msg)
    if threads is None:
        threads = usable_cores() if found.is_native else found.cores
    several = isinstance(shapes, Sequence) and not isinstance(shapes, str | bytes)
    return BuildOptions(
        found,
        checked_integer("threads", threads, 1, MAX_THREADS),
        {} if several else checked_shapes(shapes or {}),
        None if error_budget is None else checked_number("error_budget", error_budget, below=1.0),
        database,
        predict,
        tuple(map(checked_shapes, shapes)) if several and shapes is not None else (),
    )


def read_program(
    model: str | Path | bytes | ModelProto, options: BuildOptions, *, any_size: bool = False
) -> Program:
    """Check the model and split it into Subgraphs; raises ModelError.

    `any_size`: input dimensions that are left open become symbols; otherwise they are an error.
    """
    if any_size:
        return lower_any_size(model, options.shapes, options.sizes)
    return lower(load_graph(model, options.shapes))


def build_module(program: Program, options: BuildOptions) -> Module:
    """Look every Task up in the tuning log, compile and load; nothing is measured. Raises DatabaseError."""
    with open_lookups(options) as source:
        image = compile_image(program, options.target, options.threads, source)
    careful = _more_careful(options, image, program)
    return Module(image) if careful is None else build_module(program, careful)


def _more_careful(options: BuildOptions, image: Image, program: Program) -> BuildOptions | None:
    """What to compile a model with again whose outputs would be off by more than its error budget."""
    if options.careful or not options.target.is_native:
        return None
    if any(rounds_to_short_floats(subgraph.workload) for subgraph in program.subgraphs):
        return None  # that hides what kernels round
    budget = model_error_budget(options.error_budget)
    error = rounding_error(image, input_index_extents(program), budget)
    if error <= budget:
        return None
    careful = replace(options, careful=True)
    message = "%s enlarges errors, to about %.1e of its outputs; each task gets %.1e of them instead of %.1e"
    _LOG.warning(message, image.name, error, careful.task_error_budget, options.task_error_budget)
    return careful


def as_it_runs(
    model: str | Path | bytes | ModelProto, options: BuildOptions, reason: NotStatic
) -> DynamicModule:
    """A model that is compiled as it runs, for the shapes and values that it meets; `reason`: why not before.

    For sizes that were named it is compiled at once, up to the first value that it must know.
    """
    from compiler.frontend.input_kinds import declared_kinds
    from compiler.frontend.segment import checked_model
    from luthier.dynamic import DynamicModule

    message = (
        "the model is compiled as it runs, for each size or value that it meets (its cheap parts when one comes back; "
        "until then NumPy evaluates them): %s"
    )
    _LOG.warning(message, reason.why)
    constants = ConstantPool()

    def make(graph: Graph) -> Module:
        return made(lambda: lower(graph), options)

    def make_for_all(symbols: tuple[Symbol, ...], points: Sequence[Values], imported: Importing) -> Module:
        return made(lambda: lower_for_all(symbols, points, imported), options)

    def made(lowered: Callable[[], Program], options: BuildOptions) -> Module:
        with no_collection(), open_lookups(options) as source:
            program = lowered()
            image = compile_image(
                program, options.target, options.threads, source, consume=True, pool=constants
            )
        careful = _more_careful(options, image, program)
        return Module(image) if careful is None else made(lowered, careful)

    checked = checked_model(model)
    module = DynamicModule(checked, make, make_for_all, patience_s=_PATIENCE_S)
    for size in options.sizes:
        kinds = declared_kinds(checked.inputs, {**options.shapes, **size})
        if kinds is not None:
            module.prepare(kinds)
    return module


def compile_model(
    model: str | Path | bytes | ModelProto,
    options: BuildOptions,
    *,
    any_size: bool = True,
    require_tuned: bool = False,
) -> Image:
    """Compile a model for any target with what the tuning log knows, or take what is in the cache; measure nothing.

    Beside its form for all sizes, an Image has one for each that is named; where none is, one for 1 if that pays.

    Raises:
        InputError: sizes are named, and the model has no open size.
        ModelError: see `read_program`, as for `any_size`.
        NotTuned: `require_tuned`, and a Task has no record.
        DatabaseError: the tuning log cannot be read.
    """
    # Compiling makes millions of small objects and hardly a cycle; looking for them costs a tenth of its time.
    with no_collection():
        return _with_named_sizes(model, options, any_size=any_size, require_tuned=require_tuned)


def _with_named_sizes(
    model: str | Path | bytes | ModelProto, options: BuildOptions, *, any_size: bool, require_tuned: bool
) -> Image:
    image, tasks = _compiled(model, options, any_size=any_size, require_tuned=require_tuned)
    if options.sizes and not image.symbols:
        msg = "sizes are named for a model that leaves no size open; give one shape for each input, or none"
        raise InputError(msg)
    parts = [
        _compiled(
            model, replace(options, shapes=size, sizes=()), any_size=False, require_tuned=require_tuned
        )[0]
        for size in options.sizes
    ]
    if not options.sizes and not require_tuned:
        parts = _at_one(model, options, image, [workload for _, workload in tasks])
    if not parts:
        return image
    pool = ConstantPool()
    return replace(pool.shared(image), named=tuple(map(pool.shared, parts)))


def _at_one(
    model: str | Path | bytes | ModelProto, options: BuildOptions, image: Image, workloads: Sequence[Workload]
) -> list[Image]:
    """Code for size 1, where that is worth it; a model that has no such size is none the worse, for nobody asked."""
    if (shapes := shapes_at_one(image, workloads, options.target)) is None:
        return []
    try:
        return [_compiled(model, replace(options, shapes=shapes), any_size=False, require_tuned=False)[0]]
    except ModelError as error:
        _LOG.info("size 1 has no code of its own: %s", error)
        return []


def _compiled(
    model: str | Path | bytes | ModelProto, options: BuildOptions, *, any_size: bool, require_tuned: bool
) -> tuple[Image, list[Task]]:
    cache = open_cache()
    before = _identity(model)
    key = model_key(model, options.shapes, options.sizes, any_size=any_size) if cache else None
    tasks = cache.tasks(key) if cache and key else None
    program = None
    if tasks is None:
        program = _read_and_tidy(model, options, any_size=any_size)
        tasks = _tasks(program)
    if require_tuned:
        options = _with_records(tasks, options)
    with open_lookups(options) as source:
        workloads = [workload for _, workload in tasks]
        answers = source.recorded(workloads, options.target, options.threads)
        # Only what the log says is asked of a model that was compiled before: predicting takes as long as compiling.
        chooser = source.chooser if None in answers else ""
        key_of_image = key and image_key(key, options.target, options.threads, workloads, answers, chooser)
        image, careful = _kept(cache, key_of_image, options)
        new = image is None
        if image is None and careful is None:
            program = program or _read_and_tidy(model, options, any_size=any_size)
            image = compile_image(program, options.target, options.threads, source, consume=True)
            careful = _more_careful(options, image, program)
    # A file that was replaced meanwhile, or has data elsewhere, is not what its key says.
    told = before == _identity(model) and program is not None
    if cache and key and key_of_image and told and not has_external_data(model):
        cache.put_tasks(key, tasks)
        if careful is not None:
            cache.put_enlarges(key_of_image)
        elif new and image is not None:
            cache.put_image(key_of_image, image)
    if careful is not None:
        return _compiled(model, careful, any_size=any_size, require_tuned=require_tuned)
    assert image is not None
    return image, tasks


def _kept(
    cache: Cache | None, key: str | None, options: BuildOptions
) -> tuple[Image | None, BuildOptions | None]:
    """The image of a key, or what it was compiled with again."""
    if cache is None or not key:
        return None, None
    if cache.enlarges(key):
        careful = replace(options, careful=True)
        _LOG.warning(
            "the model enlarges errors; each task gets %.1e of its outputs", careful.task_error_budget
        )
        return None, careful
    return cache.image(key), None


def _read_and_tidy(
    model: str | Path | bytes | ModelProto, options: BuildOptions, *, any_size: bool
) -> Program:
    """`read_program`; what reading took, as much as the model, goes back to the system before code is made."""
    program = read_program(model, options, any_size=any_size)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc, which keeps what was freed for later
    if trim is not None:
        trim(0)
    return program


def _tasks(program: Program) -> list[Task]:
    """Its distinct Workloads, each under the name of its first use."""
    found: dict[str, Task] = {}
    for subgraph in program.subgraphs:
        found.setdefault(subgraph.workload.digest, (subgraph.name, subgraph.workload))
    return list(found.values())


def _identity(model: object) -> tuple[int, ...]:
    """Changes when a model's file does; nothing for what is no file."""
    if not isinstance(model, (str, Path)) or not Path(model).is_file():
        return ()
    status = Path(model).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def open_log(database: str | None) -> Iterator[SqlTuningLog]:
    """The tuning log of a URL, closed at the end; None for the environment's, else the user's own."""
    opened = open_database(database or Settings().database_url)
    try:
        yield SqlTuningLog(opened)
    finally:
        opened.close()


@contextmanager
def open_lookups(options: BuildOptions) -> Iterator[Lookups]:
    """Answers for the Workloads of a model."""
    with open_log(options.database) as log:
        source = SqlScheduleSource(log, options.error_budget, careful=options.careful)
        yield Lookups(source, predict=options.predict)


def _with_records(tasks: Sequence[Task], options: BuildOptions) -> BuildOptions:
    """With care where only so all Tasks have records that apply to them; raises NotTuned where they have none."""
    workloads = [workload for _, workload in tasks]
    missing: list[str] = []
    for tried in (options, replace(options, careful=True)):
        with open_lookups(tried) as source:
            answers = source.recorded(workloads, options.target, options.threads)
        absent = [
            name
            for (name, workload), found in zip(tasks, answers, strict=True)
            if found is None or not is_legal(workload, found.schedule)
        ]
        if not absent:
            return tried
        missing = missing or absent
    more = ", …" if len(missing) > _NAMED_MISSES else ""
    msg = (
        f"{len(missing)} of {len(tasks)} tasks have no usable record for {options.target.name} with {options.threads} "
        f"threads ({', '.join(missing[:_NAMED_MISSES])}{more}); run luthier tune with the same options first"
    )
    raise NotTuned(msg)
