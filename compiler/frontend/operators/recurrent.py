"""RNN, GRU and LSTM: one product over all steps for what enters, then a product and a map for each step.

    e[t, b, n] = sum over i of x[t, b, i] w[n, i], plus biases      n: gates x units
    z[b, n]    = sum over k of h[b, k] r[n, k]
    h[b, j]    = a map of e[t, b, ...], z[b, ...], h[b, j] and, for an LSTM, its cell c[b, j]

Where a sequence of the batch is over, its state stays and its output is zero. The reverse direction takes the steps
from the last to the first; so a sequence that is shorter begins at its own last step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, float_operands, output_axes
from compiler.frontend.recurrent_cells import CELLS, STEP, ZERO, Layer, Sizes
from compiler.graph.ir import Compute
from compiler.index import ZERO as ZERO_INDEX
from compiler.scalar import Bound, Expr, Guard, Load
from compiler.symbol import Axis

_MOST_STEPS = 1024
"""Most steps that are unrolled."""
_JOINED = 32
"""Most values that are put together at once."""


def _lower(call: OperatorCall) -> None:
    kind = call.proto.op_type
    cell, sizes = CELLS[kind], _sizes(call)
    if sizes.steps > _MOST_STEPS:
        call.unsupported(f"{sizes.steps} steps, more than {_MOST_STEPS}")
    outputs: list[list[str]] = []
    states: list[str] = []
    cells: list[str] = []
    for direction in range(sizes.directions):
        layer = Layer(call, cell, sizes, direction)
        backwards = call.text("direction", "forward") == "reverse" or direction == 1
        state = layer.initial(5, "state")
        memory = layer.initial(6, "cell") if cell.has_cell else ""
        entering = layer.entering()
        found = [""] * sizes.steps
        for step in reversed(range(sizes.steps)) if backwards else range(sizes.steps):
            state, memory = STEP[kind](layer, step, entering, state, memory)
            found[step] = state
            if layer.lengths is not None:
                shown = layer.while_going(step, layer.load(state), ZERO)
                found[step] = layer.map(shown, f"shown.{direction}.{step}")
        outputs.append(found)
        states.append(state)
        cells.append(memory)
    by_batch = call.integer("layout") == 1
    _emit_steps(call, outputs, sizes, by_batch=by_batch)
    _emit_last(call, states, sizes, 1, by_batch=by_batch)
    if cell.has_cell:
        _emit_last(call, cells, sizes, 2, by_batch=by_batch)


def _sizes(call: OperatorCall) -> Sizes:
    float_operands(call, call.value(0), call.value(1), call.value(2))
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    x, w, r = call.shape(0), call.shape(1), call.shape(2)
    gates = CELLS[call.proto.op_type].gates
    units = r[-1] if r else 0
    steps, batch = (x[1], x[0]) if call.integer("layout") == 1 else x[:2]
    fits = len(x) == 3 and w == (directions, gates * units, x[2]) and r == (directions, gates * units, units)
    fits = fits and (not call.has(3) or call.shape(3) == (directions, 2 * gates * units))
    if not fits or not steps:
        call.reject(f"has an input of shape {list(x)} and weights of shapes {list(w)} and {list(r)}")
    state = (batch, directions, units) if call.integer("layout") == 1 else (directions, batch, units)
    for position in (5, 6):
        if call.has(position) and call.shape(position) != state:
            call.reject(f"has a first state of shape {list(call.shape(position))} instead of {list(state)}")
    return Sizes(steps, batch, x[2], units, directions)


def _emit_steps(
    call: OperatorCall, outputs: Sequence[Sequence[str]], sizes: Sizes, *, by_batch: bool
) -> None:
    """Y[t, d, b, j], or [b, t, d, j]: every state, put together."""
    if not call.proto.output[0]:
        return
    if sizes.directions == 1:
        rows = list(outputs[0])
    else:
        pairs = zip(*outputs, strict=True)
        rows = [_joined(call, list(pair), sizes, f"pair.{t}") for t, pair in enumerate(pairs)]
    while len(rows) > _JOINED:
        chunks = [rows[i : i + _JOINED] for i in range(0, len(rows), _JOINED)]
        rows = [_joined(call, chunk, sizes, f"rows.{i}.{len(chunks)}") for i, chunk in enumerate(chunks)]
    whole = rows[0] if len(rows) == 1 else _joined(call, rows, sizes, "rows")
    axes = output_axes(
        (sizes.batch, sizes.steps, sizes.directions, sizes.units)
        if by_batch
        else (sizes.steps, sizes.directions, sizes.batch, sizes.units)
    )
    places = at(axes)
    b, t, d, j = places if by_batch else (places[2], places[0], places[1], places[3])
    row = t * sizes.directions + d
    call.emit(Compute(axes, (), None, Load(whole, (row, b, j))))


def _joined(call: OperatorCall, values: Sequence[str], sizes: Sizes, suffix: str) -> str:
    """Values [rows, b, j] along rows."""
    counts = [call.builder.shapes[value][0] for value in values]
    axes: tuple[Axis, ...] = output_axes((sum(counts), sizes.batch, sizes.units))
    row, b, j = at(axes)
    body: Expr | None = None
    for end, count, value in reversed(list(zip(accumulate(counts), counts, values, strict=True))):
        start = end - count
        load = Load(value, (row - start if count > 1 else ZERO_INDEX, b, j))
        body = load if body is None else Guard((Bound(row, start, end),), load, body)
    assert body is not None
    return call.intermediate(Compute(axes, (), None, body), suffix)


def _emit_last(
    call: OperatorCall, values: Sequence[str], sizes: Sizes, output: int, *, by_batch: bool
) -> None:
    """The states after the last step, [d, b, j] or [b, d, j]."""
    if output >= len(call.proto.output) or not call.proto.output[output]:
        return
    whole = values[0] if len(values) == 1 else _joined(call, values, sizes, f"last.{output}")
    shape = (sizes.batch, sizes.directions, sizes.units)
    axes = output_axes(shape if by_batch else (sizes.directions, sizes.batch, sizes.units))
    places = at(axes)
    b, d, j = places if by_batch else (places[1], places[0], places[2])
    call.emit(Compute(axes, (), None, Load(whole, (d, b, j))), output)


LOWERINGS: Mapping[str, Lowering] = {"RNN": _lower, "GRU": _lower, "LSTM": _lower}
