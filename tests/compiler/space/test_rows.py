"""The rule for rows: which Workloads it takes, and what its default makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from compiler.codegen.nest import emit_nest
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.printer import print_nest
from compiler.pipeline import build_nest, load_graph, lower
from compiler.scalar import apply
from compiler.schedule.steps import Inline
from compiler.space.row_structure import row_axes
from compiler.space.rows import Rows
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from compiler.workload.partition import partition
from tests.compiler.execute import relative_error, run_native
from tests.compiler.frontend.models import model
from tests.compiler.workload.graphs import GraphBuilder, load
from tests.compiler.workloads import (
    KINDS,
    centred,
    instance_norm,
    layer_norm,
    matmul,
    mean,
    random_operands,
    row_sum,
    softmax,
    turned,
)

Golden = Callable[[str, str], None]

TAKEN = {"softmax", "softmax_swept", "layer_norm", "instance_norm", "centred", "mean", "row_sum"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_reductions_that_read_each_element_once(kind: str) -> None:
    assert Rows().applies(KINDS[kind]) is (kind in TAKEN)


@pytest.mark.parametrize("node", ["MaxPool", "AveragePool", "ReduceSum"])
def test_pairs_side_by_side_are_no_rows_but_neighbours_fill_vectors(node: str) -> None:
    """Two of a vector's lanes were used, and their sum was taken in each row."""
    if node == "ReduceSum":
        network = model(
            [helper.make_node(node, ["x", "axes"], ["y"], keepdims=0)],
            {"x": (3, 50, 2)},
            {"axes": np.array([-1])},
        )
    else:
        window = helper.make_node(node, ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
        network = model([window], {"x": (1, 3, 8, 30)})
    (subgraph,) = lower(load_graph(network)).subgraphs
    workload = subgraph.workload
    assert row_axes(workload) is not None
    assert not Rows().applies(workload)
    space = build_space(workload, native_target(), 1)
    operands = random_operands(workload)
    got = run_native(workload, space.schedule(space.default), operands)
    assert relative_error(got, reference_outputs(workload, operands)["y0"]) < 1e-6


def test_what_divides_pairs_by_their_sum_is_rows() -> None:
    """It stores the columns, too."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=1),
        helper.make_node("Div", ["x", "s"], ["y"]),
    ]
    network = model(nodes, {"x": (3, 50, 2)}, {"axes": np.array([-1])})
    (subgraph,) = lower(load_graph(network)).subgraphs
    assert len(subgraph.workload.stages) == 2
    assert Rows().applies(subgraph.workload)
    space = build_space(subgraph.workload, native_target(), 1)
    operands = random_operands(subgraph.workload)
    got = run_native(subgraph.workload, space.schedule(space.default), operands)
    assert relative_error(got, reference_outputs(subgraph.workload, operands)["y0"]) < 1e-5


def test_the_axes_of_rows_and_columns() -> None:
    along_columns, along_rows, alone = (
        row_axes(softmax(7, 45)),
        row_axes(instance_norm(2, 9, 45)),
        row_axes(centred(77)),
    )
    assert along_columns is not None
    assert along_rows is not None
    assert alone is not None
    assert ([a.name for a in along_columns.rows], along_columns.along_rows) == (["s0"], False)
    assert ([a.name for a in along_rows.rows], along_rows.along_rows) == (["s0", "s2"], True)
    assert ([a.name for a in alone.rows], [a.name for a in alone.columns]) == ([], ["s1"])


@pytest.mark.parametrize("kind", ["softmax", "instance_norm", "row_sum"])
def test_the_default_nest(kind: str, golden: Golden) -> None:
    space = build_space(KINDS[kind], PRESETS["x86-64-v3"], 2)
    text = print_nest(build_nest(KINDS[kind], space.schedule(space.default)))
    golden(text.replace(KINDS[kind].digest[:16], kind), f"schedule/rows_{kind}")


SHAPES = {
    "short rows": softmax(9, 3),
    "long rows": layer_norm(2, 1100),
    "one row": row_sum(1, 999),
    "streamed": mean(37, 512),
    "one wide row": centred(2000),
    "rows turned": turned(32, 16, 20),
    "few rows turned": turned(48, 5, 4),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_default_is_right_for_any_shape(shape: str, threads: int) -> None:
    workload = SHAPES[shape]
    space = build_space(workload, native_target(), threads)
    assert space.is_legal(space.default)
    operands = random_operands(workload)
    got = run_native(workload, space.schedule(space.default), operands, threads)
    assert relative_error(got, reference_outputs(workload, operands)["y0"]) < 3e-6


def test_any_choice_is_right_where_the_contiguous_rows_are_not_the_last() -> None:
    workload = turned(48, 5, 20)
    operands, rng = random_operands(workload), random.Random(0)
    wanted = reference_outputs(workload, operands)["y0"]
    for threads in (1, 2):
        space = build_space(workload, native_target(), threads)
        for _ in range(6):
            got = run_native(workload, space.schedule(space.sample(rng)), operands, threads)
            assert relative_error(got, wanted) < 3e-6


def test_what_is_stored_along_the_columns_is_stored_by_whole_vectors() -> None:
    """Square blocks: one loop over rows in the body, so that they are transposed in registers."""
    workload = turned(48, 5, 16)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    last = print_nest(build_nest(workload, space.schedule(space.default))).split("for shifted:")[-2:]
    assert "unrolled" in last[0]
    assert last[0].startswith("s0.i.i in 0..8")
    assert last[1].startswith("s2.i in 0..8 vector")


def test_a_map_that_does_not_fit_the_cache_is_repeated() -> None:
    target = replace(PRESETS["x86-64-v3"], l2_bytes=1 << 12)
    space = build_space(softmax(4, 4096), target, 1)
    assert space.values(space.default)["maps"] == "repeat"
    assert Inline("power") in space.schedule(space.default).steps


def test_a_contraction_is_left_to_the_register_tile() -> None:
    assert row_axes(matmul(8, 8, 8)) is None
    assert "rows" in {k.name for k in build_space(matmul(8, 8, 8), native_target(), 1).knobs}


@pytest.mark.parametrize("target", [native_target(), PRESETS["x86-64-v3"]])
@pytest.mark.parametrize("workload", [softmax(17, 100), layer_norm(15, 77), row_sum(13, 129)])
def test_rows_side_by_side_are_summed_as_each_alone(workload: Workload, target: Target) -> None:
    if not target.is_native:
        pytest.skip("another machine's code")
    space, operands = build_space(workload, target, 1), random_operands(workload)
    one, *others = [
        run_native(
            workload,
            space.build({**space.values(space.default), "block": block, "sweep": 1, "accumulators": 1}),
            operands,
        )
        for block in (1, 2, 4, 8)
    ]
    for several in others:
        np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize(
    "workload",
    [
        softmax(23, 100),
        softmax(68, 40),
        softmax(72, 300),
        layer_norm(18, 77),
        layer_norm(40, 261),
        row_sum(13, 129),
        instance_norm(2, 9, 45),
    ],
)
def test_rows_that_follow_each_other_through_the_stages(workload: Workload) -> None:
    """In sweeps that leave some rows over at the end; blocks of a sweep are whole."""
    space, operands = build_space(workload, native_target(), 2), random_operands(workload)
    wanted, axes = reference_outputs(workload, operands)["y0"], row_axes(workload)
    assert axes is not None
    if axes.along_rows:
        assert "sweep" not in {knob.name for knob in space.knobs}
        return
    for block in (1, 2, 4, 8):
        for sweep in (4, 16, 64):
            values = {**space.values(space.default), "block": block, "sweep": sweep, "phases": "together"}
            assert space.legal(values) == (
                axes.rows[-1].size % block == 0 and axes.rows[-1].size >= block * sweep
            )
            if space.legal(values):
                got = run_native(workload, space.build(values), operands, 2)
                assert relative_error(got, wanted) < 3e-6


def test_a_sweep_is_one_loop_with_all_stages() -> None:
    """Two sums, each a turn behind what it reads; what is kept of them is as long as they are apart."""
    workload = layer_norm(64, 256)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    values = space.values(space.default)
    assert (values["block"], values["sweep"]) == (4, 16)
    nest = build_nest(workload, space.schedule(space.default))
    assert print_nest(nest).count("in 0..18 serial") == 1
    assert {b.shape for b in nest.buffers if b.scope == "local" and len(b.shape) == 1} == {(4,), (2 * 4,)}
    single = build_nest(workload, space.build({**values, "block": 1, "sweep": 64}))
    assert print_nest(single).count("in 0..66 serial") == 1
    assert {b.shape for b in single.buffers if b.scope == "local"} == {(2,)}
    few = build_space(layer_norm(3, 256), PRESETS["x86-64-v3"], 1)
    assert few.values(few.default)["sweep"] == 1
    assert not few.legal({**few.values(few.default), "sweep": 16})


def test_rows_of_which_sums_are_left_are_read_one_after_the_other() -> None:
    for columns, block in ((16, 4), (64, 1), (4096, 1)):
        space = build_space(row_sum(512, columns), PRESETS["x86-64-v3"], 1)
        values = space.values(space.default)
        assert (values["block"], values["sweep"]) == (block, 1)


def _scaled_softmax(nodes: list[NodeProto], shape: list[int]) -> Workload:
    """A softmax of 64 rows times one number of each row, which `nodes` make from m."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 1024]) for name in "xy")
    m = helper.make_tensor_value_info("m", TensorProto.FLOAT, shape)
    softmax = helper.make_node("Softmax", ["x"], ["p"], axis=1)
    product = helper.make_node("Mul", ["p", "r"], ["y"])
    graph = helper.make_graph([softmax, *nodes, product], "g", [x, m], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (subgraph,) = lower(load_graph(model)).subgraphs
    return subgraph.workload


def test_lanes_lie_along_memory_where_a_map_is_summed() -> None:
    """Branches of a convolution, weighted and added: its channels lie last in memory, and first in the model."""
    b = GraphBuilder()
    x = b.conv(b.input("x", 1, 16, 10, 10), 48, k=3)
    branch = load(x, 0, Index.of("a1") * 24 + "a2", "a3", "a4")
    product = b.node((1, 2, 24, 8, 8), apply("mul", branch, load(b.input("shares", 2, 24), "a1", "a2")))
    total = b.node((1, 24, 8, 8), load(product, "a0", "r0", "a1", "a2", "a3"), (2,), "sum")
    subgraphs = partition(b.graph(b.relu(b.conv(total, 32)))).subgraphs
    (workload,) = (s.workload for s in subgraphs if s.name.startswith("reduce sum 2"))
    axes = row_axes(workload)
    assert axes is not None
    assert axes.vector is not None
    assert axes.vector.size == 24


def test_a_sum_across_the_lanes_ends_the_pipeline() -> None:
    """Two pipelines keep all blocks between them: none by default, few where the second cache is small."""
    largest = helper.make_node("ReduceMax", ["m"], ["t"], axes=[0])
    workload = _scaled_softmax([largest, helper.make_node("Transpose", ["t"], ["r"])], [700, 64])
    target = replace(PRESETS["x86-64-v3"], l2_bytes=256 << 10)
    space = build_space(workload, target, 1)
    values = space.values(space.default)
    assert values["sweep"] == 1
    assert not space.legal({**values, "block": 1, "sweep": 64})
    fewer = space.build({**values, "block": 1, "sweep": 16})
    assert emit_nest(build_nest(workload, fewer), target)


@pytest.mark.parametrize("columns", [37, 700, 3000])
def test_sums_of_other_lengths_have_vectors_of_their_own(columns: int) -> None:
    """No loop goes element by element, and the result is right."""
    workload = _scaled_softmax([helper.make_node("ReduceMax", ["m"], ["r"], axes=[1])], [64, columns])
    space = build_space(workload, native_target(), 1)
    schedule = space.schedule(space.default)
    assert f" in 0..{columns} serial:" not in print_nest(build_nest(workload, schedule))
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, schedule, operands), expected) < 1e-5


