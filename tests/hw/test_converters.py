import numpy as np
import pytest

from hw.arithmetic.converters import Narrower, Widener
from hw.sim.simulator import Simulator
from kohakutpu.numerics import fp16
from kohakutpu.numerics.scalar import formats
from tests.hw import vectors

pytestmark = pytest.mark.cocotb


def test_every_half_widens_and_singles_stay() -> None:
    simulator = Simulator(Widener())
    codes = np.arange(1 << 16, dtype=np.uint32)
    noise = vectors.random_codes(1, codes.size)
    actual = simulator.stream(Widener.latency, half=codes, i=noise, is_half=1)["o"]
    vectors.assert_same(actual, vectors.each(formats.widen, codes), codes)
    singles = np.concatenate([vectors.random_codes(2), vectors.boundary()])
    is_half = np.arange(singles.size) % 2
    actual = simulator.stream(
        Widener.latency, half=noise[: singles.size] & 0xFFFF, i=singles, is_half=is_half
    )["o"]
    vectors.assert_same(actual[::2], singles[::2], singles[::2])


@pytest.fixture(scope="module")
def narrower() -> Simulator:
    return Simulator(Narrower())


def test_every_half_comes_back(narrower: Simulator) -> None:
    codes = np.arange(1 << 16, dtype=np.uint32)
    wide = vectors.each(formats.widen, codes)
    expected = np.where(codes & 0x7FFF > 0x7C00, 0x7E00, codes)
    actual = narrower.stream(Narrower.latency, i=wide)["o"]
    vectors.assert_same(actual, expected, wide)


def test_around_every_tie(narrower: Simulator) -> None:
    # Halfway from every FP16 number to the next one, and the FP32 numbers on both sides of it.
    codes = np.arange(0x7C00, dtype=np.uint32)
    wide = vectors.each(formats.widen, codes).view(np.float32).astype(np.float64)
    upper = np.append(wide[1:], 65536.0)
    ties = ((wide + upper) / 2).astype(np.float32).view(np.uint32)
    operands = np.concatenate([ties - 1, ties, ties + 1])
    operands = np.concatenate([operands, operands | 0x80000000])
    actual = narrower.stream(Narrower.latency, i=operands)["o"]
    vectors.assert_same(actual, vectors.each(formats.narrow, operands), operands)


def test_boundary(narrower: Simulator) -> None:
    codes = vectors.boundary()
    actual = narrower.stream(Narrower.latency, i=codes)["o"]
    vectors.assert_same(actual, vectors.each(formats.narrow, codes), codes)


def test_random(narrower: Simulator) -> None:
    codes = vectors.random_codes(1)
    moderate = vectors.random_near(np.full(vectors.RANDOM, 0x3F800000, np.uint32), 2)
    for operands in (codes, moderate):
        actual = narrower.stream(Narrower.latency, i=operands)["o"]
        vectors.assert_same(actual, fp16.from_fp32(operands.view(np.float32)), operands)
