# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Columns of a matrix as rows: a row function brings one element of each row along.

The sum of a row in which all elements but one are replaced by -0, which adds nothing to anything,
is that element, whatever it is; the sums of a block of rows are a piece of the result's row.
"""

from functools import cache
from inspect import Parameter, Signature

import numpy as np

from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

M = dims("M")


@cache
def kernel_for(width: int, dtype: str) -> Kernel:
    """Return the kernel that reads ``(..., M, width)`` and returns each column, ``(..., M)``.

    NaN stays NaN, all else keeps its bits, but FP32 numbers below the normal range, which become
    zeros. It is meant for a quarter of a word, 4 elements of FP16: the fewer columns, the fewer
    elements a sum goes over, and each column is a result of its own.
    """

    def transpose(x, *columns, n):
        for r in grid(x.rows(n)):
            for number, column in enumerate(columns):
                alone = L.table(np.arange(width) == number)
                column[r] <<= L.row_sum(L.where(alone, x[r], -0.0))

    tensors = {
        "x": L.In(..., M, width, dtype=dtype),
        **{f"column{number}": L.Out(..., M, dtype=dtype) for number in range(width)},
    }
    transpose.__signature__ = Signature(
        [
            *(Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in tensors.items()),
            Parameter("n", Parameter.KEYWORD_ONLY, default=None),
        ]
    )
    return kernel(transpose)