@pytest.mark.parametrize(
    ("front", "maps"),
    [
        pytest.param([], "repeat", id="distances"),
        pytest.param([helper.make_node("Relu", ["x"], ["a"])], "repeat", id="of a map of one value"),
        pytest.param([helper.make_node("Add", ["x", "m"], ["a"])], "cheap", id="of a sum, which is stored"),
        pytest.param(
            [helper.make_node("Exp", ["x"], ["a"])], "cheap", id="of a long function, which is stored"
        ),
    ],
)
def test_maps_that_take_no_longer_than_a_load_are_repeated(front: list[NodeProto], maps: str) -> None:
    """x - mean(x), read by the variance and by the end."""
    a = "a" if front else "x"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 300]) for name in "xmy"]
    nodes = [
        *front,
        helper.make_node("ReduceMean", [a], ["mean"], axes=[1]),
        helper.make_node("Sub", [a, "mean"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["variance"], axes=[1]),
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Div", ["d", "deviation"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (subgraph,) = lower(load_graph(model)).subgraphs
    workload, operands = subgraph.workload, random_operands(subgraph.workload)
    space = build_space(workload, native_target(), 1)
    assert space.values(space.default)["maps"] == maps
    expected = reference_outputs(workload, operands)["y0"]
    got = run_native(workload, space.schedule(space.default), operands)
    assert relative_error(got, expected) < 1e-5


@pytest.mark.parametrize(
    ("workload", "sweep"),
    [
        pytest.param(layer_norm(64, 1024), 64, id="five rows and a scale are near"),
        pytest.param(layer_norm(64, 1536), 1, id="they would drive each other out of the first cache"),
        pytest.param(softmax(64, 8192), 64, id="what is calculated hides that"),
    ],
)
def test_rows_follow_each_other_by_default_where_they_are_near(workload: Workload, sweep: int) -> None:
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    assert space.values(space.default)["sweep"] == sweep


def test_the_lanes_of_rows_side_by_side_are_combined_in_common_vectors() -> None:
    """Four rows of eight lanes: two steps for pairs of rows, one for both pairs, and halves with halves."""
    target, workload = PRESETS["x86-64-v3"], row_sum(16, 64)
    space = build_space(workload, target, 1)
    schedule = space.build({**space.values(space.default), "block": 4, "sweep": 1, "accumulators": 1})
    (module,) = emit_nest(build_nest(workload, schedule), target)
    sums = [line for line in module.ir.splitlines() if "fadd" in line]
    assert [sum(f"<{lanes} x float>" in line for line in sums) for lanes in (8, 4)] == [4 + 2 + 1, 1]
    assert len(sums) == 4 + 2 + 1 + 1


def test_totals_that_follow_each_other_in_memory_are_stored_at_once() -> None:
    """Without what they begin with: the largest numbers and the sums of two rows, each of which a later turn reads."""
    target, workload = PRESETS["x86-64-v3"], softmax(64, 96)
    space = build_space(workload, target, 1)
    schedule = space.build(
        {**space.values(space.default), "block": 2, "sweep": 4, "accumulators": 1, "unroll": 1}
    )
    (module,) = emit_nest(build_nest(workload, schedule), target)
    written = [line for line in module.ir.splitlines() if line.strip().startswith("store")]
    # What LLVM keeps in registers is a slot of its own.
    stores = [line.split(",")[0].split() for line in written if "ptr %slot" not in line]
    assert sum(kind[1:4] == ["<2", "x", "float>"] for kind in stores) == 2
    assert not [kind for kind in stores if kind[1] == "float"]


@pytest.mark.parametrize("kind", ["softmax", "layer_norm", "instance_norm", "centred", "mean", "row_sum"])
def test_stages_apart_compute_the_same(kind: str) -> None:
    workload, operands = KINDS[kind], random_operands(KINDS[kind])
    space = build_space(workload, native_target(), 3)
    schedule = space.build({**space.values(space.default), "phases": "apart"})
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, schedule, operands, 3), expected) < 3e-6
    assert len(build_nest(workload, schedule).phases) > 2


