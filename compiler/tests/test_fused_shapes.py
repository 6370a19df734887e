"""Grids that carry tiles, states and values in every combination, against numpy, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.pipeline import compile_kernel
from compiler.tests.fused import added, column, gaussian, wide
from compiler.tests.golden import Array, assert_same, contract, run, spec_of, to_fp16
from kohakuaccel.lang import dims, units
from kohakuaccel.lang import sweep as loop
from kohakutpu import lang as L
from kohakutpu.config import PRESETS, preset
from kohakutpu.lang import Kernel, kernel
from kohakutpu.numerics import fp32, reduction, seeds

pytestmark = pytest.mark.golden

M, N, K, D, E, F = dims("M, N, K, D, E, F")
CHUNK = 32


@kernel
def gated(
    x=L.In(M, K),
    gate=L.In(F, K),
    up=L.In(F, K),
    down=L.In(N, F),
    bias=L.In(N),
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
                g += x[i, c] @ gate[f, c]
                u += x[i, c] @ up[f, c]
            acc += (L.relu(g) * u) @ down[0, f]
        y[i] <<= L.relu(acc) * 2 + bias


@kernel
def twice(
    q=L.In(M, D),
    k=L.In(N, D),
    v=L.In(N, E),
    w=L.In(N, F),
    o=L.Out(M, E),
    r=L.Out(M, F),
    *,
    block=16,
    keys=32,
):
    with units(q.rows(block)) as i:
        a, b = L.tile(), L.tile()
        for j in loop(k.rows(keys)):
            s = L.tile(nk=2)
            for c in loop(q.chunks32(2)):
                s += q[i, c] @ k[j, c]
            p = L.relu(s)
            a += p @ v[j]
            b += (p * 2) @ w[j]
        o[i] <<= a
        r[i] <<= b + 1


@kernel
def deep(
    q=L.In(M, D), k=L.In(N, D), v=L.In(N, E), w=L.In(E, F), o=L.Out(M, F), *, block=16, keys=32
):
    with units(q.rows(block)) as i:
        out = L.state(0.0, F)
        for j in loop(k.rows(keys)):
            s, t, z = L.tile(nk=2), L.tile(), L.tile()
            for c in loop(q.chunks32(2)):
                s += q[i, c] @ k[j, c]
            t += L.relu(s) @ v[j]
            z += L.relu(t) @ w[0]
            out <<= out + z
        o[i] <<= out


@kernel
def held(
    q=L.In(M, D), k=L.In(N, D), h=L.In(32, D), v=L.In(N, E), o=L.Out(M, E), *, block=16, keys=32
):
    with units(q.rows(block)) as i:
        g = L.tile(gn=8, nk=2)
        for c in loop(q.chunks32(2)):
            g += q[i, c] @ h[0, c]
        acc = L.tile()
        for j in loop(k.rows(keys)):
            s = L.tile(nk=2)
            for c in loop(q.chunks32(2)):
                s += q[i, c] @ k[j, c]
            acc += L.relu(s - L.row_max(g)) @ v[j]
        o[i] <<= acc + L.row_sum(g)


@kernel
def running(
    x=L.In(M, N),
    y=L.Out(M, 1),
    z=L.Out(M, 1),
    *,
    block=8,
    cols=2,
):
    with units(x.rows(block)) as i:
        top, total = L.state(-math.inf), L.state(0.0)
        for j in loop(x.chunks32(cols)):
            m = L.maximum(top, L.row_max(x[i, j]))
            total <<= total * L.exp2(top - m) + L.row_sum(L.exp2(x[i, j] - m))
            top <<= m
        y[i] <<= top
        z[i] <<= total


@kernel
def linear(
    q=L.In(M, D), k=L.In(N, D), v=L.In(N, E), o=L.Out(M, E), p=L.Out(M, N), *, block=16, keys=32
):
    with units(q.rows(block)) as i:
        acc = L.tile()
        for j in loop(k.rows(keys)):
            s = L.tile(nk=2)
            for c in loop(q.chunks32(2)):
                s += q[i, c] @ k[j, c]
            acc += s @ v[j]
            p[i, j] <<= s * 2
        o[i] <<= acc


@kernel
def plain(
    a=L.In(M, K),
    v=L.In(K, E),
    o=L.Out(M, E),
    *,
    block=16,
    nk=1,
):
    with units(a.rows(block)) as i:
        acc = L.tile()
        for k in loop(a.chunks32(nk)):
            acc += a[i, k] @ v[k]
        o[i] <<= acc


@kernel
def exchange(x=L.In(M, N), y=L.Out(M, 1), *, block=8, cols=2):
    with units(x.rows(block)) as i:
        a, b = L.state(0.0), L.state(1.0)
        for _j in loop(x.chunks32(cols)):
            older = b + 0.0
            b <<= a + b
            a <<= older  # each reads what the other held
        y[i] <<= a


@kernel
def nested(a=L.In(M, K), b=L.In(N, K), y=L.Out(M, N), *, gm=2, gn=2, nk=1):
    with units(a.tiles(gm)) as i:
        with units(b.tiles(gn)) as j:  # a view of what the instance is about: no memory
            acc = L.tile(gm, gn, nk)
            for k in loop(a.chunks32(nk)):
                acc += a[i, k] @ b[j, k]
            y[i, j] <<= L.relu(acc)


def blocks(n: int, size: int = CHUNK) -> list[slice]:
    return [slice(first, first + size) for first in range(0, n, size)]


def relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def tile(a: Array, b: Array) -> Array:
    """A tile read as a value."""
    return wide(to_fp16(contract(a, b)))


def gated_statement(x: Array, gate: Array, up: Array, down: Array, bias: Array) -> Any:
    acc = np.zeros((x.shape[0], down.shape[0]), np.float32)
    for part in blocks(up.shape[0]):
        h = to_fp16(fp32.mul(relu(tile(x, gate[part])), tile(x, up[part])))
        acc = added(acc, h, down[:, part], "default")
    return to_fp16(fp32.add(fp32.mul(relu(wide(to_fp16(acc))), np.float32(2)), wide(bias)))


def twice_statement(q: Array, k: Array, v: Array, w: Array) -> Any:
    a = np.zeros((q.shape[0], v.shape[1]), np.float32)
    b = np.zeros((q.shape[0], w.shape[1]), np.float32)
    for part in blocks(k.shape[0]):
        p = relu(tile(q, k[part]))
        a = added(a, to_fp16(p), v[part].T, "default")
        b = added(b, to_fp16(fp32.mul(p, np.float32(2))), w[part].T, "default")
    return to_fp16(a), to_fp16(fp32.add(wide(to_fp16(b)), np.float32(1)))


def deep_statement(q: Array, k: Array, v: Array, w: Array) -> Any:
    out = np.zeros((q.shape[0], w.shape[1]), np.float32)
    for part in blocks(k.shape[0]):
        first = to_fp16(relu(tile(q, k[part])))
        out = fp32.add(out, tile(to_fp16(relu(tile(first, v[part].T))), w.T))
    return to_fp16(out)


def held_statement(q: Array, k: Array, h: Array, v: Array) -> Any:
    g = tile(q, h)
    acc = np.zeros((q.shape[0], v.shape[1]), np.float32)
    for part in blocks(k.shape[0]):
        shifted = fp32.add(tile(q, k[part]), fp32.neg(column(reduction.row_max(g))))
        acc = added(acc, to_fp16(relu(shifted)), v[part].T, "default")
    return to_fp16(fp32.add(wide(to_fp16(acc)), column(reduction.row_sum(g))))


def running_statement(x: Array) -> Any:
    top = np.full((x.shape[0], 1), -np.inf, np.float32)
    total = np.zeros((x.shape[0], 1), np.float32)
    with np.errstate(all="ignore"):
        for part in blocks(x.shape[1], 64):
            block = np.ascontiguousarray(wide(x[:, part]))
            m = fp32.maximum(top, column(reduction.row_max(block)))
            power = seeds.exp2(fp32.add(block, fp32.neg(m)))
            shrunk = fp32.mul(total, seeds.exp2(fp32.add(top, fp32.neg(m))))
            total, top = fp32.add(shrunk, column(reduction.row_sum(power))), m
    return to_fp16(top), to_fp16(total)


def linear_statement(q: Array, k: Array, v: Array) -> Any:
    acc = np.zeros((q.shape[0], v.shape[1]), np.float32)
    scores: list[Array] = []
    for part in blocks(k.shape[0]):
        s = to_fp16(contract(q, k[part]))
        scores.append(to_fp16(fp32.mul(wide(s), np.float32(2))))
        acc = added(acc, s, v[part].T, "default")
    return to_fp16(acc), np.concatenate(scores, axis=1)


def plain_statement(a: Array, v: Array) -> Any:
    return to_fp16(contract(a, v.T))


def nested_statement(a: Array, b: Array) -> Any:
    return to_fp16(relu(tile(a, b)))


def exchange_statement(x: Array) -> Any:
    halves = [wide(x).sum(axis=1, dtype=np.float32, keepdims=True) * 0 for _ in range(2)]
    a, b = halves[0], halves[1] + np.float32(1)
    for _ in blocks(x.shape[1], 64):
        a, b = b, fp32.add(a, b)
    return to_fp16(a)


CASES: list[tuple[Kernel, Callable[..., Any], Callable[[int, int], list[tuple[int, ...]]]]] = [
    (gated, gated_statement, lambda m, n: [(m, 40), (n, 40), (n, 40), (20, n), (20,)]),
    (twice, twice_statement, lambda m, n: [(m, 40), (n, 40), (n, 20), (n, 36)]),
    (deep, deep_statement, lambda m, n: [(m, 40), (n, 40), (n, 20), (20, 36)]),
    (held, held_statement, lambda m, n: [(m, 40), (n, 40), (32, 40), (n, 20)]),
    (running, running_statement, lambda m, n: [(m, n)]),
    (linear, linear_statement, lambda m, n: [(m, 40), (n, 40), (n, 20)]),
    (plain, plain_statement, lambda m, n: [(m, n), (n, 20)]),
    (nested, nested_statement, lambda m, n: [(m, 40), (n, 40)]),
    (exchange, exchange_statement, lambda m, n: [(m, n)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
@pytest.mark.parametrize("machine", [PRESETS["tiny"], PRESETS["small"]], ids=["tiny", "small"])
@pytest.mark.parametrize("shape", [(20, 70), (16, 32), (3, 129), (1, 1)], ids=str)
def test_equals_the_statement(case: Any, machine: Any, shape: tuple[int, int]) -> None:
    made, statement, shapes = case
    args = [gaussian(n, *each) for n, each in enumerate(shapes(*shape))]
    expected = statement(*args)
    for seed in (1, 2):
        found = run(made, *args, machine=machine, poison=True, seed=seed)
        pairs = (
            zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        )
        for one, other in pairs:
            assert_same(one, other)


def test_fewer_places_where_address_registers_run_out() -> None:
    args = [gaussian(n, *each) for n, each in enumerate([(20, 40), (70, 40), (70, 20), (70, 36)])]
    plan = compile_kernel(twice, [spec_of(a) for a in args], {}, preset("tiny")).plan
    assert "note: tiles have one place each" in plan.pretty()
