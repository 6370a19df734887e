# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Moving elements without computing: rows as they are, rows into columns and columns into rows.

A column is one element a row, so a word each. What is on words can be reordered freely, by how
operands are addressed; so what moves single elements goes through columns. NaN stays NaN, all else
keeps its bits, but FP32 numbers below the normal range, which become zeros.
"""

from functools import cache

from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

M, W = dims("M, W")
NAMES = ("copy", "pick", "to_column", "to_row")


@cache
def kernel_for(name: str, dtype: str) -> Kernel:
    """Return one of `NAMES` for elements of a format."""

    @kernel
    def copy(x=L.In(..., M, W, dtype=dtype), y=L.Out(..., M, W, dtype=dtype), *, n=None):
        """``y = x``."""
        for r in grid(y.rows(n)):
            y[r] <<= x[r]

    @kernel
    def pick(x=L.In(..., M, W, dtype=dtype), mask=L.In(W), y=L.Out(..., M, dtype=dtype), *, n=None):
        """``y[m] = x[m, w]`` for the ``w`` where `mask` is 1; elsewhere it is 0."""
        for r in grid(x.rows(n)):
            y[r] <<= L.row_max(L.where(mask, x[r], float("-inf")))

    @kernel
    def to_column(x=L.In(..., M, dtype=dtype), y=L.Out(..., M, 1, dtype=dtype), *, n=None):
        """``y[m, 0] = x[m]``."""
        for r in grid(y.rows(n)):
            y[r] <<= x[r]

    @kernel
    def to_row(x=L.In(..., M, 1, dtype=dtype), y=L.Out(..., M, dtype=dtype), *, n=None):
        """``y[m] = x[m, 0]``."""
        for r in grid(x.rows(n)):
            y[r] <<= L.row_max(x[r])

    return {"copy": copy, "pick": pick, "to_column": to_column, "to_row": to_row}[name]
