"""What is done to every Graph before it is cut into Subgraphs, in order."""

from __future__ import annotations

from compiler.graph.align_units import AlignUnits
from compiler.graph.cancel_movements import CancelMovements
from compiler.graph.cse import EliminateCommonSubexpressions
from compiler.graph.dce import EliminateDeadCode
from compiler.graph.fold_affine import FoldAffine
from compiler.graph.fold_constants import FoldConstants
from compiler.graph.fold_zero_points import FoldZeroPoints
from compiler.graph.inline_movement import InlineMovements
from compiler.graph.integer_contractions import IntegerContractions
from compiler.graph.ir import Graph
from compiler.graph.printer import graph_text
from compiler.graph.simplify import Simplify
from compiler.graph.verify import GraphVerifier
from compiler.graph.widen import Widen
from compiler.passes import Pass, run_passes

GRAPH_PASSES: tuple[Pass[Graph], ...] = (
    EliminateDeadCode(),
    Widen(),
    IntegerContractions(),
    FoldConstants(),
    Simplify(),
    CancelMovements(),
    EliminateDeadCode(),
    InlineMovements(),
    AlignUnits(),
    FoldConstants(),
    FoldZeroPoints(),
    FoldConstants(),
    FoldAffine(),
    FoldConstants(),
    Simplify(),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
)


def optimise(graph: Graph) -> Graph:
    """Run GRAPH_PASSES, verified in between; raises CompileError where a pass broke the graph."""
    return run_passes(graph, GRAPH_PASSES, GraphVerifier(), graph_text)
