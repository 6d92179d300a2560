"""Fourier transforms, blocks of columns, grids and triangles, against the ONNX reference implementation or NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from compiler.errors import UnsupportedOperator
from compiler.frontend.fourier import radices
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
    case("DFT", (2, 30, 3, 2), None, np.array(1)),
    case("DFT", (2, 60, 1), None, np.array(1), onesided=1),
    case("DFT", (2, 3, 26, 2), np.array(24), np.array(-2)),
    case("DFT", (2, 3, 48, 1), opset=17, axis=2),
    case("STFT", (2, 200, 1), np.array(10), weights(40), opset=17),
    case("STFT", (1, 100, 2), np.array(7), None, np.array(24), opset=17, onesided=0),
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


@given(st.integers(1, 300), st.sampled_from((1, 2)), st.sampled_from((1, 2)))
@settings(max_examples=30, deadline=None)
def test_stages_of_any_length(length: int, parts: int, sides: int) -> None:
    # numpy.fft is of other stages, in double precision.
    one_sided = sides == parts == 1
    x = np.random.default_rng(length).standard_normal((2, length, parts))
    signal = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
    spectrum = np.fft.rfft(signal) if one_sided else np.fft.fft(signal)
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"], onesided=int(one_sided))
    actual = run_one(node, x, {"axis": np.array(1)})
    wanted = np.stack([spectrum.real, spectrum.imag], -1)
    np.testing.assert_allclose(actual, wanted, atol=1e-11)
    assert math.prod(radices(length, parts)) == length


def test_long_lengths() -> None:
    x = weights(1, 1 << 15, 1)
    actual = run_one(helper.make_node("DFT", ["x", "", "axis"], ["y"]), x, {"axis": np.array(1)})
    spectrum = np.fft.fft(x[..., 0].astype(np.float64))
    np.testing.assert_allclose(actual, np.stack([spectrum.real, spectrum.imag], -1), rtol=1e-6, atol=1e-5)
    prime = weights(1, 8191, 1)
    with pytest.raises(UnsupportedOperator, match="length 8191"):
        run_one(helper.make_node("DFT", ["x", "", "axis"], ["y"]), prime, {"axis": np.array(1)})


def test_inverse_of_a_spectrum_is_the_signal() -> None:
    x = weights(2, 10)
    spectrum = np.fft.rfft(x.astype(np.float64))
    given = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"], inverse=1, onesided=1)
    actual = run_one(node, given, {"axis": np.array(1)})
    np.testing.assert_allclose(actual[..., 0], x, atol=1e-6)


@pytest.mark.parametrize("length", [1, 7, 60, 256, 300])
@pytest.mark.parametrize("parts", [1, 2])
def test_inverses_of_whole_spectra(length: int, parts: int) -> None:
    """In one product and in stages; of real numbers too."""
    x = np.random.default_rng(length).standard_normal((2, length, 3, parts))
    signal = np.fft.ifft(x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1], axis=1)
    actual = run_one(helper.make_node("DFT", ["x", "", "axis"], ["y"], inverse=1), x, {"axis": np.array(1)})
    np.testing.assert_allclose(actual, np.stack([signal.real, signal.imag], -1), atol=1e-12)


def test_an_inverse_of_another_length() -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 2))
    for length in (6, 14):
        node = helper.make_node("DFT", ["x", "length", "axis"], ["y"], inverse=1)
        actual = run_one(node, x, {"length": np.array(length), "axis": np.array(1)})
        signal = np.fft.ifft(x[..., 0] + 1j * x[..., 1], length, axis=1)
        np.testing.assert_allclose(actual, np.stack([signal.real, signal.imag], -1), atol=1e-12)


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