def test_few_long_rows_are_shared_out_in_phases(golden: Golden) -> None:
    workload = row_sum(1, 1 << 17)
    phases = [
        build_space(w, native_target(), 4) for w in (workload, row_sum(1, 1 << 10), row_sum(64, 1 << 11))
    ]
    assert [s.values(s.default)["phases"] for s in phases] == ["apart", "together", "together"]
    space = build_space(workload, PRESETS["x86-64-v3"], 4)
    text = print_nest(build_nest(workload, space.schedule(space.default)))
    golden(text.replace(workload.digest[:16], "row_sum"), "schedule/rows_apart")


@pytest.mark.parametrize(
    ("points", "channels", "threads", "phases"),
    [
        pytest.param(196, 480, 2, "apart", id="an image"),
        pytest.param(49, 45, 4, "together", id="too little for what it saves"),
        pytest.param(49, 1152, 2, "together", id="few places: channels are shared out"),
        pytest.param(196, 480, 1, None, id="one thread"),
    ],
)
def test_threads_sum_up_the_lines_of_an_image_that_they_have(
    points: int, channels: int, threads: int, phases: str | None
) -> None:
    space = build_space(mean(points, channels), native_target(), threads)
    assert space.values(space.default).get("phases") == phases


@pytest.mark.parametrize(("points", "channels"), [(61, 45), (196, 480), (40, 1100)])
@pytest.mark.parametrize("threads", [2, 3])
def test_sums_of_lines_are_right_for_any_tile(points: int, channels: int, threads: int) -> None:
    workload = mean(points, channels)
    operands = random_operands(workload)
    space, expected = (
        build_space(workload, native_target(), threads),
        reference_outputs(workload, operands)["y0"],
    )
    for block, accumulators in ((1, 8), (2, 4), (4, 1), (4, 2), (8, 1)):
        values = {
            **space.values(space.default),
            "phases": "apart",
            "block": block,
            "accumulators": accumulators,
        }
        assert relative_error(run_native(workload, space.build(values), operands, threads), expected) < 3e-6


