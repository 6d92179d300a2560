"""Luthier tunes machine-learning models for the machine they will run on, and remembers what it learned.

    report = luthier.tune("model.onnx", seconds=120)
    module = luthier.compile("model.onnx")
    outputs = module.run({"x": array})

Names are imported on first use, so that `import luthier` loads neither LLVM nor NumPy.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.errors import (
        CompileError,
        DatabaseError,
        InputError,
        LuthierError,
        MeasureError,
        ModelError,
        NotStatic,
        NotTuned,
        ScheduleError,
        ServiceError,
        TargetError,
        UnsupportedModel,
        UnsupportedOperator,
    )
    from compiler.runtime.image import TensorSpec
    from compiler.runtime.module import Module
    from luthier.api import compile, tune
    from luthier.client import Client, Job
    from luthier.dynamic import DynamicModule
    from luthier.loading import load
    from luthier.report.report import TuningReport

__all__ = [
    "tune",
    "compile",
    "load",
    "Client",
    "Job",
    "Module",
    "DynamicModule",
    "TensorSpec",
    "TuningReport",
    "LuthierError",
    "ModelError",
    "UnsupportedModel",
    "NotStatic",
    "UnsupportedOperator",
    "InputError",
    "TargetError",
    "ScheduleError",
    "CompileError",
    "DatabaseError",
    "NotTuned",
    "MeasureError",
    "ServiceError",
    "__version__",
]

_ERRORS = (
    "LuthierError ModelError UnsupportedModel NotStatic UnsupportedOperator InputError TargetError ScheduleError "
    "CompileError DatabaseError NotTuned MeasureError ServiceError"
)
_HOMES = {
    **dict.fromkeys(("tune", "compile"), "luthier.api"),
    "load": "luthier.loading",
    **dict.fromkeys(("Client", "Job"), "luthier.client"),
    "Module": "compiler.runtime.module",
    "DynamicModule": "luthier.dynamic",
    "TensorSpec": "compiler.runtime.image",
    "TuningReport": "luthier.report.report",
    **dict.fromkeys(_ERRORS.split(), "compiler.errors"),
}
_SIBLINGS = ("compiler", "tuner", "workers", "service", "migrations")


def _check_siblings(root: Path) -> None:
    """Raise ImportError where another folder or file of the same name hides a package of Luthier's."""
    for name in _SIBLINGS:
        found = _location(name)
        if found is None:
            msg = f"Luthier's package {name!r} is missing beside {root / 'luthier'}; install Luthier again"
            raise ImportError(msg)
        if found != root / name:
            msg = f"{found} hides Luthier's package {name!r}; rename it, or run Python from another folder"
            raise ImportError(msg)


def _location(name: str) -> Path | None:
    """The folder (or single file) that `import name` would load, None where there is none."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module put into sys.modules by hand has no spec
        return Path("sys.modules") / name
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return Path(spec.origin or name).resolve()


def _version() -> str:
    from importlib import metadata  # reading it takes longer than the rest of this import

    try:
        return metadata.version("luthier")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        msg = f"module 'luthier' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


_check_siblings(Path(__file__).resolve().parent.parent)
