"""Integer expressions over symbols: shapes, loop counts and indices before the numbers are known.

An expression is immutable and hashable. It evaluates under an environment that maps symbols to
integers, and it can be asked for its affine form in a set of symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, cast, overload

from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.ir.unknown import Unknown
from kohakuaccel.source import call_site, caller

if TYPE_CHECKING:
    from kohakuaccel.ir.scalar import Scalar


_FOREIGN = ("str", "bytes", "list", "tuple", "dict", "set", "NoneType")
_DIVISIONS = ("//", "%", "ceil/")
_REAL = ("+", "-", "*", "/", "**")


class Expr(Unknown):
    """Base of integer expressions; arithmetic with ``+ - * // %`` and :func:`ceildiv`.

    True division, powers and floats lead to a :class:`kohakuaccel.ir.scalar.Scalar`.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars on the left leave the arithmetic to us

    @overload
    def __add__(self, other: Expr | int) -> Expr: ...
    @overload
    def __add__(self, other: float | Scalar) -> Scalar: ...
    def __add__(self, other: Any) -> Any:
        return _operate("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _operate("+", other, self)

    @overload
    def __sub__(self, other: Expr | int) -> Expr: ...
    @overload
    def __sub__(self, other: float | Scalar) -> Scalar: ...
    def __sub__(self, other: Any) -> Any:
        return _operate("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operate("-", other, self)

    @overload
    def __mul__(self, other: Expr | int) -> Expr: ...
    @overload
    def __mul__(self, other: float | Scalar) -> Scalar: ...
    def __mul__(self, other: Any) -> Any:
        return _operate("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _operate("*", other, self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return _operate("//", self, other)

    def __rfloordiv__(self, other: Expr | int) -> Expr:
        return _operate("//", other, self)

    def __mod__(self, other: Expr | int) -> Expr:
        return _operate("%", self, other)

    def __rmod__(self, other: Expr | int) -> Expr:
        return _operate("%", other, self)

    def __truediv__(self, other: float | Expr | Scalar) -> Scalar:
        return _real("/", self, other)

    def __rtruediv__(self, other: float) -> Scalar:
        return _real("/", other, self)

    def __pow__(self, other: float | Expr | Scalar) -> Scalar:
        return _real("**", self, other)

    def __rpow__(self, other: float) -> Scalar:
        return _real("**", other, self)

    def __neg__(self) -> Expr:
        return binary("*", -1, self)

    def plain(self) -> Expr:
        """Return the expression without what a subclass knows beside its value."""
        return self

    def evaluate(self, env: Mapping[Symbol, int]) -> int:
        """Return the value under ``env``.

        Raises
        ------
        KeyError
            If a symbol of the expression is missing from ``env``.
        """
        raise NotImplementedError(type(self).__name__)

    def symbols(self) -> frozenset[Symbol]:
        """Return the symbols that occur."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """An integer."""

    value: int

    def _key(self) -> object:
        return self.value

    def evaluate(self, env: Mapping[Symbol, int]) -> int:
        """Return the integer."""
        return self.value

    def symbols(self) -> frozenset[Symbol]:
        """Return nothing."""
        return frozenset()

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Symbol(Expr):
    """A named unknown with an identity of its own: a dimension, a knob or a loop index.

    ``kind`` is ``"dim"``, ``"knob"`` or ``"index"``.
    """

    name: str
    kind: str = "dim"

    def _key(self) -> object:
        return id(self)

    def evaluate(self, env: Mapping[Symbol, int]) -> int:
        """Return the number that ``env`` gives it."""
        return env[self]

    def symbols(self) -> frozenset[Symbol]:
        """Return the symbol alone."""
        return frozenset((self,))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    """``left op right`` with ``op`` one of ``+ - * // %`` or ``ceil/``."""

    op: str
    left: Expr
    right: Expr

    def _key(self) -> object:
        return self.op, self.left, self.right

    def evaluate(self, env: Mapping[Symbol, int]) -> int:
        """Return the operation applied to both sides under ``env``.

        Raises
        ------
        CallError
            If it divides by 0.
        """
        left, right = self.left.evaluate(env), self.right.evaluate(env)
        if self.op in _DIVISIONS and type(right) is int and right == 0:  # no array of indices
            raise CallError(
                f"`{self}` divides by 0: `{self.right}` is 0 for these arguments",
                loc=call_site(),
                fix=f"pass tensors for which `{self.right}` is positive",
            )
        return _FUNCTIONS[self.op](left, right)

    def symbols(self) -> frozenset[Symbol]:
        """Return the symbols of both sides."""
        return self.left.symbols() | self.right.symbols()

    def __str__(self) -> str:
        if self.op == "ceil/":
            return f"ceildiv({self.left}, {self.right})"
        left, right = _enclosed(self.left, self.op, False), _enclosed(self.right, self.op, True)
        return f"{left} {self.op} {right}"


def _enclosed(part: Expr, op: str, on_the_right: bool) -> str:
    """Return an operand of ``op``, in parentheses where reading it needs them."""
    if not isinstance(part, Binary) or part.op == "ceil/":
        return str(part)
    loose, around = part.op in "+-", op in "+-"
    plain = loose <= around and not (on_the_right and (op != "+" or part.op != "*"))
    return str(part) if plain else f"({part})"


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "ceil/": lambda a, b: -(-a // b),
}


def as_expr(value: Expr | int) -> Expr:
    """Return ``value`` as an expression.

    Raises
    ------
    TypeError
        If ``value`` is no integer.
    """
    return value.plain() if isinstance(value, Expr) else Const(index(value))


def is_integer(value: object) -> bool:
    """Return whether ``value`` is an expression or an integer of Python or numpy (no bool)."""
    if isinstance(value, Unknown):
        return isinstance(value, Expr)
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _operate(op: str, left: Any, right: Any) -> Any:
    if is_integer(left) and is_integer(right):
        return binary(op, left, right)
    return _real(op, left, right)


def _real(op: str, left: Any, right: Any) -> Any:
    from kohakuaccel.ir.scalar import combine  # scalars are built from expressions

    whole = op in ("//", "%")
    for operand in (left, right):
        kind = cast("type[object]", type(operand)).__name__
        if kind in _FOREIGN or (whole and kind in ("float", "bool")):
            raise KernelError(
                f"`{left} {op} {right}`: a {kind} is no {'whole number' if whole else 'number'}",
                loc=caller(),
                fix="use whole numbers, dimensions and indices"
                + ("" if whole else ", or floats where a number is wanted"),
            )
    return combine(op, left, right) if op in _REAL else NotImplemented


def binary(op: str, left: Expr | int, right: Expr | int) -> Expr:
    """Return ``left op right``, folded where both are numbers or one is neutral."""
    a, b = as_expr(left), as_expr(right)
    if op in _DIVISIONS and b == Const(0):
        raise KernelError(f"`{a} {op} 0` divides by 0", loc=caller(), fix="divide by 1 or more")
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_FUNCTIONS[op](a.value, b.value))
    if isinstance(b, Const):
        if (op in "+-" and b.value == 0) or (op in ("*", "//", "ceil/") and b.value == 1):
            return a
    if isinstance(a, Const):
        if (op == "+" and a.value == 0) or (op == "*" and a.value == 1):
            return b
    return Binary(op, a, b)


def ceildiv(left: Expr | int, right: Expr | int) -> Expr:
    """Return ``left / right`` rounded up."""
    return binary("ceil/", left, right)


@dataclass(frozen=True, slots=True)
class AffineForm:
    """``constant + sum(coefficient * symbol)`` over the symbols that were asked for."""

    constant: int
    coefficients: tuple[tuple[Symbol, int], ...]

    def coefficient(self, symbol: Symbol) -> int:
        """Return the coefficient of ``symbol``, 0 if it does not occur."""
        return dict(self.coefficients).get(symbol, 0)


def affine(expr: Expr, env: Mapping[Symbol, int], over: Iterable[Symbol]) -> AffineForm | None:
    """Return ``expr`` as an affine form over ``over``, all other symbols taken from ``env``.

    ``None`` if it is not affine (a product or quotient of two of the symbols).
    """
    free = frozenset(over)

    def walk(node: Expr) -> tuple[int, dict[Symbol, int]] | None:
        if not node.symbols() & free:
            return node.evaluate(env), {}
        if isinstance(node, Symbol):
            return 0, {node: 1}
        if not isinstance(node, Binary) or node.op not in ("+", "-", "*"):
            return None
        left, right = walk(node.left), walk(node.right)
        if left is None or right is None:
            return None
        if node.op == "*":
            if left[1] and right[1]:
                return None
            terms, scale = (left, right[0]) if left[1] else (right, left[0])
            return terms[0] * scale, {s: c * scale for s, c in terms[1].items()}
        sign = 1 if node.op == "+" else -1
        merged = dict(left[1])
        for symbol, value in right[1].items():
            merged[symbol] = merged.get(symbol, 0) + sign * value
        return left[0] + sign * right[0], merged

    result = walk(expr)
    if result is None:
        return None
    return AffineForm(result[0], tuple((s, c) for s, c in result[1].items() if c))
