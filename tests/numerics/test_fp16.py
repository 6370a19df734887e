import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from kohakutpu.numerics import fp16, fp32
from kohakutpu.numerics.scalar import formats
from tests.numerics import samples

ALL = np.arange(1 << 16, dtype=np.uint16)


def between_codes() -> samples.Codes:
    """Around each finite FP16 number and each midpoint to the next: +-1 and +-2 FP32 places."""
    numbers = fp16.to_fp32(ALL[(ALL & 0x7FFF) < 0x7C00]).view(np.uint32)
    middles = numbers + np.uint32(0x1000)
    offsets = np.array([0, 1, 2, -1, -2], np.int64).astype(np.uint32)
    around = (np.concatenate([numbers, middles])[:, None] + offsets).reshape(-1)
    # Below FP16's normal range neighbours are 2**-24 apart.
    tiny = (np.arange(0, 4096) * 2.0**-26).astype(np.float32).view(np.uint32)
    around_tiny = (tiny[:, None] + offsets).reshape(-1) & np.uint32(0x7FFFFFFF)
    return np.concatenate([around, around_tiny, around_tiny | samples.SIGN])


def numpy_narrow(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        codes = x.astype(np.float16).view(np.uint16)
    codes[np.isnan(x)] = 0x7E00
    return codes


def test_widen_by_hand() -> None:
    codes = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xC000, 0x7BFF, 0x7C00, 0xFC00, 0xFE01]
    expected = [
        0x00000000, 0x80000000, 0x33800000, 0xB87FC000, 0x38800000, 0x3F800000, 0xC0000000,
        0x477FE000, 0x7F800000, 0xFF800000, 0x7FC00000,
    ]  # fmt: skip
    assert fp16.to_fp32(np.array(codes, np.uint16)).view(np.uint32).tolist() == expected
    assert [formats.widen(code) for code in codes] == expected


def test_narrow_by_hand() -> None:
    # 1 + 2**-11 is a tie (to even: down), 1 + 3 * 2**-11 too (up); 65520 is the tie to infinity;
    # 2**-25 is the tie between 0 and the smallest subnormal.
    x = [0x3F801000, 0x3F801001, 0x3F803000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001]
    expected = [0x3C00, 0x3C01, 0x3C02, 0x7BFF, 0x7C00, 0x0000, 0x0001]
    assert fp16.from_fp32(samples.floats(x)).tolist() == expected
    assert [formats.narrow(code) for code in x] == expected
    signed = samples.floats(np.array(x, np.uint32) | samples.SIGN)
    assert fp16.from_fp32(signed).tolist() == [code | 0x8000 for code in expected]


def test_widen_every_code() -> None:
    actual = fp16.to_fp32(ALL).view(np.uint32)
    samples.assert_same(actual, samples.each(formats.widen, ALL.astype(np.uint32)), ALL)
    by_numpy = fp32.canonical(ALL.view(np.float16).astype(np.float32)).view(np.uint32)
    samples.assert_same(actual, by_numpy, ALL)


def test_there_and_back() -> None:
    back = fp16.from_fp32(fp16.to_fp32(ALL))
    expected = np.where((ALL & 0x7FFF) > 0x7C00, 0x7E00, ALL)
    np.testing.assert_array_equal(back, expected)


def test_narrow_against_the_scalar() -> None:
    rng = np.random.default_rng(1)
    codes = np.concatenate(
        [
            samples.edges(),
            rng.permutation(between_codes())[:60000],
            samples.random_codes(rng, 60000),
        ]
    )
    expected = samples.each(formats.narrow, codes)
    samples.assert_same(fp16.from_fp32(samples.floats(codes)), expected, codes)


def test_narrow_every_rounding_against_numpy() -> None:
    for codes in (between_codes(), samples.random_codes(np.random.default_rng(2), 1 << 20)):
        x = samples.floats(codes)
        samples.assert_same(fp16.from_fp32(x), numpy_narrow(x), codes)
        # Without anything to overflow, which takes the other way.
        fits = np.abs(x) < 65520
        samples.assert_same(fp16.from_fp32(x[fits]), numpy_narrow(x[fits]), codes[fits])


def test_narrow_against_gfloat() -> None:
    rng = np.random.default_rng(3)
    x = samples.floats(rng.permutation(between_codes())[:3000])
    x = x[np.abs(x) < 65520]
    info = gfloat.formats.format_info_binary16
    expected = [gfloat.encode_float(info, gfloat.round_float(info, float(v))) for v in x]
    assert fp16.from_fp32(x).tolist() == expected


def test_narrow_against_ml_dtypes() -> None:
    bfloats = ALL.view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        expected = bfloats.astype(np.float16).view(np.uint16)
    x = bfloats.astype(np.float32)
    expected[np.isnan(x)] = 0x7E00
    samples.assert_same(fp16.from_fp32(x), expected, ALL)


@pytest.mark.parametrize("size", [0, 1, 7, fp16.BLOCK - 1, fp16.BLOCK, 2 * fp16.BLOCK + 5])
def test_sizes(size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.standard_normal(size).astype(np.float32)
    codes = fp16.from_fp32(x)
    np.testing.assert_array_equal(codes, x.astype(np.float16).view(np.uint16))
    np.testing.assert_array_equal(fp16.to_fp32(codes), codes.view(np.float16).astype(np.float32))


def test_any_strides() -> None:
    codes = np.random.default_rng(4).permutation(ALL).reshape(256, 256)
    wide = np.zeros((100, 500), np.float32)
    out = wide[:, 1:201:2]
    assert fp16.to_fp32(codes.T[3:103, ::2][:, :100], out) is out
    expected = fp16.to_fp32(np.ascontiguousarray(codes.T[3:103, ::2][:, :100]))
    np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))
    narrow = np.zeros((100, 300), np.uint16)[:, ::3]
    assert fp16.from_fp32(out, narrow) is narrow
    np.testing.assert_array_equal(narrow, fp16.from_fp32(expected))
    assert not wide[:, 0::2].any()


def test_float16_is_welcome() -> None:
    x = np.array([1.5, -0.0], np.float16)
    assert fp16.to_fp32(x).view(np.uint32).tolist() == [0x3FC00000, 0x80000000]


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="uint16 or float16, not float32"):
        fp16.to_fp32(np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="float32, not float64"):
        fp16.from_fp32(np.zeros(3))  # type: ignore[arg-type]


@pytest.mark.slow
def test_narrow_all_over() -> None:
    """Every 61st code, so that all fractions occur with all exponents."""
    for start in range(0, 1 << 32, 61 << 20):
        codes = np.arange(start, min(start + (61 << 20), 1 << 32), 61, dtype=np.uint32)
        x = samples.floats(codes)
        samples.assert_same(fp16.from_fp32(x), numpy_narrow(x), codes)
