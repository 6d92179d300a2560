"""The demo, on the smallest network and with a few seconds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_ends_with_exact_hits_and_a_report(tmp_path: Path) -> None:
    options = ("--network", "mlp", "--seconds", "15", "--threads", "1", "--folder", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "(100 %), 0 measurements" in done.stdout
    assert "onnxruntime" in done.stdout
    assert re.search(r"the job: [\d.]+ times as fast.*published", done.stdout)
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "mlp.luthier").is_file()
