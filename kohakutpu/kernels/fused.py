"""Kernels made for an expression: elementwise operations after each other, on a contraction or not.

An expression is the number of an operand, or the name of an operation and its operands:
``("relu", ("add", 0, 1))``. Nothing is rounded to FP16 within one. Forms of operands are those of
`broadcast`, and ``tile`` for the product of a contraction.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.kernels import broadcast
from kohakutpu.kernels.broadcast import DECLARATIONS, OPERATIONS, WHOLE
from kohakutpu.kernels.contraction import product
from kohakutpu.lang import Kernel, kernel

M, K, N = dims("M, K, N")

Expression = int | tuple[Any, ...]

UNARY: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "abs": L.abs,
    "exp2": L.exp2,
    "log2": L.log2,
    "recip": L.recip,
    "rsqrt": L.rsqrt,
    "silu": L.silu,
    "gelu": L.gelu,
    "relu": L.relu,
}
EVERY = OPERATIONS | UNARY
TILED: dict[str, Callable[[], Any]] = {
    "full": lambda: L.In(..., M, N),
    "channel": lambda: L.In(N),
    "scalar": lambda: L.In(),
    "number": lambda: L.In(dtype="fp32"),
}


def compute(expression: Expression, operands: Sequence[Any]) -> Any:
    """Return the value of an expression of `operands`."""
    if isinstance(expression, int):
        return operands[expression]
    name, *arguments = expression
    return EVERY[name](*(compute(argument, operands) for argument in arguments))


def names_of(expression: Expression) -> list[str]:
    """Return the operations of an expression, the last one to be computed first."""
    if isinstance(expression, int):
        return []
    return [expression[0], *(name for part in expression[1:] for name in names_of(part))]


@cache
def elementwise_for(expression: Expression, forms: tuple[str, ...]) -> Kernel:
    """Return the kernel of an expression of operands of these forms, none of them ``tile``."""
    parts = "part" in forms
    result = L.Out(...) if parts else L.Out(..., broadcast.M, broadcast.W)

    def body(*tensors: Any, n: Any) -> None:
        *operands, y = tensors
        for e in grid(y.parts(n) if parts else y.rows(n)):
            values = [x if f in WHOLE else x[e] for x, f in zip(operands, forms, strict=True)]
            y[e] <<= compute(expression, values)

    return declared(body, expression, [DECLARATIONS[form]() for form in forms], result, n=None)


@cache
def contraction_for(expression: Expression, forms: tuple[str, ...], shared: bool) -> Kernel:
    """Return the kernel of an expression whose operand 0 is the product of two operands.

    Parameters
    ----------
    expression : int or tuple
        Of the product and the other operands.
    forms : tuple of str
        Of the other operands: ``full``, ``channel``, ``scalar`` or ``number``.
    shared : bool
        The second factor has no batch.
    """

    def body(*tensors: Any, gm: Any, gn: Any, nk: Any, precision: str) -> None:
        a, b, *operands, y = tensors
        for i, j in grid(a.tiles(gm), b.tiles(gn)):
            acc = product(a, b, i, j, gm, gn, nk, precision)
            picks: dict[str, Callable[[Any], Any]] = {
                "full": lambda x, at=(i, j): x[at],
                "channel": lambda x, at=j: x[at],
            }
            values = [picks.get(f, lambda x: x)(x) for x, f in zip(operands, forms, strict=True)]
            y[i, j] <<= compute(expression, [acc, *values])

    factors = [L.In(..., M, K), L.In(N, K) if shared else L.In(..., N, K)]
    others = [TILED[form]() for form in forms]
    knobs: dict[str, Any] = {"gm": None, "gn": None, "nk": None, "precision": "default"}
    return declared(body, expression, [*factors, *others], L.Out(..., M, N), **knobs)


def declared(
    body: Callable[..., None],
    expression: Expression,
    operands: Sequence[Any],
    result: Any,
    **knobs: Any,
) -> Kernel:
    """Return a kernel of `body` with parameters for the operands, the result and the knobs."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [chr(ord("a") + place) for place in range(len(operands))]
    parameters = [
        inspect.Parameter(name, kind, default=value)
        for name, value in zip((*names, "y"), (*operands, result), strict=True)
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
        for name, value in knobs.items()
    ]
    body.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    body.__name__ = body.__qualname__ = "_".join(("fused", *reversed(names_of(expression))))
    return kernel(body)
