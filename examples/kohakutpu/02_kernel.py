"""A kernel: state how the work is split, and let the compiler decide the rest.

python examples/kohakutpu/02_kernel.py
"""

import numpy as np

from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N, W = dims("M, K, N, W")


# Operands are defaults: they declare what arrives, and give the body a handle to index.
@kernel
def matmul(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
    """``c = a @ b.T``."""
    for i, j in grid(a.tiles(gm), b.tiles(gn)):  # one output tile an instance
        acc = L.tile(gm, gn, nk)  # 4*gm rows, 4*gn columns, in the accumulator
        for k in sweep(a.chunks32(nk)):  # 32*nk elements of K at a time
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= acc  # the only write to memory


rng = np.random.default_rng(0)
x = ktpu.tensor(rng.standard_normal((100, 129)))
w = ktpu.tensor(rng.standard_normal((48, 129)))

y = matmul(x, w)  # solves M, K, N; compiles; allocates c; runs
assert np.array_equal(y.numpy(), (x @ w).numpy())  # the split changes no bit
assert np.array_equal(matmul(x, w, gm=8, gn=4, nk=1).numpy(), y.numpy())

print(matmul.trace().pretty())  # the structure, before any shape
print()
print(matmul.plan(x, w).pretty())  # what the machine will do for these shapes
print()


# Arithmetic on the tile is an epilogue: the product goes through it on its way to memory.
@kernel
def linear(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), c=L.Out(M, N), *, gm=None, gn=None, nk=None):
    """``c = silu(a @ b.T + bias)``."""
    for i, j in grid(a.tiles(gm), b.tiles(gn)):  # None leaves a knob to the compiler
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= L.silu(acc + bias[j])


bias = ktpu.tensor(rng.standard_normal(48))
h = linear(x, w, bias)  # the sum stays FP32 until after the activation
assert np.allclose(h.numpy(), (y + bias).silu().numpy(), rtol=2e-3, atol=2e-3)


# Whole rows: reductions and what depends on them, one pass over memory. `...` is a batch.
@kernel
def softmax(s=L.In(..., M, W), p=L.Out(..., M, W), *, scale=1.0, n=None):
    """``p = softmax(scale * s)`` of each row."""
    for r in grid(s.rows(n)):
        scaled = s[r] * (scale * 1.4426950408889634)  # exp2 is the machine's exponential
        power = L.exp2(scaled - L.row_max(scaled))
        p[r] <<= power * L.recip(L.row_sum(power))


p = softmax(h, scale=0.25)
assert np.allclose(p.numpy().astype(float).sum(axis=-1), 1, atol=5e-3)

# Mistakes are refused before anything runs, with the line and the fix.
try:

    @kernel
    def half(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        """Forget half of K."""
        for i, j in grid(a.tiles(4), b.tiles(4)):
            acc = L.tile(4, 4, 1)
            for k in sweep(a.chunks32(1) // 2):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    half(x, w)
except KernelError as error:
    print(error)
else:
    raise AssertionError("half of K was accepted")

print()
print(ktpu.stats())
