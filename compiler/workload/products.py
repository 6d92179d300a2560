"""Products: two contractions around a chain of reductions and maps along the same rows run as one Subgraph.

    s[i, j] = sum(k) q[i, k] * w[j, k]
    →  e[i, j] = exp(s[i, j] - max(j) s[i, j])  →  p[i, j] = e[i, j] / sum(j) e[i, j]
    →  y[i, l] = sum(j) p[i, j] * v[j, l]

Both contractions are products of activations, the chain reads nothing else that is as large as the first one's result
but along the same columns, and what flows between the three has no other reader. A schedule may then keep some rows of
s and e in the cache, or run each stage as a phase of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.graph.ir import Compute, ComputeKind, Graph
from compiler.scalar import loads
from compiler.workload.chains import Chain, aligned, member_compute
from compiler.workload.fusion import FusedNodes


def join_products(chains: tuple[Chain, ...], graph: Graph) -> tuple[Chain, ...]:
    """The chains with every such three as one, at the place of the last."""
    producer = {chain.last.last.output: chain for chain in chains}
    readers = _readers(chains)
    kept = set(graph.outputs)
    joined: dict[int, Chain] = {}
    gone: set[int] = set()
    for chain in chains:
        first = _before(chain, producer, readers, kept, graph)
        last = _after(chain, readers, kept, graph)
        if first is None or last is None:
            continue
        found = aligned((*first.members, *chain.members, *last.members))
        if found is not None and _has_one_column(found):
            joined[id(last)] = found
            gone |= {id(first), id(chain)}
    return tuple(joined.get(id(chain), chain) for chain in chains if id(chain) not in gone)


def _has_one_column(chain: Chain) -> bool:
    """Whether all reductions but the first product's run along the same axis."""
    columns = {
        names[a.name]
        for member, names in list(zip(chain.members, chain.names, strict=True))[1:]
        for a in (member.anchor.compute.reduce_axes if member.anchor is not None else ())
    }
    return len(columns) == 1


def _readers(chains: tuple[Chain, ...]) -> Mapping[str, list[Chain]]:
    found: dict[str, list[Chain]] = {}
    for chain in chains:
        read = {v for member in chain.members for node in member.nodes for v in node.compute.reads}
        for value in read:
            found.setdefault(value, []).append(chain)
    return found


def _before(
    chain: Chain,
    producer: Mapping[str, Chain],
    readers: Mapping[str, list[Chain]],
    kept: set[str],
    graph: Graph,
) -> Chain | None:
    """The product whose whole result the chain reads, and nobody else."""
    if len(chain.members) < 2:
        return None
    read = {v for member in chain.members for node in member.nodes for v in node.compute.reads}
    found = [producer[v] for v in read if v in producer and readers[v] == [chain] and v not in kept]
    products = [c for c in found if _is_product(c, graph)]
    return products[0] if len(products) == 1 else None


def _after(chain: Chain, readers: Mapping[str, list[Chain]], kept: set[str], graph: Graph) -> Chain | None:
    """The product that reduces the chain's result, where nobody else reads that."""
    value = chain.last.last.output
    found = readers.get(value, [])
    if len(found) != 1 or value in kept or not _is_product(found[0], graph):
        return None
    compute = member_compute(found[0].last)
    reads = [load for load in loads(compute.body) if load.buffer == value]
    reduced = {a.name for a in compute.reduce_axes}
    along = [n for load in reads for index in load.indices for n in index.names() if n in reduced]
    if len(reads) != 1 or len(along) != 1 or len(reduced) != 1:
        return None
    return found[0] if _has_rows_and_columns(compute, value) else None


def _has_rows_and_columns(compute: Compute, value: str) -> bool:
    """Whether some axis of the product belongs to the value alone, and some to the other operand alone."""
    own, other = (
        {
            n
            for load in loads(compute.body)
            if (load.buffer == value) is mine
            for i in load.indices
            for n in i.names()
        }
        for mine in (True, False)
    )
    sizes = {a.name for a in compute.axes if a.size > 1}
    return bool(sizes & (own - other)) and bool(sizes & (other - own))


def _is_product(chain: Chain, graph: Graph) -> bool:
    """Whether a chain is one contraction of activations, with what follows it."""
    member: FusedNodes = chain.last
    if len(chain.members) != 1 or member.anchor is None or member.also:
        return False
    compute = member.anchor.compute
    constant = any(value in graph.constants for value in compute.reads)
    return compute.kind is ComputeKind.CONTRACTION and len(loads(compute.body)) == 2 and not constant