def test_partial_results_of_neighbours_lie_side_by_side() -> None:
    workload = mean(196, 480)
    space = build_space(workload, PRESETS["x86-64-v4"], 2)
    nest = build_nest(workload, space.schedule(space.default))
    (partial,) = (b for b in nest.buffers if b.name == "t0.r0.o")
    assert partial.shape[1] == 480


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_any_sweep_over_rows_of_many_vectors_is_right(seed: int) -> None:
    """Random shapes and knobs, most of them with vectors of one length in all stages, so that these are woven."""
    rng = random.Random(seed)
    rows, columns = rng.choice([8, 16, 24, 37, 40, 64, 72, 100]), rng.randint(40, 1300)
    workload = rng.choice(
        [softmax(rows, columns), layer_norm(rows, columns), instance_norm(2, rows, columns)]
    )
    space, operands = build_space(workload, native_target(), rng.choice([1, 2])), random_operands(workload)
    wanted = reference_outputs(workload, operands)["y0"]
    for _ in range(20):
        values = {knob.name: rng.choice(knob.choices) for knob in space.knobs} | {"phases": "together"}
        if rng.random() < 0.7:
            values["accumulators"] = values["unroll"]
        if space.legal(values):
            got = run_native(workload, space.build(values), operands, 2)
            assert relative_error(got, wanted) < 3e-6, values
