"""Fixtures for every test: golden texts, and isolation from the user's own data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
_UNSET = ("LUTHIER_SERVER", "LUTHIER_TOKEN", "LUTHIER_DEBUG")

Golden = Callable[[str, str], None]
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden with what the tests produce"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(text, "name")` compares with tests/golden/name.txt; `--update-golden` rewrites the file."""
    update = bool(request.config.getoption("--update-golden"))

    def check(text: str, name: str) -> None:
        path = GOLDEN / f"{name}.txt"
        shown = path.relative_to(ROOT)
        actual = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        if not path.is_file():
            pytest.fail(f"{shown} is missing; look at the text, then run `make golden`\n{actual}")
        assert actual == path.read_text(encoding="utf-8"), f"{shown} differs; see `make golden`"

    return check


@pytest.fixture(scope="session", autouse=True)
def _isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep session fixtures and their child processes away from the user's folders and environment."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        for name in _UNSET:
            patch.delenv(name, raising=False)
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        patch.setenv("LUTHIER_CACHE_DIR", str(home / "luthier-cache"))
        patch.setenv("LUTHIER_DATABASE_URL", f"sqlite:///{home / 'log.db'}")
        yield


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test an empty tuning log and cache of its own, and no shipped cost model: its choices change."""
    home = tmp_path_factory.mktemp("luthier")
    monkeypatch.setattr("tuner.cost_model.shipped.SHIPPED", home / "pretrained.model")
    monkeypatch.setenv("LUTHIER_CACHE_DIR", str(home / "cache"))
    monkeypatch.setenv("LUTHIER_DATABASE_URL", f"sqlite:///{home / 'log.db'}")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """`cli("compile", "x.onnx", …)` runs the command line in this process, in `tmp_path`."""
    from luthier.cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = ["luthier", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        output = capfd.readouterr()
        return subprocess.CompletedProcess(command, int(end.value.code or 0), output.out, output.err)

    return run


@pytest.fixture
def cli_process(tmp_path: Path) -> Cli:
    """The same in a process of its own."""

    def run(*arguments: str | Path, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "luthier", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run
