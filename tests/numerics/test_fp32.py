from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakutpu.numerics import fp32
from kohakutpu.numerics.scalar import fp32 as scalar
from kohakutpu.numerics.scalar.formats import FP16, FP32
from tests.numerics import samples

BINARY = ("mul", "add", "maximum", "minimum", "lt", "le", "eq")
UNARY = ("neg", "absolute")
COUNT = 100_000


def bits(values: Any) -> samples.Codes:
    return fp32.canonical(values).view(np.uint32)


def both(name: str) -> tuple[Callable[..., Any], Callable[..., int]]:
    return getattr(fp32, name), getattr(scalar, name)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    fast, plain = both(name)
    a, b = samples.pairs(np.random.default_rng(5), COUNT)
    expected = samples.each(plain, a, b)
    samples.assert_same(bits(fast(samples.floats(a), samples.floats(b))), expected, a, b)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    fast, plain = both(name)
    a = np.concatenate([samples.edges(), samples.random_codes(np.random.default_rng(6), COUNT)])
    samples.assert_same(bits(fast(samples.floats(a))), samples.each(plain, a), a)


@pytest.mark.parametrize("name", ["muladd", "select"])
def test_ternary(name: str) -> None:
    fast, plain = both(name)
    rng = np.random.default_rng(7)
    a, b = samples.pairs(rng, COUNT // 2)
    c = samples.random_codes(rng, len(a))
    if name == "muladd":  # cancel the product now and then
        product = samples.each(scalar.mul, a, b)
        c = np.where(rng.random(len(c)) < 0.2, (product ^ samples.SIGN) + (c & 3), c)
    operands = [samples.floats(v) for v in (a, b, c)]
    samples.assert_same(bits(fast(*operands)), samples.each(plain, a, b, c), a, b, c)


@pytest.mark.parametrize("name", [*BINARY, "muladd"])
def test_constants(name: str) -> None:
    """A constant takes shortcuts; each special value on each side, alone and against arrays."""
    fast, plain = both(name)
    rng = np.random.default_rng(8)
    a = np.concatenate([samples.SPECIAL, samples.SPECIAL | samples.SIGN])
    a = np.concatenate([a, samples.random_codes(rng, 300)])
    for code in [*samples.SPECIAL, *(samples.SPECIAL | samples.SIGN)]:
        constant = code.view(np.float32)
        assert type(constant) is np.float32
        k = np.full_like(a, code)
        if name == "muladd":
            b = samples.random_codes(rng, len(a))
            # Products around the constant, to cancel it.
            b[::2] = samples.floats(k[::2]).view(np.uint32) ^ samples.SIGN
            x, y = samples.floats(a), samples.floats(b)
            samples.assert_same(bits(fast(x, y, constant)), samples.each(plain, a, b, k), a, b, k)
            continue
        x = samples.floats(a)
        samples.assert_same(bits(fast(x, constant)), samples.each(plain, a, k), a, k)
        samples.assert_same(bits(fast(constant, x)), samples.each(plain, k, a), k, a)
        assert bits(fast(constant, constant)) == plain(int(code), int(code))


def test_by_hand() -> None:
    one, tiny, least = 0x3F800000, 0x00400000, 0x00800000
    nan = 0x7FC00000
    table = [
        # A subnormal reads as zero; a result that would be one is zero, and keeps the sign.
        ("mul", tiny, one, 0), ("mul", 0x80400000, one, 0x80000000),
        ("mul", least, 0xBF000000, 0x80000000), ("add", 0x00800001, 0x80800000, 0),
        # IEEE rounds this product up to the smallest normal number: it stays.
        ("mul", 0x00FFFFFF, 0x3F000000, least),
        # Ties to even at 1 + 2**-24 and 1 + 3 * 2**-24.
        ("add", one, 0x33800000, one), ("add", 0x3F800001, 0x33800000, 0x3F800002),
        ("mul", 0, 0xFF800000, nan), ("add", 0x7F800000, 0xFF800000, nan),
        ("mul", 0x7F7FFFFF, 0x40000000, 0x7F800000), ("add", 0x80000000, 0x80000000, 0x80000000),
        ("add", 0x80000000, 0, 0), ("maximum", 0x80000000, 0, 0), ("maximum", 0, 0x80000000, 0),
        ("minimum", 0x80000000, 0, 0x80000000), ("minimum", 0, 0x80000000, 0x80000000),
        ("maximum", 0xFFC12345, one, nan), ("minimum", one, 0x7F800001, nan),
        ("maximum", 0xBF800000, 0x00000001, 0), ("lt", nan, one, 0), ("le", 0, 0x80000000, one),
        ("eq", 0x80000001, tiny, one), ("lt", 0x80000000, 0, 0), ("le", nan, nan, 0),
    ]  # fmt: skip
    for name, a, b, expected in table:
        fast, plain = both(name)
        assert plain(a, b) == expected, (name, hex(a), hex(b))
        assert bits(fast(samples.floats([a]), samples.floats([b]))) == expected, (name, a, b)
    assert scalar.select(nan, 1, 0) == 0
    assert scalar.select(nan, one, 0) == one
    assert scalar.select(tiny, one, 0x40000000) == 0x40000000


def test_against_numpy() -> None:
    """Away from the ends of the range the machine is numpy's float32."""
    rng = np.random.default_rng(9)
    a, b, c = (rng.standard_normal(1 << 16).astype(np.float32) for _ in range(3))
    np.testing.assert_array_equal(fp32.mul(a, b), a * b)
    np.testing.assert_array_equal(fp32.add(a, b), a + b)
    np.testing.assert_array_equal(fp32.muladd(a, b, c), a * b + c)
    np.testing.assert_array_equal(fp32.maximum(a, b), np.maximum(a, b))
    np.testing.assert_array_equal(fp32.lt(a, b), (a < b).astype(np.float32))


def test_scalar_formats_against_numpy() -> None:
    rng = np.random.default_rng(10)
    for _ in range(20000):
        significand, exponent = int(rng.integers(-(1 << 53), 1 << 53)), int(rng.integers(-210, 80))
        value = np.float64(significand) * 2.0**exponent
        with np.errstate(over="ignore"):
            expected = int(value.astype(np.float32).view(np.uint32))
        if significand:
            assert FP32.pack(significand, exponent) == expected
    for code in (0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0xFBFF):
        significand, exponent = FP16.unpack(code)
        expected = np.array(code, np.uint16).view(np.float16).astype(np.float64)
        assert significand * 2.0**exponent == expected


def test_clean_operands_give_the_same() -> None:
    a, b = samples.pairs(np.random.default_rng(11), 20000)
    x, y = fp32.flush(samples.floats(a)), fp32.flush(samples.floats(b))
    for name in BINARY:
        fast, _ = both(name)
        np.testing.assert_array_equal(bits(fast(x, y, clean=True)), bits(fast(x, y)))


def test_out_may_be_an_operand() -> None:
    a, b = (samples.floats(v) for v in samples.pairs(np.random.default_rng(12), 5000))
    for name in BINARY:
        fast, _ = both(name)
        expected = bits(fast(a, b))
        for position in (0, 1):
            operands = [a.copy(), b.copy()]
            out = operands[position]
            assert fast(*operands, out=out) is out
            np.testing.assert_array_equal(bits(out), expected)
    for name in ("muladd", "select"):
        fast, _ = both(name)
        expected = bits(fast(a, b, a))
        out = a.copy()
        assert fast(a, b, out, out=out) is out
        np.testing.assert_array_equal(bits(out), expected)


def test_operands_stay_as_they_are() -> None:
    codes = samples.edges()
    a = samples.floats(codes.copy())
    for name in (*BINARY, "muladd", "select", *UNARY):
        fast, _ = both(name)
        arity = 1 if name in UNARY else 2 if name in BINARY else 3
        fast(*[a] * arity)
        np.testing.assert_array_equal(a.view(np.uint32), codes)


def test_broadcasting() -> None:
    rng = np.random.default_rng(13)
    a = samples.floats(samples.random_codes(rng, 60)).reshape(6, 10)
    row, column = samples.floats(samples.random_codes(rng, 10)), a[:, :1].copy()
    for name in BINARY:
        fast, _ = both(name)
        for b in (row, column):
            whole = np.ascontiguousarray(np.broadcast_to(b, a.shape))
            np.testing.assert_array_equal(bits(fast(a, b)), bits(fast(a, whole)))
    expected = bits(fp32.muladd(a, np.broadcast_to(row, a.shape), np.broadcast_to(column, a.shape)))
    np.testing.assert_array_equal(bits(fp32.muladd(a, row, column)), expected)
    assert fp32.mul(a[:0], row).shape == (0, 10)


def test_flush_and_canonical_copy_only_what_they_change() -> None:
    normal = np.array([1, -2, 0, np.inf], np.float32)
    assert fp32.flush(normal) is normal
    assert fp32.canonical(normal) is normal
    dirty = samples.floats([0x80000001, 0x3F800000, 0xFFFFFFFF])
    before = dirty.view(np.uint32).copy()
    assert fp32.flush(dirty).view(np.uint32).tolist() == [0x80000000, 0x3F800000, 0xFFFFFFFF]
    assert fp32.canonical(dirty).view(np.uint32).tolist() == [0x80000001, 0x3F800000, 0x7FC00000]
    np.testing.assert_array_equal(dirty.view(np.uint32), before)
    assert fp32.flush(dirty, out=dirty) is dirty
    assert fp32.canonical(dirty, out=dirty) is dirty
    assert dirty.view(np.uint32).tolist() == [0x80000000, 0x3F800000, 0x7FC00000]


@pytest.mark.parametrize("hidden", [False, True], ids=["no zero", "with a zero"])
def test_no_smaller(hidden: bool) -> None:
    x = np.array([2.0**-103, -3, np.nan, 0 if hidden else 1, -0.0 if hidden else 1], np.float32)
    assert fp32.no_smaller(x, -103)
    assert not fp32.no_smaller(x, -102)
    x[0] = np.nextafter(np.float32(2.0**-103), np.float32(0))
    assert not fp32.no_smaller(-x, -103)
    assert fp32.no_smaller(x[:0], 0)


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="must be float32, not float64"):
        fp32.mul(np.ones(3), np.float32(1))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", BINARY)
def test_binary_at_length(name: str) -> None:
    fast, plain = both(name)
    a, b = samples.pairs(np.random.default_rng(100), 10 * COUNT)
    expected = samples.each(plain, a, b)
    samples.assert_same(bits(fast(samples.floats(a), samples.floats(b))), expected, a, b)
