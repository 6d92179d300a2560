"""Generalise a Program: from the same model lowered for several sizes to one Program over symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.errors import ModelError, NotStatic
from compiler.graph.ir import TensorType
from compiler.symbol import Symbol, size_at
from compiler.workload.generalise import DiffersError, Values, generalise, polynomial, same_array
from compiler.workload.name_symbols import name_symbols
from compiler.workload.program import Program, Subgraph


def generalise_program(
    programs: Sequence[Program], points: Sequence[Values], symbols: tuple[Symbol, ...]
) -> Program:
    """One Program for all sizes.

    Args:
        programs: one per point.
        points: values of the symbols, from `sample_values`.
        symbols: of the model.

    Raises:
        NotStatic: the programs differ in more than sizes, or in sizes that are no polynomials of the symbols.
    """
    if len({len(program.subgraphs) for program in programs}) > 1:
        raise refused(symbols, "it splits into another number of subgraphs")
    parts = zip(*(program.subgraphs for program in programs), strict=True)
    subgraphs = tuple(_subgraph(instances, points, symbols) for instances in parts)
    try:
        common: Program = generalise([replace(p, subgraphs=()) for p in programs], points)
    except DiffersError as error:
        raise refused(symbols, str(error)) from error
    return replace(common, subgraphs=subgraphs, symbols=symbols)


def with_constants_of(first: Program, other: Program) -> Program:
    """The other Program with the first one's arrays where they are equal, so that one copy is kept."""
    kept = {
        name: first.constants[name]
        if name in first.constants and same_array(first.constants[name], array)
        else array
        for name, array in other.constants.items()
    }
    return replace(other, constants=kept)


def check_outputs(program: Program, types: Mapping[str, TensorType], values: Values) -> None:
    """Compare outputs with those of the model at one more size; raises NotStatic where they differ."""
    for name, kind in program.outputs.items():
        shape = tuple(size_at(extent, values) for extent in kind.shape)
        if shape != types[name].sizes:
            why = (
                f"output {name!r} has shape {list(types[name].sizes)} for {_text(values)}, not {list(shape)}"
            )
            raise refused(program.symbols, why)


def _subgraph(
    instances: Sequence[Subgraph], points: Sequence[Values], symbols: tuple[Symbol, ...]
) -> Subgraph:
    name = _common_name([subgraph.name for subgraph in instances], points)
    # A model may call a size what we call an axis, and PyTorch does: s0.
    own = {symbol.name: f"${symbol.name}" for symbol in symbols}
    renamed = [{own[symbol]: value for symbol, value in point.items()} for point in points]
    try:
        found: Subgraph = generalise([replace(s, name=name) for s in instances], renamed)
    except DiffersError as error:
        raise refused(symbols, f"in {name!r}, {error}".replace("$", "")) from error
    apart = tuple(replace(symbol, name=own[symbol.name]) for symbol in symbols)
    workload, names = name_symbols(replace(found.workload, symbols=apart))
    return replace(found, workload=workload, symbols={new: old[1:] for new, old in names.items()})


def _common_name(names: Sequence[str], points: Sequence[Values]) -> str:
    """`conv 3x3 8*64`, `conv 3x3 9*64` → `conv 3x3 n*64`; the first where they differ in more than numbers."""
    texts = [re.split(r"(\d+)", name) for name in names]
    if len({tuple(text[::2]) for text in texts}) > 1:
        return names[0]
    parts = list(texts[0])
    for place in range(1, len(parts), 2):
        numbers = [int(text[place]) for text in texts]
        if len(set(numbers)) > 1:
            try:
                parts[place] = f"{polynomial(numbers, points, 'a size')}"
            except DiffersError:
                return names[0]
    return "".join(parts)


def refused_at(symbols: tuple[Symbol, ...], values: Values, error: ModelError) -> NotStatic:
    """The error of a model that some sizes of its open dimensions break."""
    return refused(symbols, f"with {_text(values)}, {str(error).rpartition('; ')[0] or error}")


def _text(values: Values) -> str:
    return " and ".join(f"{symbol} = {value}" for symbol, value in values.items())


def refused(symbols: tuple[Symbol, ...], why: str) -> NotStatic:
    """The error of a model that has no form for all sizes."""
    names = " and ".join(repr(symbol.name) for symbol in symbols)
    return NotStatic(
        f"the model cannot be compiled once for all sizes of {names} ({why})",
        "give sizes with --shape NAME=1,128",
    )
