"""The stores that keep what they are given whole, against the plain ones, by random use."""

from typing import Any

import numpy as np
import pytest

from kohakutpu.model.accumulator import Accumulator
from kohakutpu.model.deferred import COMBINE, NARROW, Deferred
from kohakutpu.model.entries import Entries, Region
from kohakutpu.model.faults import Violation
from kohakutpu.model.held import HeldStorage
from kohakutpu.model.memory import Memory
from kohakutpu.model.pending import PendingMemory
from kohakutpu.model.regions import RegionEntries
from kohakutpu.model.storage import Storage
from kohakutpu.model.tables import Tables
from kohakutpu.model.tiles import TileAccumulator
from kohakutpu.model.window import Window
from kohakutpu.numerics import fp16

Chance = np.random.Generator


def both(one: Any, other: Any) -> Any:
    """Call both and return what both returned; they must fail alike, too."""
    outcomes: list[Any] = []
    for call in (one, other):
        try:
            outcomes.append(call())
        except Violation as violation:
            outcomes.append((violation.cause, violation.numbers))
    assert isinstance(outcomes[0], tuple) == isinstance(outcomes[1], tuple)
    if isinstance(outcomes[0], tuple):
        assert outcomes[0] == outcomes[1]
        return None
    return outcomes


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_regions(seed: int, poison: bool) -> None:
    chance = np.random.default_rng(seed)
    fast, plain = RegionEntries("L1A", 16, poison=poison), Entries("L1A", 16, poison=poison)
    for _ in range(600):
        g, nk = chance.integers(1, 4, 2).tolist()
        stride = int(chance.choice([nk, nk, nk, 0, 1, nk + 1]))
        base = int(chance.integers(0, 17 - (g - 1) * stride - nk))
        if chance.random() < 0.5:
            rows = 4 * g - int(chance.choice([0, 0, 0, 1, 3]))
            region = Region(
                chance.integers(-127, 128, (rows, nk, 32), dtype=np.int8),
                chance.integers(0, 256, (rows, nk), dtype=np.uint8),
            )
            fast.write(base, stride, region)
            plain.write(base, stride, region)
        else:
            window = base, stride, g, nk
            found = both(lambda w=window: fast.read(*w), lambda w=window: plain.read(*w))
            if found:
                np.testing.assert_array_equal(found[0].elements, found[1].elements)
                np.testing.assert_array_equal(found[0].scales, found[1].scales)
                np.testing.assert_array_equal(found[0].left, found[1].left)
                np.testing.assert_array_equal(found[0].right, found[1].right)
        if chance.random() < 0.01:
            fast.reset()
            plain.reset()


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_tiles(seed: int, poison: bool) -> None:
    chance = np.random.default_rng(seed)
    fast, plain = TileAccumulator(12, poison=poison), Accumulator(12, poison=poison)
    kept: list[tuple[Any, Any]] = []
    for _ in range(400):
        gm, gn = chance.integers(1, 4, 2).tolist()
        base = int(chance.integers(0, 13 - gm * gn))
        if chance.random() < 0.4:
            tile = chance.normal(size=(4 * gm, 4 * gn)).astype(np.float32)
            fast.write(base, gm, gn, tile)
            plain.write(base, gm, gn, tile)
        else:
            window = (
                base,
                gm,
                gn,
                int(chance.integers(0, gm + 1)),
                int(chance.integers(0, gn + 1)),
            )
            found = both(lambda w=window: fast.read(*w), lambda w=window: plain.read(*w))
            if found:
                np.testing.assert_array_equal(found[0], found[1])
                kept.append((found[0], found[0].copy()))
    for tile, copy in kept:  # what was read never changes
        np.testing.assert_array_equal(tile, copy)


