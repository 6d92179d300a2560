"""Fourier transforms, blocks of columns, grids and triangles, against the ONNX reference implementation or NumPy."""

import numpy as np
import pytest
from onnx import helper

from compiler.errors import UnsupportedOperator
from tests.compiler.frontend.cases import (
    IMAGE,
    STATISTICS,
    Case,
    case,
    floats,
    ints,
    run_case,
    run_one,
    weights,
)

CASES = [
    case("DFT", (2, 9, 5, 1), None, np.array(1)),
    case("DFT", (2, 9, 5, 2), None, np.array(-2), onesided=0),
    case("DFT", (2, 9, 5, 1), None, np.array(1), onesided=1),
    case("DFT", (2, 9, 1), np.array(12), np.array(1)),
    case("DFT", (2, 9, 2), np.array(6), np.array(1)),
    case("DFT", (2, 5, 3, 2), None, np.array(1), inverse=1, onesided=1),
    case("DFT", (2, 5, 2), np.array(9), np.array(1), inverse=1, onesided=1),
    case("DFT", (2, 9, 5, 1), opset=17, axis=2),
    case("STFT", (2, 20, 1), np.array(3), weights(8), opset=17),
    case("STFT", (1, 16, 1), np.array(4), None, np.array(8), opset=17, onesided=0),
    case("Col2Im", (1, 9, 4), ints(5, 5), ints(3, 3), strides=[2, 2]),
    case("Col2Im", (2, 8, 12), ints(5, 4), ints(2, 2)),
    case("Col2Im", (1, 5, 15), ints(5, 5), ints(1, 5), pads=[0, 1, 0, 1]),
    case("AffineGrid", (2, 2, 3), ints(2, 3, 5, 6)),
    case("AffineGrid", (2, 2, 3), ints(2, 3, 5, 6), align_corners=1),
    case("AffineGrid", (2, 3, 4), ints(2, 3, 4, 2, 6), align_corners=1),
    *(case("Trilu", (2, 4, 5), np.array(k), upper=u) for k in (-9, -2, 0, 3, 9) for u in (0, 1)),
    case("Trilu", (3, 3)),
    case("EyeLike", (3, 5), k=1),
    case("EyeLike", (5, 3), k=-2),
    case("BatchNormalization", IMAGE, *STATISTICS, training_mode=1, outputs=3, momentum=0.7),
    case("Einsum", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bik"),
    case("Einsum", (3, 4), equation="ij->ji"),
    case("Einsum", (3, 4), equation="ij->"),
    case("Einsum", (3, 4), (4,), equation="ij, j"),
    case("Einsum", (2, 3, 3), equation="...ii->...i"),
    case("Einsum", (2, 1, 3, 4), (5, 4, 2), equation="...ij,...jk->...ik"),
    case("Einsum", (2, 3), (3, 4), (4, 5), equation="ij,jk,kl->il"),
    case("Einsum", (2, 3), (2, 3), (2,), equation="ij,ij,i->j"),
]


@pytest.mark.parametrize("example", CASES, ids=str)
def test_operator(example: Case) -> None:
    run_case(example)


def test_inverse_of_a_spectrum_is_the_signal() -> None:
    x = weights(2, 10)
    spectrum = np.fft.rfft(x.astype(np.float64))
    given = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"], inverse=1, onesided=1)
    actual = run_one(node, given, {"axis": np.array(1)})
    np.testing.assert_allclose(actual[..., 0], x, atol=1e-6)
    with pytest.raises(UnsupportedOperator, match="one-sided"):
        run_one(helper.make_node("DFT", ["x", "", "axis"], ["y"], inverse=1), given, {"axis": np.array(1)})


def test_scale_and_zero_point_of_each_block() -> None:
    x = weights(2, 6, 3) * 20
    scale, zero = np.abs(weights(2, 3, 3)) + 0.1, np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1, block_size=2)
    actual = run_one(node, x, {"s": scale, "z": zero}, 21)
    wide_scale, wide_zero = scale.repeat(2, 1), zero.repeat(2, 1)
    wanted = np.clip(np.rint(x / wide_scale) + wide_zero, 0, 255)
    np.testing.assert_array_equal(actual, wanted)


def test_dropout_keeps_everything_where_nothing_is_trained() -> None:
    node = helper.make_node("Dropout", ["x"], ["z", "y"])
    assert run_one(node, floats(1, 2, 3), {}).tolist() == [True, True, True]
    old = run_one(node, floats(1, 2, 3), {}, 7)
    assert old.dtype == np.float64
    assert old.tolist() == [1, 1, 1]
