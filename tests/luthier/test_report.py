from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from compiler.errors import InputError
from luthier.report.page import page
from luthier.report.report import TuningReport


def _task(
    name: str, weight: int, untuned_us: float | None, tuned_us: float | None, **more: Any
) -> dict[str, Any]:
    task = {
        "workload": "ab" * 32,
        "name": name,
        "weight": weight,
        "trials": 12,
        "untuned_us": untuned_us,
        "tuned_us": tuned_us,
        "gflops": 210.0,
        "roofline_fraction": 0.83,
        "status": "tuned",
    }
    return {**task, **more}


def _document(**more: Any) -> dict[str, Any]:
    document = {
        "model": "resnet50",
        "target": "native",
        "threads": 2,
        "seconds": 120.5,
        "trials": 24,
        "failed_trials": 1,
        "trials_per_second": 4.2,
        "records_added": 2,
        "cache_hits": 0,
        "tasks": [
            _task("conv2d_3x3 64->64 @56x56", 3, 900.0, 480.0, curve=[[1, 950.0], [4, 700.0], [9, 480.0]]),
            _task("gemm 1x2048x1000", 1, None, 60.0, roofline_fraction=None, status="cached"),
        ],
        "untuned_ms": 31.0,
        "tuned_ms": 21.5,
        "speedup": 1.44,
        "published": True,
        "phases": {"build": 40.0, "time": 70.0, "search": 5.0},
        "max_relative_error": 2e-6,
        "speedup_interval": [1.38, 1.5],
        "engine_versions": {"luthier": "0.1.0"},
    }
    return {**document, **more}


def test_the_document_comes_back_as_it_was() -> None:
    document = _document()
    report = TuningReport.from_json(document)
    full = report.to_full_json()
    assert json.loads(json.dumps(full)) == {
        **document,
        "tasks": [{"curve": [], **t} for t in document["tasks"]],
    }
    assert "phases" not in report.to_json()
    assert all("curve" not in task for task in report.to_json()["tasks"])


@pytest.mark.parametrize("broken", [{}, {"tasks": 3}, [], _document(tasks=[{"name": "x"}])])
def test_anything_else_is_refused(broken: Any) -> None:
    with pytest.raises(InputError, match="not a tuning report"):
        TuningReport.from_json(broken)


def test_the_page_needs_no_other_file_and_is_well_formed() -> None:
    text = page(TuningReport.from_json(_document()))
    assert not re.search(r"(src|href)=", text)
    assert "url(" not in text
    assert "@import" not in text
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        ElementTree.fromstring(svg)


def test_names_from_the_model_are_escaped() -> None:
    evil = "<script>alert(1)</script>\"'&"
    text = page(
        TuningReport.from_json(_document(model=evil, tasks=[_task(evil, 1, 2.0, 1.0, curve=[[1, 2.0]])]))
    )
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_the_page_says_when_nothing_was_published() -> None:
    report = TuningReport.from_json(
        _document(published=False, tuned_ms=31.2, speedup=0.99, speedup_interval=[0.95, 1.02])
    )
    assert "0.99 times as fast (0.95 to 1.02): not faster end to end" in page(report)


def test_a_report_from_before_there_were_intervals_can_be_read() -> None:
    document = _document()
    del document["speedup_interval"]
    report = TuningReport.from_json(document)
    assert report.speedup_interval is None
    assert "1.44 times as fast, verified and published" in page(report)


def test_a_report_without_times_still_has_a_page() -> None:
    bare = _document(tasks=[], untuned_ms=None, tuned_ms=None, speedup=None, phases={}, trials=0)
    assert "not timed end to end" in page(TuningReport.from_json(bare))


def test_saving_into_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    report = TuningReport.from_json(_document())
    with pytest.raises(InputError, match="cannot write"):
        report.save_html(tmp_path / "missing" / "report.html")
    report.save_html(tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
