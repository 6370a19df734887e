"""Real numbers that depend on dimensions, such as ``1 / D``: known when the shapes are.

They are computed by the compiler in double precision; rounding to the machine's format happens
once, where the number is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.unknown import Unknown
from kohakuaccel.source import caller


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(a: float, b: float) -> float:
    if a == 0 and b < 0:
        return math.inf
    if a < 0 and math.isfinite(b) and b != int(b):
        return math.nan
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


def _log2(a: float) -> float:
    if a > 0:
        return math.log2(a)
    return -math.inf if a == 0 else math.nan


def _maximum(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _select(a: float, b: float, condition: float) -> float:
    return a if condition != 0 else b


_UNARY: dict[str, Callable[[float], float]] = {
    "neg": lambda a: -a,
    "abs": math.fabs,
    "exp2": lambda a: _power(2.0, a),
    "log2": _log2,
    "recip": lambda a: _divide(1.0, a),
    "rsqrt": lambda a: _power(a, -0.5),
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "**": _power,
    "max": _maximum,
    "min": lambda a, b: -_maximum(-a, -b),
    "lt": lambda a, b: float(a < b),
    "le": lambda a, b: float(a <= b),
    "eq": lambda a, b: float(a == b),
}
_FUNCTIONS: dict[str, Callable[..., float]] = {**_UNARY, **_BINARY, "select": _select}


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Unknown):
    """``op`` of numbers, integer expressions and other scalars.

    Arithmetic with ``+ - * / **`` and numbers gives further scalars.
    """

    op: str
    args: tuple[float | Expr | Scalar, ...]

    __array_ufunc__ = None  # numpy scalars on the left leave the arithmetic to us

    def _key(self) -> object:
        return self.op, self.args

    def evaluate(self, env: Mapping[Symbol, int]) -> float:
        """Return the value under ``env``, in double precision with IEEE results (no exception).

        Raises
        ------
        KeyError
            If a symbol is missing from ``env``.
        """
        return _FUNCTIONS[self.op](*(evaluate(arg, env) for arg in self.args))

    def symbols(self) -> frozenset[Symbol]:
        """Return the symbols that occur."""
        return frozenset[Symbol]().union(*(symbols(arg) for arg in self.args))

    def __add__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("+", self, other)

    def __radd__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("+", other, self)

    def __sub__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("-", self, other)

    def __rsub__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("-", other, self)

    def __mul__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("*", self, other)

    def __rmul__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("*", other, self)

    def __truediv__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("/", self, other)

    def __rtruediv__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("/", other, self)

    def __pow__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("**", self, other)

    def __rpow__(self, other: float | Expr | Scalar) -> Scalar | float:
        return combine("**", other, self)

    def __floordiv__(self, other: object) -> NoReturn:
        self._refuse_whole("//")

    def __mod__(self, other: object) -> NoReturn:
        self._refuse_whole("%")

    __rfloordiv__, __rmod__ = __floordiv__, __mod__

    def _refuse_whole(self, op: str) -> NoReturn:
        raise KernelError(
            f"`{op}` takes whole numbers, and `{self}` is none",
            loc=caller(),
            fix="divide dimensions and counts by `//` where a whole number is wanted",
        )

    def __neg__(self) -> Scalar | float:
        return combine("neg", self)

    def __abs__(self) -> Scalar | float:
        return combine("abs", self)

    def __str__(self) -> str:
        shown = [_show(arg) for arg in self.args]
        if self.op in ("+", "-", "*", "/", "**"):
            return f"({shown[0]} {self.op} {shown[1]})"
        return f"{self.op}({', '.join(shown)})"


def is_number(value: object) -> bool:
    """Return whether ``value`` is a number known now or once the dimensions are."""
    if isinstance(value, (Expr, Scalar)):
        return True
    return isinstance(value, (int, float)) or _is_numpy_scalar(value)


def as_number(value: object) -> float | Scalar:
    """Return a number in the form that a value graph holds.

    Raises
    ------
    TypeError
        If ``value`` is no real number.
    """
    if isinstance(value, Scalar):
        return value
    if isinstance(value, Expr):
        return Scalar("+", (value, 0.0))
    if is_number(value):
        return float(value)  # pyright: ignore[reportArgumentType]
    raise TypeError(f"{value!r} is no real number")


def combine(op: str, *args: float | Expr | Scalar) -> Scalar | float:
    """Return ``op`` of ``args``; a plain float where all of them are.

    Gives ``NotImplemented`` where one of them is no number, as an operator should.
    """
    if not all(is_number(arg) for arg in args):
        return NotImplemented
    plain = tuple(arg if isinstance(arg, (Expr, Scalar)) else float(arg) for arg in args)
    result = Scalar(op, plain)
    return result if result.symbols() else result.evaluate({})


def evaluate(number: float | Expr | Scalar, env: Mapping[Symbol, int]) -> float:
    """Return ``number`` under ``env``."""
    if isinstance(number, (Expr, Scalar)):
        return float(number.evaluate(env))
    return float(number)


def symbols(number: float | Expr | Scalar) -> frozenset[Symbol]:
    """Return the symbols of ``number``."""
    return number.symbols() if isinstance(number, (Expr, Scalar)) else frozenset()


def _is_numpy_scalar(value: object) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("b", "i", "u", "f") and getattr(value, "shape", None) == ()


def _show(arg: float | Expr | Scalar) -> str:
    return f"{arg:g}" if isinstance(arg, float) else str(arg)
