from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import luthier
from compiler import errors
from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.compiler.frontend.models import model, relu

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
    environment = {
        "PYTHONPATH": f"{folder}:{ROOT}",
        "PATH": "/usr/bin:/bin",
        "LUTHIER_CACHE_DIR": str(folder),
    }
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    code = f"import luthier, sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = _python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_loading_an_artifact_needs_no_database_and_no_onnx(tmp_path: Path) -> None:
    """A program that only runs a compiled model starts in the time of NumPy and LLVM's object loader."""
    proto = model([relu()])
    with closing(compile_program(lower(load_graph(proto)), native_target(), 1, NoSource())) as module:
        module.save(tmp_path / "m.luthier")
    code = (
        "import luthier, sys, json, numpy; module = luthier.load('m.luthier');"
        "module.run({'x': numpy.zeros((2, 3), 'f')});"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = _python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["numpy", "llvmlite"]


def test_compiling_needs_no_search_and_no_migrations(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model([relu()]).SerializeToString())
    code = (
        "import luthier, sys; luthier.compile('m.onnx', threads=1, database='sqlite:///log.db').close();"
        "print([m for m in ('alembic', 'service.jobs', 'luthier.tuning') if m in sys.modules])"
    )
    assert _python(code, tmp_path).returncode == 0
    done = _python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_without_a_cost_model_compiling_needs_no_trees(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model([relu()]).SerializeToString())
    code = (
        "import luthier, sys, pathlib; from tuner.cost_model import shipped; shipped.SHIPPED = pathlib.Path('none');"
        "luthier.compile('m.onnx', threads=1, database='sqlite:///log.db').close(); print('xgboost' in sys.modules)"
    )
    done = _python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"


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
