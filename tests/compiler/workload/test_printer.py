from __future__ import annotations

from collections.abc import Callable

from compiler.workload.partition import partition
from compiler.workload.printer import program_text, workload_text
from tests.compiler.workload.graphs import bottleneck


def test_a_program_and_its_workloads(golden: Callable[[str, str], None]) -> None:
    program = partition(bottleneck())
    golden(program_text(program), "workload/bottleneck")
    text = "\n".join(f"# {s.name}\n{workload_text(s.workload)}" for s in program.subgraphs)
    golden(text, "workload/bottleneck_workloads")
