"""`luthier.tune`, `luthier.compile` and `luthier.load`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.errors import NotStatic
from compiler.runtime.module import Module
from compiler.target import Target
from luthier.build import as_it_runs, compile_model, make_options
from luthier.loading import load

if TYPE_CHECKING:
    from onnx import ModelProto

    from luthier.dynamic import DynamicModule
    from luthier.report.report import TuningReport
    from luthier.tuning import Progress

__all__ = ["compile", "load", "tune"]

Shapes = Mapping[str, tuple[int, ...]]


def tune(  # noqa: PLR0913  (the contract)
    model: str | Path | bytes | ModelProto,
    *,
    target: str | Target | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    threads: int | None = None,
    shapes: Shapes | None = None,
    error_budget: float | None = None,
    database: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TuningReport:
    """Search schedules for every Task of a model on this machine and keep the verified winners in the tuning log.

    The same call after a crash resumes the job; after success it starts from what the log knows.

    Args:
        model: path or bytes of an ONNX model, or a ModelProto.
        target: what to tune for; None for this machine.
        trials: new trials over all Tasks, failed ones included; None for no bound.
        seconds: wall clock of the job; None for no bound. Without either, it ends when patience ends.
        threads: threads that run the model; None for all usable cores.
        shapes: by input name, where the model leaves them open.
        error_budget: largest error of the outputs relative to the largest output; None for 1e-4.
        database: SQLAlchemy URL of the tuning log; None for LUTHIER_DATABASE_URL, else SQLite in your data folder.
        seed: of the search.
        progress: called with each event of the job, which has a `type` and `data`.

    Raises:
        ModelError: the model cannot be read, is not valid or has an operator without a lowering.
        InputError: an option is out of range.
        TargetError: the target is unknown or not this machine's.
        DatabaseError: the tuning log cannot be opened, read or written.
        ServiceError: another process is running this very job.
    """
    from luthier.tuning import run_job  # the search, which compiling does not need

    options = make_options(target, threads, shapes, error_budget, database)
    return run_job(model, options, trials=trials, seconds=seconds, seed=seed, progress=progress)


def compile(
    model: str | Path | bytes | ModelProto,
    *,
    target: str | Target | None = None,
    threads: int | None = None,
    shapes: Shapes | Sequence[Shapes] | None = None,
    error_budget: float | None = None,
    database: str | None = None,
    predict: bool = True,
) -> Module | DynamicModule:
    """Compile a model with what the tuning log knows; nothing is measured. `Module.lookups` says what was found.

    Takes the same arguments, and raises the same errors, as `tune`. Close the Module after use.

    For a Task without a record the shipped cost model chooses the schedule where it is sure that the choice beats the
    default (`lookup` is then "predicted"); `predict=False` leaves those Tasks with the default.

    Several `shapes` name sizes of a model that leaves some open: each has code of its own in the Module, which still
    runs all others.

    A model whose sizes depend on values, or that has no form for all sizes of its open dimensions, becomes a
    DynamicModule, which is compiled as it runs; a warning of the logger `luthier` says so, and why.
    """
    options = make_options(target, threads, shapes, error_budget, database, predict=predict)
    try:
        return Module(compile_model(model, options))
    except NotStatic as reason:
        return as_it_runs(model, options, reason)
