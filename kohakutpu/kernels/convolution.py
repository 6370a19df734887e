# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Convolution as a contraction, with no copy of its input: a sum of products of shifted rows.

With channels last, the elements under one row of a filter are ``kw * C`` in a row, and the next
output position has its own a stride further on: rows that overlap. A filter of ``kh`` rows is the
sum of as many contractions over ``kw * C`` elements, all into one tile. Each of their operands is
one parameter here, and all of a side are the same memory, from different places on;
`kohakutpu.api.conv2d` says which.
"""

from functools import cache
from inspect import Parameter, Signature

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.kernels.linear import activate
from kohakutpu.lang import Kernel, kernel

M, K, N = dims("M, K, N")


@cache
def kernel_for(count: int, bias: bool) -> Kernel:
    """Return the kernel that sums `count` contractions and, with `bias`, one element a column.

    It takes ``x0 x1 ...`` of shape ``(..., M, K)``, ``w0 w1 ...`` of shape ``(N, K)`` and perhaps
    ``bias``, shape ``(N,)``; its knobs are ``activation``, one of `linear.ACTIVATIONS`, and those
    of `contraction`. Products are added in ascending order, and along K within each.
    """

    def conv2d(*operands, activation, gm, gn, nk, precision):
        pairs = list(zip(operands[:count], operands[count : 2 * count], strict=True))
        y = operands[-1]
        for i, j in grid(operands[0].tiles(gm), operands[count].tiles(gn)):
            acc = L.tile(gm, gn, nk, precision=precision, sweeps=count)
            for x, w in pairs:
                for k in sweep(x.chunks32(nk)):
                    acc += x[i, k] @ w[j, k]
            y[i, j] <<= activate(activation, acc + operands[-2][j] if bias else acc)

    tensors = {
        **{f"x{number}": L.In(..., M, K) for number in range(count)},
        **{f"w{number}": L.In(N, K) for number in range(count)},
        **({"bias": L.In(N)} if bias else {}),
        "y": L.Out(..., M, N),
    }
    knobs = {"activation": "none", "gm": None, "gn": None, "nk": None, "precision": "default"}
    conv2d.__signature__ = Signature(
        [
            *(Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in tensors.items()),
            *(Parameter(n, Parameter.KEYWORD_ONLY, default=d) for n, d in knobs.items()),
        ]
    )
    return kernel(conv2d)
