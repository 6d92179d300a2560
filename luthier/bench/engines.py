"""Engines that run one model on the same inputs: Luthier, and those it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Protocol

import numpy as np

from compiler.errors import InputError
from compiler.runtime.module import Module
from compiler.seed import SEED

Arrays = Mapping[str, np.ndarray]


class Engine(Protocol):
    """A loaded model with its inputs. `run` may be called any number of times."""

    name: str
    version: str

    def run(self) -> Arrays:
        """The outputs by name."""
        ...


class LuthierEngine:
    """A Module, run as a user would run it."""

    def __init__(self, module: Module, inputs: Arrays, name: str = "luthier") -> None:
        """Use a module; closing it stays with the caller."""
        self.name, self.version = name, metadata.version("luthier")
        self._module, self._inputs = module, inputs

    def run(self) -> Arrays:
        """The outputs by name."""
        return self._module.run(self._inputs)


class OnnxRuntimeEngine:
    """ONNX Runtime on the CPU, with its defaults but for the number of threads."""

    name = "onnxruntime"

    def __init__(self, model: Path, inputs: Arrays, threads: int) -> None:
        """Load the model; raises InputError where the package is missing or refuses the model."""
        try:
            import onnxruntime
        except ImportError as error:
            raise _missing(self.name) from error
        self.version = str(onnxruntime.__version__)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise _refused(self.name, error) from error
        self._names = [output.name for output in self._session.get_outputs()]
        self._inputs = dict(inputs)

    def run(self) -> Arrays:
        """The outputs by name."""
        return dict(zip(self._names, self._session.run(self._names, self._inputs), strict=True))


class OpenVinoEngine:
    """OpenVINO on the CPU in float32, tuned for latency."""

    name = "openvino"

    def __init__(self, model: Path, inputs: Arrays, threads: int) -> None:
        """Load the model; raises InputError where the package is missing or refuses the model."""
        try:
            import openvino
        except ImportError as error:
            raise _missing(self.name) from error
        self.version = str(openvino.__version__)
        hints = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        try:
            core = openvino.Core()
            compiled = core.compile_model(core.read_model(str(model)), "CPU", hints)
        except Exception as error:
            raise _refused(self.name, error) from error
        self._request = compiled.create_infer_request()
        self._outputs = compiled.outputs
        self._inputs = {i: inputs[next(n for n in i.get_names() if n in inputs)] for i in compiled.inputs}

    def run(self) -> Arrays:
        """The outputs by name."""
        values = self._request.infer(self._inputs)
        return {name: np.array(values[output]) for output in self._outputs for name in output.get_names()}


PEERS: Mapping[str, Callable[[Path, Arrays, int], Engine]] = {
    "onnxruntime": OnnxRuntimeEngine,
    "openvino": OpenVinoEngine,
}


def make_peer(name: str, model: Path, inputs: Arrays, threads: int) -> Engine:
    """An engine by name; raises InputError with the known names, or where it cannot run the model."""
    if name not in PEERS:
        msg = f"unknown engine {name!r}; use one of: {', '.join(sorted(PEERS))}"
        raise InputError(msg)
    return PEERS[name](model, {n: array for n, array in inputs.items() if n != SEED}, threads)


def _missing(name: str) -> InputError:
    return InputError(f"{name} is not installed; install it with: pip install {name}")


def _refused(name: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"{name} refuses the model ({reason}); leave it out of --against")
