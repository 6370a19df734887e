import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohakuaccel.errors import Diagnostic
from kohakuaccel.runtime.arena import Arena, Block, OutOfMemory


def test_blocks_by_hand() -> None:
    arena = Arena(320, 32)
    a, b, c = (arena.allocate(n, name) for n, name in ((1, "a"), (33, "b"), (64, "c")))
    assert [(x.address, x.nbytes) for x in (a, b, c)] == [(0, 32), (32, 64), (96, 64)]
    assert (arena.live, arena.peak, arena.free_blocks) == (160, 160, ((160, 160),))
    arena.free(b)
    assert arena.free_blocks == ((32, 64), (160, 160))
    assert arena.allocate(32, "d").address == 32  # first fit
    arena.free(a)
    assert arena.free_blocks == ((0, 32), (64, 32), (160, 160))
    arena.free(c)  # joins on both sides
    assert arena.free_blocks == ((0, 32), (64, 256))
    assert (arena.live, arena.peak) == (32, 160)
    arena.reset_peak()
    assert arena.peak == 32


def test_base() -> None:
    arena = Arena(64, 32, base=96)
    assert [arena.allocate(32, "x").address for _ in range(2)] == [96, 128]


@pytest.mark.parametrize(("nbytes", "granule", "base"), [(0, 32, 0), (40, 32, 0), (64, 32, 8)])
def test_arenas_that_cannot_be(nbytes: int, granule: int, base: int) -> None:
    with pytest.raises(ValueError, match=f"multiples of {granule}"):
        Arena(nbytes, granule, base)


def test_out_of_memory_says_numbers_and_holders() -> None:
    arena = Arena(1024, 32)
    kept = [arena.allocate(256, f"tensor {i % 2}") for i in range(3)]
    arena.free(kept[1])
    with pytest.raises(OutOfMemory) as caught:
        arena.allocate(500, "the result")
    text = str(caught.value)
    assert isinstance(caught.value, Diagnostic)
    assert isinstance(caught.value, MemoryError)
    assert "the result needs 500 bytes, and the largest free block has 256" in text
    assert "512 of 1024 bytes are taken" in text
    assert "2 x tensor 0: 512 bytes" in text
    assert (caught.value.wanted, caught.value.largest) == (500, 256)
    assert arena.live == 512


def test_out_of_memory_sums_up_small_holders() -> None:
    arena = Arena(1024, 32)
    for i in range(32):
        arena.allocate(32, f"tensor {i}")
    with pytest.raises(OutOfMemory, match="24 other owners: 768 bytes"):
        arena.allocate(1, "one more")


def test_wrong_frees() -> None:
    arena, other = Arena(64, 32), Arena(64, 32)
    block = arena.allocate(32, "x")
    with pytest.raises(ValueError, match="not of this arena"):
        other.free(block)
    arena.free(block)
    with pytest.raises(ValueError, match="freed before"):
        arena.free(block)
    with pytest.raises(ValueError, match="at least 1 byte"):
        arena.allocate(0, "nothing")


@given(st.integers(0, 2**32 - 1))
def test_any_order_of_calls_keeps_the_books(seed: int) -> None:
    rng = random.Random(seed)
    arena = Arena(32 * 64, 32)
    held: list[Block] = []
    for _ in range(200):
        if held and rng.random() < 0.5:
            arena.free(held.pop(rng.randrange(len(held))))
        else:
            nbytes = rng.randint(1, 300)
            try:
                held.append(arena.allocate(nbytes, "x"))
            except OutOfMemory:
                assert arena.largest_free < nbytes
        # Every word belongs to exactly one block or one free run, and no two free runs touch.
        runs = sorted([(b.address, b.nbytes) for b in held] + list(arena.free_blocks))
        assert sum(size for _, size in runs) == arena.capacity
        assert all(a + n == b for (a, n), (b, _) in pairwise(runs))
        free = arena.free_blocks
        assert all(a + n < b for (a, n), (b, _) in pairwise(free))
        assert arena.live == sum(b.nbytes for b in held)
        assert list(arena.blocks) == sorted(held, key=lambda b: b.address)
    for block in held:
        arena.free(block)
    assert arena.free_blocks == ((0, arena.capacity),)
