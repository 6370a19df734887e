"""What EXEC computes of FP32 values: ``unary(f(a, b, c))`` and row reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics import fp32, reduction, seeds

Values = NDArray[np.float32] | np.float32

_PAIRS: dict[str, Callable[..., Any]] = {
    "max": fp32.maximum,
    "min": fp32.minimum,
    "lt": fp32.lt,
    "le": fp32.le,
    "eq": fp32.eq,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "abs": fp32.absolute,
    "neg": fp32.neg,
    "exp2": seeds.exp2,
    "log2": seeds.log2,
    "recip": seeds.recip,
    "rsqrt": seeds.rsqrt,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": reduction.row_sum,
    "max": reduction.row_max,
    "min": reduction.row_min,
}


def combine(
    f: str, unary: str, operands: Sequence[Values | None], *, clean: bool = False
) -> NDArray[np.float32]:
    """Return ``unary(f(a, b, c))``, each step rounded once.

    Parameters
    ----------
    f, unary : str
        As in EXEC.
    operands : sequence
        ``a b c``: float32 arrays or scalars that broadcast, None where there is no operand.
    clean : bool
        None of them holds a subnormal.

    Returns
    -------
    ndarray of float32
        Of the shape to which the operands broadcast. NaNs are not in canonical form.
    """
    a, b, c = operands
    assert a is not None
    if f == "mac":
        if b is None:
            value = fp32.flush(a) if c is None else fp32.add(a, c, clean=clean)
        elif c is None:
            value = fp32.mul(a, b, clean=clean)
        else:
            value = fp32.muladd(a, b, c, clean=clean)
    elif f == "select":
        assert b is not None
        assert c is not None
        value = fp32.select(c, a, b, clean=clean)
    else:
        value = _PAIRS[f](a, b, clean=clean)
    return value if unary == "none" else _UNARY[unary](value, clean=True)


def reduced(reduce: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the reduction (``sum``, ``max``, ``min``) of each row of results of `combine`."""
    return _REDUCTIONS[reduce](values, clean=True)
