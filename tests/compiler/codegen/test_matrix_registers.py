"""Settings of registers: shared where forms agree, and of their own where there are too few registers."""

from __future__ import annotations

from compiler.codegen.matrix_registers import Setting, assigned

WHOLE, LOW, THIN = (16, 64), (5, 64), (16, 44)


def test_nests_share_a_setting_where_their_forms_fit() -> None:
    found = assigned(
        {1: dict.fromkeys(range(3), WHOLE), 2: {0: WHOLE, 1: LOW}, 3: dict.fromkeys(range(5), WHOLE)}
    )
    assert len({id(a.setting) for a in found.values()}) == 1
    forms = found[1].setting.forms
    assert forms == [WHOLE] * 5 + [LOW]
    for nest, wanted in ((1, [WHOLE] * 3), (2, [WHOLE, LOW])):
        numbers = list(found[nest].numbers.values())
        assert len(set(numbers)) == len(numbers)
        assert [forms[n] for n in numbers] == wanted


def test_too_many_forms_have_settings_of_their_own() -> None:
    found = assigned({1: dict.fromkeys(range(8), WHOLE), 2: dict.fromkeys(range(4), LOW)})
    assert found[1].setting is not found[2].setting
    assert found[2].setting.forms == [LOW] * 4


def test_what_does_not_fit_leaves_a_setting_as_it_is() -> None:
    setting = Setting([WHOLE] * 7)
    assert setting.numbers({0: LOW, 1: LOW}) is None
    assert setting.forms == [WHOLE] * 7


def test_a_configuration_has_rows_and_bytes_where_the_manual_says() -> None:
    made = Setting([WHOLE, THIN, LOW]).configuration()
    assert len(made) == 64
    assert made[0] == 1
    assert [int.from_bytes(made[16 + 2 * n : 18 + 2 * n], "little") for n in range(4)] == [64, 44, 64, 0]
    assert list(made[48:52]) == [16, 16, 5, 0]
