from dataclasses import replace

import numpy as np
import pytest

from hw.arithmetic import seeds
from hw.arithmetic.seeds import Seed, SeedUnit
from hw.sim.simulator import Simulator
from kohakutpu.numerics import fp32, seed_tables
from kohakutpu.numerics import seeds as fast
from kohakutpu.numerics.scalar import seeds as scalar
from tests.hw import vectors

cocotb = pytest.mark.cocotb
each_seed = pytest.mark.parametrize("op", list(Seed), ids=lambda op: op.name)


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(SeedUnit())


def assert_equal_to_scalar(simulator: Simulator, op: Seed, codes: vectors.Codes) -> None:
    actual = simulator.stream(SeedUnit.latency, i=codes, op=op.value)["o"]
    vectors.assert_same(actual, vectors.each(getattr(scalar, op.name.lower()), codes), codes)


def assert_equal_to_fast(simulator: Simulator, op: Seed, codes: vectors.Codes) -> None:
    actual = simulator.stream(SeedUnit.latency, i=codes, op=op.value)["o"]
    result = getattr(fast, op.name.lower())(codes.view(np.float32))
    vectors.assert_same(actual, fp32.canonical(result).view(np.uint32), codes)


@cocotb
@each_seed
def test_boundary(simulator: Simulator, op: Seed) -> None:
    assert_equal_to_scalar(simulator, op, vectors.boundary())


@cocotb
@each_seed
def test_ends_of_every_segment(simulator: Simulator, op: Seed) -> None:
    # Both sides of every segment's start, in octaves around 1 and at the ends of the range.
    starts = np.arange(128, dtype=np.uint32) << 16
    exponents = np.array([1, 2, 100, 126, 127, 128, 129, 132, 133, 134, 252, 253, 254], np.uint32)
    codes = ((exponents << 23)[:, None] | starts).ravel()
    codes = np.concatenate([codes, codes - 1, codes + 1])
    assert_equal_to_scalar(simulator, op, np.concatenate([codes, codes | 0x80000000]))


@cocotb
@each_seed
def test_random(simulator: Simulator, op: Seed) -> None:
    assert_equal_to_fast(simulator, op, vectors.random_codes(1))
    moderate = vectors.random_near(np.full(vectors.RANDOM, 0x40000000, np.uint32), 2)
    assert_equal_to_fast(simulator, op, moderate)


@cocotb
@each_seed
def test_every_row_and_offset(simulator: Simulator, op: Seed) -> None:
    # One octave goes through a whole table; of rsqrt, whose index knows odd exponents, two do.
    start = 0x3F000000 if op == Seed.RSQRT else 0x3F800000
    assert_equal_to_fast(simulator, op, np.arange(start, 0x40000000, dtype=np.uint32))


@cocotb
def test_functions_interleave(simulator: Simulator) -> None:
    codes = vectors.random_codes(5, 4000) & 0x7FFFFFFF
    op = np.arange(codes.size) % len(Seed)
    actual = simulator.stream(SeedUnit.latency, i=codes, op=op)["o"]
    functions = [getattr(scalar, choice.name.lower()) for choice in Seed]
    expected = [functions[o](code) for o, code in zip(op.tolist(), codes.tolist(), strict=True)]
    vectors.assert_same(actual, np.array(expected, np.uint32), codes)


def test_no_reciprocal_rounds_up_to_the_smallest_normal_number() -> None:
    # The flush of SeedUnit looks at the exponent alone.
    largest = max(seed_tables.RECIP.evaluate(0, t) for t in range(1, 1 << 16))
    half_a_place = 1 << (seed_tables.RECIP.unit - 24)
    assert largest < (1 << seed_tables.RECIP.unit) - half_a_place


def test_rom_holds_the_tables() -> None:
    rows = seeds.rom()
    assert len(rows) == 512
    for op, table in seeds.TABLES.items():
        for segment in (0, 77, 127):
            held = rows[op.value * 128 + segment]
            outer = -1 if op in seeds.VALUE_FALLS else 1
            inner = 1 if op in seeds.SLOPE_GROWS else -1
            for t in (0, 1, 65535):
                slope = (held["c1"] << seeds.C1_PLACE) + inner * held["c2"] * t
                value = (held["c0"] << seeds.C0_PLACE) + outer * slope * t
                assert value == table.evaluate(segment, t) << (seeds.UNIT - table.unit)


def test_a_table_of_other_signs_is_refused() -> None:
    table = seed_tables.EXP2
    falling = replace(table, rows=((1 << 27, -900000, 1), *table.rows[1:]))
    with pytest.raises(ValueError, match="segment 0: c1 is -900000, not 21 bits without sign"):
        seeds.row(Seed.EXP2, falling, 0)


@pytest.mark.slow
@cocotb
@each_seed
@pytest.mark.parametrize("seed", range(100, 120))
def test_long_search(simulator: Simulator, op: Seed, seed: int) -> None:
    codes = vectors.random_codes(seed, 1 << 22)
    assert_equal_to_fast(simulator, op, codes & 0x7FFFFFFF if op != Seed.EXP2 else codes)
