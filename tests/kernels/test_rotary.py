"""Rotary embedding: equal bits to its statement, any even width, inverse, refusals."""

from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from kohakutpu import kernels
from tests.kernels import oracle
from tests.kernels.statements import Array, half, wide

pytestmark = pytest.mark.golden


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def angles(length: int, width: int, base: float = 10000.0, start: int = 0) -> Array:
    rates = [base ** (-2 * i / width) for i in range(width // 2)]
    return np.array([[(start + m) * rate for rate in rates] for m in range(length)])


def stated(x: Array, cos: Array, sin: Array) -> Array:
    a, b = np.split(wide(x), 2, axis=-1)
    c, s = wide(cos), wide(sin)
    return half(np.concatenate([a * c - b * s, b * c + a * s], axis=-1))


@pytest.mark.parametrize("shape", [
    (1, 2), (5, 8), (7, 64), (2, 3, 33, 64), (9, 6), (2, 4, 10), (3, 130), (40, 40),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_shapes(shape: tuple[int, ...], dtype: str) -> None:
    x, turns = normal(*shape), angles(*shape[-2:])
    stored = np.float16 if dtype == "fp16" else np.float32
    cos, sin = np.cos(turns).astype(stored), np.sin(turns).astype(stored)
    tables = ktpu.rope_tables(*shape[-2:], dtype=dtype)
    for ours, expected in zip(tables, (cos, sin), strict=True):
        np.testing.assert_allclose(ours.numpy(), expected, rtol=0, atol=1e-6)
    ours = ktpu.rope(ktpu.tensor(x), *tables).numpy()
    oracle.assert_same_bits(ours, stated(x, *(t.numpy() for t in tables)))


@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_machines_and_interleavings(machine: str) -> None:
    x, turns = normal(2, 19, 24), angles(19, 24)
    cos, sin = np.cos(turns).astype(np.float16), np.sin(turns).astype(np.float16)
    for seed in range(20):
        with ktpu.device("golden", machine=machine, poison=True, seed=seed) as session:
            ours = ktpu.rope(*(ktpu.tensor(v) for v in (x, cos, sin))).numpy()
            session.close()
        oracle.assert_same_bits(ours, stated(x, cos, sin))


def test_a_later_start_is_the_same_rows() -> None:
    whole, later = ktpu.rope_tables(10, 16, 500.0), ktpu.rope_tables(4, 16, 500.0, start=6)
    for a, b in zip(whole, later, strict=True):
        assert np.array_equal(a.numpy()[6:], b.numpy())


def test_products_depend_on_the_distance_alone() -> None:
    """What the embedding is for: queries and keys turned alike keep their products."""
    q, k = normal(1, 64), normal(1, 64, seed=1)
    found: list[float] = []
    for start in (0, 5, 100):
        tables = ktpu.rope_tables(4, 64, start=start)
        rows = [np.repeat(v, 4, axis=0) for v in (q, k)]
        turned = [ktpu.rope(ktpu.tensor(v), *tables).numpy().astype(float) for v in rows]
        found.append(float(turned[0][3] @ turned[1][0]))
    assert np.ptp(found) < 2e-2
    assert abs(found[0] - float(q[0].astype(float) @ k[0].astype(float))) > 1e-2


def test_one_pass(hostile: ktpu.Session) -> None:
    x, tables = ktpu.tensor(normal(4, 32, 64)), ktpu.rope_tables(32, 64)
    hostile.reset_stats()
    ktpu.rope(x, *tables)
    stats = hostile.stats()
    assert stats.dispatches == 1
    assert stats.memory_written == 4 * 32 * 64 // 16


def test_heads_side_by_side_are_no_copy(hostile: ktpu.Session) -> None:
    a, tables = normal(2, 9, 4, 32), ktpu.rope_tables(9, 32)
    x = ktpu.tensor(a).transpose(0, 2, 1, 3)
    hostile.reset_stats()
    ours = ktpu.rope(x, *tables).numpy()
    assert hostile.stats().dispatches == 1
    want = stated(a.transpose(0, 2, 1, 3), *(t.numpy() for t in tables))
    oracle.assert_same_bits(ours, want)


def test_the_kernel_takes_halves() -> None:
    a, b, turns = normal(2, 5, 12), normal(2, 5, 12, seed=1), angles(5, 24)
    cos, sin = np.cos(turns).astype(np.float16), np.sin(turns).astype(np.float16)
    y, z = kernels.rope(*(ktpu.tensor(v) for v in (a, b, cos, sin)), n=4)
    want = stated(np.concatenate([a, b], axis=-1), cos, sin)
    oracle.assert_same_bits(np.concatenate([y.numpy(), z.numpy()], axis=-1), want)


def test_no_rows() -> None:
    assert ktpu.rope(ktpu.zeros((0, 4, 8)), *ktpu.rope_tables(4, 8)).shape == (0, 4, 8)


def test_refusals() -> None:
    tables: Any = ktpu.rope_tables(4, 8)
    for shape in ((4, 7), (4, 10), (5, 8), (8,)):
        with pytest.raises(CallError, match="rope: x has shape"):
            ktpu.rope(ktpu.zeros(shape), *tables)
    with pytest.raises(CallError, match="cos is fp32 and sin is fp16"):
        ktpu.rope(ktpu.zeros((4, 8)), tables[0], ktpu.rope_tables(4, 8, dtype="fp16")[1])
    for wrong in ({"width": 7}, {"length": -1}, {"base": 0.0}):
        with pytest.raises(CallError, match="rope_tables: length"):
            ktpu.rope_tables(**{"length": 4, "width": 8, **wrong})


@pytest.mark.parametrize("shape", [
    (1, 2), (5, 8), (7, 64), (2, 3, 33, 64), (9, 6), (3, 130), (1, 1, 2), (2, 0, 8), (0, 4, 8),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_neighbours(shape: tuple[int, ...], dtype: str) -> None:
    x, tables = normal(*shape), ktpu.rope_tables(*shape[-2:], dtype=dtype)
    halves = np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)
    turned = stated(halves, *(t.numpy() for t in tables))
    wanted = np.stack(np.split(turned, 2, axis=-1), axis=-1).reshape(shape)
    for machine in ("tiny", "small"):
        with ktpu.device("golden", machine=machine, poison=True):
            given = [ktpu.tensor(t.numpy(), dtype=dtype) for t in tables]
            ours = ktpu.rope(ktpu.tensor(x), *given, interleaved=True)
            oracle.assert_same_bits(ours.numpy(), wanted)


def test_neighbours_are_halves_of_a_weight_in_another_order() -> None:
    x, w, tables = normal(9, 40), normal(16, 40, seed=1), ktpu.rope_tables(9, 16)
    order = [*range(0, 16, 2), *range(1, 16, 2)]
    apart = ktpu.rope(ktpu.tensor(x) @ ktpu.tensor(w[order]), *tables).numpy()
    beside = ktpu.rope(ktpu.tensor(x) @ ktpu.tensor(w), *tables, interleaved=True).numpy()
    oracle.assert_same_bits(beside[:, order], apart)
