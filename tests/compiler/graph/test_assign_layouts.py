from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.graph.assign_layouts import assign_layouts, wished_layouts
from compiler.graph.halo import zero_halos
from compiler.graph.insert_copies import InsertCopies
from compiler.graph.ir import Compute, Node
from compiler.graph.layout import Layout
from compiler.graph.layout_votes import votes
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Guard, Load, Lookup, apply
from compiler.symbol import Axis, axis
from tests.compiler.workload.graphs import GraphBuilder, bottleneck, index, load

NHWC = (0, 2, 3, 1)


def test_every_activation_of_a_convolutional_network_is_channels_last() -> None:
    graph = bottleneck()
    layouts = assign_layouts(graph)
    types = graph.types()
    spatial = [v for v in layouts if len(types[v].shape) == 4 and types[v].sizes[2:] != (1, 1)]
    assert {layouts[v].order for v in spatial if v != "image"} == {NHWC}
    assert layouts["image"].is_plain


def test_outputs_stay_plain_even_where_their_producer_wishes_otherwise() -> None:
    b = GraphBuilder()
    y = b.relu(b.conv(b.input("x", 1, 4, 6, 6), 16))
    graph = b.graph(y)
    assert assign_layouts(graph)[y].is_plain
    assert wished_layouts(graph)[y].order == NHWC


def test_matrix_products_are_row_major() -> None:
    b = GraphBuilder()
    hidden = b.relu(b.matmul(b.input("x", 5, 7), 6))
    layouts = assign_layouts(b.graph(b.matmul(hidden, 3)))
    assert layouts[hidden] == Layout.plain(2)


def test_batched_matrix_products_with_constant_weights_are_row_major() -> None:
    b = GraphBuilder()
    x = b.input("x", 2, 5, 7)
    for columns in (6, 4):
        weights = b.constant(b.shapes[x][2], columns)
        body = apply("mul", load(x, "a0", "a1", "r0"), load(weights, "r0", "a2"))
        x = b.node((2, 5, columns), body, (b.shapes[x][2],), "sum")
    assert all(layout.is_plain for layout in assign_layouts(b.graph(x)).values())


def test_depthwise_and_grouped_convolutions_keep_channels_last() -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, 3, 8, 8), 32, k=3, pad=1)
    depthwise = b.conv(first, 32, k=3, pad=1, groups=32)
    grouped = b.conv(depthwise, 32, groups=2)
    layouts = assign_layouts(b.graph(b.mean(grouped)))
    assert {layouts[v].order for v in (first, depthwise, grouped)} == {NHWC}


def test_a_window_alone_prefers_the_axis_that_it_does_not_slide_over() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 8, 6, 6)
    scaled = b.relu(b.relu(x))
    pooled = b.pool(scaled, 3, 1, 1)
    layouts = assign_layouts(b.graph(b.mean(pooled)))
    assert layouts[pooled].is_plain, "beside the interface nothing is transposed for a window"


def test_a_window_behind_a_convolution_keeps_its_order_up_to_the_interface() -> None:
    b = GraphBuilder()
    pooled = b.pool(b.conv(b.input("x", 1, 3, 8, 8), 16, k=3, pad=1), 2, 2, 0)
    assert wished_layouts(b.graph(pooled))[pooled].order == NHWC


@pytest.mark.parametrize("groups", [1, 2])
def test_products_at_each_place_keep_the_order_of_the_interface(groups: int) -> None:
    b = GraphBuilder()
    first = b.conv(b.relu(b.input("x", 1, 32, 8, 8)), 64, groups=groups)
    layouts = wished_layouts(b.graph(b.conv(b.conv(first, 64, k=3, pad=1, groups=64), 32)))
    assert {layout.order for layout in layouts.values()} == {(0, 1, 2, 3)}, "nothing is transposed"


