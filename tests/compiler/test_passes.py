from dataclasses import dataclass

import pytest

from compiler import debug
from compiler.errors import CompileError
from compiler.passes import run_passes


@dataclass(frozen=True)
class Append:
    """An IR of text; a word that is there already changes nothing."""

    word: str

    @property
    def name(self) -> str:
        return f"append-{self.word}"

    def run(self, ir: str) -> str:
        return ir if self.word in ir else ir + self.word


def refuse_bad(ir: str) -> None:
    if "bad" in ir:
        msg = "bad is not allowed"
        raise CompileError(msg)


def test_passes_run_in_order() -> None:
    assert run_passes("", [Append("a"), Append("b")], refuse_bad, str) == "ab"


def test_same_object_comes_back_when_no_pass_changes_anything() -> None:
    ir = "".join(["a", "b"])
    assert run_passes(ir, [Append("a"), Append("b")], refuse_bad, str) is ir


def test_the_verifier_names_the_pass_that_broke_the_ir() -> None:
    with pytest.raises(CompileError, match="after pass append-bad: bad is not allowed"):
        run_passes("", [Append("a"), Append("bad"), Append("c")], refuse_bad, str)


def test_invalid_ir_is_refused_before_the_first_pass() -> None:
    with pytest.raises(CompileError, match=r"^bad is not allowed"):
        run_passes("bad", [Append("a")], refuse_bad, str)


def test_debug_prints_what_changed_and_the_time_of_every_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LUTHIER_DEBUG", "print,time")
    debug.flags.cache_clear()
    try:
        run_passes("", [Append("a"), Append("a")], refuse_bad, str)
    finally:
        monkeypatch.undo()
        debug.flags.cache_clear()
    text = capsys.readouterr().err
    assert text.count("--- after append-a\na\n") == 1
    assert text.count("--- pass append-a\n") == 2
