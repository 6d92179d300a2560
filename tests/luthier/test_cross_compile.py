"""Compiling for another machine: the artifact is made, and refused where it cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import luthier
from examples.networks import filled


@pytest.mark.parametrize("target", ["aarch64-neoverse-n1", "wasm32", "x86-64-v3"])
def test_an_artifact_for_another_target(target: str, cli: object, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    done = cli("compile", model, "-o", "mlp.luthier", "--target", target, "--json")  # type: ignore[operator]
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["target"] == target
    assert document["misses"] == 3
    if not target.startswith("x86"):
        with pytest.raises(luthier.TargetError, match="cannot run"):
            luthier.load(tmp_path / "mlp.luthier")


def test_no_artifact_for_a_gpu(cli: object, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    done = cli("compile", model, "-o", "mlp.luthier", "--target", "nvptx64-sm80")  # type: ignore[operator]
    assert done.returncode == 1
    assert "only single kernels" in done.stderr
    assert not (tmp_path / "mlp.luthier").exists()


def test_the_text_of_kernels_for_a_gpu(cli: object, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    done = cli("inspect", model, "--target", "nvptx64-sm80", "--print", "asm")  # type: ignore[operator]
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(".visible .entry") == 3


@pytest.mark.parametrize(("target", "machine"), [("x86-64-v4", 62), ("aarch64-cortex-a72", 183)])
def test_a_shared_library_for_another_target(target: str, machine: int, cli: object, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    done = cli("compile", model, "-o", "model.so", "--target", target, "--json")  # type: ignore[operator]
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    written = (tmp_path / "model.so").read_bytes()
    assert document["bytes"] == len(written)
    assert written[18] == machine
    assert "MODEL_INPUT_0_SHAPE" in (tmp_path / "model.h").read_text()


def test_no_shared_library_for_wasm(cli: object, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    done = cli("compile", model, "-o", "model.so", "--target", "wasm32")  # type: ignore[operator]
    assert done.returncode == 1
    assert "no shared library" in done.stderr
    assert not (tmp_path / "model.so").exists()
