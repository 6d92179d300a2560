"""Candidates inside of a network: what the table says, and a real network of one layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from benchmarks.in_network import candidates, compared, in_network, in_trials
from benchmarks.kernel_models import convolution
from benchmarks.search.record import network_tasks
from compiler.pipeline import load_graph, lower
from compiler.target import native_target


def test_a_line_says_how_well_trials_order() -> None:
    inside = np.array([2e-4, 1e-4, 4e-4, 2.02e-4])
    trials = 0.5 * inside
    assert compared(trials, inside).split() == ["200", "0.50", "0.000", "1.000", "0.500", "0.500"]
    wrong = np.array([1e-4, 2e-4, 0.5e-4, np.nan])  # one that failed does not count
    us, share, _, alike, best, liked = map(float, compared(wrong, inside).split())
    assert (us, share, alike, best, liked) == (200, 0.5, 0.0, 0.5, 2.0)


def test_each_candidate_is_measured_both_ways(tmp_path: Path) -> None:
    onnx.save(convolution(16, 32, (20, 20), (3, 3)), tmp_path / "one.onnx")
    (task,) = network_tasks(tmp_path / "one.onnx", 1, 1, native_target(), set())
    chosen = {task.workload.digest: candidates(task, 3, starts_only=False)}
    for times in (
        in_trials([task], chosen),
        in_network(lower(load_graph(tmp_path / "one.onnx")), chosen, 2),
    ):
        assert times[task.workload.digest].shape == (len(chosen[task.workload.digest]),)
        assert (times[task.workload.digest] > 0).all()
