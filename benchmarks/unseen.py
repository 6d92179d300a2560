"""Random models beside ONNX Runtime: operators and networks of the sizes of layers that nobody has chosen.

    python -m benchmarks.unseen [--seed 1] [--count 150] [--networks] [--threads 1] [--worst 20] [--keep FOLDER]

The models are those of the random tests (tests/compiler/random_models.py), compiled untuned. A line gives the ratio of
the medians, ours below 1 where we are slower, the worst first: what no network of ours has shows there. `--keep` writes
the worst as ONNX files, for `luthier bench --profile`.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings

from compiler.errors import InputError, UnsupportedOperator
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import native_target
from luthier.bench.engines import LuthierEngine, OnnxRuntimeEngine
from luthier.bench.turns import SETTLE_S, take_turns, timed
from tests.compiler.random_models import models
from tests.compiler.random_networks import networks

_LEAST_POINTS, _MOST_POINTS = 20_000, 150_000_000
"""Iterations of a model that is timed: below, the call itself is; above, few models would be."""
_SECONDS, _ROUNDS = 0.1, 5
"""Of a model, and rounds of turns."""


@dataclass(frozen=True, slots=True)
class Found:
    """One model and its medians."""

    model: onnx.ModelProto
    ours_s: float
    peer_s: float

    @property
    def ratio(self) -> float:
        """Below 1 where we are slower."""
        return self.peer_s / self.ours_s

    def __str__(self) -> str:
        """One line: the ratio, both times, the operators and what they are given."""
        graph = self.model.graph
        operators = " ".join(_operator(node) for node in graph.node)
        inputs = [[d.dim_value for d in info.type.tensor_type.shape.dim] for info in graph.input]
        constants = [list(tensor.dims) for tensor in graph.initializer]
        times = f"ours {1e6 * self.ours_s:9.1f} µs  onnxruntime {1e6 * self.peer_s:9.1f} µs"
        return f"{self.ratio:6.2f}  {times}  {operators}  inputs {inputs} constants {constants}"


def main() -> None:
    """A line for each of the worst, and the geometric mean of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--count", type=int, default=150, help="models drawn; those that are too small are left out"
    )
    parser.add_argument(
        "--networks", action="store_true", help="networks of several operators, not single ones"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worst", type=int, default=20, help="lines that are printed")
    parser.add_argument("--keep", type=Path, help="folder for the models of these lines")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = sorted(_all(options), key=lambda one: one.ratio)
    if not found:
        parser.error("none of these models was large enough; draw more with --count")
    for number, one in enumerate(found[: options.worst]):
        print(one, flush=True)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            onnx.save(one.model, options.keep / f"unseen_{options.seed}_{number}.onnx")
    mean = float(np.exp(np.mean([np.log(one.ratio) for one in found])))
    slower = sum(one.ratio < 1 for one in found)
    print(f"{len(found)} models: geometric mean {mean:.2f}, worst {found[0].ratio:.2f}, slower {slower}")


def _all(options: argparse.Namespace) -> Iterator[Found]:
    drawn: list[onnx.ModelProto] = []
    chosen = networks(layers=True) if options.networks else models(layers=True)

    @seed(options.seed)
    @given(chosen)
    @settings(
        max_examples=options.count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    def draw(model: onnx.ModelProto) -> None:
        drawn.append(model)

    draw()
    with tempfile.TemporaryDirectory() as folder:
        for model in drawn:
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            if (one := _measured(model, path, options.threads)) is not None:
                yield one


def _measured(model: onnx.ModelProto, path: Path, threads: int) -> Found | None:
    """None where the model is too small or too large, or where one of the engines has no such operator."""
    try:
        program = lower(load_graph(path))
    except UnsupportedOperator:
        return None
    points = sum(stage.points for subgraph in program.subgraphs for stage in subgraph.workload.stages)
    if not _LEAST_POINTS < points < _MOST_POINTS:
        return None
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(kind.sizes).astype(np.float32) for n, kind in program.inputs.items()}
    try:
        peer = OnnxRuntimeEngine(path, inputs, threads)
    except InputError:
        return None
    module: Module = compile_program(program, native_target(), threads, NoSource())
    try:
        ours = LuthierEngine(module, inputs)
        contenders = {engine.name: timed(engine.run) for engine in (ours, peer)}
        times = take_turns(contenders, _SECONDS, settle_s=SETTLE_S if threads > 1 else 0.0, rounds=_ROUNDS)
    finally:
        module.close()
    return Found(model, times[ours.name].median_s, times[peer.name].median_s)


def _operator(node: onnx.NodeProto) -> str:
    given = {
        a.name: onnx.helper.get_attribute_value(a)
        for a in node.attribute
        if a.type != onnx.AttributeProto.GRAPH
    }
    return f"{node.op_type}{given or ''}"


if __name__ == "__main__":
    main()