@pytest.mark.parametrize(("size", "stride"), [(7, 1), (8, 2)])
def test_products_at_few_places_or_apart_prefer_channels(size: int, stride: int) -> None:
    b = GraphBuilder()
    product = b.conv(b.relu(b.input("x", 1, 32, size, size)), 64, stride=stride)
    assert wished_layouts(b.graph(product))[product].order == NHWC


def test_products_at_each_place_of_any_size_have_one_order() -> None:
    b = GraphBuilder()
    product = b.conv(b.relu(b.input("x", 1, 32, 8, 8)), 64)
    graph = b.graph(product)
    opened = replace(graph, open_values=frozenset(node.output for node in graph.nodes))
    assert wished_layouts(graph)[product].is_plain
    assert wished_layouts(opened)[product].order == NHWC


def test_products_at_each_place_lie_as_windows_of_several_beside_them() -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, 32, 8, 8), 64)
    second = b.conv(first, 32, k=3, pad=1)
    last = b.conv(second, 64)
    layouts = wished_layouts(b.graph(last))
    assert {layouts[value].order for value in (first, second, last)} == {NHWC}


def test_a_sum_of_squares_over_neighbours_stays_in_the_order_of_the_interface() -> None:
    b = GraphBuilder()
    x = load(b.input("x", 1, 6, 6, 8), "a0", "a2", "a3", Index.of("a1") + Index.of("r0"))
    squares = b.node((1, 6, 6, 6), apply("mul", x, x), (3,), "sum")
    last = b.node((1, 6, 6, 6), load(squares, "a0", "a3", "a1", "a2"))
    assert assign_layouts(b.graph(last))[squares].order == NHWC


def _sampled(channels: int, places: int, *, along: str = "a2") -> tuple[GraphBuilder, str]:
    """So many places of an image of 6 by 6, looked up in both dimensions by numbers that an axis tells."""
    b = GraphBuilder()
    x, places_at = b.input("x", 1, channels, 6, 6), load(b.input("i", max(channels, places)), along)
    y, z = LookedUp("v0", 6), LookedUp("v1", 6)
    inside = load(x, "a0", "a1", index(Index.of(y)), index(Index.of(z)))
    return b, b.node((1, channels, places), Lookup(y, places_at, Lookup(z, places_at, inside)))


@pytest.mark.parametrize(
    ("channels", "places", "along", "copied"),
    [
        (8, 50, "a2", True),
        (3, 50, "a2", False),  # too few for a vector
        (8, 20, "a2", False),  # a part of the image
        (8, 50, "a1", False),  # each channel looks elsewhere
    ],
)
def test_what_looks_places_up_finds_channels_side_by_side(
    channels: int,
    places: int,
    along: str,
    copied: bool,  # noqa: FBT001
) -> None:
    b, sampled = _sampled(channels, places, along=along)
    graph = InsertCopies().run(b.graph(b.relu(sampled)))
    assert ("x@stored" in graph.types()) is copied
    if copied:
        layouts = assign_layouts(graph)
        assert layouts["x@stored"].order == NHWC
        assert layouts[sampled].order == (0, 2, 1)


@pytest.mark.parametrize(("channels", "copied"), [(3, True), (1, False)])
def test_an_input_is_copied_with_a_border_where_few_channels_of_it_become_some_that_lie_last(
    channels: int,
    copied: bool,  # noqa: FBT001
) -> None:
    """One channel lies last already."""
    b = GraphBuilder()
    x = b.input("x", 1, channels, 28, 28)
    graph = b.graph(b.mean(b.conv(b.conv(x, 8, k=3, pad=1), 16, k=3)))
    assert (x in zero_halos(graph)) is copied


