import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from kohakutpu.numerics import mx
from kohakutpu.numerics.scalar import mx as scalar
from tests.numerics import samples

ALL = np.arange(1 << 16, dtype=np.uint16)
FINITE = ALL[(ALL & 0x7FFF) < 0x7C00]


def codes_of(*values: float) -> np.ndarray:
    row = np.zeros((1, 32), np.float16)
    row[0, : len(values)] = values
    return row.view(np.uint16)


def blocks_of_every_code(top: int) -> np.ndarray:
    """Every finite code that is no larger than `top`, 31 to a block, `top` leading each."""
    fits = FINITE[(FINITE & 0x7FFF) <= top]
    rows = np.resize(fits, (-(-len(fits) // 31), 31))
    return np.concatenate([np.full((len(rows), 1), top, np.uint16), rows], axis=1)


def check_against_scalar(codes: np.ndarray, residual: bool) -> None:
    elements, scales = mx.quantise(codes, residual)
    rows, k = codes.shape
    padded = np.zeros((rows, elements.shape[1] * 32), np.uint16)
    padded[:, :k] = codes
    blocks = padded.reshape(-1, 32).tolist()
    expected = [scalar.quantise_block(block, residual) for block in blocks]
    assert scales.reshape(-1).tolist() == [scale for _, scale in expected]
    assert elements.reshape(-1, 32).tolist() == [block for block, _ in expected]


def reference(codes: np.ndarray, residual: bool) -> tuple[np.ndarray, np.ndarray]:
    """Section 2 of the contract in float64, where all of it is exact, on whole blocks."""
    x = codes.view(np.float16).astype(np.float64).reshape(len(codes), -1, 32)

    def once(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        amax = np.abs(x).max(axis=-1)
        exponent = np.floor(np.log2(np.where(amax > 0, amax, 1)))
        elements = np.clip(np.rint(x * 2.0 ** (6 - exponent)[..., None]), -127, 127)
        return elements, np.where(amax > 0, exponent + 127, 0)

    elements, scales = once(x)
    return once(x - elements * 2.0 ** (scales - 133)[..., None]) if residual else (elements, scales)


def test_by_hand() -> None:
    # amax 3: X = 1, scale 128, step 2**-5. 3 -> 96; 1 -> 32; 2**-6 is half a step: to even, 0;
    # 3 * 2**-6 is one and a half: to even, 2; -2**-5 -> -1.
    elements, scales = mx.quantise(codes_of(3, 1, 2**-6, 3 * 2**-6, -(2**-5)))
    assert elements[0, 0, :6].tolist() == [96, 32, 0, 2, -1, 0]
    assert scales.tolist() == [[128]]
    # What is left: 2**-6 and -2**-6, so X = -6, scale 121: 64 and -64.
    elements, scales = mx.quantise(codes_of(3, 1, 2**-6, 3 * 2**-6, -(2**-5)), residual=True)
    assert elements[0, 0, :6].tolist() == [0, 0, 64, -64, 0, 0]
    assert scales.tolist() == [[121]]


def test_clamp_by_hand() -> None:
    # 1.999 rounds to 128 steps of 2**-6, which an element cannot hold: 127, on both sides.
    largest = 2 - 2**-10
    elements, scales = mx.quantise(codes_of(largest, -largest, 1.984375))
    assert (elements[0, 0, :3].tolist(), scales[0, 0]) == ([127, -127, 127], 127)
    # 127.9375 / 64 leaves 15 / 16 of a step: X = -7, scale 120, element 60 * 2**... = 120.
    elements, scales = mx.quantise(codes_of(largest, -largest, 1.984375), residual=True)
    assert (elements[0, 0, :3].tolist(), scales[0, 0]) == ([120, -120, 0], 120)


@pytest.mark.parametrize("residual", [False, True])
def test_special_blocks(residual: bool) -> None:
    for special in (np.inf, -np.inf, np.nan):
        elements, scales = mx.quantise(codes_of(1, special), residual)
        assert not elements.any()
        assert scales.tolist() == [[0xFF]]
    for nothing in (0.0, -0.0):
        elements, scales = mx.quantise(codes_of(nothing), residual)
        assert not elements.any()
        assert scales.tolist() == [[0]]
    # The smallest subnormal: 2**-24 has X = -24, and nothing is left of it.
    elements, scales = mx.quantise(codes_of(2.0**-24), residual)
    assert (int(elements[0, 0, 0]), int(scales[0, 0])) == ((0, 0) if residual else (64, 103))


@pytest.mark.parametrize("residual", [False, True])
def test_every_code_alone_against_the_scalar(residual: bool) -> None:
    """Blocks of 32 codes that follow one another, NaN and Inf among them."""
    check_against_scalar(ALL.reshape(-1, 64), residual)


@pytest.mark.parametrize("residual", [False, True])
def test_every_code_below_every_maximum(residual: bool) -> None:
    """Each exponent's largest, smallest and a middle code lead blocks of all smaller codes."""
    for exponent in range(31):
        for fraction in (0, 0x155, 0x3FF):
            codes = blocks_of_every_code(exponent << 10 | fraction)
            elements, scales = mx.quantise(codes, residual)
            expected = reference(codes, residual)
            np.testing.assert_array_equal(elements, expected[0])
            np.testing.assert_array_equal(scales, expected[1])


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("k", [1, 31, 32, 33, 100])
def test_random_against_the_scalar(k: int, residual: bool) -> None:
    rng = np.random.default_rng(k)
    gaussian = rng.standard_normal((20, k)).astype(np.float16).view(np.uint16)
    sparse = np.where(rng.random((20, k)) < 0.05, gaussian, 0)
    tiny = rng.integers(0, 300, (20, k), dtype=np.uint16) | np.uint16(0x8000)
    anything = rng.integers(0, 1 << 16, (20, k), dtype=np.uint16)
    for codes in (gaussian, sparse, tiny, anything):
        check_against_scalar(codes, residual)


def test_gfloat_quantises_alike() -> None:
    """Third-party MXINT8, but for the clamp: OCP's elements reach down to -2.0, code -128.

    Ours stop at -127, so that elements and their negatives are the same set: negating an operand
    negates a product, and no residual is one-sided.
    """
    rng = np.random.default_rng(20)
    info = gfloat.formats.format_info_mxint8
    x = np.concatenate([rng.standard_normal((150, 32)), 2 - rng.random((50, 32)) * 2.0**-6])
    x[150::2] *= -1
    codes = x.astype(np.float16).view(np.uint16)
    values = mx.dequantise(*mx.quantise(codes))
    clamped = 0
    for row, got in zip(codes.view(np.float16).astype(np.float64), values, strict=True):
        scale = 2.0 ** np.floor(np.log2(np.abs(row).max()))
        expected = gfloat.quantize_block(info, row, lambda *_, scale=scale: scale)
        clamped += int((expected == -2 * scale).sum())
        expected = np.maximum(expected, -127 / 64 * scale)
        np.testing.assert_array_equal(got, expected)
    assert clamped > 100  # the difference was there to be seen


def test_gfloat_elements() -> None:
    elements = np.arange(-128, 128).astype(np.int8).reshape(1, 8, 32)
    values = mx.dequantise(elements, np.full((1, 8), 127, np.uint8))
    info = gfloat.formats.format_info_ocp_int8
    expected = [gfloat.decode_float(info, code & 0xFF).fval for code in range(-128, 128)]
    assert values.reshape(-1).tolist() == expected


def test_ml_dtypes_scales() -> None:
    scales = np.arange(256, dtype=np.uint8).reshape(1, 256)
    values = mx.dequantise(np.full((1, 256, 32), 64, np.int8), scales)[0, ::32]
    np.testing.assert_array_equal(values, scales.view(ml_dtypes.float8_e8m0fnu)[0].astype(float))


def test_dequantise_against_the_scalar() -> None:
    rng = np.random.default_rng(21)
    elements = rng.integers(-128, 128, (4, 3, 32), dtype=np.int8)
    scales = rng.integers(0, 254, (4, 3), dtype=np.uint8)
    values = mx.dequantise(elements, scales).reshape(4, 3, 32)
    for row in range(4):
        for block in range(3):
            pair = (elements[row, block].tolist(), int(scales[row, block]))
            assert values[row, block].tolist() == [float(v) for v in scalar.dequantise_block(pair)]
    assert np.isnan(mx.dequantise(elements[:1, :1], np.full((1, 1), 255, np.uint8))).all()


def test_two_terms_leave_little() -> None:
    x = np.random.default_rng(22).standard_normal((64, 256)).astype(np.float16)
    truth = x.astype(np.float64)
    leading = mx.dequantise(*mx.quantise(x)).astype(np.float64)
    both = leading + mx.dequantise(*mx.quantise(x, residual=True))
    step = 2.0 ** (np.floor(np.log2(np.abs(truth).reshape(64, 8, 32).max(axis=-1))) - 6)
    step = np.repeat(step, 32, axis=-1)
    assert (np.abs(truth - leading) <= step).all()
    assert (np.abs(truth - both) <= step * 2.0**-7).all()


def test_chunks_and_strides() -> None:
    rng = np.random.default_rng(23)
    codes = rng.standard_normal((33, 1600)).astype(np.float16)
    elements, scales = mx.quantise(codes)
    for row in (0, 10, 32):
        one = mx.quantise(codes[row : row + 1])
        np.testing.assert_array_equal(elements[row], one[0][0])
        np.testing.assert_array_equal(scales[row], one[1][0])
    turned = mx.quantise(np.asfortranarray(codes)[:, :77])
    np.testing.assert_array_equal(turned[0], mx.quantise(codes[:, :77].copy())[0])
    assert mx.quantise(codes[:0])[0].shape == (0, 50, 32)


def test_bad_input_is_refused() -> None:
    with pytest.raises(TypeError, match="uint16 or float16, not float32"):
        mx.quantise(np.zeros((1, 32), np.float32))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\[rows, K\], not \[32\]"):
        mx.quantise(np.zeros(32, np.uint16))


def test_region_by_hand() -> None:
    # Two groups of 4 rows, 2 blocks: entry g * 2 + kb. Row 5, block 1 is lane 1 of entry 3.
    elements = np.zeros((8, 2, 32), np.int8)
    scales = np.arange(16, dtype=np.uint8).reshape(8, 2)
    elements[5, 1] = -np.arange(32)
    elements[0, 0, 0] = 7
    words = mx.pack_region(elements, scales)
    assert words.shape == (17, 32)
    assert words[4 * 3 + 1].tolist() == [(-i) & 0xFF for i in range(32)]
    assert words[0, 0] == 7
    assert np.count_nonzero(words[:16]) == 32
    # Scales, 4 bytes an entry: entry 0 has rows 0 to 3 of block 0, entry 1 of block 1.
    expected = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]
    assert words[16].tolist() == expected + [0] * 16


@pytest.mark.parametrize(("g", "nk"), [(1, 1), (1, 8), (3, 3), (2, 5), (16, 2)])
def test_region_against_the_scalar(g: int, nk: int) -> None:
    rng = np.random.default_rng(g * nk)
    elements = rng.integers(-128, 128, (4 * g, nk, 32), dtype=np.int8)
    scales = rng.integers(0, 256, (4 * g, nk), dtype=np.uint8)
    words = mx.pack_region(elements, scales)
    assert len(words) == mx.region_words(g * nk) == 4 * g * nk + (g * nk + 7) // 8
    entries = [
        [(elements[4 * i + lane, kb].tolist(), int(scales[4 * i + lane, kb])) for lane in range(4)]
        for i in range(g)
        for kb in range(nk)
    ]
    assert words.tobytes() == scalar.pack_region(entries)
    back = mx.unpack_region(words, g, nk)
    np.testing.assert_array_equal(back[0], elements)
    np.testing.assert_array_equal(back[1], scales)


def test_bad_regions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"not \[6, 2, 32\] and \[6, 2\]"):
        mx.pack_region(np.zeros((6, 2, 32), np.int8), np.zeros((6, 2), np.uint8))
    with pytest.raises(ValueError, match=r"2 groups of 3 entries are 25 words .* not \[24, 32\]"):
        mx.unpack_region(np.zeros((24, 32), np.uint8), 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("residual", [False, True])
def test_every_code_below_every_maximum_against_the_scalar(residual: bool) -> None:
    for exponent in range(31):
        check_against_scalar(blocks_of_every_code(exponent << 10 | 0x2AA), residual)


def test_samples_are_what_they_say() -> None:
    assert len(blocks_of_every_code(0x7BFF)) * 31 >= len(FINITE)
    assert {0, 1, 254, 255} <= set((samples.edges() >> np.uint32(23) & np.uint32(255)).tolist())
