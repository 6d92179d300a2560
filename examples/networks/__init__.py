"""Real networks without their weights, and what fills them: the same values for the same seed on any machine.

    python -m examples.networks resnet50 OUT        writes OUT/resnet50.onnx and prints its path

A stripped tensor has its shape and type, no data, and a `doc_string` that begins with `fill:` and goes on in JSON:

    {"kind": "normal", "mean": m, "std": s}   {"kind": "uniform", "lo": a, "hi": b}   {"kind": "const", "v": c}
    {"kind": "zlib", "b64": text}             the exact bytes, for tables and masks

Random values depend on the seed and the name of the tensor alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

NAMES = ("mlp", "mobilenetv2", "resnet18", "resnet50", "vgg16conv_126x224")

_MARK = "fill:"
_HERE = Path(__file__).resolve().parent


def stripped(name: str) -> Path:
    """The file without weights; raises ValueError with the known names."""
    if name not in NAMES:
        msg = f"unknown network {name!r}; use one of: {', '.join(NAMES)}"
        raise ValueError(msg)
    return _HERE / f"{name}.onnx"


def filled(name: str, folder: str | Path, seed: int = 0) -> Path:
    """Path of the complete network in `folder`, written unless it is there already.

    Safe to call from several processes at once: the file appears complete or not at all.
    """
    source = stripped(name)
    path = Path(folder) / (f"{name}.onnx" if seed == 0 else f"{name}-seed{seed}.onnx")
    if path.is_file():
        return path
    model = onnx.load(source)
    fill(model, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(model.SerializeToString())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def fill(model: onnx.ModelProto, seed: int = 0) -> None:
    """Give every stripped initialiser of the model its values, in place."""
    for tensor in model.graph.initializer:
        if tensor.doc_string.startswith(_MARK):
            recipe = json.loads(tensor.doc_string.removeprefix(_MARK))
            tensor.CopyFrom(numpy_helper.from_array(_values(tensor, recipe, seed), tensor.name))


def _values(tensor: TensorProto, recipe: Mapping[str, Any], seed: int) -> npt.NDArray[Any]:
    shape = tuple(tensor.dims)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    match recipe["kind"]:
        case "normal":
            normal = _generator(tensor.name, seed).standard_normal(shape, dtype=np.float32)
            return (normal * np.float32(recipe["std"]) + np.float32(recipe["mean"])).astype(dtype)
        case "uniform":
            low, high = recipe["lo"], recipe["hi"]
            uniform = _generator(tensor.name, seed).random(shape, dtype=np.float32)
            return (uniform * np.float32(high - low) + np.float32(low)).astype(dtype)
        case "const":
            return np.full(shape, recipe["v"], dtype)
        case "zlib":
            return np.frombuffer(zlib.decompress(base64.b64decode(recipe["b64"])), dtype).reshape(shape)
        case kind:
            msg = f"tensor {tensor.name!r} asks to be filled by {kind!r}; use a newer filler"
            raise ValueError(msg)


def _generator(name: str, seed: int) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))
