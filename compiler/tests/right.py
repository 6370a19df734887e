"""Kernels with computed operands on the right of ``@``, and what they compute, stated in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.tests.fused import Running, added, wide
from compiler.tests.golden import Array, contract, to_fp16
from kohakuaccel.lang import dims, grid, units
from kohakuaccel.lang import sweep as loop
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel
from kohakutpu.numerics import fp32, seeds

M, N, K, D, E, F = dims("M, N, K, D, E, F")


@kernel
def dequantised(
    a=L.In(..., M, K),
    w=L.In(N, K),
    scale=L.In(N, dtype="fp32"),
    point=L.In(K),
    c=L.Out(..., M, N),
    *,
    gm=2,
    gn=3,
    nk=2,
    precision="default",
):
    for i, j in grid(a.tiles(gm), w.tiles(gn)):
        acc = L.tile(precision=precision)
        for k in loop(a.chunks32(nk)):
            acc += a[i, k] @ ((w[j, k] - point[k]) * scale[j])
        c[i, j] <<= acc


@kernel
def rotated(
    q=L.In(M, D),
    p=L.In(M, D),
    k=L.In(N, D),
    h=L.In(N, D),
    cos=L.In(N, D),
    sin=L.In(N, D),
    v=L.In(N, E),
    o=L.Out(M, E),
    *,
    block=16,
    keys=32,
    nk=1,
    precision="default",
):
    with units(q.rows(block)) as i:
        top, total, out = L.state(-math.inf), L.state(0.0), L.state(0.0, E)
        for j in loop(k.rows(keys)):
            s = L.tile(precision=precision, sweeps=2)
            for c in loop(q.chunks32(nk)):
                s += q[i, c] @ (k[j, c] * cos[j, c] - h[j, c] * sin[j, c])
                s += p[i, c] @ (h[j, c] * cos[j, c] + k[j, c] * sin[j, c])
            m = L.maximum(top, L.row_max(s))
            power, corr = L.exp2(s - m), L.exp2(top - m)
            pv = L.tile()
            pv += power @ v[j]
            total <<= total * corr + L.row_sum(power)
            out <<= out * corr + pv
            top <<= m
        o[i] <<= out / total


@kernel
def both(
    q=L.In(M, D), k=L.In(N, D), o=L.Out(M, N), *, block=16, keys=32, nk=1, precision="default"
):
    with units(q.rows(block)) as i:
        for j in loop(k.rows(keys)):
            s = L.tile(precision=precision)
            for c in loop(q.chunks32(nk)):
                s += L.relu(q[i, c]) @ L.exp2(k[j, c])
            o[i, j] <<= s * 2


@kernel
def turned(
    x=L.In(M, K), up=L.In(F, K), down=L.In(N, F), y=L.Out(N, M), *, gm=2, gn=3, hidden=64, nk=1
):
    for n, i in grid(down.tiles(gm), x.tiles(gn)):
        acc = L.tile()
        for f in loop(up.rows(hidden)):
            h = L.tile()
            for c in loop(x.chunks32(nk)):
                h += x[i, c] @ up[f, c]
            acc += down[n, f] @ L.relu(h)
        y[n, i] <<= acc


@kernel
def gated(
    x=L.In(M, K),
    gate=L.In(F, K),
    up=L.In(F, K),
    gate_scale=L.In(F),
    up_scale=L.In(F),
    down=L.In(N, F),
    y=L.Out(M, N),
    *,
    block=16,
    hidden=32,
    nk=1,
):
    with units(x.rows(block)) as i:
        acc = L.tile()
        for f in loop(up.rows(hidden)):
            g, u = L.tile(), L.tile()
            for c in loop(x.chunks32(nk)):
                g += x[i, c] @ (gate[f, c] * gate_scale[f])
                u += x[i, c] @ (up[f, c] * up_scale[f])
            acc += (L.relu(g) * u) @ (down[0, f] * 0.5)
        y[i] <<= acc


def relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def tile(a: Array, b: Array) -> Array:
    """A tile read as a value."""
    return wide(to_fp16(contract(a, b)))


def chunked(a: Array, b: Array, size: int, precision: str) -> Array:
    """A tile that a computed operand goes into, a chunk of K with all its sweeps after the other"""
    acc = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for first in range(0, a.shape[1], size):
        acc = added(acc, a[:, first : first + size], b[:, first : first + size], precision)
    return acc


def scaled(w: Array, scale: Array) -> Array:
    with np.errstate(all="ignore"):
        return to_fp16(fp32.mul(wide(w), wide(scale)[:, None]))


def dequantised_statement(
    a: Array, w: Array, scale: Array, point: Array, nk: int = 2, precision: str = "default"
) -> Array:
    with np.errstate(all="ignore"):
        weights = scaled(fp32.add(wide(w), fp32.neg(wide(point))), scale)
    return to_fp16(chunked(a, weights, 32 * nk, precision))


def rotated_statement(
    q: Array, p: Array, k: Array, h: Array, cos: Array, sin: Array, v: Array, *,
    precision: str = "default",
) -> Array:  # fmt: skip
    running, (kc, ks, hc, hs) = (
        Running(q.shape[0], v.shape[1]),
        (fp32.mul(wide(x), wide(y)) for x in (k, h) for y in (cos, sin)),
    )
    first, second = to_fp16(fp32.add(kc, fp32.neg(hs))), to_fp16(fp32.add(hc, ks))
    with np.errstate(all="ignore"):
        for at in range(0, k.shape[0], 32):
            part = slice(at, at + 32)
            acc = np.zeros((q.shape[0], first[part].shape[0]), np.float32)
            for c in range(0, q.shape[1], 32):
                piece = slice(c, c + 32)
                acc = added(acc, q[:, piece], first[part, piece], precision)
                acc = added(acc, p[:, piece], second[part, piece], precision)
            running.take(wide(to_fp16(acc)), v[part])
        return running.result


def both_statement(q: Array, k: Array, *, precision: str = "default") -> Array:
    left, right = to_fp16(relu(wide(q))), to_fp16(seeds.exp2(wide(k)))
    acc = wide(to_fp16(chunked(left, right, 32, precision)))
    return to_fp16(fp32.mul(acc, np.float32(2)))


def turned_statement(x: Array, up: Array, down: Array) -> Array:
    acc = np.zeros((down.shape[0], x.shape[0]), np.float32)
    for first in range(0, up.shape[0], 64):
        part = slice(first, first + 64)
        acc = added(acc, down[:, part], to_fp16(relu(tile(x, up[part]))), "default")
    return to_fp16(acc)


def gated_statement(
    x: Array, gate: Array, up: Array, gate_scale: Array, up_scale: Array, down: Array
) -> Array:
    acc = np.zeros((x.shape[0], down.shape[0]), np.float32)
    for first in range(0, up.shape[0], 32):
        part = slice(first, first + 32)
        g, u = (scaled(*w) for w in ((gate[part], gate_scale[part]), (up[part], up_scale[part])))
        h = to_fp16(fp32.mul(relu(tile(x, g)), tile(x, u)))
        half = to_fp16(fp32.mul(wide(down[:, part]), np.float32(0.5)))
        acc = added(acc, h, half, "default")
    return to_fp16(acc)


Shapes = list[tuple[int, ...]]
CASES: list[tuple[Kernel, Callable[..., Any], Callable[[int, int], Shapes]]] = [
    (dequantised, dequantised_statement, lambda m, n: [(m, 40), (n, 40), (n,), (40,)]),
    (rotated, rotated_statement, lambda m, n: [(m, 40), (m, 40), *[(n, 40)] * 4, (n, 20)]),
    (both, both_statement, lambda m, n: [(m, 40), (n, 40)]),
    (turned, turned_statement, lambda m, n: [(m, 40), (n, 40), (20, n)]),
    (gated, gated_statement, lambda m, n: [(m, 40), (n, 40), (n, 40), (n,), (n,), (20, n)]),
]
