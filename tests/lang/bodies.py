"""Kernels around a few statements."""

from collections.abc import Callable
from typing import Any

from kohakuaccel.lang import dims, stage
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, N = dims("M, N")


def rows_of(body: Callable[..., Any]) -> Callable[[], object]:
    """Return a trace of a kernel with a grid of rows around ``body(x, w, y, r)``."""

    @kernel
    def traced(x=L.In(M, N), w=L.In(N), y=L.Out(M, N), *, auto=None):
        with stage(x.rows(2)) as r:
            body(x=x, w=w, y=y, r=r, auto=auto)

    return traced.trace
