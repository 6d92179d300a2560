from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.symbol import axis
from compiler.workload.canonical import Canonical, canonicalise
from compiler.workload.ir import Operand, Stage, Workload, workload_from_json, workload_json
from compiler.workload.verify import verify_workload
from tests.compiler.workload.graphs import load

NAMES = ("i", "j", "k", "l")


def _in_order(name: str, axes: dict[str, int], chosen: list[str]) -> tuple[tuple[Index, ...], Load]:
    return tuple(Index.of(axes[a]) for a in chosen), load(name, *chosen)


@st.composite
def accesses(
    draw: st.DrawFn, name: str, axes: dict[str, int], chosen: list[str]
) -> tuple[tuple[Index, ...], Load]:
    """Extents of a buffer and an access by the chosen axes: as they are, or with borders, strides, units, shuffled."""
    if draw(st.integers(0, 2)):
        return _in_order(name, axes, chosen)
    sizes, indices = [], []
    for a in draw(st.permutations(chosen)):
        shift, stride = draw(st.sampled_from([0, 0, 1])), draw(st.sampled_from([1, 1, 2]))
        sizes.append(shift + stride * (axes[a] - 1) + 1 + draw(st.sampled_from([0, 0, 1])))
        indices.append(Index.of(a) * stride + shift)
        if draw(st.integers(0, 3)) == 0:
            sizes.append(1)
            indices.append(Index())
    return tuple(map(Index.of, sizes)), Load(name, tuple(indices))


@st.composite
def reads(draw: st.DrawFn, name: str, axes: dict[str, int]) -> tuple[Operand, Expr]:
    """A load by all axes or by neighbours among them, sometimes under a guard."""
    names = list(axes)
    start = draw(st.sampled_from([0, 0, draw(st.integers(0, len(names) - 1))]))
    stop = draw(st.sampled_from([len(names), len(names), draw(st.integers(start + 1, len(names)))]))
    shape, access = draw(accesses(name, axes, names[start:stop]))
    operand = Operand(name, shape, DType.F32, constant=draw(st.booleans()))
    if draw(st.integers(0, 4)):
        return operand, access
    guarded = draw(st.sampled_from(names))
    bound = Bound(Index.of(guarded), 0, draw(st.integers(1, axes[guarded])))
    return operand, Guard((bound,), access, Const(0.5))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """An anchor and an epilogue, or a map, over up to four axes."""
    extents = {a: draw(st.sampled_from([1, 2, 3, 4])) for a in NAMES[: draw(st.integers(1, 4))]}
    reduced = {f"q{i}": draw(st.sampled_from([1, 2, 3])) for i in range(draw(st.integers(0, 3)))}
    both = {**extents, **reduced}
    read = [draw(reads(f"in{i}", both)) for i in range(draw(st.integers(1, 3)))]
    body = read[0][1]
    for _, expr in read[1:]:
        body = apply(draw(st.sampled_from(["mul", "add", "sub", "max"])), body, expr)
    shape, store = draw(accesses("out", extents, list(extents)))
    out = Operand("out", shape, DType.F32)
    axes = tuple(axis(a, n) for a, n in extents.items())
    operands = tuple(operand for operand, _ in read)
    if not reduced:
        return Workload(operands, (), (out,), (Stage("map", axes, (), None, body, "out", store.indices),))
    place = tuple(Index.of(a) for a in extents)
    total = Operand("total", tuple(map(Index.of, extents.values())), DType.F32)
    reduce_axes = tuple(axis(a, n) for a, n in reduced.items())
    reducer = draw(st.sampled_from(["sum", "max"]))
    anchor = Stage("anchor", axes, reduce_axes, reducer, body, "total", place)
    extra, expr = draw(reads("extra", extents))
    last = apply("sub", expr, Load("total", place))
    epilogue = Stage("epilogue", axes, (), None, last, "out", store.indices)
    return Workload((*operands, extra), (total,), (out,), (anchor, epilogue))