def test_a_padded_sum_of_squares_of_an_input_asks_for_no_copy() -> None:
    b = GraphBuilder()
    channel = Index.of("a1") + Index.of("r0") - 1
    inside = load(b.input("x", 1, 6, 6, 8), "a0", "a2", "a3", channel)
    padded = Guard((Bound(channel, 0, 8),), inside, Const(0.0))
    squares = b.node((1, 8, 6, 6), apply("mul", padded, padded), (3,), "sum")
    graph = b.graph(b.node((1, 6, 6, 8), load(squares, "a0", "a3", "a1", "a2")))
    assert assign_layouts(graph)[squares].order == NHWC
    assert not zero_halos(graph)


def test_a_depthwise_convolution_alone_stays_in_the_order_of_the_interface() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 8, 6, 6)
    depthwise = b.conv(x, 8, k=3, pad=1, groups=8)
    graph = b.graph(depthwise)
    assert wished_layouts(graph)[depthwise].is_plain
    assert not zero_halos(graph), "a copy of an input only for its border is not worth it"


def test_channels_that_fill_no_vectors_leave_the_lanes_to_places() -> None:
    b = GraphBuilder()
    narrow = b.conv(b.conv(b.input("x", 1, 3, 32, 32), 8, k=3), 4, k=3)
    layouts = wished_layouts(b.graph(narrow))
    assert all(layout.is_plain for layout in layouts.values())


def test_few_channels_lie_as_what_they_are_made_of_and_are_read_by() -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, 3, 32, 32), 16, k=3)
    narrow = b.conv(first, 3, k=3)
    layouts = assign_layouts(b.graph(b.mean(narrow)))
    assert layouts[narrow].order == layouts[first].order == NHWC


@pytest.mark.parametrize(("heads", "order"), [(4, (0, 1, 3, 2)), (16, (0, 1, 2, 3))])
def test_few_heads_that_are_mixed_leave_the_lanes_to_places(heads: int, order: tuple[int, ...]) -> None:
    """Scores of each head lie in planes; a product that mixes them gives them last, as its model writes it."""
    b = GraphBuilder()
    scores = b.relu(b.input("x", 1, heads, 56, 60))
    weights = b.constant(heads, heads)
    body = apply("mul", load(scores, "a0", "r0", "a1", "a2"), load(weights, "r0", "a3"))
    mixed = b.node((1, 56, 60, heads), body, (heads,), "sum")
    layouts = assign_layouts(b.graph(b.relu(mixed)))
    assert layouts[mixed].order == order
    assert layouts[scores].is_plain is (heads == 4)


@pytest.mark.parametrize(
    ("sizes", "heads_last", "order"),
    [
        pytest.param((64, 48, 8), False, (0, 2, 1), id="heads between"),
        pytest.param((64, 2, 8), False, (1, 2, 0), id="few of the nearest, many of the other"),
        pytest.param((64, 48, 8), True, (0, 1, 2), id="heads beside each other in both factors"),
        pytest.param((3, 2, 8), False, (0, 1, 2), id="nothing else that fills lanes"),
    ],
)
def test_products_of_heads_that_lie_apart_are_stored_by_heads(
    sizes: tuple[int, int, int], *, heads_last: bool, order: tuple[int, ...]
) -> None:
    b = GraphBuilder()
    depth, (rows, columns, heads) = 32, sizes

    def factor(name: str, size: int, axis: str) -> tuple[str, Load]:
        shape, at = (size, heads, depth), (axis, "a2", "r0")
        if heads_last:
            shape, at = (size, depth, heads), (axis, "r0", "a2")
        value = b.relu(b.input(name, *shape))
        return value, load(value, *at)

    (a, left), (_, right) = factor("x", rows, "a0"), factor("z", columns, "a1")
    inner = b.shapes[a][1 if heads_last else 2]
    scores = b.node((rows, columns, heads), apply("mul", left, right), (inner,), "sum")
    total = b.node((rows,), load(b.relu(scores), "a0", "r0", "r1"), (columns, heads), "sum")
    assert assign_layouts(b.graph(total))[scores].order == order


