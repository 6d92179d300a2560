"""Partition: a Graph becomes a Program of Subgraphs with canonical Workloads.

Copies are inserted where the model's interface needs another layout than the inside, layouts are assigned, reductions
over parts of vectors are factored, nodes are
fused into groups, groups that work along the same rows into chains, groups that share what they read or store into one,
and each becomes a Workload.
"""

from __future__ import annotations

import numpy as np

from compiler.graph.assign_layouts import assign_layouts
from compiler.graph.drop_unit_reductions import DropUnitReductions
from compiler.graph.factor_reductions import FactorReductions
from compiler.graph.insert_copies import InsertCopies
from compiler.graph.ir import Graph
from compiler.graph.joins import place_parts
from compiler.graph.printer import graph_text
from compiler.graph.verify import verify_graph
from compiler.passes import Pass, run_passes
from compiler.workload.canonical import canonicalise
from compiler.workload.chains import Chain, chains
from compiler.workload.names import describe
from compiler.workload.products import join_products
from compiler.workload.program import Program, Subgraph
from compiler.workload.siblings import merge_siblings
from compiler.workload.stages import Storage, build_workload

STORAGE_PASSES: tuple[Pass[Graph], ...] = (DropUnitReductions(), InsertCopies(), FactorReductions())


HALF_BYTE_RANGE = 64
"""Weights of 7 bits, as quantisers write them for machines on which sums of two products would saturate."""


def partition(graph: Graph) -> Program:
    """Split a Graph into Subgraphs, in the order in which they run.

    Args:
        graph: static extents only; substitute symbols first.

    Raises:
        InputError: an extent is symbolic.
    """
    interface = graph.types()
    graph = run_passes(graph, STORAGE_PASSES, verify_graph, graph_text)
    placement = place_parts(graph, assign_layouts(graph))
    graph = placement.graph
    storage = Storage(graph.types(), placement.layouts, _bounds(graph))
    stored_by_parts = frozenset(placement.wholes.values())
    found = join_products(chains(graph, storage.layouts, stored_by_parts), graph)
    joined = merge_siblings(found, graph, storage.layouts)
    subgraphs = tuple(_subgraph(c, storage) for c in joined if c.last.last.output not in stored_by_parts)
    used = {value for subgraph in subgraphs for value in subgraph.bindings.values()}
    stored = dict.fromkeys([*graph.inputs, *(value for s in subgraphs for value in s.bindings.values())])
    stored_values = [value for value in stored if value not in graph.constants]
    return Program(
        name=graph.name,
        inputs=dict(graph.inputs),
        outputs={value: interface[value] for value in graph.outputs},
        buffers={value: storage.operand(value) for value in stored_values},
        constants={value: array for value, array in graph.constants.items() if value in used},
        subgraphs=subgraphs,
        layouts={value: storage.layouts[value] for value in stored_values},
        wholes=placement.wholes,
    )


def _bounds(graph: Graph) -> dict[str, int]:
    """Signed bytes that leave the upper half of their range unused: instructions may rely on it."""
    return {
        name: HALF_BYTE_RANGE
        for name, array in graph.constants.items()
        if array.dtype == np.int8 and array.size and np.abs(array.astype(np.int16)).max() <= HALF_BYTE_RANGE
    }


def _subgraph(chain: Chain, storage: Storage) -> Subgraph:
    workload = build_workload(chain, storage)
    canonical = canonicalise(workload)
    temporaries = {t.name for t in canonical.workload.temporaries}
    bindings = {new: old for new, old in canonical.names.items() if new not in temporaries}
    return Subgraph(describe(workload), canonical.workload, bindings)
