"""The cache of compiled models: what is found again, what is made anew, and what two processes and damage do to it."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

import luthier
from compiler.errors import NotTuned
from compiler.runtime.image import Image
from compiler.target import PRESETS
from compiler.workload.program import Program
from examples.networks import filled
from luthier import build, cache
from luthier.build import compile_model, make_options
from luthier.cache import Cache, has_external_data, open_cache


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    return filled("mlp", tmp_path)


@pytest.fixture
def folder() -> Path:
    return Path(os.environ["LUTHIER_CACHE_DIR"]) / "models"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of each model that was really compiled."""
    seen: list[str] = []
    really = build.compile_image

    def watched(program: Program, *rest: Any, **options: Any) -> Image:
        seen.append(program.name)
        return really(program, *rest, **options)

    monkeypatch.setattr(build, "compile_image", watched)
    return seen


def run(module: luthier.Module) -> list[bytes]:
    rng = np.random.default_rng(0)
    outputs = module.run({s.name: rng.standard_normal(s.shape, np.float32) for s in module.inputs})
    module.close()
    return [array.tobytes() for array in outputs.values()]


def test_a_model_is_compiled_once(mlp: Path, folder: Path, compiled: list[str]) -> None:
    first = luthier.compile(mlp, threads=1)
    assert sorted(path.suffix for path in folder.iterdir()) == [".luthier", ".tasks"]
    second = luthier.compile(mlp, threads=1)
    assert compiled == ["mlp"]
    assert first.to_bytes() == second.to_bytes()
    assert first.lookups == second.lookups
    assert run(first) == run(second)
    assert folder.stat().st_mode & 0o077 == 0


def test_whatever_the_code_depends_on_is_in_the_key(
    mlp: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    luthier.compile(mlp, threads=1)
    luthier.compile(mlp, threads=2)
    luthier.compile(filled("mlp", mlp.parent, seed=1), threads=1)
    luthier.compile(mlp.read_bytes(), threads=1)
    compile_model(mlp, make_options("x86-64-v4", 1, runs_here=False))
    assert len(compiled) == 5
    monkeypatch.setattr(cache, "_fingerprint", lambda: "another compiler")
    luthier.compile(mlp, threads=1)
    assert len(compiled) == 6
    luthier.compile(mlp, threads=1)
    assert len(compiled) == 6


def test_what_the_log_has_learned_since_is_used(mlp: Path, compiled: list[str]) -> None:
    before = luthier.compile(mlp, threads=1)
    report = luthier.tune(mlp, threads=1, trials=3, seconds=60)
    compiled.clear()
    after = luthier.compile(mlp, threads=1)
    assert {t.lookup for t in before.lookups} == {"default"}
    assert any(t.lookup == "exact" for t in after.lookups) == (report.trials > report.failed_trials)
    assert compiled == ["mlp"]
    before.close()
    after.close()


def test_require_tuned_is_asked_again(mlp: Path, folder: Path) -> None:
    luthier.compile(mlp, threads=1).close()
    assert list(folder.iterdir())
    with pytest.raises(NotTuned, match="3 of 3 tasks"):
        compile_model(mlp, make_options(None, 1), require_tuned=True)


@pytest.mark.parametrize("suffix", [".luthier", ".tasks"])
def test_a_damaged_entry_is_reported_and_made_again(
    suffix: str, mlp: Path, folder: Path, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    wanted = run(luthier.compile(mlp, threads=1))
    path = next(folder.glob(f"*{suffix}"))
    good = path.read_bytes()
    for bad in (good[:-5], b"", good.replace(b"k_", b"q_"), good[: len(good) // 2] + b"\xff" * 9):
        path.write_bytes(bad)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "luthier.cache"):
            assert run(luthier.compile(mlp, threads=1)) == wanted
        assert "damaged" in caplog.text or bad == good
        assert path.read_bytes() == good


def test_it_can_be_switched_off(mlp: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUTHIER_CACHE_BYTES", "0")
    assert open_cache() is None
    luthier.compile(mlp, threads=1).close()
    assert not folder.exists()


def test_the_least_recently_used_go_first(tmp_path: Path, mlp: Path) -> None:
    image = compile_model(mlp, make_options(None, 1))
    size = len(b"".join(cache.image_pieces(image)))
    kept = Cache(tmp_path / "small", 2 * size)
    abandoned, being_written = tmp_path / "small" / ".old.x", tmp_path / "small" / ".new.x"
    for number, key in enumerate("abc"):
        kept.put_image(key, image)
        os.utime(tmp_path / "small" / f"{key}.luthier", (1000.0 + number, 1000.0 + number))
        if key == "b":
            assert kept.image("a") is not None  # used again, so that b is the oldest
            abandoned.touch()
            being_written.touch()
            os.utime(abandoned, (time.time() - 1e6,) * 2)
    assert [key for key in "abc" if kept.image(key) is not None] == ["a", "c"]
    assert being_written.exists()
    assert not abandoned.exists()


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path, mlp: Path) -> None:
    kept = Cache(tmp_path / "small", 1000)
    kept.put_image("a", compile_model(mlp, make_options(None, 1)))
    assert kept.image("a") is None


def test_callers_share_the_folder(mlp: Path, compiled: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run(luthier.compile(mlp, threads=1)), range(8)))
    assert all(result == results[0] for result in results)
    assert compiled


def test_a_folder_that_cannot_be_written_is_no_error(
    mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LUTHIER_CACHE_DIR", str(tmp_path / "file"))
    luthier.compile(mlp, threads=1).close()
    assert "not kept" in caplog.text


def test_data_outside_the_model_are_read_every_time(mlp: Path, compiled: list[str]) -> None:
    model = onnx.load(mlp)
    outside = mlp.with_name("outside.onnx")
    external_data_helper.convert_model_to_external_data(model, location="data.bin", size_threshold=0)
    onnx.save(model, outside)
    first = run(luthier.compile(outside, threads=1))
    data = bytearray((mlp.parent / "data.bin").read_bytes())
    data[3] ^= 0x80
    data[0x1003] ^= 0x80
    (mlp.parent / "data.bin").write_bytes(data)
    assert run(luthier.compile(outside, threads=1)) != first
    assert len(compiled) == 2


def test_another_target_is_kept_too(mlp: Path, compiled: list[str]) -> None:
    options = make_options(PRESETS["aarch64-neoverse-n1"], 1, runs_here=False)
    compile_model(mlp, options)
    assert compile_model(mlp, options).target == PRESETS["aarch64-neoverse-n1"]
    assert len(compiled) == 1


@pytest.mark.parametrize("before", [0, (1 << 20) - 3, (1 << 20) + 5])
def test_data_elsewhere_is_found_wherever_it_is_named(tmp_path: Path, before: int) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes(before) + b"location" + bytes(9))
    assert has_external_data(path)
    path.write_bytes(bytes(before) + b"locatio" + bytes(1 << 20) + b"n")
    assert not has_external_data(path)
