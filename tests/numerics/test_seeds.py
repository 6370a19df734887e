from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from kohakutpu.numerics import fp32, seed_errors, seed_tables, seeds
from kohakutpu.numerics.quadratic import SEGMENTS, Quadratic
from kohakutpu.numerics.scalar import seeds as scalar
from tests.numerics import samples
from tools import generate_seeds

NAMES = ("exp2", "log2", "recip", "rsqrt")
INF, NAN = float("inf"), float("nan")


def both(name: str) -> tuple[Callable[..., Any], Callable[[int], int]]:
    return getattr(seeds, name), getattr(scalar, name)


def bits(values: Any) -> samples.Codes:
    return fp32.canonical(values).view(np.uint32)


def single(value: float) -> samples.Codes:
    return np.array([value], np.float32).view(np.uint32)


def arguments(name: str, rng: np.random.Generator) -> samples.Codes:
    """Edges, random codes, the function's interesting range, segment ends in several octaves."""
    spread = {"exp2": 50.0, "log2": 1e-3, "recip": 1e3, "rsqrt": 1e3}[name]
    ordinary = rng.standard_normal(30000) * spread + (name == "log2")
    ends = np.arange(SEGMENTS + 1) / SEGMENTS + 1
    ends = np.concatenate([ends * 2.0**e for e in (-126, -20, -2, -1, 0, 1, 2, 125)])
    if name == "exp2":
        ends = np.concatenate([ends, (ends[:129] - 2.0**-126) * 2.0**126 + np.arange(-127, 2)])
    near = np.concatenate([ends, ordinary]).astype(np.float32).view(np.uint32)
    close = np.concatenate([near, near + np.uint32(1), near - np.uint32(1)])
    return np.concatenate([samples.edges(), close, samples.random_codes(rng, 20000)])


@pytest.mark.parametrize("name", NAMES)
def test_against_the_scalar(name: str) -> None:
    fast, plain = both(name)
    codes = arguments(name, np.random.default_rng(40))
    samples.assert_same(bits(fast(samples.floats(codes))), samples.each(plain, codes), codes)


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("exp2", NAN, NAN), ("exp2", 0.0, 1.0), ("exp2", -0.0, 1.0), ("exp2", -INF, 0.0),
        ("exp2", INF, INF), ("exp2", 128.0, INF), ("exp2", -126.0, 2.0**-126),
        ("exp2", -126.00001, 0.0), ("exp2", 1e-40, 1.0), ("exp2", -1e-40, 1.0),
        ("log2", NAN, NAN), ("log2", 0.0, -INF), ("log2", -0.0, -INF), ("log2", 1e-40, -INF),
        ("log2", -1e-40, -INF), ("log2", -1.0, NAN), ("log2", -INF, NAN), ("log2", INF, INF),
        ("log2", 1.0, 0.0), ("recip", NAN, NAN), ("recip", 0.0, INF), ("recip", -0.0, -INF),
        ("recip", -1e-40, -INF), ("recip", INF, 0.0), ("recip", -INF, -0.0),
        ("recip", 2.0**127, 0.0), ("recip", -(2.0**127), -0.0), ("recip", 2.0**126, 2.0**-126),
        ("recip", 2.0**126 * 1.5, 0.0), ("rsqrt", NAN, NAN), ("rsqrt", 0.0, INF),
        ("rsqrt", -0.0, -INF), ("rsqrt", 1e-40, INF), ("rsqrt", -1e-40, -INF),
        ("rsqrt", -1.0, NAN), ("rsqrt", -INF, NAN), ("rsqrt", INF, 0.0),
    ],
)  # fmt: skip
def test_edges(name: str, argument: float, expected: float) -> None:
    fast, plain = both(name)
    code, result = single(argument), int(bits(np.array([expected], np.float32))[0])
    assert plain(int(code[0])) == result
    assert bits(fast(samples.floats(code))).tolist() == [result]
    # Among ordinary neighbours, which the mending must leave alone.
    among = np.full(100, 1.5, np.float32)
    among[37] = samples.floats(code)[0]
    ordinary = int(bits(fast(among[:1]))[0])
    assert bits(fast(among)).tolist() == [ordinary] * 37 + [result] + [ordinary] * 62


def powers(low: int, high: int) -> np.ndarray:
    return 2.0 ** np.arange(low, high + 1)


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("exp2", np.arange(-126.0, 128), powers(-126, 127)),
        ("log2", powers(-126, 127), np.arange(-126.0, 128)),
        ("recip", powers(-126, 126), powers(-126, 126)[::-1]),
        ("recip", -powers(-126, 126), -powers(-126, 126)[::-1]),
        ("rsqrt", powers(-126, 126)[::2], powers(-63, 63)[::-1]),
    ],
)
def test_exact(name: str, argument: np.ndarray, expected: np.ndarray) -> None:
    fast, _ = both(name)
    np.testing.assert_array_equal(fast(argument.astype(np.float32)), expected.astype(np.float32))


