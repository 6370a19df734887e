"""The memory as the host and the loaders see it."""

import numpy as np
import pytest

from kohakutpu.model.faults import Violation
from kohakutpu.model.loader import Loader, Pattern
from kohakutpu.model.memo import MemoLoader
from kohakutpu.model.memory import Memory

WORDS = 1 << 13  # 256 KiB, four pages of stamps
PAGE = 1 << 16


def test_bytes_and_arrays_come_back() -> None:
    memory = Memory(WORDS)
    memory.write(3, b"abc")
    memory.write(64, np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert memory.read(2, 5).tobytes() == b"\0abc\0"
    want = np.array([0, 3, 1, 4, 2, 5], np.float32)
    np.testing.assert_array_equal(memory.view(64, 24).view(np.float32), want)
    memory.write(0, np.empty((0, 4), np.float16))


def test_a_view_cannot_be_written() -> None:
    view = Memory(WORDS).view(0, 32)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


@pytest.mark.parametrize(("address", "nbytes"), [(-1, 4), (WORDS * 32 - 3, 4), (0, WORDS * 32 + 1)])
def test_host_stays_inside(address: int, nbytes: int) -> None:
    memory = Memory(WORDS)
    for access in (
        lambda: memory.read(address, nbytes),
        lambda: memory.view(address, nbytes),
        lambda: memory.write(address, bytes(nbytes)),
        lambda: memory.poison(address, nbytes),
    ):
        with pytest.raises(ValueError, match="do not lie in the memory of 262144 bytes"):
            access()


def test_poison_takes_whole_quarters() -> None:
    memory = Memory(WORDS, poison=True)
    with pytest.raises(ValueError, match="12 bytes at 8 are not whole quarters"):
        memory.poison(8, 12)


def test_unwritten_quarters_hold_nan_once_their_page_is_used() -> None:
    memory = Memory(WORDS, poison=True)
    memory.write(PAGE + 4, b"\1\2")  # marks the whole quarter
    assert np.isnan(memory.read(PAGE + 8, 8).view(np.float16)).all()
    assert memory.load(PAGE // 8, 1, 0, 8)[0, 4:6].tolist() == [1, 2]
    with pytest.raises(Violation, match=f"quarter {PAGE // 8 + 1} of memory"):
        memory.load(PAGE // 8, 1, 0, 9)


def test_stores_mark_their_rows_and_nothing_between() -> None:
    memory = Memory(WORDS, poison=True)
    memory.store(8, 3, np.ones((2, 4), np.uint16))
    memory.load(8, 2, 3, 8)
    with pytest.raises(Violation, match="quarter 9 "):
        memory.load(9, 1, 0, 8)


def test_rows_that_overlap_are_stored_in_order() -> None:
    memory = Memory(WORDS)
    memory.store(0, 0, np.arange(12, dtype=np.uint16).reshape(3, 4))
    assert memory.read(0, 8).view(np.uint16).tolist() == [8, 9, 10, 11]
    memory.store(0, 1, np.arange(64, dtype=np.uint16).reshape(2, 32))
    assert memory.read(0, 96).view(np.uint16).tolist() == [*range(16), *range(32, 64)]


PATTERN = Pattern("fp16", False, 2, 1, 1)


def test_a_region_is_remembered_until_its_pages_change() -> None:
    memory, loader = Memory(WORDS), MemoLoader()
    memory.write(0, np.ones(4 * 32, np.float16))
    first = loader.load(memory, PATTERN, 0, 4, 32)
    memory.write(2 * PAGE, b"elsewhere")
    assert loader.load(memory, PATTERN, 0, 4, 32) is first
    loader.reset()  # the next run still knows it
    assert loader.load(memory, PATTERN, 0, 4, 32) is first
    assert loader.load(memory, PATTERN, 0, 3, 32) is not first
    assert loader.load(memory, PATTERN._replace(mode="residual"), 0, 4, 32) is not first
    memory.store(4, 0, np.full((1, 4), 0x4000, np.uint16))
    again = loader.load(memory, PATTERN, 0, 4, 32)
    assert again is not first
    fresh = Loader().load(memory, PATTERN, 0, 4, 32)
    np.testing.assert_array_equal(again.elements, fresh.elements)
    assert not np.array_equal(again.elements, first.elements)


def test_the_memo_stays_in_its_capacity_and_keeps_a_part_of_a_sweep() -> None:
    memory = Memory(WORDS)
    entry = 4 * 32 * 5
    loader = MemoLoader(capacity=10 * entry)

    def sweep(count: int) -> list[object]:
        return [loader.load(memory, PATTERN, 32 * n, 4, 32) for n in range(count)]

    one, other = sweep(25), sweep(25)
    assert [a is b for a, b in zip(one, other, strict=True)] == [True] * 10 + [False] * 15
    # The next run pushes out what it does not use, oldest first.
    loader.reset()
    assert sweep(4) == one[:4]
    new = [loader.load(memory, PATTERN, 4096 + 32 * n, 4, 32) for n in range(6)]
    again = [loader.load(memory, PATTERN, 4096 + 32 * n, 4, 32) for n in range(6)]
    assert all(a is b for a, b in zip(new, again, strict=True))
    assert sweep(4) == one[:4]
    assert loader.load(memory, PATTERN, 32 * 9, 4, 32) is not one[9]
