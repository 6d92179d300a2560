"""Where values live: nobody's memory is overwritten while it is needed, borders are cleared, little is wasted."""

from __future__ import annotations

from contextlib import closing
from itertools import combinations, pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.codegen.clear import Clear, Strip, emit_clears
from compiler.dtype import DType
from compiler.index import Index
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.borders import border_strips
from compiler.runtime.memory_plan import Life, lives, place_all, plan_memory
from compiler.runtime.module import Module, load_module
from compiler.scalar import Const
from compiler.schedule.source import NoSource
from compiler.symbol import axis, size_at
from compiler.target import PAGE_BYTES, native_target
from compiler.workload.ir import Operand, Stage
from compiler.workload.program import STAGGER
from tests.compiler.runtime.test_module import assert_close, compiled, expected, random_input, small_model


def stored(sizes: tuple[int, ...], low: tuple[int, ...], extents: tuple[int, ...]) -> tuple[Operand, Stage]:
    """A box of a buffer."""
    axes = tuple(axis(f"a{i}", n) for i, n in enumerate(extents))
    places = tuple(Index.of(a.name) + at for a, at in zip(axes, low, strict=True))
    output = Operand("y", tuple(Index.of(n) for n in sizes), DType.F32)
    return output, Stage("s", axes, (), None, Const(1.0), "y", places)


def cleared(sizes: tuple[int, ...], strips: tuple[Strip, ...]) -> np.ndarray:
    """Which elements the strips cover; each byte must be covered once."""
    covered = np.zeros(int(np.prod(sizes)) * 4, np.int64)
    for strip in strips:
        for piece in range(strip.count):
            start = strip.start + piece * strip.stride
            covered[start : start + strip.length] += 1
    assert covered.max(initial=0) <= 1
    return covered.reshape(*sizes, 4).all(axis=-1)


@pytest.mark.parametrize(
    ("sizes", "low", "extents", "most"),
    [
        ((1, 9, 11, 4), (0, 1, 1, 0), (1, 7, 9, 4), 3),
        ((2, 9, 11, 4), (0, 1, 1, 0), (2, 7, 9, 4), 5),
        ((6, 8), (0, 3), (6, 5), 1),
        ((6, 8), (0, 0), (6, 5), 1),
        ((7,), (2,), (3,), 2),
        ((3, 5, 6, 7), (1, 1, 1, 0), (1, 3, 4, 7), 3),
        ((4, 4), (0, 0), (4, 4), 0),
    ],
)
def test_strips_cover_the_border_and_nothing_else(
    sizes: tuple[int, ...], low: tuple[int, ...], extents: tuple[int, ...], most: int
) -> None:
    strips = border_strips(*stored(sizes, low, extents))
    assert strips is not None
    assert len(strips) <= most
    inside = np.zeros(sizes, bool)
    inside[tuple(slice(at, at + n) for at, n in zip(low, extents, strict=True))] = True
    np.testing.assert_array_equal(cleared(sizes, strips), ~inside)


def test_a_border_in_many_pieces_is_not_cleared_in_each_run() -> None:
    assert border_strips(*stored((40, 5, 5), (0, 1, 1), (40, 3, 3))) is None


def test_members_share_a_strip_out() -> None:
    text = "\n".join(emit_clears(0, (Clear(3, (Strip(8, 16, 64, 10),)),), "%id", "%size"))
    assert "mul i64 %id, 10" in text
    assert text.count("call void @clear(") == 1
    assert emit_clears(0, (), "%id", "%size") == []


def test_the_arena_is_as_large_as_what_lives_at_once() -> None:
    program = lower(load_graph(small_model()))
    scratch = [{} for _ in program.subgraphs]
    plan, values = plan_memory(program, scratch), lives(program, scratch)
    assert plan.borders
    assert plan.zeroed_bytes == 0
    sizes = {v.value: -(-size_at(v.size_bytes, {}) // 64) * 64 for v in values}
    alive = [[v for v in values if v.first <= time <= v.last] for time in range(len(program.subgraphs))]
    assert plan.arena_bytes == max(sum(sizes[v.value] for v in now) for now in alive)
    for now in alive:
        spans = sorted((plan.places[v.value].offset, sizes[v.value]) for v in now)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))


def life(name: str, first: int, last: int, size: int) -> Life:
    return Life(name, first, last, Index.of(64 * size), None)


def test_what_lives_long_is_placed_first() -> None:
    """With the largest first, the one that lives on would leave a gap that the others do not fit into."""
    values = [life("a", 3, 3, 3), life("b", 3, 3, 3), life("c", 2, 4, 3), life("d", 2, 2, 4)]
    assert place_all(values, {}).arena_bytes == 64 * 9


