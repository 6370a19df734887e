"""Elementwise values: what arithmetic on windows, tiles and numbers builds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Grid, Value
from kohakuaccel.ir.scalar import Scalar, as_number, combine, is_number
from kohakuaccel.ir.unknown import Unknown
from kohakuaccel.lang.tracing import current
from kohakuaccel.source import Location, caller

SCALAR_OPS = {"add": "+", "sub": "-", "mul": "*"}
EXPONENTS = frozenset((*(float(n) for n in range(-8, 9)), 0.5, -0.5))


class Elementwise(Unknown):
    """Base of what has a value at every element: arithmetic builds an :class:`Expression`."""

    __slots__ = ()
    compares = True

    def value(self, loc: Location) -> Expression:
        """Return the value read here."""
        raise NotImplementedError(type(self).__name__)

    def __add__(self, other: Any) -> Expression:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return apply("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return apply("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return apply("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return apply("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return divide(self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return divide(other, self)

    def __pow__(self, exponent: Any) -> Expression:
        return power(self, exponent)

    def __neg__(self) -> Expression:
        return apply("neg", self)

    def __pos__(self) -> Expression:
        return as_value(self)

    def __abs__(self) -> Expression:
        return apply("abs", self)

    def __lt__(self, other: Any) -> Expression:
        return apply("lt", self, other)

    def __le__(self, other: Any) -> Expression:
        return apply("le", self, other)

    def __gt__(self, other: Any) -> Expression:
        return apply("lt", other, self)

    def __ge__(self, other: Any) -> Expression:
        return apply("le", other, self)

    def __eq__(self, other: Any) -> Expression:  # pyright: ignore[reportIncompatibleMethodOverride]
        return apply("eq", self, other)

    def __ne__(self, other: Any) -> Expression:  # pyright: ignore[reportIncompatibleMethodOverride]
        return apply("sub", 1.0, apply("eq", self, other))

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Take part in arithmetic with numpy scalars on the left; refuse other numpy functions."""
        function = _UFUNCS.get(ufunc.__name__)
        if function is None or method != "__call__" or options:
            raise KernelError(
                f"numpy's {ufunc.__name__} cannot compute on a value of a kernel",
                loc=caller(),
                fix="use the functions of kohakutpu.lang, such as L.exp2, L.maximum, L.where",
            )
        return function(*(x if isinstance(x, Elementwise) else _number(x) for x in inputs))

    def __matmul__(self, other: Any) -> Any:
        from kohakutpu.lang.operands import multiply  # its operands are values too

        return multiply(self, other, caller())

    def __rmatmul__(self, other: Any) -> Any:
        raise KernelError(
            f"`@` with a {type(other).__name__} on its left: operands are windows of buffers, and "
            "on the left values of the kernel",
            loc=caller(),
            fix="make it a buffer with L.table(array), and contract windows of that",
        )

    def __getitem__(self, place: Any) -> Any:
        raise KernelError(
            f"{self._describe()} cannot be indexed: only buffers can",
            loc=caller(),
            fix="index the buffer by the indices of the grid; the tiling says how much one holds",
        )

    def _unsupported(self, symbol: str) -> NoReturn:
        raise KernelError(
            f"values of a kernel have no operator `{symbol}`",
            loc=caller(),
            fix="use + - * / ** (by a number), comparisons, and the functions of kohakutpu.lang",
        )

    def __floordiv__(self, other: Any) -> Any:
        self._unsupported("//")

    def __mod__(self, other: Any) -> Any:
        self._unsupported("%")

    def __and__(self, other: Any) -> Any:
        self._unsupported("&")

    def __or__(self, other: Any) -> Any:
        self._unsupported("|")

    def __xor__(self, other: Any) -> Any:
        self._unsupported("^")

    def __invert__(self) -> Any:
        self._unsupported("~")

    __rfloordiv__, __rmod__ = __floordiv__, __mod__
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def _describe(self) -> str:
        return "a value of the kernel"


class Expression(Elementwise):
    """A computed value; ``grid`` is the one it was computed in, ``None`` for numbers."""

    __slots__ = ("grid", "node")

    def __init__(self, node: Value, grid: Grid | None) -> None:
        self.node = node
        self.grid = grid

    def value(self, loc: Location) -> Expression:
        """Return itself, once it is sure that its grid is still open.

        Raises
        ------
        KernelError
            If it was computed in another grid: only buffers cross from stage to stage.
        """
        if self.grid is not None and self.grid is not current("this value", loc).grid:
            raise KernelError(
                "this value was computed in another grid, and does not outlive it",
                loc=loc,
                fix="store it with `<<=` into an L.temp(...) there, and read that here",
                notes=[(self.node.loc, "computed here")],
            )
        return self


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,  # pyright: ignore[reportUnknownMemberType]
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "negative": operator.neg,
    "absolute": operator.abs,
}


