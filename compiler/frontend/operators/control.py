"""Control flow: the branch that is taken stands for an If, its iterations for a loop; a long loop is left to a driver.

    Scan         a Loop that gathers an element of each scanned input
    Loop         luthier.Loop from iteration 0
    luthier.Loop one iteration, then the rest; or what the loop has made, when it ends

luthier.Loop has the inputs of Loop, then a sequence for each tensor that is collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, output_axes
from compiler.frontend.limits import declared_size
from compiler.frontend.loops import LoopPlan, NeedsLoop
from compiler.frontend.subgraphs import inlined
from compiler.frontend.work import OWN_DOMAIN, work_of
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Load

_UNROLLED = 64
"""Most iterations that are unrolled."""
_UNROLLED_NODES = 4096


def _if(call: OperatorCall) -> None:
    condition = call.constant(0)
    if condition.size != 1:
        call.reject(f"has a condition of shape {list(condition.shape)}")
    branch = call.graph("then_branch" if condition.reshape(-1)[0] else "else_branch")
    nodes, outputs = inlined(branch, [], call.fresh)
    call.expand(nodes)
    call.expand(_same(outputs, call.proto.output))


def _same(values: Sequence[str], outputs: Sequence[str]) -> list[NodeProto]:
    return [
        helper.make_node("Identity", [v], [o]) for v, o in zip(values, outputs, strict=False) if o and v != o
    ]


def _loop(call: OperatorCall) -> None:
    body = call.graph("body")
    carried = len(call.proto.input) - 2
    if carried < 0 or len(body.input) != carried + 2 or len(body.output) < carried + 1:
        call.reject("has a body with other inputs and outputs")
    collected = [call.fresh(f"collected.{k}") for k in range(len(body.output) - 1 - carried)]
    for name in collected:
        call.builder.sequences[name] = ()
    call.expand([_rest(body, 0, carried, [*call.proto.input, *collected], call.proto.output)])


def _rest(
    body: GraphProto, iteration: int, carried: int, inputs: Sequence[str], outputs: Sequence[str]
) -> NodeProto:
    return helper.make_node(
        "Loop", inputs, outputs, domain=OWN_DOMAIN, body=body, iteration=iteration, carried=carried
    )


def _iterate(call: OperatorCall) -> None:
    body, i, carried = call.graph("body"), call.integer("iteration"), call.integer("carried")
    trip_count, condition = _known(call, 0), _known(call, 1)
    if trip_count is None or condition is None:
        raise _left(call, body, i, carried, "iterates as often as values say that the model computes")
    if i >= trip_count or not condition:
        return _finish(call, body, carried)
    counts = _counts(body)
    left = (trip_count if counts else min(trip_count, _UNROLLED)) - i
    if i >= _UNROLLED or (i == 0 and (left > _UNROLLED or left * len(body.node) > _UNROLLED_NODES)):
        raise _left(
            call, body, i, carried, f"has more than {_UNROLLED} iterations or {_UNROLLED_NODES} nodes"
        )
    number = call.fresh("iteration")
    call.builder.add_constant(number, np.asarray(i, np.int64))
    going = call.fresh("condition")
    call.builder.add_constant(going, np.asarray(1, np.bool_))
    inputs = list(call.proto.input)
    nodes, results = inlined(
        body, [number, going, *inputs[2 : 2 + carried]], lambda name: call.fresh(f"{i}.{name}")
    )
    collected = []
    for old, value in zip(inputs[2 + carried :], results[1 + carried :], strict=True):
        collected.append(call.fresh(f"{i}.collected"))
        nodes.append(helper.make_node("SequenceInsert", [old, value], [collected[-1]]))
    rest = [inputs[0], results[0], *results[1 : 1 + carried], *collected]
    call.expand([*nodes, _rest(body, i + 1, carried, rest, call.proto.output)])
    return None


def _known(call: OperatorCall, position: int) -> int | None:
    """Of a trip count or condition: a missing one never ends a loop; None for one that is computed."""
    if not call.has(position):
        return np.iinfo(np.int64).max
    value = call.builder.constants.get(call.value(position))
    if value is None:
        return None
    if value.size != 1:
        call.reject(f"has shape {list(value.shape)} at input {position} instead of one number")
    return int(value.reshape(-1)[0])


def _counts(body: GraphProto) -> bool:
    """Whether only the trip count ends the loop: the body hands on the condition that it gets, or true."""
    producers = {output: node for node in body.node for output in node.output}
    name = body.output[0].name
    while name in producers:
        node = producers[name]
        if node.op_type not in ("Identity", "Cast"):
            return bool(node.op_type == "Constant")
        name = node.input[0]
    return True


def _finish(call: OperatorCall, body: GraphProto, carried: int) -> None:
    for j in range(carried):
        call.emit_alias(2 + j, j)
    outputs = list(call.proto.output)[carried:]
    for k, output in enumerate(outputs):
        name = call.proto.input[2 + carried + k]
        if not output:
            continue
        if call.sequence(2 + carried + k):
            call.expand([helper.make_node("ConcatFromSequence", [name], [output], axis=0, new_axis=1)])
            continue
        kind = _element(body.output[1 + carried + k])
        if kind is None:
            call.unsupported("no iteration, and nothing says what one would collect")
        call.builder.add_constant(output, np.zeros((0, *kind[0]), kind[1]))


def _element(info: ValueInfoProto) -> tuple[tuple[int, ...], str] | None:
    """Shape and NumPy type of a declared tensor."""
    kind = info.type.tensor_type
    dims = [declared_size(d) for d in kind.shape.dim]
    known = tuple(d for d in dims if d is not None)
    if not kind.elem_type or not kind.HasField("shape") or len(known) != len(dims):
        return None
    return known, np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)).name


def _left(call: OperatorCall, body: GraphProto, first: int, carried: int, why: str) -> NeedsLoop:
    """What is raised where a driver must run the rest of the loop."""
    inputs = list(call.proto.input)
    own = [call.fresh(info.name) for info in body.input]
    nodes, results = inlined(body, own, call.fresh)
    outputs = [*call.proto.output, *[""] * len(body.output)][: len(body.output) - 1]
    plan = LoopPlan(
        name=call.label,
        first=first,
        trip_count=inputs[0],
        condition=inputs[1],
        carried=inputs[2 : 2 + carried],
        collected=inputs[2 + carried :],
        body=work_of(nodes, call.opsets, call.label),
        inputs=own,
        results=results,
        outputs=outputs,
        empty=[_element(info) for info in body.output[1 + carried :]],
    )
    return NeedsLoop(plan, call.operator, why)


def _scan(call: OperatorCall) -> None:
    if call.opset < 9:
        call.unsupported("with batches; newer ones have none")
    body, count = call.graph("body"), call.integer("num_scan_inputs")
    inputs = list(call.proto.input)
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    collected = len(body.output) - len(states)
    if not 0 < count <= len(inputs) or len(body.input) != len(inputs) or collected < 0:
        call.reject("has a body with other inputs and outputs")
    positions = range(len(states), len(inputs))
    axes = [
        positive_axis(call, a, len(call.shape(p)))
        for a, p in zip(call.ints("scan_input_axes") or [0] * count, positions, strict=True)
    ]
    lengths = {call.shape(p)[a] for a, p in zip(axes, positions, strict=True)}
    if len(lengths) != 1:
        call.reject(f"scans inputs of {sorted(lengths)} elements")
    (length,) = lengths
    trip_count = call.intermediate_constant(np.asarray(length, np.int64), "trip_count")
    reversed_ = call.ints("scan_input_directions") or [0] * count
    loop_body = _scanning(call, body, scanned, axes, reversed_, length)
    ends = call.ints("scan_output_axes") or [0] * collected
    turned = call.ints("scan_output_directions") or [0] * collected
    outputs, moves = list(call.proto.output), []
    for k, (axis, back) in enumerate(zip(ends, turned, strict=True)):
        place = len(states) + k
        if (axis or back) and place < len(outputs) and outputs[place]:
            name = call.fresh(f"scanned.{k}")
            moves.append(
                helper.make_node(
                    "MoveFirst", [name], [outputs[place]], domain=OWN_DOMAIN, axis=axis, reverse=back
                )
            )
            outputs[place] = name
    call.expand([helper.make_node("Loop", [trip_count, "", *states], outputs, body=loop_body), *moves])


def _scanning(
    call: OperatorCall,
    body: GraphProto,
    scanned: Sequence[str],
    axes: Sequence[int],
    backwards: Sequence[int],
    length: int,
) -> GraphProto:
    """The body of a Loop that scans."""
    states = len(body.input) - len(scanned)
    number, going, again = (call.fresh(name) for name in ("iteration", "condition", "again"))
    nodes, places = [], {0: number}
    if any(backwards):
        last = call.intermediate_constant(np.asarray(length - 1, np.int64), "last")
        places[1] = call.fresh("place")
        nodes.append(helper.make_node("Sub", [last, number], [places[1]]))
    for info, value, axis, back in zip(body.input[states:], scanned, axes, backwards, strict=True):
        nodes.append(helper.make_node("Gather", [value, places[bool(back)]], [info.name], axis=axis))
    nodes.append(helper.make_node("Identity", [going], [again]))
    count = helper.make_tensor_value_info(number, TensorProto.INT64, [])
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in (going, again)]
    return helper.make_graph(
        [*nodes, *body.node],
        "scan",
        [count, flags[0], *body.input[:states]],
        [flags[1], *body.output],
        list(body.initializer),
    )


def _move_first(call: OperatorCall) -> None:
    """Put the first dimension elsewhere, its elements in reverse where asked for."""
    shape = call.shape(0)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    wanted = list(shape[1:])
    wanted.insert(axis, shape[0])
    axes = output_axes(wanted)
    places = list(at(axes))
    first = places.pop(axis)
    if call.integer("reverse"):
        first = Index.of(shape[0] - 1) - first
    load = Load(call.value(0), (first, *places))
    call.emit(Compute(axes, (), None, load, call.dtype(call.value(0))))


LOWERINGS: Mapping[str, Lowering] = {"If": _if, "Loop": _loop, "Scan": _scan}
OWN_LOWERINGS: Mapping[str, Lowering] = {"Loop": _iterate, "MoveFirst": _move_first}
