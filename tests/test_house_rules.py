"""Rules of the house that ruff cannot state, checked on the syntax tree of every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("luthier", "service", "workers", "tuner", "compiler", "migrations")
MAX_LINES = 400
READS_ENVIRONMENT = {"compiler/debug.py", "service/settings.py", "workers/settings.py"}
COMMITS = {"service/db/session.py"}
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}


def _sources(*folders: str) -> list[Path]:
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """What the rules are about, of a file that is parsed once."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return tuple(
        n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom | ast.Attribute | ast.Call)
    )


def _imports(path: Path) -> Iterator[str]:
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _where(path: Path, node: ast.AST) -> str:
    return f"{_name(path)}:{getattr(node, 'lineno', 0)}"


def test_the_environment_is_read_in_its_files_only() -> None:
    found = [
        _where(path, node)
        for path in _sources(*PACKAGES)
        if _name(path) not in READS_ENVIRONMENT
        for node in _nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv"}
    ]
    assert found == []


def test_only_the_session_commits() -> None:
    found = [
        _where(path, node)
        for path in _sources(*PACKAGES)
        if _name(path) not in COMMITS
        for node in _nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "commit"
    ]
    assert found == []


def test_nothing_is_pickled() -> None:
    found = [
        f"{_name(path)}: {module}"
        for path in _sources(*PACKAGES, "examples", "benchmarks", "tests")
        for module in _imports(path)
        if module.split(".")[0] in PICKLES
    ]
    assert found == []


def test_imports_are_absolute() -> None:
    found = [
        _where(path, node)
        for path in _sources(*PACKAGES, "examples", "benchmarks", "tests")
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert found == []


def test_files_stay_readable_in_one_sitting() -> None:
    sizes = {_name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in _sources(*PACKAGES)}
    assert {name: lines for name, lines in sizes.items() if lines > MAX_LINES} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_it_is(package: str) -> None:
    silent = [_name(p) for p in _sources(package) if not p.read_text(encoding="utf-8").startswith('"""')]
    assert silent == []
