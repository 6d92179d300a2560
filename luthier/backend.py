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
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from compiler.errors import InputError, UnsupportedModel
from compiler.frontend.importer import prepared
from compiler.frontend.input_kinds import declared_kinds
from compiler.frontend.seeded import draws
from compiler.frontend.segment import checked_model
from compiler.graph.ir import Graph
from compiler.pipeline import Importing, compile_program, lower, lower_for_all
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.symbol import Symbol
from compiler.target import native_target
from compiler.workload.generalise import Values
from luthier.dynamic import DynamicModule


class LuthierRep(BackendRep):
    """A compiled model. `run` takes values in the order of the model's inputs."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Compile what can be compiled before the inputs are there; raises ModelError, UnsupportedModel."""
        checked = checked_model(model)
        _check_comparable(prepared(model))
        self._module = DynamicModule(checked, _compiled, _compiled_for_all)
        self._outputs = namedtupledict("Outputs", list(checked.outputs))
        kinds = declared_kinds(checked.inputs)
        if kinds is not None:
            self._module.prepare(kinds)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order: an array, a list of them for a sequence, None for an optional without value.

        A TensorProto may stand for an array. Where all inputs are such, so are all outputs, else those of types that
        NumPy lacks; they hold their data like the first one.

        Raises:
            InputError: the number, shape or type of the inputs is wrong.
            UnsupportedOperator: a node that depends on values of the inputs has no lowering.
        """
        values = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        names = self._module.inputs
        if len(values) != len(names):
            msg = f"the model has {len(names)} inputs, {len(values)} were given; give one value each"
            raise InputError(msg)
        protos = [value for value in values if isinstance(value, TensorProto)]
        given = {}
        for name, value in zip(names, values, strict=True):
            array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
            given[name] = array if array is None or isinstance(array, list) else np.asarray(array)
        found = self._module.run(given)
        results = [found[name] for name in self._module.outputs]
        if protos:
            every, raw = len(protos) == len(values), protos[0].HasField("raw_data")
            results = [
                _as_proto(r, n, raw=raw) if every or r.dtype.isbuiltin != 1 else r
                for n, r in zip(self._module.outputs, results, strict=True)
            ]
        return tuple(self._outputs(*results))


def _check_comparable(model: onnx.ModelProto) -> None:
    """Raise UnsupportedModel where the results of two engines that are both right are not alike."""
    why = None
    if draws(model):
        why = "random numbers are unsupported where results are compared with stored ones: no two engines draw the same"
    if any(_inverts_whole_spectra(node) for node in model.graph.node):
        why = (
            "inverses of whole spectra are unsupported where results are compared with stored ones, which have the "
            "rounding errors of one FFT in single precision where the result is 0"
        )
    if why is not None:
        msg = f"{why}; run the model with luthier.compile"
        raise UnsupportedModel(msg)


def _inverts_whole_spectra(node: onnx.NodeProto) -> bool:
    flags = {a.name: a.i for a in node.attribute}
    return node.op_type == "DFT" and bool(flags.get("inverse")) and not flags.get("onesided")


def _as_proto(array: np.ndarray[Any, Any], name: str, *, raw: bool) -> TensorProto:
    """The array as a TensorProto, its data as bytes (`raw`) or in the field of its type."""
    if raw:
        return numpy_helper.from_array(array, name)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())


class LuthierBackend(Backend):
    """Compiles for the CPU of this machine."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> LuthierRep:
        """Compile a model; raises ModelError or UnsupportedOperator."""
        if not cls.supports_device(device):
            msg = f"no code for device {device!r}; use CPU"
            raise InputError(msg)
        return LuthierRep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether code can be made for it: the CPU only."""
        return device.split(":")[0] == "CPU"


def _compiled_for_all(symbols: tuple[Symbol, ...], points: Sequence[Values], imported: Importing) -> Module:
    return compile_program(lower_for_all(symbols, points, imported), native_target(), 1, NoSource())


def _compiled(graph: Graph) -> Module:
    """With algorithms whose errors are those of the definition: the cases hold each element against its own size."""
    return compile_program(lower(graph), native_target(), 1, NoSource(error_budget=0.0))


prepare = LuthierBackend.prepare
run_model = LuthierBackend.run_model
supports_device = LuthierBackend.supports_device
