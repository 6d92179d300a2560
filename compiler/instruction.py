"""Instructions that add several products to a sum at once, as data.

Each entry computes, for every lane n of a vector of sums,

    sum[n] += left[0] * right[n, 0] + ... + left[group - 1] * right[n, group - 1]

`left` is the same for all lanes (one row of a matrix product, broadcast), `right` lies packed with the elements of a
lane next to each other. An entry of several rows does that for each of them, and for several groups one after the
other, in registers that hold a whole matrix. A new instruction is a new entry: schedules name it, rules offer it where
structure and Target allow, the code generator fills its template, and the interpreter calls its `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import DType
from compiler.target import Target

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Instruction:
    """One entry.

    Attributes:
        name: as schedules store it; it never changes its meaning.
        lanes: sums side by side (n).
        group: products per sum (k).
        left, right, sum: element types.
        features: what the Target must have, all of them.
        declarations: LLVM's declarations of the intrinsics.
        template: LLVM instructions in order; {sum}, {left} and {right} are the operands, {0}, {1}, ... the results of
            the ones before, the last result is the new sum. Of an entry of several rows the operands are the numbers of
            matrix registers, and the first of them is changed.
        evaluate: one lane; (sum, left of shape (group,), right of shape (group,)) to the new sum.
        right_limit: largest magnitude of an element of `right` for which the result is the exact sum; None: any.
        rows: rows of sums, at most, each with data of its own.
        depth: groups, at most, that are added one after the other.
        cost: how many instructions on a vector start in the time that one on a full matrix takes.
    """

    name: str
    lanes: int
    group: int
    left: DType
    right: DType
    sum: DType
    features: tuple[str, ...]
    declarations: tuple[str, ...]
    template: tuple[str, ...]
    evaluate: Callable[[Any, Array, Array], Any]
    right_limit: int | None = None
    rows: int = 1
    depth: int = 1
    cost: int = 1

    @property
    def takes_matrices(self) -> bool:
        """Whether its operands are in registers that hold a whole matrix."""
        return self.rows > 1

    def runs_on(self, target: Target) -> bool:
        """Whether the Target has all that it needs."""
        return (
            set(self.features) <= set(target.features)
            and self.lanes * self.sum.size_bytes <= target.vector_bytes
        )

    @property
    def products_per_step(self) -> float:
        """Products per machine instruction on a vector: with it the rules choose between entries."""
        return self.rows * self.depth * self.lanes * self.group / (self.cost * len(self.template))

    def unit(self, products: int) -> int:
        """Sums of so many products are filled up to a multiple of this, with zeros.

        A matrix need not be full: its depth is a divisor of the groups, where one of them is at least half of the most.
        """
        groups = -(-products // self.group)
        whole = 2 * self.depth_of(groups) >= min(self.depth, groups)
        return self.group if whole else self.group * self.depth

    def filled(self, products: int) -> int:
        """So many products of a sum, and the zeros behind them."""
        unit = self.unit(products)
        return -(-products // unit) * unit

    def depth_of(self, groups: int) -> int:
        """Of so many groups, those that one instruction adds."""
        return next(d for d in range(min(self.depth, groups), 0, -1) if groups % d == 0)


def _whole(total: Any, left: Array, right: Array) -> Any:
    """Exact products, the sum in 32 bits wraps around."""
    products = int(np.dot(left.astype(np.int64), right.astype(np.int64)))
    return np.asarray(int(total) + products, np.int64).astype(np.int32)[()]


def _saturated_pairs(total: Any, left: Array, right: Array) -> Any:
    """Sums of two products saturate at 16 bits before they are added in 32."""
    products = left.astype(np.int64) * right.astype(np.int64)
    pairs = np.clip(products[0::2] + products[1::2], -(1 << 15), (1 << 15) - 1)
    return np.asarray(int(total) + int(pairs.sum()), np.int64).astype(np.int32)[()]


def _bf16_pair(total: Any, left: Array, right: Array) -> Any:
    """Products of bf16 are exact in f32; the odd one is added first, each sum is rounded to f32."""
    x, y = left.astype(np.float32), right.astype(np.float32)
    return np.float32(np.float32(total + x[1] * y[1]) + x[0] * y[0])


_LLVM = {
    DType.U8: "i8", DType.I8: "i8", DType.I16: "i16", DType.I32: "i32", DType.BF16: "bfloat", DType.F32: "float",
}  # fmt: skip
_INTRINSICS = {
    "vpdpbusd": "avx512.vpdpbusd",
    "vpdpwssd": "avx512.vpdpwssd",
    "vdpbf16ps": "avx512bf16.dpbf16ps",
}


def _pairs_of_words(name: str, lanes: int, intrinsic: str, features: tuple[str, ...]) -> Instruction:
    words, sums = f"<{2 * lanes} x i16>", f"<{lanes} x i32>"
    return Instruction(
        name=name,
        lanes=lanes,
        group=2,
        left=DType.I16,
        right=DType.I16,
        sum=DType.I32,
        features=features,
        declarations=(f"declare {sums} @{intrinsic}({words}, {words})",),
        template=(
            f"call {sums} @{intrinsic}({words} {{left}}, {words} {{right}})",
            f"add {sums} {{sum}}, {{0}}",
        ),
        evaluate=_whole,
    )


def _whole_groups(
    name: str,
    lanes: int,
    types: tuple[DType, DType, DType],
    features: tuple[str, ...],
    evaluate: Callable[[Any, Array, Array], Any] = _whole,
) -> Instruction:
    """One machine instruction adds groups that fill 32 bits; `types`: left, right, sum. `name`: mnemonic and width."""
    left, right, total = types
    group, element = 4 // left.size_bytes, _LLVM[left]
    intrinsic = f"@llvm.x86.{_INTRINSICS[name.partition('.')[0]]}.{32 * lanes}"
    data, sums = f"<{group * lanes} x {element}>", f"<{lanes} x {_LLVM[total]}>"
    return Instruction(
        name=name,
        lanes=lanes,
        group=group,
        left=left,
        right=right,
        sum=total,
        features=features,
        declarations=(f"declare {sums} {intrinsic}({sums}, {data}, {data})",),
        template=(f"call {sums} {intrinsic}({sums} {{sum}}, {data} {{left}}, {data} {{right}})",),
        evaluate=evaluate,
    )


def _bytes_to_dwords(name: str, lanes: int, features: tuple[str, ...]) -> Instruction:
    return _whole_groups(name, lanes, (DType.U8, DType.I8, DType.I32), features)


def _words_to_dwords(name: str, lanes: int, features: tuple[str, ...]) -> Instruction:
    return _whole_groups(name, lanes, (DType.I16, DType.I16, DType.I32), features)


def _pairs_of_bf16(name: str, lanes: int, features: tuple[str, ...]) -> Instruction:
    return _whole_groups(name, lanes, (DType.BF16, DType.BF16, DType.F32), features, _bf16_pair)


def _matrices(
    name: str,
    types: tuple[DType, DType, DType],
    features: tuple[str, ...],
    evaluate: Callable[[Any, Array, Array], Any] = _whole,
) -> Instruction:
    """Matrices of 16 rows of 64 bytes: 16 x 16 sums of 32 bits and 16 groups of 32 bits for each.

    `cost`: measured on a Granite Rapids core, 16 cycles beside two instructions on vectors in each.
    """
    left, right, total = types
    intrinsic = f"@llvm.x86.{name}"
    return Instruction(
        name=name,
        lanes=16,
        group=4 // left.size_bytes,
        left=left,
        right=right,
        sum=total,
        features=features,
        declarations=(f"declare void {intrinsic}(i8 immarg, i8 immarg, i8 immarg)",),
        template=(f"call void {intrinsic}(i8 {{sum}}, i8 {{left}}, i8 {{right}})",),
        evaluate=evaluate,
        rows=16,
        depth=16,
        cost=32,
    )


def _bytes_by_pairs(name: str, features: tuple[str, ...]) -> Instruction:
    data, words, sums = "<32 x i8>", "<16 x i16>", "<8 x i32>"
    pairs, wide = "@llvm.x86.avx2.pmadd.ub.sw", "@llvm.x86.avx2.pmadd.wd"
    return Instruction(
        name=name,
        lanes=8,
        group=4,
        left=DType.U8,
        right=DType.I8,
        sum=DType.I32,
        features=features,
        declarations=(
            f"declare {words} {pairs}({data}, {data})",
            f"declare {sums} {wide}({words}, {words})",
        ),
        template=(
            f"call {words} {pairs}({data} {{left}}, {data} {{right}})",
            f"call {sums} {wide}({words} {{0}}, {words} splat (i16 1))",
            f"add {sums} {{sum}}, {{1}}",
        ),
        evaluate=_saturated_pairs,
        right_limit=64,
    )


_ALL = (
    _bytes_to_dwords("vpdpbusd.512", 16, ("avx512vnni",)),
    _bytes_to_dwords("vpdpbusd.256", 8, ("avx512vnni", "avx512vl")),
    _bytes_to_dwords("vpdpbusd.vex256", 8, ("avxvnni",)),
    _words_to_dwords("vpdpwssd.512", 16, ("avx512vnni",)),
    _words_to_dwords("vpdpwssd.256", 8, ("avx512vnni", "avx512vl")),
    _words_to_dwords("vpdpwssd.vex256", 8, ("avxvnni",)),
    _pairs_of_words("vpmaddwd.512", 16, "llvm.x86.avx512.pmaddw.d.512", ("avx512bw",)),
    _bytes_by_pairs("vpmaddubsw.256", ("avx2",)),
    _pairs_of_words("vpmaddwd.256", 8, "llvm.x86.avx2.pmadd.wd", ("avx2",)),
    _pairs_of_bf16("vdpbf16ps.512", 16, ("avx512bf16",)),
    _pairs_of_bf16("vdpbf16ps.256", 8, ("avx512bf16", "avx512vl")),
    _matrices("tdpbusd", (DType.U8, DType.I8, DType.I32), ("amx-tile", "amx-int8")),
    _matrices("tdpbf16ps", (DType.BF16, DType.BF16, DType.F32), ("amx-tile", "amx-bf16"), _bf16_pair),
)

INSTRUCTIONS: Mapping[str, Instruction] = {i.name: i for i in _ALL}
"""By name. Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2."""
