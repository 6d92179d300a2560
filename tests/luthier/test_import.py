from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import luthier
from compiler import errors

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "numpy",
    "onnx",
    "llvmlite",
    "xgboost",
    "sqlalchemy",
    "fastapi",
    "ray",
    "httpx",
    "typer",
    "rich",
    "pydantic",
)


def _python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    code = f"import luthier, sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = _python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_every_public_name_is_there() -> None:
    for name in luthier.__all__:
        assert getattr(luthier, name) is not None
    assert set(luthier.__all__) <= set(dir(luthier))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        luthier.nothing  # noqa: B018


def test_every_error_is_public_and_derives_from_one() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert {kind.__name__ for kind in kinds} <= set(luthier.__all__)
    assert all(issubclass(kind, luthier.LuthierError) for kind in kinds)


@pytest.mark.parametrize("hiding", ["compiler/__init__.py", "service.py", "tuner/__init__.py"])
def test_a_folder_that_hides_a_package_is_named(tmp_path: Path, hiding: str) -> None:
    path = tmp_path / hiding
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    done = _python("import luthier", tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(tmp_path.resolve()) in last
    assert "rename it" in last


def test_a_missing_sibling_is_named(tmp_path: Path) -> None:
    (tmp_path / "luthier").symlink_to(ROOT / "luthier")
    code = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; import luthier"
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "package 'compiler' is missing" in done.stderr.strip().splitlines()[-1]