def test_by_hand() -> None:
    """One result each, worked out from a row of the table."""
    # 2**0.5: segment 64, t = 0, so C0 alone, rounded from 27 places of fraction to 23.
    c0 = seed_tables.EXP2.rows[64][0]
    assert abs(c0 * 2.0**-27 - 2**0.5) < 2.0**-23
    assert float(seeds.exp2(np.array([0.5], np.float32))[0]) == round(c0 / 16) / 2**23
    # 1 / 1.5: the same, but below 1 there are 24 places.
    c0 = seed_tables.RECIP.rows[64][0]
    assert float(seeds.recip(np.array([1.5], np.float32))[0]) == round(c0 / 8) / 2**24
    # log2(1 + 2**-23): segment 0, t = 1, C0 = 0: C1 in steps of 2**-43 and C2 of 2**-52.
    _, c1, c2 = seed_tables.LOG2.rows[0]
    expected = np.float32(c1 * 2.0**-43 + c2 * 2.0**-52)
    assert seeds.log2(np.array([1 + 2**-23], np.float32)).tolist() == [expected]
    # rsqrt(2): the exponent is odd, so the row is 0; log4(2) = 1/2 leaves 2**-0.5 itself.
    c0 = seed_tables.RSQRT.rows[0][0]
    assert float(seeds.rsqrt(np.array([2], np.float32))[0]) == round(c0 / 8) / 2**24


def truth(name: str, x: float) -> mpmath.mpf:
    functions: dict[str, Any] = {
        "exp2": lambda x: mpmath.power(2, x),
        "log2": lambda x: mpmath.log(x, 2),
        "recip": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    }
    with mpmath.workdps(40):
        return functions[name](mpmath.mpf(x))


@pytest.mark.parametrize("name", NAMES)
def test_error_against_mpmath(name: str) -> None:
    rng = np.random.default_rng(41)
    x = rng.uniform(-126, 128, 4000) if name == "exp2" else np.exp2(rng.uniform(-126, 126, 4000))
    if name in ("log2", "exp2"):
        close = rng.uniform(0.5, 2, 2000) if name == "log2" else rng.standard_normal(2000) * 1e-3
        x = np.concatenate([x, close])
    x = x.astype(np.float32)
    fast, _ = both(name)
    for argument, result in zip(x.tolist(), fast(x).tolist(), strict=True):
        exact = truth(name, argument)
        allowed = max(abs(exact), 1) if name == "log2" else abs(exact)
        assert abs(result - exact) <= allowed * 2.0**-22, (name, argument)


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        (seed_errors.exp2, "exp2"), (seed_errors.log2_near_one, "log2"),
        (seed_errors.log2_elsewhere, "log2"), (seed_errors.recip, "recip"),
        (seed_errors.rsqrt, "rsqrt"),
    ],
)  # fmt: skip
def test_worst_error(measure: Callable[[], seed_errors.Worst], name: str) -> None:
    """The exhaustive figures of the documentation, confirmed by mpmath where they occur."""
    worst = measure()
    assert worst.error <= 2.0**-22
    fast, _ = both(name)
    result = float(fast(np.array([worst.argument], np.float32))[0])
    exact = truth(name, worst.argument)
    found = [
        abs(result - exact) if measure is seed_errors.log2_near_one else abs(result / exact - 1)
    ]
    if name == "exp2":
        found.append(abs(result / truth(name, worst.argument + 2.0**-23) - 1))
    assert float(max(found)) == pytest.approx(worst.error, rel=1e-6)


def rises(name: str, chunks: Any) -> int:
    """Return how often a result is followed by one on the wrong side of it."""
    fast, _ = both(name)
    direction = 1 if name in ("exp2", "log2") else -1
    wrong, last = 0, None
    for x in chunks:
        results = fast(x)
        if last is not None:
            results = np.concatenate([last, results])
        wrong += int((np.diff(results) * direction < 0).sum())
        last = results[-1:]
    return wrong


def octaves(name: str) -> Any:
    """All arguments of neighbouring octaves: of the result for `exp2`, of the argument else."""
    if name == "exp2":
        for start in range(-1, 1):
            for chunk in seed_errors.octave(0):
                yield chunk - np.float32(1) + np.float32(start)
    else:
        for exponent in (-1, 0, 1):
            yield from seed_errors.octave(exponent)


