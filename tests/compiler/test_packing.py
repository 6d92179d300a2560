"""Packing against its definition, element by element."""

import tracemalloc
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtype import DType
from compiler.packing import Packing, Shortened, Transform
from compiler.three_bytes import lengthen


def by_definition(packing: Packing, array: np.ndarray) -> np.ndarray:
    """packed[i] = source[start + sum_k coefficients[k] * i[k]], and 0 outside; the source transformed in float64."""
    if packing.transform is not None:
        whole = array.reshape(packing.transform.shape).astype(np.float64)
        whole = whole.transpose(packing.transform.order or range(whole.ndim))
        source = whole.reshape(*whole.shape[: -packing.transform.combined], -1)
        array = (source @ np.array(packing.transform.matrix).T).astype(array.dtype)
    packed = np.zeros(packing.shape, array.dtype)
    for at in product(*map(range, packing.shape)):
        place = tuple(np.array(at) @ np.array(packing.coefficients) + np.array(packing.start or 0))
        if all(p < n for p, n in zip(place, array.shape, strict=True)):
            packed[at] = array[place]
    return packed


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_of_rows_and_columns(data: st.DataObject) -> None:
    """Rows in blocks with a ragged end, columns and a transformed dimension, in any order of memory, from anywhere."""
    rows, columns, block = (data.draw(st.integers(1, 7)) for _ in range(3))
    matrix = tuple(tuple(float(3 * j + k) for k in range(2)) for j in range(data.draw(st.integers(1, 3))))
    transform = Transform((rows, columns, 2), matrix) if data.draw(st.booleans()) else None
    last = 2 if transform is None else len(matrix)
    dims = [
        (-(-rows // block), (block, 0, 0)),
        (block, (1, 0, 0)),
        (columns, (0, 1, 0)),
        (last, (0, 0, 1)),
    ]
    order = data.draw(st.permutations(dims))
    start = () if transform else tuple(data.draw(st.integers(0, n - 1)) for n in (rows, columns, 2))
    packing = Packing("w", tuple(n for n, _ in order), tuple(c for _, c in order), transform, start=start)
    array = np.arange(rows * columns * 2, dtype=np.float32).reshape(rows, columns, 2)
    packed = packing.apply(array)
    assert packed.dtype == np.float32
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(packed, by_definition(packing, array))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_part_of_a_constant_is_shortened(data: st.DataObject) -> None:
    sizes = [data.draw(st.integers(1, 5)) for _ in range(3)]
    start = tuple(data.draw(st.integers(0, n - 1)) for n in sizes)
    order = data.draw(st.permutations(range(3)))
    coefficients = tuple(tuple(int(dim == d) for d in range(3)) for dim in order)
    shape = tuple(sizes[dim] for dim in order)
    array = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    packed = Packing("w", shape, coefficients, Shortened(), DType.F24, start).apply(array)
    plain = by_definition(Packing("w", shape, coefficients, start=start), array)
    np.testing.assert_array_equal(lengthen(packed), plain)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_blocks_of_a_matrix_are_combined(data: st.DataObject) -> None:
    """As Strassen's algorithm combines those of a constant."""
    high, wide = (data.draw(st.integers(1, 5)) for _ in range(2))
    order = data.draw(st.sampled_from([(1, 3, 0, 2), (1, 3, 2, 0)]))
    matrix = tuple(tuple(float(3 * j + k) for k in range(4)) for j in range(3))
    transform = Transform((2, high, 2, wide), matrix, order=order, combined=2)
    packing = Packing("w", (3, wide, high), ((0, 0, 1), (0, 1, 0), (1, 0, 0)), transform)
    array = np.arange(4 * high * wide, dtype=np.float32).reshape(2 * high, 2 * wide)
    np.testing.assert_array_equal(packing.apply(array), by_definition(packing, array))


def test_a_dimension_that_nothing_moves_along() -> None:
    """Only the first row is wanted: there are no blocks to go by."""
    transform = Transform((2, 3, 2), ((1.0, 1.0), (1.0, -1.0)))
    packing = Packing("w", (2, 3), ((0, 0, 1), (0, 1, 0)), transform)
    array = np.arange(12, dtype=np.float32)
    np.testing.assert_array_equal(packing.apply(array), by_definition(packing, array))


def test_element_types() -> None:
    array = np.arange(4, dtype=np.int8)
    assert Packing("w", (4,), ((1,),)).apply(array).dtype == np.int8
    assert Packing("w", (4,), ((1,),), dtype=DType.I16).apply(array).dtype == np.int16
    wide = Transform((2, 2), ((1.0, 200.0), (0.0, 1.0)), DType.I16)
    packed = Packing("w", (2, 2), ((1, 0), (0, 1)), wide).apply(array)
    assert packed.dtype == np.int16
    np.testing.assert_array_equal(packed, [[200, 1], [602, 3]])


def test_a_transformed_source_is_never_in_memory_as_a_whole() -> None:
    """The peak of compiling a model is its packed weights and little more."""
    transform = Transform((64, 64, 9), tuple((1.0,) * 9 for _ in range(36)))
    packing = Packing("w", (36, 8, 64, 8), ((0, 0, 1), (8, 0, 0), (0, 1, 0), (1, 0, 0)), transform)
    array = np.ones((64, 64, 3, 3), np.float32)
    packed = np.empty(packing.shape, np.float32)
    tracemalloc.start()
    try:
        packing.fill(packed, array)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < packed.nbytes * 3 / 4
    np.testing.assert_array_equal(packed, np.full(packing.shape, 9.0))
