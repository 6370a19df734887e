# pyright: reportUnusedExpression=false
"""Operations that wait: the bits do not change, kernels are shared, errors name their line."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.runtime.arena import OutOfMemory
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu.api import products
from kohakutpu.config import preset
from tests.kernels.oracle import assert_same_bits

pytestmark = pytest.mark.golden

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, -65504, 6e-8, -6e-8, 6.1e-5]
UNARY = ("neg", "abs", "exp2", "log2", "recip", "rsqrt", "silu", "gelu", "relu")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne")
NUMBERS = (0, 1, -0.5, 0.1, 2.0, 65504.0, 1e5, -1e-9, float("nan"), float("inf"), -0.0)


def unary(name: str, x: ktpu.Tensor) -> ktpu.Tensor:
    if name in ("silu", "gelu", "relu"):
        return getattr(x, name)()
    if name in ("neg", "abs"):
        return -x if name == "neg" else abs(x)
    return getattr(ktpu, name)(x)


def binary(name: str, x: Any, y: Any) -> ktpu.Tensor:
    if name in ("maximum", "minimum"):
        return getattr(ktpu, name)(x, y)
    methods = {"div": "truediv"}
    return getattr(x, f"__{methods.get(name, name)}__")(y)


def expression(seed: int) -> list[np.ndarray]:
    """Compute a random graph and return what its program holds at the end."""
    choose = random.Random(seed)
    numbers = np.random.default_rng(seed)
    m, n, k = (choose.choice((1, 3, 5, 8, 17, 33)) for _ in range(3))
    batch = choose.choice(((), (), (2,), (3, 1)))

    def fresh(*shape: int) -> ktpu.Tensor:
        values = numbers.normal(size=shape) * choose.choice((1, 30))
        flat = values.reshape(-1)
        if choose.random() < 0.5:
            for _ in range(min(4, flat.size)):
                flat[choose.randrange(flat.size)] = choose.choice(SPECIAL)
        return ktpu.tensor(values.astype(np.float16))

    held = [fresh(*batch, m, n), fresh(m, n), fresh(n), fresh(m, 1), fresh(1), fresh()]
    factors = [fresh(*batch, m, k), fresh(m, k), fresh(n, k), fresh(k)]
    if batch:
        factors.append(fresh(batch[0], *batch[1:], n, k))
    for _ in range(choose.randint(3, 12)):
        chance = choose.random()
        if chance < 0.25:
            precision = choose.choice(("default", "default", "high"))
            result = ktpu.matmul(factors[choose.randrange(2)], factors[2], precision=precision)
            if batch and choose.random() < 0.4:
                result = factors[0] @ factors[4]
        elif chance < 0.55:
            result = unary(choose.choice(UNARY), choose.choice(held))
        elif chance < 0.9:
            other = choose.choice(held) if choose.random() < 0.7 else choose.choice(NUMBERS)
            result = binary(choose.choice(BINARY), choose.choice(held), other)
        else:
            result = ktpu.where(choose.choice(held), choose.choice(held), choose.choice(NUMBERS))
        if choose.random() < 0.6:  # what came before is held no longer
            held[choose.randrange(len(held))] = result
        else:
            held.append(result)
    return [x.numpy() for x in held]


def both(seed: int) -> int:
    """Compare the bits of a graph with those of separate kernels; return what was fused."""
    with ktpu.eager():
        expected = expression(seed)
    ktpu.reset_stats()
    ours = expression(seed)
    for found, wanted in zip(ours, expected, strict=True):
        assert_same_bits(found, wanted)
    return ktpu.stats().fused


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_bits_are_those_of_separate_kernels(start: int) -> None:
    assert sum(both(seed) for seed in range(start, start + 10)) > 0


@pytest.mark.slow
def test_bits_of_many_graphs() -> None:
    assert sum(both(seed) for seed in range(1000, 1800)) > 100


def normal(*shape: int) -> ktpu.Tensor:
    return ktpu.tensor(np.random.default_rng(shape).normal(size=shape))


def chain(function: Any) -> tuple[int, int]:
    """Return the kernels run for the result of `function`, and the operations fused."""
    x, w, bias, other = normal(6, 40), normal(9, 40), normal(9), normal(6, 9)
    ktpu.reset_stats()
    result = function(x, w, bias, other)
    result.numpy()
    stats = ktpu.stats()
    return stats.dispatches, stats.fused


FUSED: list[tuple[Any, int, int]] = [
    (lambda x, w, b, r: (x @ w).silu(), 1, 1),
    (lambda x, w, b, r: x @ w + b, 1, 1),
    (lambda x, w, b, r: r + x @ w, 1, 1),
    (lambda x, w, b, r: (x @ w) * 0.1, 1, 1),
    (lambda x, w, b, r: (x @ w + b).relu(), 1, 2),  # relu commutes with rounding
    (lambda x, w, b, r: ktpu.clamp((x @ w) * r, -1, 1), 1, 3),
    (lambda x, w, b, r: abs(-(x @ w)), 1, 2),
    (lambda x, w, b, r: (x @ w + b).silu(), 2, 1),  # the sum is rounded before
    (lambda x, w, b, r: (x @ w + b) + r, 2, 1),
    (lambda x, w, b, r: (x @ w) * (x @ w), 2, 1),  # one tile at a time
    (lambda x, w, b, r: ktpu.maximum(r, 0) * b, 1, 1),
    (lambda x, w, b, r: ktpu.maximum(r, 0.1) * b, 2, 0),  # 0.1 is no FP16 number
    (lambda x, w, b, r: (r > 0) * r, 1, 1),
    (lambda x, w, b, r: (r + 1) * r, 2, 0),
    (lambda x, w, b, r: (r + 1) > 0, 2, 0),  # what is compared is the rounded sum
    (lambda x, w, b, r: (x @ w) + normal(6, 1), 2, 0),  # a tile takes no scalar a row
    (lambda x, w, b, r: (x @ w[0]).relu(), 2, 0),
]  # fmt: skip


@pytest.mark.parametrize(("function", "dispatches", "fused"), FUSED)
def test_what_is_fused(function: Any, dispatches: int, fused: int) -> None:
    assert chain(function) == (dispatches, fused)
    with ktpu.eager():
        assert chain(function)[0] == dispatches + fused


def test_a_layer_is_the_kernel_of_the_library() -> None:
    x, w = normal(6, 40), normal(9, 40)
    expected = kernels.linear_silu(x, w).numpy()
    compiles = ktpu.stats().compiles
    assert_same_bits((x @ w).silu().numpy(), expected)
    assert ktpu.stats().compiles == compiles


def test_what_the_program_holds_is_computed_apart() -> None:
    x, w = normal(6, 40), normal(9, 40)
    ktpu.reset_stats()
    product = x @ w
    y = product.silu()
    y.numpy()
    assert (ktpu.stats().dispatches, ktpu.stats().fused) == (2, 0)
    product.numpy()
    assert ktpu.stats().dispatches == 2


def test_what_two_operations_need_is_computed_once() -> None:
    x, w = normal(6, 40), normal(9, 40)
    ktpu.reset_stats()

    def halves() -> tuple[ktpu.Tensor, ktpu.Tensor]:
        product = x @ w
        return product.silu(), product + 1

    first, second = halves()
    ktpu.sync()
    assert (ktpu.stats().dispatches, ktpu.stats().fused) == (3, 0)
    assert first.shape == second.shape


def test_nothing_runs_before_it_is_wanted() -> None:
    x = normal(6, 40)
    ktpu.reset_stats()
    session = ktpu.device()
    y = x + 1
    assert session.runtime.totals.dispatches == 0
    assert y.shape == (6, 40)
    assert y.device is session
    x * 2  # nobody holds this
    ktpu.sync()
    assert ktpu.stats().dispatches == 1
    with ktpu.eager():
        z = x + 2
        assert session.runtime.totals.dispatches == 2
    kernels.relu(z + y)
    assert session.runtime.totals.dispatches == 4


def test_long_chains_are_computed_in_between() -> None:
    x = ktpu.zeros((3,))
    for _ in range(600):
        x = x + 1
    assert x.numpy().tolist() == [600.0] * 3
    assert len(ktpu.device().waiting) < 256


def test_operands_are_let_go() -> None:
    x = normal(64, 64)
    ktpu.stats()
    for _ in range(5):
        x = (x + 1).silu()
    x.numpy()
    assert ktpu.stats().memory.live == 64 * 128


@pytest.fixture
def cramped() -> Iterator[ktpu.Session]:
    """Select a device with 4096 words of memory."""
    machine = replace(preset("small"), name="cramped", dram_words=4096)
    with ktpu.device("golden", machine=machine) as session:
        yield session
        session.close()


def test_a_full_device_computes_what_waits(cramped: ktpu.Session) -> None:
    first = ktpu.zeros((3000, 16))
    x = ktpu.zeros((1000, 16))
    a, b = x[:1] + 1, x[1:2] + 1
    del x
    assert cramped.runtime.totals.dispatches == 0
    rest = ktpu.zeros((900, 16))  # does not fit beside x, which only a and b hold
    assert cramped.runtime.totals.dispatches == 2
    assert a.numpy()[0, 0] == b.numpy()[0, 0] == 1
    assert len(first) + len(rest) == 3900


def line_of(text: str) -> str:
    with open(__file__) as file:
        return f"{__file__}:{next(i for i, line in enumerate(file, 1) if text in line)}"


def test_errors_point_at_the_operation(cramped: ktpu.Session) -> None:
    x = ktpu.zeros((1600, 16))
    with pytest.raises(CallError, match="contracts the last axis") as wrong:
        x @ ktpu.zeros((3, 4))  # no such product
    assert line_of("# no such product") in str(wrong.value)

    def held() -> ktpu.Tensor:
        return (x @ x).relu()  # too large

    result = held()
    assert result.shape == (1600, 1600)
    with pytest.raises(OutOfMemory) as full:
        result.numpy()
    assert line_of("# too large") in str(full.value)
    ktpu.sync()  # what has failed is not tried again by itself
    with pytest.raises(OutOfMemory):
        result.numpy()


def test_a_fused_kernel_that_does_not_fit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise KernelError("too large", fix="none")

    x, w = normal(6, 40), normal(9, 40)
    expected = (x @ w).silu().numpy()
    monkeypatch.setattr(products, "fused_product", refuse)
    ktpu.reset_stats()
    assert_same_bits((x @ w).silu().numpy(), expected)
    assert (ktpu.stats().dispatches, ktpu.stats().fused) == (2, 0)


def test_the_switch() -> None:
    session = ktpu.device()
    x = normal(3, 3)
    ktpu.reset_stats()
    ktpu.eager()
    try:
        x + 1
        assert session.runtime.totals.dispatches == 1
        with ktpu.eager(False):
            x + 1
            assert session.runtime.totals.dispatches == 1
        x + 1
        assert session.runtime.totals.dispatches == 2
    finally:
        ktpu.eager(False)