def test_what_is_picked_from_a_value_does_not_lie_like_it() -> None:
    """Steps of a recurrence read a row each; channels of the state are none of the rows' columns."""
    b = GraphBuilder()

    def mixed(x: str, channels: int, places: int, inner: int, *, last: bool) -> str:
        """Channels of places, which lie last or first in the model."""
        shape, (channel, place) = (
            ((1, places, channels), ("a2", "a1")) if last else ((1, channels, places), ("a1", "a2"))
        )
        weights = b.constant(channels, inner)
        return b.node(
            shape, apply("mul", load(x, "a0", place, "r0"), load(weights, channel, "r0")), (inner,), "sum"
        )

    rows = mixed(b.input("x", 1, 12, 32), 24, 12, 32, last=True)
    states = [mixed(b.input(name, 1, 24, 32), 40, 24, 32, last=False) for name in ("y", "z")]
    state = b.add(*states)
    picked = apply("mul", load(state, "a0", "a1", "r0"), load(rows, "a0", 5, "r0"))
    step = b.node((1, 40, 1), picked, (24,), "sum")
    layouts = assign_layouts(b.graph(b.relu(step)))
    assert layouts[state].order == (0, 2, 1)
    assert layouts[rows].is_plain


def test_few_channels_of_few_places_fill_the_lanes() -> None:
    b = GraphBuilder()
    narrow = b.conv(b.input("x", 1, 16, 7, 7), 8, k=3)
    assert wished_layouts(b.graph(narrow))[narrow].order == NHWC


def test_channels_of_a_small_group_leave_the_lanes_to_places() -> None:
    b = GraphBuilder()
    grouped = b.conv(b.input("x", 1, 32, 32, 32), 32, k=3, groups=8)
    assert wished_layouts(b.graph(grouped))[grouped].is_plain


def test_a_value_without_votes_is_plain() -> None:
    b = GraphBuilder()
    y = b.relu(b.input("x", 2, 3, 4, 5))
    assert assign_layouts(b.graph(b.relu(y)))[y].is_plain


def test_an_order_that_moves_only_unit_dimensions_is_plain() -> None:
    b = GraphBuilder()
    squeezed = b.conv(b.mean(b.conv(b.input("x", 1, 3, 8, 8), 16)), 4)
    assert assign_layouts(b.graph(b.relu(squeezed)))[squeezed].is_plain


def test_reduced_rows_of_a_normalisation_ask_for_nothing() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 2, 5, 7))
    total = b.node((2, 5, 1), load(x, "a0", "a1", "r0"), (7,), "sum")
    centred = b.node((2, 5, 7), apply("sub", b.at(x), load(total, "a0", "a1", 0)))
    assert all(layout.is_plain for layout in assign_layouts(b.graph(centred)).values())


def test_the_halo_is_what_the_convolution_reaches() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 4, 27, 27))
    y = b.conv(x, 4, k=3, stride=2, pad=1)
    halo = assign_layouts(b.graph(y))[x]
    assert (halo.before, halo.after) == ((0, 0, 1, 1), (0, 0, 1, 1))
    even = GraphBuilder()
    x = even.relu(even.input("x", 1, 4, 26, 26))
    halo = assign_layouts(even.graph(even.conv(x, 4, k=3, stride=2, pad=1)))[x]
    assert (halo.before, halo.after) == ((0, 0, 1, 1), (0, 0, 0, 0))


def test_the_halo_covers_all_zero_padded_reductions_of_a_value() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 4, 26, 26))
    outs = [b.conv(x, 4, k=3, pad=1), b.conv(x, 4, k=5, pad=2), b.pool(x, 3, 1, 1, "sum")]
    assert assign_layouts(b.graph(*outs))[x].before == (0, 0, 2, 2)


def test_a_border_that_would_be_much_of_what_is_read_is_kept_along_the_innermost_dimension_alone() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 4, 8, 8))
    halo = assign_layouts(b.graph(b.conv(x, 4, k=5, pad=2)))[x]
    assert (halo.before, halo.after) == ((0, 0, 0, 2), (0, 0, 0, 2))


