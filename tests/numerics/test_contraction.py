from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakutpu.numerics import fp32, mx
from kohakutpu.numerics.mx import contraction
from kohakutpu.numerics.scalar import mx as scalar
from tests.numerics import samples

Blocks = tuple[Any, Any]


def random_blocks(rng: np.random.Generator, rows: int, blocks: int, low: int, high: int) -> Blocks:
    """Any elements, -128 included, blank blocks among them; scales from `low` up to `high`."""
    elements = rng.integers(-128, 128, (rows, blocks, 32), dtype=np.int8)
    elements[rng.random((rows, blocks)) < 0.1] = 0
    return elements, rng.integers(low, high + 1, (rows, blocks)).astype(np.uint8)


def bits(values: Any) -> samples.Codes:
    return fp32.canonical(values).view(np.uint32)


def lists(operand: Blocks) -> list[list[scalar.Block]]:
    elements, scales = operand
    return [
        [(e.tolist(), int(s)) for e, s in zip(*row, strict=True)]
        for row in zip(elements, scales, strict=True)
    ]


def check(a: Blocks, b: Blocks, acc: Any = None) -> None:
    got = bits(mx.gemm(mx.prepare(*a), mx.prepare(*b), acc))
    start = np.zeros(got.shape, np.uint32) if acc is None else acc.view(np.uint32)
    left, right = lists(a), lists(b)
    expected = [
        [scalar.contract(int(start[i, j]), left[i], right[j]) for j in range(len(right))]
        for i in range(len(left))
    ]
    np.testing.assert_array_equal(got, np.array(expected, np.uint32))


ACCUMULATORS = {
    "none": lambda rng, shape: None,
    "ordinary": lambda rng, shape: rng.standard_normal(shape),
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 2.0**-124,
    "subnormal": lambda rng, shape: rng.standard_normal(shape) * 2.0**-128,
    "zeros": lambda rng, shape: rng.choice([0.0, -0.0], shape),
    "special": lambda rng, shape: rng.choice([np.inf, -np.inf, np.nan, 3e38, 1.0], shape),
}


@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(*[st.integers(1, 5)] * 3),
    ranges=st.sampled_from(
        [(103, 142), (60, 80), (66, 72), (0, 20), (0, 255), (240, 255), (180, 200), (253, 254)]
    ),
    acc=st.sampled_from(list(ACCUMULATORS)),
    nan=st.booleans(),
    opposite=st.booleans(),
)
def test_against_the_scalar(
    seed: int, shape: tuple[int, int, int], ranges: tuple[int, int], acc: str, nan: bool,
    opposite: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    m, n, blocks = shape
    a = random_blocks(rng, m, blocks, *ranges)
    b = random_blocks(rng, n, blocks, *ranges)
    if opposite and blocks > 1:  # the second block takes the first one back
        for elements, scales in (a, b):
            elements[:, 1], scales[:, 1] = elements[:, 0], scales[:, 0]
        b[0][:, 1] = -np.maximum(b[0][:, 1], -127)
    if nan:
        a[1][rng.random(a[1].shape) < 0.2] = 0xFF
        b[1][rng.random(b[1].shape) < 0.2] = 0xFF
    start = ACCUMULATORS[acc](rng, (m, n))
    check(a, b, None if start is None else start.astype(np.float32))


def test_by_hand() -> None:
    # 1 is element 64 under scale 127. 32 products of 1 are 32, and 32 blocks of them 1024.
    one = (np.full((1, 32, 32), 64, np.int8), np.full((1, 32), 127, np.uint8))
    assert mx.gemm(mx.prepare(*one), mx.prepare(*one)).tolist() == [[1024.0]]
    # The largest sum: 32 * (-128) * (-128) = 2**19, times 2**(127 + 127 - 266) = 2**-12.
    least = (np.full((1, 1, 32), -128, np.int8), np.full((1, 1), 127, np.uint8))
    assert mx.gemm(mx.prepare(*least), mx.prepare(*least)).tolist() == [[128.0]]


def single(element: int, scale: int) -> Any:
    elements = np.zeros((1, 1, 32), np.int8)
    elements[0, 0, 0] = element
    return mx.prepare(elements, np.full((1, 1), scale, np.uint8))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((1, 70), (1, 70), 0x00800000),  # 2**-126: the smallest normal number
        ((1, 70), (1, 69), 0),  # 2**-127 is flushed
        ((2, 70), (1, 69), 0x00800000),
        ((-3, 69), (1, 70), 0x80C00000),  # -3 * 2**-127 is normal
        ((-1, 0), (1, 0), 0),  # flushed to -0, and +0 + -0 is +0
        ((64, 254), (64, 127), 0x7F000000),  # 2**12 * 2**115
        ((64, 254), (64, 128), 0x7F800000),
        ((-64, 254), (64, 254), 0xFF800000),
        ((0, 0xFF), (1, 127), 0x7FC00000),
        ((1, 127), (5, 0xFF), 0x7FC00000),
        ((0, 254), (64, 254), 0),
    ],
)
def test_ends_of_the_range(a: tuple[int, int], b: tuple[int, int], expected: int) -> None:
    assert bits(mx.gemm(single(*a), single(*b))) == expected