def _number(operand: Any) -> float:
    """Return a numpy scalar as a float.

    Raises
    ------
    KernelError
        If it is an array with axes.
    """
    if np.ndim(operand):
        as_value(operand)
    return float(operand)


def as_value(operand: Any, loc: Location | None = None) -> Expression:
    """Return an operand of arithmetic as a value.

    Raises
    ------
    KernelError
        If it is neither a value nor a number.
    """
    loc = loc or caller()
    if isinstance(operand, Elementwise):
        return operand.value(loc)
    if is_number(operand):
        number = _known_number(operand, loc)
        return Expression(Value("const", (), "scalar", loc, number=number), None)
    name = type(operand).__name__
    fix = "use windows such as x[r], tiles, numbers and what is computed from them"
    if name in ("ndarray", "list", "tuple"):
        fix = "make it a buffer with L.table(array), and index that"
    raise KernelError(f"`{name}` is no operand of elementwise arithmetic", loc=loc, fix=fix)


def _known_number(operand: Any, loc: Location) -> float | Scalar:
    """Return a number to compute with: one that is known when the shapes are.

    Raises
    ------
    KernelError
        If it depends on an index or on a knob that is left open, or is beyond any format.
    """
    try:
        number = as_number(operand)
    except OverflowError:
        raise KernelError(
            "an integer of this size is beyond FP32, which ends at 3.40282e+38",
            loc=loc,
            fix="scale the computation",
        ) from None
    for symbol in sorted(number.symbols() if isinstance(number, Scalar) else (), key=str):
        if symbol.kind == "index":
            raise KernelError(
                f"`{symbol}` is an index, not a number to compute with",
                loc=loc,
                fix="put what depends on it into an L.table(...) and load its window",
            )
        if symbol.kind == "knob":
            raise KernelError(
                f"knob `{symbol}` is left open, so it is no number to compute with: the compiler "
                "chooses sizes of tiles, parts and blocks only",
                loc=loc,
                fix=f"give `{symbol}` a number, as its default or in the call",
            )
    return number


def apply(op: str, *operands: Any) -> Expression:
    """Return the primitive ``op`` of the operands; numbers alone are computed right away."""
    loc = caller()
    values = [as_value(operand, loc) for operand in operands]
    nodes = tuple(value.node for value in values)
    if all(node.op == "const" for node in nodes):
        number = combine(SCALAR_OPS.get(op, op), *(node.number for node in nodes))
        return Expression(Value("const", (), "scalar", loc, number=number), None)
    extent = widest([node.extent for node in nodes])
    return Expression(Value(op, nodes, extent, loc), current("arithmetic", loc).grid)


def divide(a: Any, b: Any) -> Expression:
    """Return ``a * recip(b)``."""
    loc = caller()
    divisor = as_value(b, loc)
    numerator = as_value(a, loc)
    if numerator.node.op == divisor.node.op == "const":
        number = combine("/", numerator.node.number, divisor.node.number)
        return Expression(Value("const", (), "scalar", loc, number=number), None)
    if numerator.node.op == "const" and numerator.node.number == 1.0:
        return apply("recip", divisor)
    return apply("mul", numerator, apply("recip", divisor))


def power(base: Any, exponent: Any) -> Expression:
    """Return ``base`` to a number's power, by multiplication or reciprocal square root.

    Raises
    ------
    KernelError
        If ``exponent`` is neither a whole number from -8 to 8 nor 0.5 nor -0.5.
    """
    loc = caller()
    number = as_number(exponent) if is_number(exponent) else None
    if not isinstance(number, float) or number not in EXPONENTS:
        raise KernelError(
            "a power needs an exponent that is a whole number from -8 to 8, or 0.5 or -0.5",
            loc=loc,
            fix="write L.exp2(exponent * L.log2(x)) for any other power of a positive x",
        )
    if abs(number) == 0.5:
        root = apply("rsqrt", base)
        return root if number < 0 else apply("recip", root)
    if number < 0:
        return apply("recip", power(base, -number))
    result: Expression | None = None
    square = as_value(base, loc)
    remaining = int(number)
    while remaining:
        if remaining & 1:
            result = square if result is None else apply("mul", result, square)
        remaining >>= 1
        square = apply("mul", square, square) if remaining else square
    return as_value(1.0, loc) if result is None else result


def widest(extents: list[str]) -> str:
    """Return what the result varies over when the operands vary over ``extents``."""
    found = set(extents) - {"scalar"}
    if not found:
        return "scalar"
    return found.pop() if len(found) == 1 else "full"