def test_wide_taps_are_tested_along_the_innermost_dimension_too() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 4, 20, 20))
    assert not assign_layouts(b.graph(b.conv(x, 4, k=3, pad=8, apart=8)))[x].has_halo
    near = assign_layouts(b.graph(b.conv(x, 4, k=3, pad=3, apart=3)))[x]
    assert (near.before, near.after) == ((0, 0, 3, 3), (0, 0, 3, 3))


def test_pooling_alone_asks_for_no_halo() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 4, 8, 8))
    outs = (b.pool(x, 3, 1, 1, "sum"), b.pool(x, 3, 1, 1, "max"))
    assert not assign_layouts(b.graph(*outs))[x].has_halo


def test_a_constant_convolution_input_does_not_vote() -> None:
    b = GraphBuilder()
    k = b.constant(1, 4, 8, 8)
    y = b.node((1, 4, 8, 8), apply("mul", b.at(k), Const(2.0)))
    assert k not in assign_layouts(b.graph(y))


def test_a_product_of_two_places_of_one_value_is_no_window() -> None:
    b = GraphBuilder()
    joined = b.relu(b.input("x", 5, 24))
    queries = load(joined, "a1", index("a0") * 4 + index("r0"))
    keys = load(joined, "a2", index("a0") * 4 + index("r0") + 12)
    scores = b.node((3, 5, 5), apply("mul", queries, keys), (4,), "sum")
    layouts = assign_layouts(b.graph(b.relu(scores)))
    assert layouts[joined].order == (0, 1)
    assert layouts[scores].order == (0, 1, 2)


@pytest.mark.parametrize("batch", [1, 8])
def test_parts_of_a_dimension_that_are_reduced_are_no_windows(batch: int) -> None:
    """The largest of the branches that a selective kernel chooses from: what has its order is all of its branches."""
    b = GraphBuilder()
    scores = b.conv(b.input("x", batch, 4, 1, 1), 32)
    branch = load(scores, "a0", index("r0") * 16 + index("a2"), 0, 0)
    largest = b.node((batch, 1, 16, 1, 1), branch, (2,), "max")
    layouts = assign_layouts(b.graph(b.relu(largest)))
    assert layouts[scores].is_plain
    assert layouts[largest].is_plain


def axes(letter: str, *sizes: int) -> tuple[Axis, ...]:
    return tuple(axis(f"{letter}{i}", size) for i, size in enumerate(sizes))


def test_a_window_as_large_as_its_image_is_one() -> None:
    """Its one place is not the low part of a dimension that is split."""
    b = GraphBuilder()
    image = b.conv(b.input("x", 1, 3, 6, 6), 16, k=3, pad=1)
    body = load(image, "a0", "a1", index("a2") + index("r0"), index("a3") + index("r1"))
    node = Node("pool", "pooled", Compute(axes("a", 1, 16, 1, 1), axes("r", 6, 6), "max", body))
    assert {vote.value for vote in votes(b.graph(image), node)} == {"pooled", image}


def test_windows_beside_a_transposition_lie_as_what_it_makes_of_them() -> None:
    """Nothing is moved between the sum over windows and the product over channels."""
    b = GraphBuilder()
    pooled = b.pool(b.input("x", 1, 16, 8, 8), 3, 1, 1, "sum")
    scaled = b.node((1, 8, 8, 16), apply("mul", load(pooled, "a0", "a3", "a1", "a2"), Const(2.0)))
    weights = b.constant(16, 24)
    product = apply("mul", load(scaled, "a0", "a1", "a2", "r0"), load(weights, "r0", "a3"))
    layouts = assign_layouts(b.graph(b.relu(b.node((1, 8, 8, 24), product, (16,), "sum"))))
    assert layouts[scaled].order == (0, 1, 2, 3)
    assert layouts[pooled].order == (0, 2, 3, 1)
