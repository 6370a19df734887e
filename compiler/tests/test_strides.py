"""Arguments and results whose rows do not follow each other."""

import numpy as np
import pytest

from compiler.pipeline import ArgSpec, Compiled, compile_kernel
from kohakuaccel.errors import InternalError
from kohakuaccel.lang import dims, grid
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import devices, isa
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.kernels import add, batched_matmul
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden

M, W = dims("M, W")
MACHINE = preset("small")
WORD = 32


@kernel
def copy(x=L.In(..., M, W), y=L.Out(..., M, W), *, n=None):
    for r in grid(y.rows(n)):
        y[r] <<= x[r]


def run(compiled: Compiled, *contents: np.ndarray, starts: list[int]) -> list[np.ndarray]:
    """Run on `contents`, each a whole buffer, and return all of them as they are then."""
    runtime = Runtime(devices.create("golden", MACHINE, {}), isa.patch)
    blocks = [runtime.allocate(content.nbytes, "test") for content in contents]
    for block, content in zip(blocks, contents, strict=True):
        runtime.write(block.address, content.tobytes())
    runtime.launch(
        compiled.image,
        [block.address + start for block, start in zip(blocks, starts, strict=True)],
    )
    read = [np.frombuffer(runtime.read(b.address, b.nbytes), np.float16).copy() for b in blocks]
    return [found.reshape(c.shape) for found, c in zip(read, contents, strict=True)]


def test_rows_and_batches_anywhere() -> None:
    source = np.random.default_rng(0).normal(size=(7, 5, 32)).astype(np.float16)
    target = np.full((20, 3, 16), -1, np.float16)
    # Every other element of the batch backwards, rows every two words, from the second quarter on.
    spec = ArgSpec((3, 4, 11), "fp16", (-2 * 5 * 2, 2))
    compiled = compile_kernel(copy, [spec], {"n": 3}, MACHINE, out_strides=[(3, 9)])
    _, written = run(compiled, source, target, starts=[6 * 5 * 2 * WORD + 8, 0])
    expected = target.copy()
    for batch in range(3):
        for row in range(4):
            expected[batch + 3 * row, 0, :11] = source[6 - 2 * batch, row, 4:15]
            expected[batch + 3 * row, 0, 11] = 0  # whole quarters are written
    assert np.array_equal(written, expected)


def test_a_repeated_row() -> None:
    source = np.arange(16, dtype=np.float16)
    compiled = compile_kernel(copy, [ArgSpec((5, 9), "fp16", (0,))], {}, MACHINE)
    _, written = run(compiled, source, np.zeros((5, 16), np.float16), starts=[0, 0])
    assert np.array_equal(written[:, :9], np.broadcast_to(source[:9], (5, 9)))


def test_a_contraction_of_heads_side_by_side() -> None:
    numbers = np.random.default_rng(1)
    q, k = (numbers.integers(-3, 4, (6, 2, 32)).astype(np.float16) for _ in range(2))
    spec = ArgSpec((2, 6, 32), "fp16", (2, 4))
    compiled = compile_kernel(batched_matmul, [spec, spec], {}, MACHINE)
    *_, scores = run(compiled, q, k, np.zeros((2, 6, 16), np.float16), starts=[0, 0, 0])
    expected = np.einsum("qhd,khd->hqk", q.astype(np.float32), k.astype(np.float32))
    assert np.array_equal(scores[:, :, :6], expected)


def test_parts_have_no_strides() -> None:
    spec = ArgSpec((4, 16), "fp16", (2,))
    with pytest.raises(InternalError, match="cannot have strides"):
        compile_kernel(add, [spec, spec], {}, MACHINE)