@pytest.mark.parametrize("name", NAMES)
def test_monotone_around_segments(name: str) -> None:
    """A dense sample, and everything within 300 places of a segment's ends."""
    for octave in (-1, 0, 1):
        codes = np.arange(0, (1 << 23) + 1, 1 << 16)[:, None] + np.arange(-300, 301)
        codes = np.concatenate([codes.reshape(-1), np.arange(0, 1 << 23, 97)])
        codes = np.unique(codes + 0x3F800000 + (octave << 23)).astype(np.uint32)
        x = samples.floats(codes)
        if name == "exp2":
            x = np.unique(x - np.float32(1.5))
        assert rises(name, [x]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_monotone(name: str) -> None:
    assert rises(name, octaves(name)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_against_the_scalar_at_length(name: str) -> None:
    fast, plain = both(name)
    for seed in range(5):
        codes = samples.random_codes(np.random.default_rng(1000 + seed), 200_000)
        samples.assert_same(bits(fast(samples.floats(codes))), samples.each(plain, codes), codes)


def polynomials(table: Quadratic) -> Any:
    """Yield every ``P`` of a table as int64, a segment at a time."""
    t = np.arange(1 << 16, dtype=np.int64)
    for c0, c1, c2 in table.rows:
        yield (c0 << table.c0_shift) + ((c1 << table.c1_shift) + c2 * t) * t


def test_log2_never_rounds_twice() -> None:
    """The float64 sum of ``log2`` is not always exact, but it never moves onto an FP32 tie.

    In the octave ``2**k`` of the result, FP32 ties are odd multiples of ``2**(k - 24)`` and the
    float64 sum is off by at most ``2**(k - 53)``. With an integer added, what counts of ``P`` is
    its distance from a tie.
    """
    unit = seed_tables.LOG2.unit
    for p in polynomials(seed_tables.LOG2):
        for k in range(7):
            between, reach = 1 << (unit + k - 23), 1 << max(unit + k - 53, 0)
            distance = np.abs(p % between - between // 2)
            assert not ((distance > 0) & (distance <= reach)).any()


def test_tables_stay_inside_53_bits() -> None:
    for name in NAMES:
        table = getattr(seed_tables, name.upper())
        largest = max(int(np.abs(p).max()) for p in polynomials(table))
        assert largest <= 1 << 53
        widths = [max(abs(row[i]) for row in table.rows).bit_length() for i in range(3)]
        assert widths <= [28, 21, 8]


def test_tables_are_what_the_generator_writes() -> None:
    update = "run: python tools/generate_seeds.py"
    assert generate_seeds.TARGET.read_text(encoding="utf-8") == generate_seeds.source(), update


def test_bad_tables_are_refused() -> None:
    rows = seed_tables.RECIP.rows
    with pytest.raises(ValueError, match="recip has 127 rows; a 7 bit index needs 128"):
        Quadratic("recip", 53, 23, rows[1:])
    with pytest.raises(ValueError, match="segment 1: slopes -1024 to 130046"):
        Quadratic("recip", 53, 23, (rows[0], (1 << 27, -1, 1), *rows[2:]))
    with pytest.raises(ValueError, match=f"segment 0: .* values up to {1 << 54}"):
        Quadratic("recip", 53, 23, ((1 << 28, 0, 0), *rows[1:]))


@pytest.mark.parametrize("size", [0, 1, seeds.BLOCK - 1, seeds.BLOCK, 2 * seeds.BLOCK + 3])
def test_sizes_and_shapes(size: int) -> None:
    x = np.random.default_rng(size).uniform(0.1, 9, size).astype(np.float32)
    for name in NAMES:
        fast, _ = both(name)
        whole = fast(x)
        assert whole.shape == x.shape
        if size:
            parts = np.concatenate([fast(x[:1]), fast(x[1:])])
            np.testing.assert_array_equal(whole, parts)
        if size % 2 == 0:
            np.testing.assert_array_equal(fast(x.reshape(2, -1)).reshape(-1), whole)


def test_out_and_strides() -> None:
    x = samples.floats(samples.random_codes(np.random.default_rng(42), 3000)).reshape(50, 60)
    for name in NAMES:
        fast, _ = both(name)
        expected = bits(fast(x))
        out = x.copy()
        assert fast(out, out) is out
        np.testing.assert_array_equal(bits(out), expected)
        wide = np.zeros((60, 120), np.float32)
        target = wide[:, ::2][:, :50].T
        assert fast(x.T.copy().T, target) is target
        np.testing.assert_array_equal(bits(np.ascontiguousarray(target)), expected)
        clean = fp32.flush(x)
        np.testing.assert_array_equal(bits(fast(clean, clean=True)), expected)
    assert float(seeds.exp2(np.float32(3))) == 8


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="must be float32, not float64"):
        seeds.exp2(np.ones(3))  # type: ignore[arg-type]