def test_blocks_are_added_in_order() -> None:
    # 2**24 + 1 - 2**24 is 0 in FP32 when added from the left, and 1 in any other order.
    elements = np.zeros((1, 3, 32), np.int8)
    elements[0, :, 0] = [64, 64, -64]
    scales = np.array([[127 + 24, 127, 127 + 24]], np.uint8)
    ones = np.zeros((1, 3, 32), np.int8)
    ones[0, :, 0] = 64
    b = mx.prepare(ones, np.full((1, 3), 127, np.uint8))
    assert mx.gemm(mx.prepare(elements, scales), b).tolist() == [[0.0]]


def test_the_long_way_is_the_same() -> None:
    rng = np.random.default_rng(30)
    a = mx.prepare(*mx.quantise(rng.standard_normal((40, 320)).astype(np.float16)))
    b = mx.prepare(*mx.quantise(rng.standard_normal((24, 320)).astype(np.float16)))
    short = mx.gemm(a, b)
    long = np.zeros_like(short)
    contraction._exact(a, b, long)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(short, long)
    np.testing.assert_allclose(short, a_times_b(a, b), rtol=0, atol=1e-4)


def a_times_b(a: Any, b: Any) -> np.ndarray:
    left, right = (mx.dequantise(x.elements, x.scales).astype(np.float64) for x in (a, b))
    return left @ right.T


@pytest.mark.parametrize("shape", [(300, 200), (1, 300), (300, 1), (4, 4), (129, 127), (20, 20000)])
def test_size_does_not_matter(shape: tuple[int, int]) -> None:
    """The bits of an output depend on its row and column alone, whatever BLAS makes of a shape."""
    rng = np.random.default_rng(31)
    blocks = 3
    a = mx.quantise(rng.standard_normal((shape[0], 32 * blocks)).astype(np.float16))
    b = mx.quantise(rng.standard_normal((shape[1], 32 * blocks)).astype(np.float16))
    whole = mx.gemm(mx.prepare(*a), mx.prepare(*b))
    for _ in range(20):
        i, j = int(rng.integers(shape[0])), int(rng.integers(shape[1]))
        m, n = (int(v) for v in rng.integers(1, 40, 2))
        part = mx.gemm(
            mx.prepare(a[0][i : i + m], a[1][i : i + m]),
            mx.prepare(b[0][j : j + n], b[1][j : j + n]),
        )
        np.testing.assert_array_equal(whole[i : i + m, j : j + n], part)


def test_k_may_be_split_anywhere() -> None:
    rng = np.random.default_rng(32)
    a = mx.quantise(rng.standard_normal((9, 320)).astype(np.float16))
    b = mx.quantise(rng.standard_normal((7, 320)).astype(np.float16))
    whole = mx.gemm(mx.prepare(*a), mx.prepare(*b))
    tile = None
    for part in (slice(0, 1), slice(1, 6), slice(6, 10)):
        left, right = (mx.prepare(e[:, part], s[:, part]) for e, s in (a, b))
        tile = mx.gemm(left, right, tile)
    np.testing.assert_array_equal(whole, tile)


def test_out_may_be_the_accumulator() -> None:
    rng = np.random.default_rng(33)
    a = mx.prepare(*random_blocks(rng, 5, 2, 103, 142))
    b = mx.prepare(*random_blocks(rng, 6, 2, 103, 142))
    acc = rng.standard_normal((5, 6)).astype(np.float32)
    before = acc.copy()
    expected = mx.gemm(a, b, acc)
    np.testing.assert_array_equal(acc, before)
    wide = np.zeros((5, 20), np.float32)
    out = wide[:, 3:15:2]
    out[...] = acc
    assert mx.gemm(a, b, out, out) is out
    np.testing.assert_array_equal(out, expected)
    assert np.count_nonzero(wide) == out.size


def test_bad_operands_are_refused() -> None:
    rng = np.random.default_rng(34)
    a, b = (mx.prepare(*random_blocks(rng, 4, blocks, 120, 130)) for blocks in (2, 3))
    with pytest.raises(ValueError, match="a has 2 blocks along K and b has 3"):
        mx.gemm(a, b)
    with pytest.raises(ValueError, match=r"acc must be \[4, 4\], not \[4, 5\]"):
        mx.gemm(a, a, np.zeros((4, 5), np.float32))
    with pytest.raises(ValueError, match=r"not \[4, 2, 31\] and \[4, 2\]"):
        mx.prepare(np.zeros((4, 2, 31), np.int8), np.zeros((4, 2), np.uint8))
