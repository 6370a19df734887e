"""Elementwise operations whose operands have different shapes: one kernel for each combination.

An operand has one of these forms:

========== ======================== ==============================================
form       declared as              what the body sees
========== ======================== ==============================================
``part``   ``In(...)``              elements in storage order, like the result's
``full``   ``In(..., M, W)``        all of the rows
``column`` ``In(..., M, 1)``        one element a row
``channel````In(..., W)``           one row, the same for all
``scalar`` ``In()``                 one FP16 element
``number`` ``In(dtype="fp32")``     one FP32 element: a Python number
========== ======================== ==============================================

Leading axes are a batch that broadcasts as in numpy: an operand that has size 1 there, or lacks
the axis, is read again for each element of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

M, W = dims("M, W")


def quotient(a: Any, b: Any) -> Any:
    """Return ``a / b``."""
    return a / b


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": quotient,
    "maximum": L.maximum,
    "minimum": L.minimum,
    "where": L.where,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}
DECLARATIONS: dict[str, Callable[[], Any]] = {
    "part": lambda: L.In(...),
    "full": lambda: L.In(..., M, W),
    "column": lambda: L.In(..., M, 1),
    "channel": lambda: L.In(..., W),
    "scalar": lambda: L.In(),
    "number": lambda: L.In(dtype="fp32"),
}
SCALARS = ("scalar", "number")
WHOLE = ("channel", *SCALARS)  # used as they are; the others are indexed by the tiling in scope


@cache
def kernel_for(name: str, forms: tuple[str, ...]) -> Kernel:
    """Return the kernel of an operation for operands of these forms.

    Parameters
    ----------
    name : str
        One of `OPERATIONS`.
    forms : tuple of str
        One form an operand: ``part`` and scalars, or any but ``part``.
    """
    operation = OPERATIONS[name]
    parts = "part" in forms

    def pick(operand: Any, form: str, index: Any) -> Any:
        return operand if form in WHOLE else operand[index]

    def tiling(c: Any, n: Any) -> Any:
        return grid(c.parts(n) if parts else c.rows(n))

    declared = [DECLARATIONS[form]() for form in forms]
    result = L.Out(...) if parts else L.Out(..., M, W)
    if len(forms) == 2:

        def two(a: Any = declared[0], b: Any = declared[1], c: Any = result, *, n: Any = None):
            for e in tiling(c, n):
                c[e] <<= operation(pick(a, forms[0], e), pick(b, forms[1], e))

        body = two
    else:

        def three(
            a: Any = declared[0],
            b: Any = declared[1],
            c: Any = declared[2],
            d: Any = result,
            *,
            n: Any = None,
        ):
            for e in tiling(d, n):
                picked = [pick(x, form, e) for x, form in zip((a, b, c), forms, strict=True)]
                d[e] <<= operation(*picked)

        body = three
    body.__name__ = body.__qualname__ = f"{name}_{'_'.join(forms)}"
    return kernel(body)
