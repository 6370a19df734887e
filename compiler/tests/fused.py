"""Kernels that carry state and contract computed values, and what they compute, stated in numpy.

The statements work on whole matrices, a block of keys or hidden units at a time; nothing in them
knows an instance, a window or an engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compiler.tests.golden import Array, contract, flush, quantise, residual, sweep, to_fp16
from kohakuaccel.lang import dims, grid, units
from kohakuaccel.lang import sweep as loop
from kohakutpu import lang as L
from kohakutpu.lang import kernel
from kohakutpu.numerics import fp32, reduction, seeds

M, N, K, D, E, F = dims("M, N, K, D, E, F")

# ------------------------------------------------------------------- attention


@kernel
def attention(
    q=L.In(..., M, D),
    k=L.In(..., N, D),
    v=L.In(..., N, E),
    o=L.Out(..., M, E),
    *,
    block=16,
    keys=32,
    nk=1,
    scale=0.25,
    precision="default",
):
    with units(q.rows(block)) as i:
        top, total, out = L.state(-math.inf), L.state(0.0), L.state(0.0, E)
        for j in loop(k.rows(keys)):
            s = L.tile(precision=precision)
            for c in loop(q.chunks32(nk)):
                s += q[i, c] @ k[j, c]
            m = L.maximum(top, L.row_max(s * scale))
            p, corr = L.exp2(s * scale - m), L.exp2(top - m)
            pv = L.tile(precision=precision)
            pv += p @ v[j]
            total <<= total * corr + L.row_sum(p)
            out <<= out * corr + pv
            top <<= m
        o[i] <<= out / total


def wide(x: Array) -> Array:
    """FP16 elements as the vector core computes with them."""
    return x.astype(np.float32)


def column(x: Array) -> Array:
    return x.reshape(-1, 1)


def attention_statement(
    q: Array, k: Array, v: Array, keys: int, scale: float, precision: str = "default"
) -> Array:
    rows = q.shape[0]
    top = np.full((rows, 1), -np.inf, np.float32)
    total = np.zeros((rows, 1), np.float32)
    out = np.zeros((rows, v.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for first in range(0, k.shape[0], keys):
            last = min(first + keys, k.shape[0])
            s = wide(to_fp16(contract(q, k[first:last], precision)))
            scaled = fp32.mul(s, np.float32(scale))
            m = fp32.maximum(top, column(reduction.row_max(scaled)))
            p = seeds.exp2(fp32.add(scaled, fp32.neg(m)))
            corr = seeds.exp2(fp32.add(top, fp32.neg(m)))
            pv = wide(to_fp16(contract(to_fp16(p), v[first:last].T, precision)))
            total = fp32.add(fp32.mul(total, corr), column(reduction.row_sum(p)))
            out = fp32.add(fp32.mul(out, corr), pv)
            top = m
        return to_fp16(fp32.mul(out, seeds.recip(total)))


# ------------------------------------------------------------------ an MLP, one tile carried


@kernel
def mlp(
    x=L.In(M, K),
    up=L.In(F, K),
    down=L.In(N, F),
    y=L.Out(M, N),
    *,
    block=16,
    hidden=32,
    nk=1,
    precision="default",
):
    with units(x.rows(block)) as i:
        acc = L.tile(precision=precision)
        for f in loop(up.rows(hidden)):
            h = L.tile(precision=precision)
            for c in loop(x.chunks32(nk)):
                h += x[i, c] @ up[f, c]
            acc += L.relu(h) @ down[0, f]
        y[i] <<= acc


def mlp_statement(x: Array, up: Array, down: Array, hidden: int, precision: str) -> Array:
    acc = np.zeros((x.shape[0], down.shape[0]), np.float32)
    for first in range(0, up.shape[0], hidden):
        part = slice(first, min(first + hidden, up.shape[0]))
        h = wide(to_fp16(contract(x, up[part], precision)))
        acc = added(acc, to_fp16(np.maximum(h, np.float32(0))), down[:, part], precision)
    return to_fp16(acc)


def added(acc: Array, a: Array, b: Array, precision: str) -> Array:
    """``acc + a @ b.T``, a chunk of K with all its sweeps."""
    lead_a, lead_b = quantise(a), quantise(b)
    acc = sweep(acc, lead_a, lead_b)
    if precision == "high":
        acc = sweep(acc, lead_a, quantise(residual(b)))
        acc = sweep(acc, quantise(residual(a)), lead_b)
    return acc


# ---------------------------------------------------------- rows of a tile, no loop around it


@kernel
def scores(q=L.In(M, D), k=L.In(N, D), p=L.Out(M, N), *, block=16, nk=2):
    with units(q.rows(block)) as i:
        s = L.tile(gn=32)
        for c in loop(q.chunks32(nk)):
            s += q[i, c] @ k[0, c]
        power = L.exp2(s - L.row_max(s))
        p[i] <<= power / L.row_sum(power)


def scores_statement(q: Array, k: Array) -> Array:
    s = wide(to_fp16(contract(q, k)))
    power = seeds.exp2(fp32.add(s, fp32.neg(column(reduction.row_max(s)))))
    return to_fp16(fp32.mul(power, seeds.recip(column(reduction.row_sum(power)))))


# ----------------------------------------------------------------- a second matrix right after


@kernel
def chain(a=L.In(M, K), b=L.In(N, K), c=L.In(N, E), y=L.Out(M, E), *, block=16, nk=2):
    for i in grid(a.rows(block)):
        first, second = L.tile(gn=32), L.tile()
        for t in loop(a.chunks32(nk)):
            first += a[i, t] @ b[0, t]
        second += L.silu(first) @ c[0]
        y[i] <<= second


def chain_statement(a: Array, b: Array, c: Array) -> Array:
    h = wide(to_fp16(contract(a, b)))
    power = seeds.exp2(fp32.mul(h, np.float32(-math.log2(math.e))))
    gate = seeds.recip(fp32.add(power, np.float32(1)))
    return to_fp16(contract(to_fp16(fp32.mul(h, gate)), c.T))


def gaussian(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


__all__ = ["flush"]
