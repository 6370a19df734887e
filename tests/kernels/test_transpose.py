"""Transposition on the device: every bit, any axes, both formats; a word an element is nowhere."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from kohakutpu.kernels.transpose import kernel_for

pytestmark = pytest.mark.golden

SPECIAL = [0.0, -0.0, np.inf, -np.inf, 2.0**-24, -65504.0]


def values(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    random = np.random.default_rng(list(shape))
    array = random.standard_normal(shape).astype(dtype)
    flat = array.reshape(-1)
    flat[:: max(1, len(flat) // 7)] = random.choice(SPECIAL, len(flat[:: max(1, len(flat) // 7)]))
    return array


def same_bits(ours: np.ndarray, want: np.ndarray) -> None:
    assert ours.shape == want.shape
    bits = {2: np.uint16, 4: np.uint32}[ours.dtype.itemsize]
    assert np.array_equal(ours.view(bits), np.ascontiguousarray(want).view(bits))


@pytest.mark.parametrize("shape", [
    (2, 2), (1, 5), (5, 1), (3, 4), (4, 3), (16, 16), (17, 33), (33, 17), (5, 100), (100, 6),
    (65, 64),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_matrices(machine: str, dtype: Any, shape: tuple[int, int]) -> None:
    x = values(*shape, dtype=dtype)
    with ktpu.device("golden", machine=machine, poison=True):
        same_bits(ktpu.tensor(x, dtype=dtype).T.numpy(), x.T)


@pytest.mark.parametrize("axes", [p for p in permutations(range(4)) if p[-1] != 3])
def test_batches(axes: tuple[int, ...]) -> None:
    x = values(3, 5, 2, 21)
    same_bits(ktpu.tensor(x).transpose(axes).numpy(), x.transpose(axes))


def test_views() -> None:
    x = values(6, 20, 40)
    tensor = ktpu.tensor(x)
    for taken in (np.s_[::2, 3:, 4:30], np.s_[:, ::-1, 8:], np.s_[1, :, 12:13], np.s_[:, 5, :]):
        view, want = tensor[taken], x[taken]
        axes = (*range(want.ndim - 2), want.ndim - 1, want.ndim - 2)
        same_bits(view.transpose(axes).numpy(), want.transpose(axes))


def test_nan_stays_nan() -> None:
    x = values(9, 22)
    x[3, 5] = x[8, 21] = np.nan
    ours = ktpu.tensor(x).T.numpy()
    assert np.array_equal(ours, x.T, equal_nan=True)


def test_memory(hostile: ktpu.Session) -> None:
    x = ktpu.tensor(values(64, 256))
    hostile.reset_stats()
    x.T.numpy()
    stats = hostile.stats()
    assert stats.memory_written == 256 * 4
    assert stats.dispatches == 4  # one for each quarter of a word


def test_interleavings() -> None:
    x = values(2, 37, 22)
    for seed in range(9):
        with ktpu.device("golden", machine="duo", poison=True, seed=seed) as session:
            same_bits(ktpu.tensor(x).transpose(0, 2, 1).numpy(), x.transpose(0, 2, 1))
            session.close()


def test_the_kernel() -> None:
    x = values(3, 10, 4)
    for n in (None, 4, 8):
        columns = kernel_for(4, "fp16")(ktpu.tensor(x), n=n)
        for number, column in enumerate(columns):
            same_bits(column.numpy(), x[..., number])