def deferred(codes: Any) -> Deferred:
    """Codes, as something still to be worked out."""
    wide = fp16.to_fp32(codes)
    sums = Deferred(COMBINE, ("mac", "none", True), (wide, None, np.float32(0)), codes.shape)
    return Deferred(NARROW, None, (sums,), codes.shape)


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_held_windows(seed: int, poison: bool) -> None:
    chance = np.random.default_rng(seed)
    fast = HeldStorage(Tables(), "L1", "L1_RANGE", 24, 32, poison=poison)
    plain = Storage("L1", "L1_RANGE", 24, 32, poison=poison)
    kept: list[tuple[Any, Any]] = []
    for _ in range(600):
        size = int(chance.choice([2, 2, 4]))
        rows, cols = int(chance.integers(1, 4)), int(chance.choice([1, 8, 16, 17]))
        window = Window(int(chance.integers(0, 12)), int(chance.integers(0, 4)), rows, cols, size)
        act = chance.random()
        if act < 0.4:
            codes = chance.normal(size=(rows, cols)).astype(np.float16).view(np.uint16) | 1
            values = codes if size == 2 else fp16.to_fp32(codes)
            lazy = size == 2 and chance.random() < 0.5
            fast.put(window, deferred(codes) if lazy else values)
            plain.put(window, values)
        elif act < 0.7:
            part = (int(chance.integers(0, rows + 1)), int(chance.integers(0, cols + 1)))
            found = both(
                lambda w=window, p=part: fast.get(w, *p), lambda w=window, p=part: plain.get(w, *p)
            )
            if found:
                np.testing.assert_array_equal(found[0], found[1])
                kept.append((found[0], found[0].copy()))
        else:
            found = both(lambda w=window: fast.source(w), lambda w=window: plain.get(w))
            if found:
                got = found[0]
                if isinstance(got, Deferred):
                    got = got.force()
                elif not isinstance(got, np.ndarray):
                    got = got.values
                want = fp16.to_fp32(found[1]) if size == 2 else found[1]
                np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    for array, copy in kept:  # what was read never changes
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_waiting_stores(seed: int, poison: bool) -> None:
    chance = np.random.default_rng(seed)
    fast, plain = PendingMemory(1 << 12, poison), Memory(1 << 12, poison)
    waited = 0
    for _ in range(400):
        rows, cols = int(chance.integers(1, 4)), 4 * int(chance.integers(1, 6))
        stride, quarter = int(chance.integers(0, 5)), int(chance.integers(0, 200))
        act = chance.random()
        if act < 0.6:
            codes = chance.normal(size=(rows, cols)).astype(np.float16).view(np.uint16)
            kept = int(chance.integers(1, rows + 1))
            if act < 0.5:
                fast.store_later(quarter, stride, deferred(codes), kept, cols, 2)
            else:
                fast.store(quarter, stride, codes[:kept])
            plain.store(quarter, stride, codes[:kept])
            waited += fast.waits
        elif act < 0.95:
            window = quarter, rows, stride, 2 * cols
            found = both(lambda w=window: fast.load(*w), lambda w=window: plain.load(*w))
            if found:
                np.testing.assert_array_equal(found[0], found[1])
        else:
            fast.flush()
            assert not fast.waits
        assert fast.stamp(0, 1 << 16) == plain.stamp(0, 1 << 16)
    fast.flush()
    np.testing.assert_array_equal(fast.read(0, 1 << 17), plain.read(0, 1 << 17))
    assert waited > 50


def test_a_store_past_the_memory_does_not_wait() -> None:
    memory = PendingMemory(1 << 8)
    codes = np.zeros((2, 16), np.uint16)
    with pytest.raises(Violation, match="end past the memory of 256 words"):
        memory.store_later(4 * 255, 1, deferred(codes), 2, 16, 2)
    assert not memory.waits
    memory.store_later(4 * 255, 1, deferred(codes), 1, 16, 2)
    assert memory.waits


def test_values_are_worked_out_before_they_grow_too_long() -> None:
    value: Any = np.zeros((1, 4), np.float32)
    for _ in range(1000):  # each needs the one before it
        value = Deferred(COMBINE, ("mac", "none", True), (value, None, np.float32(1)), (1, 4))
    np.testing.assert_array_equal(value.force(), np.full((1, 4), 1000.0))


def test_a_value_with_many_users_is_worked_out_once() -> None:
    shared = Deferred(COMBINE, ("mac", "none", True), (np.float32(1), None, np.float32(1)), (2, 2))
    users = [
        Deferred(COMBINE, ("mac", "none", True), (shared, None, np.float32(n)), (2, 2))
        for n in range(20)
    ]
    assert shared.value is not None
    assert [int(user.force()[1, 1]) for user in users] == [2 + n for n in range(20)]


def test_rows_written_over_each_other_after_they_were_read() -> None:
    window = Window(0, 0, 2, 16, 2)
    fast = HeldStorage(Tables(), "L1", "L1_RANGE", 24, 32, poison=False)
    fast.source(window)
    fast.put(window, np.arange(32, dtype=np.uint16).reshape(2, 16))
    np.testing.assert_array_equal(fast.get(window), [np.arange(16, 32)] * 2)
