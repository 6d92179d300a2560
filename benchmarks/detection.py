"""Detectors' last parts, whose counts differ from call to call, beside ONNX Runtime.

    python -m benchmarks.detection [one faces proposals classes heads] [--dense] [--threads 1] [--calls 8]

one, faces, proposals, classes   suppression of boxes: 1,000 of one class, 4,420 of two, 1,000 of 4,000 that all count,
                                 and 8,400 of 80 classes
heads                            suppression, and a network of its own for what is left of 600 boxes (RoiAlign, a
                                 convolution, two layers), of which those with a high score remain
--dense                          random boxes and scores; otherwise 20 to 40 objects with a dozen boxes each

Each call has other boxes. Prints the milliseconds of the first calls, which may compile, and the median of all that
follow, once each has occurred; exits 1 where results differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import luthier
from luthier.bench.engines import OnnxRuntimeEngine

_ROUNDS = 5
_SIDE = 600.0
"""Of the image, in pixels."""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is suppressed: boxes of each class, at most so many; `heads`: whether a network follows."""

    boxes: int
    classes: int
    most: int
    overlap: float
    threshold: float
    heads: bool = False


KINDS = {
    "one": Kind(1000, 1, 100, 0.5, 0.1),
    "faces": Kind(4420, 2, 200, 0.3, 0.6),
    "proposals": Kind(4000, 1, 1000, 0.7, 0.0),
    "classes": Kind(8400, 80, 100, 0.45, 0.25),
    "heads": Kind(600, 1, 300, 0.5, 0.3, heads=True),
}


def main() -> None:
    """A line per kind on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=8)
    given = parser.parse_args()
    right = [
        _compared(name, dense=given.dense, threads=given.threads, calls=given.calls)
        for name in given.kinds or KINDS
    ]
    sys.exit(not all(right))


def _compared(name: str, *, dense: bool, threads: int, calls: int) -> bool:
    """Whether both give the same; prints how long they take."""
    kind = KINDS[name]
    given = [_inputs(kind, seed, dense=dense) for seed in range(calls)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(_model(kind), path)
        module = luthier.compile(path, threads=threads)
        peers = [OnnxRuntimeEngine(path, inputs, threads) for inputs in given]
        first, right = [], True
        for inputs, peer in zip(given, peers, strict=True):
            start = time.perf_counter()
            found = module.run(inputs)
            first.append(time.perf_counter() - start)
            wanted = peer.run()
            right &= all(_alike(found[output], wanted[output]) for output in wanted)
        ours, theirs = [], []
        for _ in range(_ROUNDS):
            for inputs, peer in zip(given, peers, strict=True):
                start = time.perf_counter()
                module.run(inputs)
                middle = time.perf_counter()
                peer.run()
                ours.append(middle - start)
                theirs.append(time.perf_counter() - middle)
        module.close()
    told = " ".join(f"{seconds * 1e3:.0f}" for seconds in first)
    print(
        f"{name:10s} luthier {np.median(ours) * 1e3:8.3f} ms  onnxruntime {np.median(theirs) * 1e3:8.3f} ms  "
        f"{'right' if right else 'WRONG'}  first calls {told} ms",
        flush=True,
    )
    return right


def _alike(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.shape == wanted.shape and bool(np.allclose(found, wanted, rtol=1e-3, atol=1e-3))


def _inputs(kind: Kind, seed: int, *, dense: bool) -> Arrays:
    rng = np.random.default_rng(seed)
    centres, sizes = rng.random((kind.boxes, 2)) * _SIDE, rng.random((kind.boxes, 2)) * 60 + 10
    scores = rng.random((kind.classes, kind.boxes)) ** (12 if kind.classes > 2 else 1)
    if not dense:
        scores *= 0.04
        start = 0
        for _ in range(int(rng.integers(20, 40))):
            count, own = int(rng.integers(5, 25)), int(rng.integers(kind.classes))
            some = np.arange(start, start + count) % kind.boxes
            start += count
            size = rng.random(2) * 100 + 20
            centres[some] = rng.random(2) * _SIDE + rng.standard_normal((count, 2)) * size * 0.1
            sizes[some] = size * (1 + rng.standard_normal((count, 2)) * 0.1)
            scores[own, some] = 0.3 + 0.65 * rng.random(count)
    order = rng.permutation(kind.boxes)
    corners = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1)[order]
    found = {"boxes": corners[None].astype(np.float32), "scores": scores[None, :, order].astype(np.float32)}
    if kind.heads:
        found["features"] = rng.standard_normal((1, 64, 50, 50)).astype(np.float32)
        found["boxes"] = np.clip(found["boxes"], 0, _SIDE)
    return found


def _model(kind: Kind) -> onnx.ModelProto:
    def tensor(name: str, shape: list[int] | None, element: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, element, shape)

    constants: dict[str, np.ndarray] = {
        "most": np.array([kind.most]),
        "overlap": np.array([kind.overlap], np.float32),
        "threshold": np.array([kind.threshold], np.float32),
    }
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", *constants], ["selected"])]
    inputs = [tensor("boxes", [1, kind.boxes, 4]), tensor("scores", [1, kind.classes, kind.boxes])]
    outputs = [tensor("selected", None, TensorProto.INT64)]
    if kind.heads:
        more, weights = _heads()
        nodes += more
        constants |= weights
        inputs.append(tensor("features", [1, 64, 50, 50]))
        outputs = [tensor("detections", None), tensor("places", None)]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "detection", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def _heads() -> tuple[list[NodeProto], dict[str, np.ndarray]]:
    """A network for each box that is left, and the boxes that it likes."""
    rng = np.random.default_rng(0)
    node = helper.make_node
    nodes = [
        node("Gather", ["selected", "column"], ["kept"], axis=1),
        node("Squeeze", ["boxes", "front"], ["all_boxes"]),
        node("Gather", ["all_boxes", "kept"], ["regions"], axis=0),
        node("Shape", ["kept"], ["count"]),
        node("ConstantOfShape", ["count"], ["image"], value=helper.make_tensor("v", TensorProto.INT64, [1], [0])),
        node(
            "RoiAlign", ["features", "regions", "image"], ["crops"],
            output_height=7, output_width=7, sampling_ratio=2, spatial_scale=50 / _SIDE,
        ),
        node("Conv", ["crops", "window"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Flatten", ["r"], ["flat"]),
        node("MatMul", ["flat", "first"], ["h"]),
        node("Relu", ["h"], ["hidden"]),
        node("MatMul", ["hidden", "second"], ["o"]),
        node("Reshape", ["o", "classes"], ["each"]),
        node("ReduceMax", ["each"], ["best"], axes=[1, 2], keepdims=0),
        node("Sigmoid", ["best"], ["score"]),
        node("Greater", ["score", "enough"], ["likely"]),
        node("NonZero", ["likely"], ["rows"]),
        node("Squeeze", ["rows", "front"], ["chosen"]),
        node("Gather", ["each", "chosen"], ["detections"], axis=0),
        node("Gather", ["regions", "chosen"], ["places"], axis=0),
    ]  # fmt: skip
    weights = {
        "column": np.array(2),
        "front": np.array([0]),
        "window": rng.standard_normal((64, 64, 3, 3)) * 0.05,
        "first": rng.standard_normal((64 * 49, 128)) * 0.02,
        "second": rng.standard_normal((128, 84)) * 0.1,
        "classes": np.array([-1, 21, 4]),
        "enough": np.array(0.55),
    }
    return nodes, {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in weights.items()}


if __name__ == "__main__":
    main()
