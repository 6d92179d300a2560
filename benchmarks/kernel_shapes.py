"""The shapes of `benchmarks.kernels`, by group.

contraction  matrix products and convolutions
ragged       the same with extents, channels and windows that nothing divides
winograd     3x3 convolutions of images large enough for an algorithm with far fewer multiplications
memory       operators that move more than they compute
int8         products of bytes
other        what no bar covers: short or long rows, places that are looked up, extents so small that a call costs as
             much, outputs put together from several kernels, groups of channels, and windows of other shapes with an
             algorithm of fewer multiplications
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx

from benchmarks.kernel_models import (
    batch_matmul,
    channels_last,
    convolution,
    elementwise_chain,
    embedding,
    gather,
    gather_step,
    integer_matmul,
    largest,
    masked_attention,
    matmul,
    normalisation,
    normalisation_in_parts,
    pool,
    pooled_boxes,
    quantised_convolution,
    quantised_matmul,
    sampled,
    total,
    transposed_convolution,
    unary,
)

GROUPS = ("contraction", "ragged", "winograd", "memory", "int8", "other")
_WINDOWED = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LRN")


@dataclass(frozen=True)
class Shape:
    """One single-operator model."""

    name: str
    group: str
    make: Callable[[], onnx.ModelProto]

    def save(self, folder: Path) -> Path:
        """The ONNX file, as the peers run it: channels first."""
        path = folder / f"{self.name}.onnx"
        onnx.save(self.make(), path)
        return path

    def save_own_layout(self, folder: Path) -> Path:
        """The ONNX file with input and output laid out as our kernels want them; for most operators the same."""
        model = self.make()
        if not any(node.op_type in _WINDOWED for node in model.graph.node):
            return folder / f"{self.name}.onnx"
        path = folder / f"{self.name}.last.onnx"
        onnx.save(channels_last(model), path)
        return path


def _square(kernel: int, ic: int, oc: int, size: int, stride: int = 1, groups: int = 1) -> onnx.ModelProto:
    return convolution(ic, oc, (size, size), (kernel, kernel), stride=stride, groups=groups)


_MODELS: Mapping[str, Mapping[str, Callable[[], onnx.ModelProto]]] = {
    "contraction": {
        **{f"mm_{m}x{k}x{n}": partial(matmul, m, k, n) for m, k, n in (
            (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (512, 512, 512), (1024, 1024, 1024), (2048, 64, 2048),
        )},
        "conv7x7s2_3_64_224": partial(_square, 7, 3, 64, 224, 2),
        **{f"conv3x3_{c}_{s}": partial(_square, 3, c, c, s) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))},
        "conv1x1_256_64_56": partial(_square, 1, 256, 64, 56),
        "conv1x1_64_256_56": partial(_square, 1, 64, 256, 56),
        "conv1x1_1024_256_14": partial(_square, 1, 1024, 256, 14),
        "conv1x1s2_256_512_56": partial(_square, 1, 256, 512, 56, 2),
    },
    "ragged": {
        "conv3x3_37_53_29x31": partial(convolution, 37, 53, (29, 31), (3, 3)),
        "conv3x3_3_27_72": partial(_square, 3, 3, 27, 72),
        "conv3x3_12_27_45": partial(_square, 3, 12, 27, 45),
        "conv3x3s2_37_53_57": partial(_square, 3, 37, 53, 57, 2),
        "conv3x3d2_24_37_41": partial(convolution, 24, 37, (41, 41), (3, 3), dilation=2),
        "conv3x3g3_36_60_19": partial(_square, 3, 36, 60, 19, 1, 3),
        "conv3x3g4_48_80_15": partial(_square, 3, 48, 80, 15, 1, 4),
        "conv5x5_12_37_23": partial(_square, 5, 12, 37, 23),
        "conv1x7_53_41_17": partial(convolution, 53, 41, (17, 17), (1, 7)),
        "conv1x1_27_37_31": partial(_square, 1, 27, 37, 31),
        "conv1d_dilated_101x20_37": partial(convolution, 20, 37, (101,), (3,), dilation=2),
        "conv1d_s2_211x37_53": partial(convolution, 37, 53, (211,), (5,), stride=2),
        "conv3d_3_12_13x15x17": partial(convolution, 3, 12, (13, 15, 17), (3, 3, 3)),
        "conv1x1_37_53_43": partial(_square, 1, 37, 53, 43),
        "mm_127x301x509": partial(matmul, 127, 301, 509),
        "mm_67x131x257": partial(matmul, 67, 131, 257),
        "mm_3x2039x17": partial(matmul, 3, 2039, 17),
        "mv_1x1021x509": partial(matmul, 1, 1021, 509),
        "bmm_5x37x29x53": partial(batch_matmul, 5, 37, 29, 53),
        "bmm_12x67x64x67": partial(batch_matmul, 12, 67, 64, 67),
    },
    "winograd": {
        f"winograd_{c}_{s}": partial(_square, 3, c, c, s) for c, s in ((64, 56), (128, 28), (256, 14))
    },
    "memory": {
        "softmax_1536x128": partial(unary, "Softmax", (1536, 128)),
        "layernorm_128x768": partial(normalisation, "LayerNormalization", (128, 768), (768,)),
        "gelu_128x3072": partial(unary, "Gelu", (128, 3072)),
        "maxpool3x3s2_64_112": partial(pool, "MaxPool", 64, 112, 3, 2),
        "maxpool3x3_256_28": partial(pool, "MaxPool", 256, 28, 3, 1),
        "avgpool3x3_192_28": partial(pool, "AveragePool", 192, 28, 3, 1),
        "globalavgpool_2048_7": partial(unary, "GlobalAveragePool", (1, 2048, 7, 7)),
        "lrn5_64_56": partial(unary, "LRN", (1, 64, 56, 56), size=5),
        "dw3x3s2_96_112": partial(_square, 3, 96, 96, 112, 2, 96),
        "dw3x3_192_28": partial(_square, 3, 192, 192, 28, 1, 192),
        "dw3x3_512_14": partial(_square, 3, 512, 512, 14, 1, 512),
        "mv_1x4096x4096": partial(matmul, 1, 4096, 4096),
        "transpose_768x512": partial(unary, "Transpose", (768, 512), perm=[1, 0]),
        "transpose_heads_128x12x64": partial(unary, "Transpose", (128, 12, 64), perm=[1, 0, 2]),
        "gather_128_of_5000x768": partial(gather, 5000, 768, 128),
        "gather_step39_128_of_5000x768": partial(gather_step, 5000, 768, 128, 39),
        "instancenorm_64_56": partial(normalisation, "InstanceNormalization", (1, 64, 56, 56), (64,)),
        "groupnorm8_64_56": partial(normalisation, "GroupNormalization", (1, 64, 56, 56), (64,), num_groups=8),
        "sum_last_1024x1024": partial(total, (1024, 1024), (1,)),
        "sum_first_1024x1024": partial(total, (1024, 1024), (0,)),
        "sum_all_1024x1024": partial(total, (1024, 1024), (0, 1)),
        "chain_64_112": partial(elementwise_chain, (1, 64, 112, 112)),
    },
    "int8": {
        "mm_int8_128x3072x768": partial(integer_matmul, 128, 3072, 768),
        "mm_qdq_128x3072x768": partial(quantised_matmul, 128, 3072, 768),
        "conv_qdq_3x3_128_28": partial(quantised_convolution, 3, 128, 128, 28),
        "conv_qdq_3x3_64_56": partial(quantised_convolution, 3, 64, 64, 56),
        "conv_qdq_3x3_256_14": partial(quantised_convolution, 3, 256, 256, 14),
    },
    "other": {
        "softmax_4096x49": partial(unary, "Softmax", (4096, 49)),
        "layernorm_784x192": partial(normalisation, "LayerNormalization", (784, 192), (192,)),
        "layernorm_in_parts_512x1024": partial(normalisation_in_parts, 512, 1024),
        **{f"groupnorm32_{c}_{s}": partial(
            normalisation, "GroupNormalization", (1, c, s, s), (c,), num_groups=32,
        ) for c, s in ((256, 14), (320, 64))},
        "grid_sample_32_64": partial(sampled, 32, 64),
        "roi_align_256_50": partial(pooled_boxes, 256, 50, 100),
        "conv3x3_16_16_23": partial(_square, 3, 16, 16, 23),
        "conv1x1_2048_512_7": partial(_square, 1, 2048, 512, 7),
        "sigmoid_128x3072": partial(unary, "Sigmoid", (128, 3072)),
        "conv3x3_5_7_5": partial(_square, 3, 5, 7, 5),
        **{f"conv{k}x{k}_{c}_{o}_{s}": partial(_square, k, c, o, s) for k, c, o, s in (
            (3, 64, 3, 128), (9, 32, 3, 112), (1, 64, 2, 128), (3, 3, 8, 112), (3, 64, 64, 112), (3, 32, 32, 256),
        )},
        "conv3x3g32_128_56": partial(_square, 3, 128, 128, 56, 1, 32),
        "conv3x3g32_256_28": partial(_square, 3, 256, 256, 28, 1, 32),
        "deconv4x4s2_64_3_64": partial(transposed_convolution, 64, 3, (64, 64), (4, 4), 2),
        "dw7x7_96_28": partial(_square, 7, 96, 96, 28, 1, 96),
        "mm_1024x128x2": partial(matmul, 1024, 128, 2),
        "deconv3x3s2_27_12_17": partial(transposed_convolution, 27, 12, (17, 17), (3, 3), 2),
        "mm_7x13x11": partial(matmul, 7, 13, 11),
        **{f"patches{p}_3_{o}_224": partial(embedding, 3, o, 224, p) for p, o in ((4, 96), (16, 768))},
        **{f"topk{k}_{rows}x{n}": partial(largest, rows, n, k) for k, rows, n in (
            (10, 16, 10_000), (100, 80, 8_400), (1000, 1, 136_800),
        )},
        **{f"attention_{h}x{n}x64": partial(masked_attention, h, n, 64) for h, n in ((12, 197), (6, 1500))},
        **{f"bmm_{b}x{m}x{k}x{n}": partial(batch_matmul, b, m, k, n) for b, m, k, n in (
            (12, 128, 64, 128), (1, 512, 512, 512), (1, 1000, 64, 1000),
        )},
        **{f"conv3x3g{c // per}_{c}_{s}": partial(_square, 3, c, c, s, 1, c // per) for c, per, s in (
            (64, 16, 28), (192, 24, 20), (192, 48, 28), (384, 192, 12), (432, 48, 14),
        )},
        "conv5x5_48_128_14": partial(_square, 5, 48, 128, 14),
        "conv3x3s2_128_128_56": partial(_square, 3, 128, 128, 56, 2),
        "conv1x7_192_192_17": partial(convolution, 192, 192, (17, 17), (1, 7)),
        **{f"conv{k}x{k}_{c}_{o}_{s}": partial(_square, k, c, o, s) for k, c, o, s in (
            (1, 144, 24, 56), (3, 40, 40, 28), (3, 48, 20, 28), (5, 88, 24, 14),
        )},
        **{f"dw3x3_{c}_{s}": partial(_square, 3, c, c, s, 1, c) for c, s in ((384, 14), (728, 19))},
        "conv1d_80_384_3000": partial(convolution, 80, 384, (3000,), (3,)),
        "conv3d_32_32_8x16x16": partial(convolution, 32, 32, (8, 16, 16), (3, 3, 3)),
    },
}  # fmt: skip

SHAPES: Mapping[str, Shape] = {
    name: Shape(name, group, make) for group, models in _MODELS.items() for name, make in models.items()
}
