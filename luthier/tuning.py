"""A tuning job in this process: what `luthier.tune` and `luthier tune` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.frontend.embed import model_bytes
from luthier.arguments import checked_integer, checked_number
from luthier.build import BuildOptions, open_log
from luthier.report.report import TuningReport
from service.tuning import TuneRequest, tune_model
from tuner.outcome import Event

if TYPE_CHECKING:
    from onnx import ModelProto

Progress = Callable[[Event], None]
"""Called with each event: `type` is "state", "task", "trial" or "best", `data` says what happened."""


def run_job(
    model: str | Path | bytes | ModelProto,
    options: BuildOptions,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    runner: str = "local",
    progress: Progress | None = None,
) -> TuningReport:
    """Tune a model here and now; resumes the same job where an earlier process was killed.

    Raises:
        LuthierError: see `luthier.tune`; a bad model or option is refused before anything is written.
    """
    data, name = model_bytes(model)
    request = TuneRequest(
        model=data,
        name=name,
        target=options.target,
        threads=options.threads,
        trials=None if trials is None else checked_integer("trials", trials, 0),
        seconds=None if seconds is None else checked_number("seconds", seconds),
        shapes=options.shapes,
        error_budget=options.error_budget,
        seed=checked_integer("seed", seed, 0),
        runner=runner,
    )

    with open_log(options.database) as log:
        return TuningReport.from_json(tune_model(request, log.database, progress=progress))
