"""What real networks are cut into."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Graph
from compiler.graph.pipeline import optimise
from compiler.scalar import Guard, walk
from compiler.workload.evaluate import evaluate_program
from compiler.workload.partition import partition
from compiler.workload.program import Program
from compiler.workload.verify import verify_program
from examples.networks import filled
from tests.compiler.workload.graphs import random_inputs

# Subgraphs by the first word of their names, and distinct Workloads.
CUTS = {
    "mlp": ({"matmul": 3}, 3),
    "resnet18": ({"copy": 1, "conv": 20, "window": 1, "reduce": 1, "matmul": 1}, 23),
    "resnet50": ({"copy": 1, "conv": 53, "window": 1, "reduce": 1, "matmul": 1}, 31),
    "mobilenetv2": ({"copy": 1, "conv": 35, "dwconv": 17, "reduce": 1, "matmul": 1}, 36),
    "vgg16conv_126x224": ({"copy": 2, "conv": 13, "window": 5}, 19),
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    folder = tmp_path_factory.mktemp("networks")
    return {name: optimise(import_model(filled(name, folder))) for name in CUTS}


@pytest.fixture(scope="module")
def programs(graphs: dict[str, Graph]) -> dict[str, Program]:
    return {name: partition(graph) for name, graph in graphs.items()}


@pytest.mark.parametrize("name", CUTS)
def test_everything_but_copies_of_the_interface_is_an_anchor(name: str, programs: dict[str, Program]) -> None:
    program = programs[name]
    verify_program(program)
    kinds, distinct = CUTS[name]
    assert Counter(s.name.split()[0] for s in program.subgraphs) == kinds
    assert len({s.workload.digest for s in program.subgraphs}) == distinct


@pytest.mark.parametrize("name", CUTS)
def test_activations_are_channels_last_inside(name: str, programs: dict[str, Program]) -> None:
    program = programs[name]
    interface = {*program.inputs, *program.outputs}
    for value, layout in program.layouts.items():
        spatial = len(layout.order) == 4 and max(program.buffers[value].sizes[2:]) > 1
        assert layout.order == (
            (0, 2, 3, 1) if spatial and value not in interface else tuple(sorted(layout.order))
        )


def test_padded_convolutions_have_no_guard(programs: dict[str, Program]) -> None:
    for program in programs.values():
        for subgraph in program.subgraphs:
            if "conv" in subgraph.name:
                bodies = [stage.body for stage in subgraph.workload.stages]
                assert not any(isinstance(e, Guard) for body in bodies for e in walk(body))


def test_two_networks_share_their_first_layers(programs: dict[str, Program]) -> None:
    first, second = (programs[name].subgraphs for name in ("resnet18", "resnet50"))
    assert [s.workload.digest for s in first[:2]] == [s.workload.digest for s in second[:2]]


def test_residuals_and_activations_are_epilogues(programs: dict[str, Program]) -> None:
    names = Counter(s.name for s in programs["resnet50"].subgraphs)
    assert names["conv 1x1 256->1024 @14x14 +add+max"] == 5
    assert names["conv 3x3 256->256 @14x14 +max"] == 5


@pytest.mark.parametrize("name", ["mlp", "mobilenetv2"])
def test_a_program_computes_what_its_graph_computes(
    name: str, graphs: dict[str, Graph], programs: dict[str, Program]
) -> None:
    inputs = random_inputs(graphs[name])
    expected = evaluate_graph(graphs[name], inputs)
    actual = evaluate_program(programs[name], inputs)
    for output, value in expected.items():
        assert np.abs(actual[output] - value).max() <= 1e-12 * np.abs(value).max()
