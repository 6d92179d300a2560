"""What is timed: a model (an ONNX file), or an artifact that `luthier compile` wrote."""

from __future__ import annotations

from pathlib import Path

from compiler.runtime.module import load_module
from compiler.workload.program import Program
from luthier.bench.reference import make_inputs
from luthier.build import BuildOptions, build_module, read_program

ARTIFACT_SUFFIX = ".luthier"


class Subject:
    """A loaded Module with seeded inputs. Close it after use.

    Attributes:
        program: what it was compiled from; None for an artifact, which does not hold it.
    """

    def __init__(self, path: Path, options: BuildOptions) -> None:
        """Compile or load it; raises LuthierError where that is impossible. An artifact has options of its own."""
        self.program: Program | None = None
        if path.suffix == ARTIFACT_SUFFIX:
            self.module = load_module(path)
        else:
            self.program = read_program(path, options)
            self.module = build_module(self.program, options)
        self.inputs = make_inputs(self.module.inputs, program=self.program)

    def close(self) -> None:
        """End the Module's threads."""
        self.module.close()
