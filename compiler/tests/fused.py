"""Kernels that carry state and contract computed values, and what they compute, stated in numpy.

The statements work on whole matrices, a block of keys or hidden units at a time; nothing in them
knows an instance, a window or an engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compiler.tests.golden import Array, contract, quantise, residual, sweep, to_fp16
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


@kernel
def causal(
    q=L.In(..., M, D),
    k=L.In(..., M, D),
    v=L.In(..., M, E),
    o=L.Out(..., M, E),
    *,
    block=32,
    nk=1,
    scale=0.25,
):
    seen = L.table(np.tril(np.ones((block, block), np.float16)))

    def keys(i: Any, j: Any, mask: Any, carried: Any) -> None:
        top, total, out = carried
        s = L.tile()
        for c in loop(q.chunks32(nk)):
            s += q[i, c] @ k[j, c]
        scaled = s * scale if mask is None else L.where(mask, s * scale, -math.inf)
        m = L.maximum(top, L.row_max(scaled))
        p, corr = L.exp2(scaled - m), L.exp2(top - m)
        pv = L.tile()
        pv += p @ v[j]
        total <<= total * corr + L.row_sum(p)
        out <<= out * corr + pv
        top <<= m

    with units(q.rows(block)) as i:
        carried = L.state(-math.inf), L.state(0.0), L.state(0.0, E)
        for j in loop(i):
            keys(i, j, None, carried)
        keys(i, i, seen, carried)
        o[i] <<= carried[2] / carried[1]


@kernel
def biased(
    q=L.In(..., M, D),
    k=L.In(..., N, D),
    v=L.In(..., N, E),
    bias=L.In(..., M, N),
    pad=L.In(N),
    o=L.Out(..., M, E),
    *,
    block=16,
    keys=32,
    nk=1,
):
    with units(q.rows(block)) as i:
        top, total, out = L.state(-1e30), L.state(0.0), L.state(0.0, E)
        for j in loop(k.rows(keys)):
            s, pv = L.tile(), L.tile()
            for c in loop(q.chunks32(nk)):
                s += q[i, c] @ k[j, c]
            scores = s + bias[i, j] + pad[j]
            m = L.maximum(top, L.row_max(scores))
            p, corr = L.exp2(scores - m), L.exp2(top - m)
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


class Running:
    """The statement of attention, a block of keys at a time; ``scores`` come scaled and masked."""

    def __init__(self, rows: int, width: int, top: float = -math.inf) -> None:
        self.top = np.full((rows, 1), top, np.float32)
        self.total = np.zeros((rows, 1), np.float32)
        self.out = np.zeros((rows, width), np.float32)

    def take(self, scores: Array, v: Array, precision: str = "default") -> None:
        m = fp32.maximum(self.top, column(reduction.row_max(np.ascontiguousarray(scores))))
        p = seeds.exp2(fp32.add(scores, fp32.neg(m)))
        corr = seeds.exp2(fp32.add(self.top, fp32.neg(m)))
        pv = wide(to_fp16(contract(to_fp16(p), v.T, precision)))
        self.total = fp32.add(fp32.mul(self.total, corr), column(reduction.row_sum(p)))
        self.out = fp32.add(fp32.mul(self.out, corr), pv)
        self.top = m

    @property
    def result(self) -> Array:
        return to_fp16(fp32.mul(self.out, seeds.recip(self.total)))


def attention_statement(
    q: Array, k: Array, v: Array, keys: int, scale: float, precision: str = "default"
) -> Array:
    running = Running(q.shape[0], v.shape[1])
    with np.errstate(all="ignore"):
        for first in range(0, k.shape[0], keys):
            part = slice(first, first + keys)
            s = wide(to_fp16(contract(q, k[part], precision)))
            running.take(fp32.mul(s, np.float32(scale)), v[part], precision)
        return running.result


def causal_statement(q: Array, k: Array, v: Array, block: int, scale: float) -> Array:
    result = np.zeros((q.shape[0], v.shape[1]), np.float16)
    with np.errstate(all="ignore"):
        for top in range(0, q.shape[0], block):
            rows = slice(top, min(top + block, q.shape[0]))
            running = Running(rows.stop - top, v.shape[1])
            for first in range(0, rows.stop, block):
                part = slice(first, min(first + block, q.shape[0]))
                s = fp32.mul(wide(to_fp16(contract(q[rows], k[part]))), np.float32(scale))
                if first == top:
                    s = np.where(np.tril(np.ones(s.shape)) > 0, s, np.float32(-np.inf))
                running.take(s, v[part])
            result[rows] = running.result
    return result


def biased_statement(q: Array, k: Array, v: Array, bias: Array, pad: Array, keys: int) -> Array:
    running = Running(q.shape[0], v.shape[1], -1e30)
    with np.errstate(all="ignore"):
        for first in range(0, k.shape[0], keys):
            part = slice(first, first + keys)
            s = wide(to_fp16(contract(q, k[part])))
            running.take(fp32.add(fp32.add(s, wide(bias[:, part])), wide(pad[part])), v[part])
        return running.result


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
    if precision != "default":
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
