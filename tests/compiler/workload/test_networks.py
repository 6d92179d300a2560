"""What real networks are cut into."""

from __future__ import annotations

import pytest

from compiler.frontend import import_model
from compiler.graph.ir import Graph
from compiler.graph.pipeline import optimise
from examples.networks import filled

CONVOLUTIONS = {"resnet18": 20, "resnet50": 53, "mobilenetv2": 52, "vgg16conv_126x224": 13}
DIGESTS = {"resnet18": 0, "resnet50": 0, "mobilenetv2": 0, "vgg16conv_126x224": 0}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    folder = tmp_path_factory.mktemp("networks")
    return {name: optimise(import_model(filled(name, folder))) for name in ("mlp", *CONVOLUTIONS)}
