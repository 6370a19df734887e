"""What kernels must yield, stated in numpy apart from the code that is tested."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BLOCK = 32
NAN_SCALE = 255


def quantise(x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Round rows to MXINT8: elements ``[rows, blocks, 32]`` and scales ``[rows, blocks]``."""
    rows, depth = x.shape
    blocks = -(-depth // BLOCK)
    padded = np.zeros((rows, blocks * BLOCK))
    padded[:, :depth] = x
    x = padded.reshape(rows, blocks, BLOCK)
    bad = np.logical_not(np.isfinite(x).all(axis=-1))
    x = np.where(bad[..., None], 0.0, x)
    amax = np.abs(x).max(axis=-1)
    exponent = np.frexp(np.where(amax == 0, 1.0, amax))[1] - 1
    elements = np.rint(np.ldexp(x, 6 - exponent[..., None])).clip(-127, 127).astype(np.int64)
    scales = np.where(amax == 0, 0, exponent + 127)
    return elements, np.where(bad, NAN_SCALE, scales)


def dequantise(elements: NDArray[np.int64], scales: NDArray[np.int64], depth: int) -> Array:
    x = np.ldexp(elements.astype(float), (scales - 127 - 6)[..., None])
    return x.reshape(len(x), -1)[:, :depth]


def sweep(
    acc: NDArray[np.float32],
    a: tuple[NDArray[np.int64], NDArray[np.int64]],
    b: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.float32]:
    """Add the products of all blocks to `acc`, one FP32 addition a block, in ascending K."""
    (ea, sa), (eb, sb) = a, b
    for block in range(ea.shape[1]):
        exact = ea[:, block] @ eb[:, block].T  # integers
        partial = np.ldexp(exact.astype(float), sa[:, block, None] + sb[None, :, block] - 266)
        partial = np.where(np.abs(partial) < 2.0**-126, 0.0, partial)
        with np.errstate(over="ignore"):
            partial = partial.astype(np.float32)
        bad = (sa[:, block, None] == NAN_SCALE) | (sb[None, :, block] == NAN_SCALE)
        partial[bad] = np.nan
        with np.errstate(invalid="ignore"):
            acc = acc + partial
        acc[np.abs(acc) < np.float32(2.0**-126)] = 0
    return acc


def matmul(a: NDArray, b: NDArray, precision: str = "default") -> NDArray[np.float16]:
    """Return ``a @ b.T`` as the machine defines it."""
    x, y = a.astype(float), b.astype(float)
    lead = quantise(x), quantise(y)
    acc = sweep(np.zeros((len(x), len(y)), np.float32), *lead)
    if precision != "default":
        rest = [
            quantise(value - dequantise(*term, value.shape[1]))
            for value, term in zip((x, y), lead, strict=True)
        ]
        if precision == "high":
            acc = sweep(acc, lead[0], rest[1])
        acc = sweep(acc, rest[0], lead[1])
    with np.errstate(over="ignore"):
        return acc.astype(np.float16)


def softmax(x: NDArray) -> Array:
    with np.errstate(all="ignore"):
        wide = x.astype(float)
        power = np.exp(wide - wide.max(axis=-1, keepdims=True))
        return power / power.sum(axis=-1, keepdims=True)


def rmsnorm(x: NDArray, w: NDArray, eps: float = 1e-5) -> Array:
    wide = x.astype(float)
    return wide / np.sqrt(np.mean(wide**2, axis=-1, keepdims=True) + eps) * w.astype(float)


def layernorm(x: NDArray, w: NDArray, b: NDArray, eps: float = 1e-5) -> Array:
    wide = x.astype(float)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * w.astype(float) + b.astype(float)


def silu(x: NDArray) -> Array:
    with np.errstate(all="ignore"):
        wide = x.astype(float)
        return wide / (1 + np.exp(-wide))


def gelu(x: NDArray) -> Array:
    with np.errstate(all="ignore"):
        wide = x.astype(float)
        return wide / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))


def assert_close(ours: NDArray, exact: Array, ulps: float = 1.0, absolute: float = 0.0) -> None:
    """Compare FP16 results with true values: `ulps` of FP16, NaN where they are NaN."""
    assert ours.dtype == np.float16
    assert ours.shape == exact.shape
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float16)
    wrong = np.isnan(ours) != np.isnan(exact)
    assert not wrong.any(), f"NaN differs at {np.argwhere(wrong)[:4]}"
    finite = np.isfinite(rounded)
    same = ours[~finite & ~np.isnan(exact)] == rounded[~finite & ~np.isnan(exact)]
    assert same.all(), "Inf differs"
    spacing = np.spacing(np.minimum(np.abs(rounded[finite]), 32768)).astype(float)
    error = np.abs(ours[finite].astype(float) - exact[finite])
    limit = ulps * spacing + absolute
    assert (error <= limit).all(), f"off by up to {np.max(error / spacing):.3g} ulps"


def assert_same_bits(ours: NDArray, expected: NDArray) -> None:
    """Compare bits, except that every NaN is one."""
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(ours), nan)
    bits = f"u{ours.dtype.itemsize}"
    different = (ours.view(bits) != expected.view(bits)) & ~nan
    assert not different.any(), (
        f"{different.sum()} of {different.size} differ, first at {np.argwhere(different)[0]}: "
        f"{ours[different][0]} for {expected[different][0]}"
    )
