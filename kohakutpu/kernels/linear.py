# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""A layer in one pass: a contraction whose tile goes through an activation on its way out.

The product never reaches memory. It is rounded to FP16 before the activation all the same, so each
of these equals `matmul` followed by the separate kernel, bit for bit.

Shapes: ``x`` is ``(M, K)``, the weight ``w`` is ``(N, K)``, the result ``(M, N)``. Numerics and
knobs are those of `contraction`.
"""

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


@kernel
def linear_silu(
    x=L.In(M, K), w=L.In(N, K), y=L.Out(M, N), *, gm=None, gn=None, nk=None, precision="default"
):
    """``y = silu(x @ w.T)``."""
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk, precision=precision)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        y[i, j] <<= L.silu(acc)


@kernel
def linear_gelu(
    x=L.In(M, K), w=L.In(N, K), y=L.Out(M, N), *, gm=None, gn=None, nk=None, precision="default"
):
    """``y = gelu(x @ w.T)``, the tanh form."""
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk, precision=precision)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        y[i, j] <<= L.gelu(acc)


@kernel
def linear_relu(
    x=L.In(M, K), w=L.In(N, K), y=L.Out(M, N), *, gm=None, gn=None, nk=None, precision="default"
):
    """``y = max(x @ w.T, 0)``."""
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk, precision=precision)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        y[i, j] <<= L.relu(acc)


@kernel
def linear_bias(
    x=L.In(M, K),
    w=L.In(N, K),
    bias=L.In(N),
    y=L.Out(M, N),
    *,
    gm=None,
    gn=None,
    nk=None,
    precision="default",
):
    """``y = x @ w.T + bias``, one element of `bias` a column."""
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk, precision=precision)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        y[i, j] <<= acc + bias[j]
