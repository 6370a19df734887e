"""Elementwise and row functions. Each primitive rounds to FP32 once; the others are built of them.

A function of numbers alone is a number, computed in double precision when the kernel is compiled.
"""

from __future__ import annotations

import math
from typing import Any

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Value
from kohakuaccel.lang.tracing import current
from kohakuaccel.source import caller
from kohakutpu.lang.layout import rows_and_width
from kohakutpu.lang.values import Expression, apply, as_value

LOG2_E = math.log2(math.e)
# gelu(x) = x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)), with the sigmoid's -log2 e inside
GELU_LINEAR = -2.0 * math.sqrt(2.0 / math.pi) * LOG2_E
GELU_CUBIC = 0.044715 * GELU_LINEAR
# Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7
ERF_T = 0.3275911
ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def exp2(x: Any) -> Expression:
    """Return 2 to the power of ``x``: the machine's own exponential."""
    return apply("exp2", x)


def log2(x: Any) -> Expression:
    """Return the binary logarithm of ``x``."""
    return apply("log2", x)


def recip(x: Any) -> Expression:
    """Return ``1 / x``."""
    return apply("recip", x)


def rsqrt(x: Any) -> Expression:
    """Return ``1 / sqrt(x)``."""
    return apply("rsqrt", x)


def sqrt(x: Any) -> Expression:
    """Return ``recip(rsqrt(x))``."""
    return apply("recip", apply("rsqrt", x))


def exp(x: Any) -> Expression:
    """Return ``exp2(x * log2 e)``; fold the factor into a scale you have and use :func:`exp2`."""
    return apply("exp2", apply("mul", x, LOG2_E))


def sigmoid(x: Any) -> Expression:
    """Return ``recip(1 + exp2(-log2 e * x))``."""
    return apply("recip", apply("add", apply("exp2", apply("mul", x, -LOG2_E)), 1.0))


def tanh(x: Any) -> Expression:
    """Return ``1 - 2 * recip(1 + exp2(2 * log2 e * x))``."""
    half = apply("recip", apply("add", apply("exp2", apply("mul", x, 2.0 * LOG2_E)), 1.0))
    return apply("add", apply("mul", half, -2.0), 1.0)


def silu(x: Any) -> Expression:
    """Return ``x * sigmoid(x)``."""
    value = as_value(x)
    return apply("mul", value, sigmoid(value))


def gelu(x: Any) -> Expression:
    """Return the tanh form of GELU, ``x * recip(1 + exp2(x * (k1 + k3 * x * x)))``."""
    value = as_value(x)
    square = apply("mul", value, value)
    inner = apply("add", apply("mul", square, GELU_CUBIC), GELU_LINEAR)
    power = apply("exp2", apply("mul", value, inner))
    return apply("mul", value, apply("recip", apply("add", power, 1.0)))


def relu(x: Any) -> Expression:
    """Return ``maximum(x, 0)``."""
    return apply("max", x, 0.0)


def erf(x: Any) -> Expression:
    """Return the error function; the approximation is within 1.5e-7, plus rounding."""
    value = as_value(x)
    size = apply("abs", value)
    t = apply("recip", apply("add", apply("mul", size, ERF_T), 1.0))
    series = as_value(ERF[0])
    for coefficient in ERF[1:]:
        series = apply("add", apply("mul", series, t), coefficient)
    tail = apply("exp2", apply("mul", apply("mul", value, value), -LOG2_E))
    positive = apply("add", apply("neg", apply("mul", apply("mul", series, t), tail)), 1.0)
    return apply("select", apply("neg", positive), positive, apply("lt", value, 0.0))


def absolute(x: Any) -> Expression:
    """Return ``|x|``; the builtin ``abs`` does the same."""
    return apply("abs", x)


def maximum(a: Any, b: Any) -> Expression:
    """Return the greater of ``a`` and ``b``."""
    return apply("max", a, b)


def minimum(a: Any, b: Any) -> Expression:
    """Return the lesser of ``a`` and ``b``."""
    return apply("min", a, b)


def clamp(x: Any, low: Any, high: Any) -> Expression:
    """Return ``minimum(maximum(x, low), high)``."""
    return apply("min", apply("max", x, low), high)


def where(condition: Any, a: Any, b: Any) -> Expression:
    """Return ``a`` where ``condition`` is not zero, else ``b``."""
    return apply("select", a, b, condition)


def row_sum(x: Any) -> Expression:
    """Return the sum over each row: one scalar a row."""
    return _reduce("row_sum", x)


def row_max(x: Any) -> Expression:
    """Return the greatest element of each row: one scalar a row."""
    return _reduce("row_max", x)


def row_min(x: Any) -> Expression:
    """Return the least element of each row: one scalar a row."""
    return _reduce("row_min", x)


def row_mean(x: Any) -> Expression:
    """Return the sum over each row times ``1 / width``."""
    total = _reduce("row_sum", x)
    return apply("mul", total, 1 / _width(total.node.args[0]))


def _reduce(op: str, x: Any) -> Expression:
    loc = caller()
    value = as_value(x, loc)
    grid = current(op, loc).grid
    if value.node.extent != "full":
        what = {
            "row": "has one scalar a row already",
            "channel": "is one row that all rows share",
            "scalar": "is a number",
        }[value.node.extent]
        raise KernelError(
            f"{op} runs along the elements of a row, but its operand {what}",
            loc=loc,
            fix=f"give {op} a value that varies along the row, such as x[r]",
        )
    return Expression(Value(op, (value.node,), "row", loc), grid)


def _width(node: Value) -> Any:
    """Return the elements a row of a full value, as an expression."""
    if node.view is not None:
        return rows_and_width(node.view.buffer)[1]
    if node.tile is not None:
        return node.tile.cols
    varying = [arg for arg in node.args if arg.extent in ("full", "channel")]
    return _width(max(varying, key=lambda arg: arg.extent == "full"))