def _outputs(workload: Workload, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [array.reshape(-1) for array in reference_outputs(workload, arrays).values()]


def _arrays(workload: Workload) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {o.name: rng.standard_normal(o.sizes) for o in workload.operands}


def _renamed(canonical: Canonical, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {o.name: arrays[canonical.names[o.name]].reshape(o.sizes) for o in canonical.workload.operands}


@given(workloads())
@settings(max_examples=300, deadline=None)
def test_the_canonical_form_computes_the_same_bytes(workload: Workload) -> None:
    verify_workload(workload)
    canonical = canonicalise(workload)
    verify_workload(canonical.workload)
    arrays = _arrays(workload)
    for expected, actual in zip(
        _outputs(workload, arrays), _outputs(canonical.workload, _renamed(canonical, arrays)), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@given(workloads())
@settings(max_examples=100, deadline=None)
def test_canonical_workloads_come_back_equal_and_survive_json(workload: Workload) -> None:
    canonical = canonicalise(workload).workload
    assert canonicalise(canonical).workload == canonical
    again = workload_from_json(workload_json(canonical))
    assert again == canonical
    assert again.digest == canonical.digest


def _product(left: str, right: str, names: tuple[str, str, str]) -> Workload:
    rows, columns, inner = names
    operands = (
        Operand(left, (Index.of(6), Index.of(5)), DType.F32),
        Operand(right, (Index.of(5), Index.of(7)), DType.F32, constant=True),
    )
    body = apply("mul", load(right, inner, columns), load(left, rows, inner))
    stage = Stage(
        "anchor",
        (axis(rows, 6), axis(columns, 7)),
        (axis(inner, 5),),
        "sum",
        body,
        "o",
        load("o", rows, columns).indices,
    )
    return Workload(operands, (), (Operand("o", (Index.of(6), Index.of(7)), DType.F32),), (stage,))


def test_names_do_not_matter() -> None:
    one = canonicalise(_product("a", "b", ("i", "j", "k")))
    other = canonicalise(_product("c0", "x0", ("r0", "s0", "s1")))
    assert one.workload == other.workload
    assert one.names == {"x0": "a", "c0": "b", "y0": "o"}
    assert other.names == {"x0": "c0", "c0": "x0", "y0": "o"}


def test_inputs_come_before_constants_in_commutative_operations() -> None:
    body = canonicalise(_product("a", "b", ("i", "j", "k"))).workload.stages[0].body
    assert body == apply("mul", load("x0", "s0", "r0"), load("c0", "r0", "s1"))


def test_reduction_axes_follow_the_order_in_memory() -> None:
    x = Operand("x", tuple(map(Index.of, (4, 3, 6))), DType.F32)
    w = Operand("w", tuple(map(Index.of, (6, 3, 2))), DType.F32, constant=True)
    body = apply(
        "mul", load("w", "channel", "window", "i"), load("x", Index.of("j") + "window", 0, "channel")
    )
    stage = Stage(
        "anchor",
        (axis("j", 2), axis("i", 2)),
        (axis("channel", 6), axis("window", 3)),
        "sum",
        body,
        "y",
        load("y", "j", "i").indices,
    )
    workload = Workload((x, w), (), (Operand("y", (Index.of(2), Index.of(2)), DType.F32),), (stage,))
    assert [a.size for a in canonicalise(workload).workload.stages[0].reduce_axes] == [3, 6]


def test_guards_that_always_hold_go() -> None:
    bounds = (Bound(Index.of("i"), 0, 4), Bound(Index.of("i"), -1, 9))
    body = Guard(bounds, load("x", "i"), Const(0.0))
    stage = Stage("map", (axis("i", 4),), (), None, body, "y", load("y", "i").indices)
    operands = tuple(Operand(name, (Index.of(4),), DType.F32) for name in ("x", "y"))
    workload = Workload(operands[:1], (), operands[1:], (stage,))
    assert canonicalise(workload).workload.stages[0].body == load("x0", "s0")
