import numpy as np
import pytest

from hw.arithmetic.multiplier import Multiplier
from hw.sim.simulator import Simulator
from kohakutpu.numerics import fp32
from kohakutpu.numerics.scalar import fp32 as scalar
from tests.hw import vectors

pytestmark = pytest.mark.cocotb


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(Multiplier())


def codes(a: vectors.Codes, b: vectors.Codes) -> vectors.Codes:
    return fp32.canonical(fp32.mul(a.view(np.float32), b.view(np.float32))).view(np.uint32)


def test_boundary(simulator: Simulator) -> None:
    a, b = vectors.boundary_pairs()
    expected = vectors.each(scalar.mul, a, b)
    actual = simulator.stream(Multiplier.latency, a=a, b=b)["o"]
    vectors.assert_same(actual, expected, a, b)


def test_random(simulator: Simulator) -> None:
    a, b = vectors.random_codes(1), vectors.random_codes(2)
    actual = simulator.stream(Multiplier.latency, a=a, b=b)["o"]
    vectors.assert_same(actual, codes(a, b), a, b)


@pytest.mark.parametrize("target", [2.0**-126, 2.0**-149, 2.0**128])
def test_products_around_the_ends_of_the_range(simulator: Simulator, target: float) -> None:
    a = vectors.random_codes(3)
    with np.errstate(all="ignore"):
        b = (target / a.view(np.float32).astype(np.float64)).astype(np.float32).view(np.uint32)
    b = b + np.random.default_rng(4).integers(-3, 4, a.size).astype(np.uint32)
    expected = codes(a, b)
    if target == 2.0**-126:  # both sides are reached, and the rounding up to normal among them
        magnitude = expected & 0x7FFFFFFF
        assert min((magnitude == 0).sum(), (magnitude == 0x00800000).sum()) > 100_000
    actual = simulator.stream(Multiplier.latency, a=a, b=b)["o"]
    vectors.assert_same(actual, expected, a, b)


def test_by_hand(simulator: Simulator) -> None:
    # The last but one is 2**-126 - 2**-150: halfway below the smallest normal, so it rounds up.
    a = [0x3FC00000, 0x7F800000, 0x00800000, 0x00FFFFFF, 0x00FFFFFE]
    b = [0xC0000000, 0x80000000, 0xBF7FFFFF, 0x3F000000, 0x3F000000]
    o = [0xC0400000, 0x7FC00000, 0x80800000, 0x00800000, 0x00000000]
    actual = simulator.stream(Multiplier.latency, a=a, b=b)["o"]
    vectors.assert_same(actual, np.array(o, np.uint32), np.array(a), np.array(b))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_long_search(simulator: Simulator, seed: int) -> None:
    a = vectors.random_codes(seed)
    inverse = 0x7F000000 - a  # exponents that bring the product near 1, then anywhere
    for b in (vectors.random_near(inverse, seed, 130), vectors.random_codes(seed + 1000)):
        actual = simulator.stream(Multiplier.latency, a=a, b=b)["o"]
        vectors.assert_same(actual, codes(a, b), a, b)
