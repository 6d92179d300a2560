"""The ONNX Backend interface, for the official conformance suite and for tools that speak it.

    rep = luthier.backend.prepare(model, device="CPU")
    outputs = rep.run([array, ...])

Each model is compiled for this machine with the analytic schedules; no tuning log is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from compiler.errors import InputError
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import native_target


class LuthierRep(BackendRep):
    """A compiled model. `run` takes arrays in the order of the model's inputs."""

    def __init__(self, module: Module) -> None:
        """Wrap a compiled model."""
        self._module = module
        self._outputs = namedtupledict("Outputs", [spec.name for spec in module.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order; raises InputError on a wrong number, shape or type of arrays."""
        arrays = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        specs = self._module.inputs
        if len(arrays) != len(specs):
            msg = f"the model has {len(specs)} inputs, {len(arrays)} were given; give one array each"
            raise InputError(msg)
        named = {spec.name: np.asarray(array) for spec, array in zip(specs, arrays, strict=True)}
        values = self._module.run(named)
        return tuple(self._outputs(*(values[spec.name] for spec in self._module.outputs)))


class LuthierBackend(Backend):
    """Compiles for the CPU of this machine."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> LuthierRep:
        """Compile a model; raises ModelError or UnsupportedOperator."""
        if not cls.supports_device(device):
            msg = f"no code for device {device!r}; use CPU"
            raise InputError(msg)
        return LuthierRep(compile_program(lower(load_graph(model)), native_target(), 1, NoSource()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether code can be made for it: the CPU only."""
        return device.split(":")[0] == "CPU"


prepare = LuthierBackend.prepare
run_model = LuthierBackend.run_model
supports_device = LuthierBackend.supports_device
