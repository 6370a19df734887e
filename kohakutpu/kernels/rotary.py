# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Rotary position embedding: pairs of elements turn by an angle that grows from row to row."""

from functools import cache

from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

M, W = dims("M, W")


@cache
def kernel_for(dtype: str) -> Kernel:
    """Return the kernel for tables of a format."""

    @kernel
    def rope(
        a=L.In(..., M, W),
        b=L.In(..., M, W),
        cos=L.In(M, W, dtype=dtype),
        sin=L.In(M, W, dtype=dtype),
        y=L.Out(..., M, W),
        z=L.Out(..., M, W),
        *,
        n=None,
    ):
        """``y = a * cos - b * sin`` and ``z = b * cos + a * sin``; the tables serve a whole batch.

        Each product and each sum is rounded to FP32, the results to FP16.
        """
        for r in grid(a.rows(n)):
            y[r] <<= a[r] * cos[r] - b[r] * sin[r]
            z[r] <<= b[r] * cos[r] + a[r] * sin[r]

    return rope


rope = kernel_for("fp16")