def test_what_is_large_begins_elsewhere_in_a_page_than_what_it_is_computed_from() -> None:
    values = [life(f"v{i}", i, i + 1, 1 << 10) for i in range(6)]
    offsets = [place_all(values, {}).places[v.value].offset for v in values]
    assert {(b - a) % PAGE_BYTES for a, b in pairwise(offsets)} == {STAGGER}


@pytest.mark.parametrize("seed", range(20))
def test_what_lives_at_the_same_time_is_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [
        life(f"v{i}", first, first + int(rng.integers(0, 4)), int(rng.integers(1, 9)))
        for i, first in enumerate(rng.integers(0, 12, 16).tolist())
    ]
    plan = place_all(values, {})
    sizes = {v.value: size_at(v.size_bytes, {}) for v in values}
    for time in range(16):
        spans = sorted(
            (plan.places[v.value].offset, sizes[v.value]) for v in values if v.first <= time <= v.last
        )
        assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))
        assert plan.arena_bytes >= sum(size for _, size in spans)


def test_borders_are_cleared_whatever_was_in_memory() -> None:
    module = compiled(3)
    assert any(call.clears for call in module.image.calls)
    for seed in range(3):
        assert_close(module.run({"x": random_input(seed)}), expected(random_input(seed)))
        for context in module._idle:
            context._arena[:] = 0xFF
    module.close()


def test_an_artifact_keeps_what_is_cleared() -> None:
    module = compile_program(lower(load_graph(small_model())), native_target(), 1, NoSource())
    loaded: Module = load_module(module.to_bytes())
    assert loaded.image.calls == module.image.calls


def residuals(*outputs: str) -> onnx.ModelProto:
    """Two pairs of products, to each of which what it reads is added; `outputs`: besides the last."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal((96, 96)) / 10).astype(np.float32), name)
        for name in ("w0", "w1", "w2")
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p"]),
        helper.make_node("Relu", ["p"], ["a"]),
        helper.make_node("MatMul", ["a", "w1"], ["q"]),
        helper.make_node("Relu", ["q"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["r"]),
        helper.make_node("Add", ["a", "r"], ["s"]),
        helper.make_node("Relu", ["s"], ["c"]),
        helper.make_node("MatMul", ["c", "w1"], ["t"]),
        helper.make_node("Relu", ["t"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["u"]),
        helper.make_node("Add", ["u", "c"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"]),
    ]
    shape = (200, 96)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y", *outputs)]
    graph = helper.make_graph(nodes, "residuals", info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("outputs", [(), ("a",), ("c",)])
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_are_stored_over_what_is_added_to_them(outputs: tuple[str, ...], threads: int) -> None:
    model = residuals(*outputs)
    program = lower(load_graph(model))
    with closing(compile_program(program, native_target(), threads, NoSource())) as module:
        kernels = [module.image.kernels[call.kernel] for call in module.image.calls]
        x = np.random.default_rng(1).standard_normal((200, 96)).astype(np.float32)
        wanted = ReferenceEvaluator(model).run(None, {"x": x})
        for _ in range(2):
            got = module.run({"x": x})
            for array, name in zip(wanted, ("y", *outputs), strict=True):
                assert np.max(np.abs(got[name] - array)) < 5e-5 * np.max(np.abs(array))
    scratch: list[dict[str, Index]] = [{} for _ in kernels]
    replaces = [{p.name: p.replaces for p in kernel.params if p.replaces} for kernel in kernels]
    apart, shared = plan_memory(program, scratch), plan_memory(program, scratch, replaces)
    assert apart.places.keys() == shared.places.keys()
    if not outputs:
        assert shared.places["a"] == shared.places["c"] == shared.places["e"]
        assert shared.arena_bytes < apart.arena_bytes
    else:
        assert shared.places.get("a") != shared.places.get("c")


def test_one_that_is_read_later_is_not_stored_over() -> None:
    program = lower(load_graph(residuals()))
    scratch: list[dict[str, Index]] = [{} for _ in program.subgraphs]
    inputs = [
        {s.workload.outputs[0].name: tuple(o.name for o in s.workload.operands if not o.constant)}
        for s in program.subgraphs
    ]
    plan, values = plan_memory(program, scratch, inputs), {v.value: v for v in lives(program, scratch)}
    pairs = [
        (a, b) for a, b in combinations(values.values(), 2) if plan.places[a.value] == plan.places[b.value]
    ]
    assert any(a.last == b.first or b.last == a.first for a, b in pairs)
    assert all(a.last <= b.first or b.last <= a.first for a, b in pairs)
