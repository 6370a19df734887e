"""What indices are worth at a place of a stage: numbers, loops and the ranges they run over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.program import Affine, Loop
from compiler.vector.context import IndexValue, Operand
from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import AffineForm, Expr, Symbol, affine

Terms = tuple[tuple[Loop, int], ...]


@dataclass(eq=False, slots=True)
class Scope:
    """Symbols with a number, symbols with a loop, and the loops over batch axes.

    Parameters
    ----------
    env : mapping
        Dimensions, knobs and the indices of unrolled loops.
    indices : mapping
        What the index of every enclosing grid and loop is worth.
    batch : sequence of IndexValue
        The loops over batch axes, outermost first.
    """

    env: Mapping[Symbol, int]
    indices: Mapping[Symbol, IndexValue] = field(default_factory=dict[Symbol, IndexValue])
    batch: Sequence[IndexValue] = ()

    def inside(self, symbol: Symbol, value: IndexValue) -> Scope:
        """Return the scope of a loop's body."""
        return Scope(self.env, {**self.indices, symbol: value}, self.batch)

    def form(self, expr: Expr) -> AffineForm:
        """Return ``expr`` as an affine form over the indices in scope.

        Raises
        ------
        InternalError
            If it is not affine, which the front end refuses.
        """
        form = affine(expr, self.env, self.indices)
        if form is None:
            raise InternalError(f"index {expr} is not affine")
        return form

    def position(self, expr: Expr, scale: int = 1) -> tuple[int, Terms]:
        """Return ``scale * expr`` as a constant and terms over loops."""
        form = self.form(expr)
        return place(((self.indices[s], c) for s, c in form.coefficients), form.constant, scale)

    def batch_position(self, operand: Operand) -> tuple[int, Terms]:
        """Return where the batch element of ``operand`` starts, in words."""
        return place(zip(self.batch, operand.batch_strides, strict=True), operand.offset)

    def span(self, expr: Expr) -> tuple[int, int]:
        """Return the smallest and largest value of ``expr``."""
        constant, terms = self.position(expr)
        spans = [stride * (loop.count - 1) for loop, stride in terms]
        low = sum(span for span in spans if span < 0)
        return constant + low, constant + sum(spans) - low


def place(
    values: Iterable[tuple[IndexValue, int]], constant: int = 0, scale: int = 1
) -> tuple[int, Terms]:
    """Return ``scale * (constant + sum(coefficient * value))`` as a constant and terms."""
    terms: list[tuple[Loop, int]] = []
    for value, coefficient in values:
        constant += coefficient * value.start
        if value.loop is not None and coefficient:
            terms.append((value.loop, scale * coefficient))
    return scale * constant, tuple(terms)


def quarters(operand: Operand, *parts: tuple[int, Terms]) -> Affine:
    """Return a memory address: the operand's base and the sum of ``parts``, all in quarters."""
    constant = sum(part[0] for part in parts)
    terms = tuple(term for part in parts for term in part[1])
    return Affine(constant, terms, operand.number)


def scaled(part: tuple[int, Terms], scale: int) -> tuple[int, Terms]:
    """Return ``part`` times ``scale``."""
    return scale * part[0], tuple((loop, scale * stride) for loop, stride in part[1])
