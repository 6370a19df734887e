"""Section by section what the machine computes, in numpy float64, sharing nothing with it."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def quantise(x: Array, residual: bool = False) -> tuple[Array, Array]:
    """MX form of finite rows: integer elements ``[rows, blocks, 32]`` and exponents."""
    rows, k = x.shape
    blocks = -(-k // 32)
    padded = np.zeros((rows, blocks * 32))
    padded[:, :k] = x.astype(np.float64)
    padded = padded.reshape(rows, blocks, 32)
    q, exponent = _leading(padded)
    if residual:
        q, exponent = _leading(padded - np.ldexp(q, exponent[..., None] - 6))
    return q, exponent


def _leading(x: Array) -> tuple[Array, Array]:
    amax = np.abs(x).max(axis=2)
    exponent = np.frexp(amax)[1] - 1
    q = np.clip(np.rint(np.ldexp(x, 6 - exponent[..., None])), -127, 127)
    zero = amax == 0
    q[zero] = 0
    exponent[zero] = -127
    return q, exponent


def contract(a: tuple[Array, Array], b: tuple[Array, Array], tile: Array | None = None) -> Array:
    """FP32 sums in ascending K of exact block products; ``a`` rows by ``b`` rows."""
    (qa, ea), (qb, eb) = a, b
    total = np.zeros((len(qa), len(qb)), np.float32) if tile is None else tile.copy()
    for block in range(qa.shape[1]):
        exact = qa[:, block] @ qb[:, block].T
        scaled = np.ldexp(exact, ea[:, block][:, None] + eb[:, block][None, :] - 12)
        partial = scaled.astype(np.float32)
        assert np.all((partial == scaled) & ((scaled == 0) | (np.abs(scaled) > 2.0**-126)))
        total = total + partial
    return total


def matmul(x: Array, y: Array) -> Array:
    """``x @ y`` of FP16 matrices as a float32 tile."""
    return contract(quantise(x), quantise(np.ascontiguousarray(y.T)))
