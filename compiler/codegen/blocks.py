"""Blocks: how many neighbouring elements around a place a buffer has for certain, and how they are aligned."""

from __future__ import annotations

from math import prod

from compiler.codegen.linear import Linear
from compiler.loop.ir import Buffer


def block_at(buffer: Buffer, linear: Linear, most: int) -> int:
    """The longest block, of at most so many elements, of which a whole number lies before a place and behind it."""
    block, known = most, prod(size for size in buffer.shape if isinstance(size, int))
    while known % block or any(coefficient % block for _, coefficient in linear.terms):
        block //= 2
    return block


def is_own_block(buffer: Buffer, linear: Linear, lanes: int) -> bool:
    """Whether a vector of a local buffer is an aligned block of its innermost dimension.

    One stage writes a buffer, so the lanes that are not active belong to nothing there: they need no mask.
    """
    if buffer.scope != "local" or not lanes or buffer.shape[-1] % lanes:
        return False
    return linear.const % lanes == 0 and all(factor % lanes == 0 for _, factor in linear.terms)


def slot_align(buffer: Buffer, lanes: int) -> int:
    """Bytes to which a register's slot is aligned."""
    return buffer.dtype.size_bytes * max(1, lanes)
