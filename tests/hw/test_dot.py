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
    first = np.arange(len(a) * steps) % steps == 0
    valid = np.ones(first.size, bool)
    inputs = {"a": slices(a, k), "b": slices(b, k), "first": first}
    if gaps:  # whatever stands in a gap must not count
        valid = np.random.default_rng(3).random(2 * first.size) < 0.6
        valid[np.flatnonzero(valid)[first.size :]] = False
        place = np.cumsum(valid) - 1
        place[place < 0] = 0
        assert valid.sum() == first.size
        inputs = {name: values[place] for name, values in inputs.items()}
    dot = BlockDot(k)
    sums = Simulator(dot).stream(dot.latency, valid=valid, **inputs)["o"]
    last = np.flatnonzero(valid)[steps - 1 :: steps]
    expected = (a.astype(np.int64) * b).sum(axis=1)
    assert expected.max() == 1 << 19
    vectors.assert_same(sums[last], expected % (1 << 21))


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
