"""The example's transformer block: close to float64, nothing but eight results in memory."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from tests.kernels import oracle

pytestmark = pytest.mark.golden

EXAMPLE = Path(__file__).parents[2] / "examples/kohakutpu/03_transformer.py"
PARTS: Any = runpy.run_path(str(EXAMPLE))
HEADS, GROUPS, HEAD = PARTS["HEADS"], PARTS["GROUPS"], PARTS["HEAD"]
WIDTH, HIDDEN, LENGTH = PARTS["WIDTH"], PARTS["HIDDEN"], PARTS["LENGTH"]


def exact(x: np.ndarray, w: dict[str, np.ndarray], cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    batch, length, _ = x.shape

    def turned(heads: np.ndarray) -> np.ndarray:
        a, b = np.split(heads, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    heads = oracle.rmsnorm(x, w["first_norm"]) @ w["heads"].T
    heads = heads.reshape(batch, length, -1, HEAD).transpose(0, 2, 1, 3)
    q, k, v = np.split(heads, [HEADS, HEADS + GROUPS], axis=1)
    k, v = (np.repeat(part, HEADS // GROUPS, axis=1) for part in (turned(k), v))
    scores = turned(q) @ k.swapaxes(-1, -2) / np.sqrt(HEAD)
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    mixed = oracle.softmax(scores) @ v
    x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ w["out"].T
    hidden = oracle.rmsnorm(x, w["second_norm"])
    return x + (oracle.silu(hidden @ w["gate"].T) * (hidden @ w["up"].T)) @ w["down"].T


@pytest.mark.parametrize(("batch", "length"), [(1, LENGTH), (2, 37)])
def test_block(batch: int, length: int, hostile: ktpu.Session) -> None:
    random = np.random.default_rng(1)
    arrays = PARTS["weights"](random)
    a = random.standard_normal((batch, length, WIDTH)).astype(np.float16)
    w = PARTS["Weights"](**{name: ktpu.tensor(array) for name, array in arrays.items()})
    x, tables = ktpu.tensor(a), ktpu.rope_tables(length, HEAD)
    hostile.reset_stats()
    y = PARTS["block"](x, w, *tables)
    stats = hostile.stats()
    assert stats.dispatches == 8
    # Two norms, heads, turned queries and keys, mixed values, two sums: no score, no hidden layer.
    heads = HEADS + 2 * GROUPS + HEADS + GROUPS + HEADS
    assert stats.memory_written == batch * length * (4 * WIDTH + heads * HEAD) // 16
    wide = {name: array.astype(float) for name, array in arrays.items()}
    want = exact(a.astype(float), wide, *(t.numpy().astype(float) for t in tables))
    assert np.sqrt(np.mean((y.numpy() - want) ** 2) / np.mean(want**2)) <= 1.6e-2
