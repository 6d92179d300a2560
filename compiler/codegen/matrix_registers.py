"""What the registers of matrices are set up to hold: rows, and bytes of a row.

Setting them up empties the pipeline, and edges of a tile need other matrices than whole tiles. Registers are numbered
so that nests have a setting in common: matrices of the same form share a register, and others have their own.
Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 (Intel AMX).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.target import MATRIX_REGISTERS

Form = tuple[int, int]
"""Rows, and bytes of a row."""
_BYTES, _PALETTE = 64, 1
_ROW_BYTES_AT, _ROWS_AT = 16, 48
"""Where a configuration has the bytes of each register's rows, two bytes each, and the rows, one byte each."""


@dataclass
class Setting:
    """Forms of registers, by their numbers."""

    forms: list[Form] = field(default_factory=list)

    def numbers(self, wanted: Mapping[int, Form]) -> dict[int, int] | None:
        """Registers of those forms, each of its own, perhaps with new ones; None where there are too few."""
        free = dict(enumerate(self.forms))
        found: dict[int, int] = {}
        added: list[Form] = []
        for name, form in wanted.items():
            number = next((n for n, known in free.items() if known == form), None)
            if number is None:
                number = len(self.forms) + len(added)
                added.append(form)
            else:
                del free[number]
            found[name] = number
        if len(self.forms) + len(added) > MATRIX_REGISTERS:
            return None
        self.forms += added
        return found

    def configuration(self) -> bytes:
        """What the instruction that sets the registers up reads."""
        made = bytearray(_BYTES)
        made[0] = _PALETTE
        for number, (rows, width) in enumerate(self.forms):
            first = _ROW_BYTES_AT + 2 * number
            made[first : first + 2] = width.to_bytes(2, "little")
            made[_ROWS_AT + number] = rows
        return bytes(made)


@dataclass(frozen=True, slots=True)
class Assigned:
    """The setting of a nest, and its registers' numbers in it."""

    setting: Setting
    numbers: dict[int, int]


def assigned(wanted: Mapping[int, Mapping[int, Form]]) -> dict[int, Assigned]:
    """Settings for all nests, as few as come of taking the largest first; `wanted`: forms of the registers of each."""
    settings: list[Setting] = []
    found: dict[int, Assigned] = {}
    for nest, forms in sorted(wanted.items(), key=lambda item: -len(item[1])):
        for setting in (*settings, Setting()):
            numbers = setting.numbers(forms)
            if numbers is not None:
                found[nest] = Assigned(setting, numbers)
                if not any(known is setting for known in settings):
                    settings.append(setting)
                break
    return found
