"""The NumPy evaluator against a plain loop over every point."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler.evaluate
from compiler.dtype import DType
from compiler.errors import CompileError
from compiler.evaluate import evaluate_compute, evaluate_stage, reference_outputs
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Apply, Bound, Cast, Const, Expr, Guard, Load, apply
from compiler.scalar_ops import OPS, REDUCERS
from compiler.symbol import axis
from compiler.workload.ir import Operand, Stage, Workload

NAMES = ("a", "b", "r", "s")


def value_at(expr: Expr, arrays: dict[str, np.ndarray], point: dict[str, int]) -> float:
    match expr:
        case Const(value, _):
            return value
        case Load(buffer, indices):
            where = tuple(i.evaluate(point) for i in indices)
            assert all(0 <= w < n for w, n in zip(where, arrays[buffer].shape, strict=True))
            return arrays[buffer][where]
        case Apply(op, args):
            with np.errstate(all="ignore"):
                return OPS[op].evaluate(*(np.float64(value_at(a, arrays, point)) for a in args))
        case Guard(bounds, inside, outside):
            held = all(b.low <= b.index.evaluate(point) < b.high for b in bounds)
            return value_at(inside if held else outside, arrays, point)
        case Cast(value, _):
            return value_at(value, arrays, point)


def loop(compute: Compute, arrays: dict[str, np.ndarray]) -> np.ndarray:
    outer = [(a.name, a.size) for a in compute.axes]
    inner = [(a.name, a.size) for a in compute.reduce_axes]
    result = np.zeros([size for _, size in outer])
    for where in itertools.product(*(range(size) for _, size in outer)):
        values = []
        for k in itertools.product(*(range(size) for _, size in inner)):
            point = dict(zip([n for n, _ in (*outer, *inner)], (*where, *k), strict=True))
            values.append(value_at(compute.body, arrays, point))
        total = values[0]
        with np.errstate(all="ignore"):
            for value in values[1:]:
                total = OPS[REDUCERS[compute.reducer].op].evaluate(total, value)
        result[where] = total
    return result


def shift_into(index: Index, ranges: dict[str, int]) -> tuple[Index, int]:
    """The index moved so that it starts at 0, and the extent that it then needs."""
    low, high = index.bounds(ranges)
    return index - low, high - low + 1


@st.composite
def indices(draw: st.DrawFn) -> Index:
    total = Index()
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
        total += Index.of(name) * draw(st.integers(-2, 3))
    match draw(st.sampled_from(("affine", "affine", "div", "mod"))):
        case "div":
            return (total // draw(st.integers(2, 4))) + draw(st.sampled_from(NAMES))
        case "mod":
            return total % draw(st.integers(2, 4))
        case _:
            return total


@st.composite
def computations(draw: st.DrawFn) -> tuple[Compute, dict[str, np.ndarray]]:
    ranges = {name: draw(st.integers(1, 4)) for name in NAMES}
    arrays: dict[str, np.ndarray] = {}
    random = np.random.default_rng(draw(st.integers(0, 99)))

    def load() -> Expr:
        moved = [shift_into(draw(indices()), ranges) for _ in range(draw(st.integers(1, 3)))]
        name = f"x{len(arrays)}"
        arrays[name] = random.standard_normal([extent for _, extent in moved])
        return Load(name, tuple(i for i, _ in moved))

    def guarded() -> Expr:
        inner = load()
        assert isinstance(inner, Load)
        shape = arrays[inner.buffer].shape
        shift = draw(st.integers(-2, 2))
        where = tuple(i + shift for i in inner.indices)
        bounds = [Bound(i, 0, n) for i, n in zip(where, shape, strict=True)]
        if draw(st.booleans()):
            bounds.append(Bound(draw(indices()), draw(st.integers(-2, 2)), draw(st.integers(1, 4))))
        outside = Const(draw(st.sampled_from((0.0, -1.5)))) if draw(st.booleans()) else load()
        return Guard(tuple(bounds), Load(inner.buffer, where), outside)

    def expression(depth: int) -> Expr:
        kinds = ("load", "guard", "const") + (
            ("mul", "mul", "add", "max", "div", "neg", "cast") * (depth > 0)
        )
        match draw(st.sampled_from(kinds)):
            case "load":
                return load()
            case "guard":
                return guarded()
            case "const":
                return Const(draw(st.sampled_from((0.0, 2.0, -1.5))))
            case "neg":
                return apply("neg", expression(depth - 1))
            case "cast":
                return Cast(expression(depth - 1), DType.F32)
            case op:
                return apply(op, expression(depth - 1), expression(depth - 1))

    reducer = draw(st.sampled_from((None, "sum", "sum", "sum", "max", "min", "prod")))
    axes = tuple(axis(n, ranges[n]) for n in NAMES)
    body = expression(2)
    compute = Compute(axes, (), None, body) if reducer is None else Compute(axes[:2], axes[2:], reducer, body)
    return compute, arrays


@settings(max_examples=150, deadline=None)
@given(computations(), st.sampled_from((4, 1 << 22)))
def test_equals_a_plain_loop(drawn: tuple[Compute, dict[str, np.ndarray]], piece: int) -> None:
    compute, arrays = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler.evaluate, "_PIECE", piece)
        values = evaluate_compute(compute, arrays)
    np.testing.assert_allclose(values, loop(compute, arrays), rtol=1e-9, atol=1e-9)


def convolution(channels: int, size: int, kernel: int, stride: int, pad: int, dilation: int) -> Compute:
    out = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    row, column = (Index.of(f"o{d}") * stride + Index.of(f"k{d}") * dilation - pad for d in ("h", "w"))
    bounds = (Bound(row, 0, size), Bound(column, 0, size))
    x = Load("x", (Index.of("n"), Index.of("i"), row, column))
    w = Load("w", tuple(Index.of(n) for n in ("c", "i", "kh", "kw")))
    return Compute(
        (axis("n", 1), axis("c", 3), axis("oh", out), axis("ow", out)),
        (axis("i", channels), axis("kh", kernel), axis("kw", kernel)),
        "sum",
        apply("mul", Guard(bounds, x, Const(0.0)), w),
    )


@pytest.mark.parametrize(("kernel", "stride", "pad", "dilation"), [(1, 1, 0, 1), (3, 2, 1, 1), (2, 1, 2, 2)])
def test_convolution(kernel: int, stride: int, pad: int, dilation: int) -> None:
    compute = convolution(2, 6, kernel, stride, pad, dilation)
    random = np.random.default_rng(0)
    arrays = {"x": random.standard_normal((1, 2, 6, 6)), "w": random.standard_normal((3, 2, kernel, kernel))}
    np.testing.assert_allclose(evaluate_compute(compute, arrays), loop(compute, arrays), atol=1e-12)


def test_large_contraction_is_evaluated_in_pieces() -> None:
    m, k, n = 256, 40_000, 64
    body = apply("mul", Load("x", (Index.of("m"), Index.of("k"))), Load("w", (Index.of("k"), Index.of("n"))))
    compute = Compute((axis("m", m), axis("n", n)), (axis("k", k),), "sum", body)
    x = np.random.default_rng(0).standard_normal((m, k))
    w = np.ones((k, n))
    np.testing.assert_allclose(evaluate_compute(compute, {"x": x, "w": w})[:, 3], x.sum(axis=1), atol=1e-9)


def test_computes_in_the_type_that_was_asked_for() -> None:
    compute = Compute((axis("a", 2),), (), None, apply("add", Load("x", (Index.of("a"),)), Const(1e-9)))
    x = {"x": np.ones(2, np.float32)}
    assert evaluate_compute(compute, x, np.float32).dtype == np.float32
    assert (evaluate_compute(compute, x, np.float32) == 1).all()
    assert (evaluate_compute(compute, x) > 1).all()


def test_unguarded_load_outside_its_buffer_is_an_error() -> None:
    compute = Compute((axis("a", 3),), (), None, Load("x", (Index.of("a") + 1,)))
    with pytest.raises(CompileError, match="x of shape"):
        evaluate_compute(compute, {"x": np.zeros(3)})


def test_maximum_keeps_nan_and_empty_windows_give_the_outside() -> None:
    index = Index.of("a") + "k" - 2
    body = Guard((Bound(index, 0, 3),), Load("x", (index,)), Const(-math.inf))
    compute = Compute((axis("a", 4),), (axis("k", 2),), "max", body)
    values = evaluate_compute(compute, {"x": np.array([1.0, np.nan, 2.0])})
    np.testing.assert_array_equal(values, [-math.inf, 1.0, np.nan, np.nan])


def padded_pair() -> Workload:
    """t = relu(x) kept with a halo of one; y = sums of neighbours of t, stored transposed."""
    h, w = Index.of("h"), Index.of("w")
    relu = Stage(
        "relu",
        (axis("h", 2), axis("w", 3)),
        (),
        None,
        apply("max", Load("x", (h, w)), Const(0.0)),
        "t",
        (h + 1, w + 1),
    )
    window = Stage(
        "window",
        (axis("h", 2), axis("w", 3)),
        (axis("i", 3), axis("j", 3)),
        "sum",
        Load("t", (h + "i", w + "j")),
        "y",
        (w, h),
    )
    shapes = {"x": (2, 3), "t": (4, 5), "y": (3, 2)}
    x, t, y = (Operand(n, tuple(Index.of(e) for e in s), DType.F32) for n, s in shapes.items())
    return Workload((x,), (t,), (y,), (relu, window))


def test_reference_outputs_follow_layouts_and_halos() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    t = np.pad(np.maximum(x.astype(np.float64), 0), 1)
    expected = sum(t[i : i + 2, j : j + 3] for i in range(3) for j in range(3))
    outputs = reference_outputs(padded_pair(), {"x": x})
    assert list(outputs) == ["y"]
    assert outputs["y"].dtype == np.float64
    np.testing.assert_allclose(outputs["y"], expected.T)


def test_a_stage_evaluates_over_its_axes() -> None:
    stage = padded_pair().stages[1]
    values = evaluate_stage(stage, {"t": np.ones((4, 5))})
    np.testing.assert_array_equal(values, np.full((2, 3), 9.0))


def test_both_sides_of_a_guard_may_leave_their_buffers_elsewhere() -> None:
    index = Index.of("a")
    body = Guard((Bound(index, 0, 3),), Load("x", (index,)), Load("z", (index - 3,)))
    values = evaluate_compute(
        Compute((axis("a", 5),), (), None, body), {"x": np.arange(3), "z": np.array([7, 8])}
    )
    np.testing.assert_array_equal(values, [0, 1, 2, 7, 8])
