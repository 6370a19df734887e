"""The interpreter against statements in plain numpy, so that the fuzz compares with something."""

import numpy as np
import pytest

from compiler.tests import fused
from compiler.tests.golden import assert_same, contract, to_fp16
from kohakutpu import kernels
from tests.fuzz.generator import generate
from tests.fuzz.interpreter import interpret
from tests.fuzz.mutations import mutated

pytestmark = pytest.mark.golden


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float16)


@pytest.mark.parametrize("precision", ["default", "left", "high"])
def test_contractions(precision: str) -> None:
    a, b = normal(9, 70), normal(6, 70)
    trace = kernels.matmul.trace(gm=2, gn=1, nk=1, precision=precision)
    assert_same(interpret(trace, [a, b])[0], to_fp16(contract(a, b, precision)))


def test_attention() -> None:
    q, k, v = normal(30, 40), normal(70, 40), normal(70, 12)
    found = interpret(fused.attention.trace(block=16, keys=32), [q, k, v])[0]
    assert_same(found, fused.attention_statement(q, k, v, 32, 0.25))


def test_elementwise_and_batches() -> None:
    x, w = normal(2, 3, 5, 20), normal(20)
    found = interpret(kernels.rmsnorm.trace(n=2), [x, w])[0]
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(found, exact, rtol=2e-3)
    found = interpret(kernels.add.trace(n=32), [x, x])[0]
    assert_same(found, x + x)


def test_sources_are_functions_of_their_seeds() -> None:
    texts = {generate(seed).text for seed in range(40)}
    assert len(texts) == 40
    for seed in range(5):
        assert generate(seed).text == generate(seed).text
        assert mutated(generate(seed), 7).text == mutated(generate(seed), 7).text
        for a, b in zip(generate(seed).arrays, generate(seed).arrays, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
