from __future__ import annotations

import pytest

from compiler.workload.program import ALIGNMENT, STAGGER, STAGGERED_BYTES
from workers.memory import GuardedBuffer

PAGE = 4096


@pytest.mark.parametrize("size", [0, 4, 400, 4096, 4100, 1 << 20])
def test_data_ends_where_the_guard_begins(size: int) -> None:
    buffer = GuardedBuffer(size)
    assert (buffer.address + size) % PAGE == 0
    assert buffer.data.size == size
    buffer.data[:] = 7
    assert buffer.intact
    buffer.close()
    buffer.close()


@pytest.mark.parametrize("size", [4, 400, 4096, 4100])
def test_aligned_data_starts_as_the_runtime_places_it(size: int) -> None:
    buffer = GuardedBuffer(size)
    buffer.align()
    assert buffer.address % ALIGNMENT == 0
    assert (buffer.address + -(-size // ALIGNMENT) * ALIGNMENT) % PAGE == 0
    buffer.data[:] = 7
    assert buffer.intact
    buffer.close()


@pytest.mark.parametrize(("written", "place"), [(False, 0), (True, STAGGER)])
@pytest.mark.parametrize("size", [STAGGERED_BYTES, STAGGERED_BYTES + 4, 1 << 20])
def test_what_is_large_starts_elsewhere_in_a_page_than_what_it_is_computed_from(
    size: int, place: int, *, written: bool
) -> None:
    buffer = GuardedBuffer(size, written=written)
    assert (buffer.address + size) % PAGE == 0
    buffer.align()
    assert buffer.is_aligned
    assert buffer.address % PAGE == place
    buffer.data[:] = 7
    assert buffer.intact
    buffer.close()


def test_a_changed_redzone_is_seen() -> None:
    buffer = GuardedBuffer(400)
    buffer._whole[buffer._start - 1] = 0
    assert not buffer.intact
    buffer.close()


def test_no_room_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        GuardedBuffer(1 << 60)
