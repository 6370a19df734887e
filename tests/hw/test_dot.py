import numpy as np
import pytest

from hw.arithmetic.dot import BlockDot, PartialScaler
from hw.sim.simulator import Simulator
from kohakutpu.numerics.scalar import mx
from tests.hw import vectors

pytestmark = pytest.mark.cocotb

BLOCK = 32


def blocks(seed: int, count: int) -> np.ndarray:
    """Random blocks, among them the two that reach the ends of the sum."""
    rng = np.random.default_rng(seed)
    result = rng.integers(-128, 128, (count, BLOCK)).astype(np.int8)
    result[::7] = rng.choice(np.array([-128, 127, 0], np.int8), (len(result[::7]), BLOCK))
    result[:2] = -128
    result[2] = 127
    return result


def slices(elements: np.ndarray, k: int) -> np.ndarray:
    """Return the slices of all blocks in order, as the simulator takes them."""
    port = elements.reshape(-1, k).view(np.uint32)
    return port if k > 8 else elements.reshape(-1, k).view(f"u{k}").ravel()


@pytest.mark.parametrize("k", [4, 8, 16, 32])
@pytest.mark.parametrize("gaps", [False, True], ids=["dense", "gaps"])
def test_sums(k: int, gaps: bool) -> None:
    a, b = blocks(1, 20_000), blocks(2, 20_000)
    b[2] = -128
    steps = BLOCK // k
    there = np.ones(len(a), bool)
    if gaps:  # between pairs; whatever stands in one must not count
        there = np.random.default_rng(3).random(2 * len(a)) < 0.6
        there[np.flatnonzero(there)[len(a) :]] = False
        assert there.sum() == len(a)
        place = np.cumsum(there) - 1
        a, b = a[place], b[place]
    number = np.tile(np.arange(steps), len(there))
    more = np.repeat(there, steps) & (number != steps - 1)
    dot = BlockDot(k)
    sums = Simulator(dot).stream(dot.latency, a=slices(a, k), b=slices(b, k), more=more)["o"]
    ends = np.flatnonzero(there) * steps + steps - 1
    a, b = a[there], b[there]
    expected = (a.astype(np.int64) * b).sum(axis=1)
    assert expected.max() == 1 << 19
    vectors.assert_same(sums[ends], expected % (1 << 21))


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("k", [0, 5, 64])
def test_slices_that_are_none(k: int) -> None:
    with pytest.raises(ValueError, match=f"k_per_cycle must be 4, 8, 16 or 32, not {k}"):
        BlockDot(k)


def test_partials() -> None:
    rng = np.random.default_rng(4)
    edges = [0, 1, -1, 2, 3, -127 * 127, 1 << 19, -(1 << 19) + 1, (1 << 19) - 1]
    scales = [0, 1, 2, 126, 127, 128, 133, 193, 253, 254, 255]
    grid = np.stack(np.meshgrid(edges, scales, scales), axis=-1).reshape(-1, 3)
    totals = rng.integers(-(1 << 19), (1 << 19) + 1, 40_000)
    totals >>= rng.integers(0, 20, totals.size)
    scale_a = rng.integers(0, 256, totals.size)
    around = np.where(rng.random(totals.size) < 0.5, 139, 390)  # both ends of the range
    scale_b = np.clip(around - scale_a + rng.integers(-24, 25, totals.size), 0, 255)
    total, left, right = np.concatenate([grid, np.stack([totals, scale_a, scale_b], 1)]).T

    def reference(total: int, left: int, right: int) -> int:
        return mx.partial(([total], left), ([1], right))

    actual = Simulator(PartialScaler()).stream(
        PartialScaler.latency, total=total % (1 << 21), scale_a=left, scale_b=right
    )["o"]
    vectors.assert_same(actual, vectors.each(reference, total, left, right), total, left, right)
    assert {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000} <= set(actual.tolist())
