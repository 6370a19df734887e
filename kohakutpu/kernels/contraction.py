# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Contractions of the last axis of both operands: ``c[m, n] = sum over k of a[m, k] * b[n, k]``.

``b`` is stored with its outputs as rows, as a layer keeps its weight. Operands are rounded to
MXINT8, products of a block of 32 are exact, blocks are added in FP32 in ascending K, the result is
rounded to FP16. ``precision="high"`` adds the residual of that first rounding: three times the
multiplications, and an error below the final rounding's.

The knobs are the size of an output tile in sub-tiles of 4x4 (``gm`` by ``gn``) and of a chunk of K
in blocks of 32 (``nk``). The result's bits do not depend on them; left open, the compiler decides.
"""

from typing import Any

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def product(a: Any, b: Any, i: Any, j: Any, gm: Any, gn: Any, nk: Any, precision: str) -> Any:
    """Return tile ``(i, j)`` of ``a @ b.T``, summed over all of K, in a grid over both's tiles."""
    acc = L.tile(gm, gn, nk, precision=precision)
    for k in sweep(a.chunks32(nk)):
        acc += a[i, k] @ b[j, k]
    return acc


@kernel
def matmul(
    a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=None, gn=None, nk=None, precision="default"
):
    """``c = a @ b.T``: shapes ``(M, K)`` and ``(N, K)`` to ``(M, N)``."""
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        c[i, j] <<= product(a, b, i, j, gm, gn, nk, precision)


@kernel
def batched_matmul(
    a=L.In(..., M, K),
    b=L.In(..., N, K),
    c=L.Out(..., M, N),
    *,
    gm=None,
    gn=None,
    nk=None,
    precision="default",
):
    """``c = a @ b.T`` for each element of a batch, whose axes broadcast as in numpy.

    Shapes ``(..., M, K)`` and ``(..., N, K)`` to ``(..., M, N)``. An operand without batch axes, a
    weight, is shared by all of them.
    """
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        c[i, j] <<= product(a, b, i, j, gm, gn, nk, precision)
