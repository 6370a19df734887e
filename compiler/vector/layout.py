"""How the views of a block lie in memory: what VFILL and VDRAIN are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.program import Affine, Left, Loop
from compiler.vector.context import VectorContext
from compiler.vector.geometry import SIZES, Block, words
from kohakuaccel.errors import InternalError, KernelError
from kohakuaccel.ir.expr import Expr, affine
from kohakuaccel.ir.nodes import View
from kohakuaccel.source import Location
from kohakutpu.config import QUARTERS_PER_WORD, WORD_BYTES


@dataclass(frozen=True, slots=True)
class Transfer:
    """A window of memory as VFILL and VDRAIN name it; ``extent`` as in a value."""

    extent: str
    mem: Affine
    stride: int
    rows: int
    row_extent: Left
    cols: int
    col_extent: Left
    dtype: str

    @property
    def row_words(self) -> int:
        """L1 words of one row."""
        return words(self.cols, self.dtype)


class Layout:
    """Where the views of one group of statements lie in memory.

    Parameters
    ----------
    block_of : callable
        The block that a view is part of.
    context : VectorContext
        Indices, batches and operands.
    """

    def __init__(self, block_of: Callable[[View], Block], context: VectorContext) -> None:
        self._block_of = block_of
        self._context = context

    def transfer(self, view: View) -> Transfer:
        """Return the window of memory that ``view`` is in the instance at hand.

        Raises
        ------
        KernelError
            If the address is not affine in the indices or not a whole quarter.
        """
        operand = self._context.operands[view.buffer]
        block, width, dtype = self._block_of(view), operand.width, operand.dtype
        row, none = operand.row_words, Affine()
        match view.kind:
            case "part" if block.flat:
                at = self._position(view, 0, block.col_step)
                stored = operand.rows * row * WORD_BYTES // SIZES[dtype]
                total = width if operand.rows == 1 else stored
                run = block.rows * block.cols
                left = Left(total, at)
                return self._window(view, "full", 1, Left(1), none, run, left, at)
            case "part" | "rows":
                at = self._position(view, 0, block.row_step)
                left = Left(operand.rows, at)
                return self._window(view, "full", block.rows, left, at, width, Left(width), none)
            case "tile":
                down = self._position(view, 0, block.row_step)
                along = self._position(view, 1, block.col_step)
                rows = Left(operand.rows, down)
                cols = Left(width, along)
                return self._window(view, "full", block.rows, rows, down, block.cols, cols, along)
            case "whole":
                rows, cols = operand.rows, Left(width)
                return self._window(view, "full", rows, Left(rows), none, width, cols, none)
            case "channel":
                return self._window(view, "channel", 1, Left(1), none, width, Left(width), none)
            case "channel_tile":
                along = self._position(view, 0, block.col_step)
                cols = Left(width, along)
                return self._window(view, "channel", 1, Left(1), none, block.cols, cols, along)
            case "column" if self.tall(view):
                at = self._position(view, 0, block.row_step)
                rows = Left(operand.rows, at)
                return self._window(view, "column", block.rows, rows, at, 1, Left(1), none)
            case "column":
                at = self._position(view, 0, block.row_step)
                cols = Left(width, at)
                return self._window(view, "row", 1, Left(1), none, block.rows, cols, at)
            case "scalar":
                return self._window(view, "scalar", 1, Left(1), none, 1, Left(1), none)
            case _:
                raise InternalError(f"no transfer for a view of kind {view.kind!r}")

    def tall(self, view: View) -> bool:
        """Whether ``view`` is a column stored as one element in each of its rows."""
        operand = self._context.operands[view.buffer]
        return view.kind == "column" and operand.width == 1

    def fp32(self, view: View) -> bool:
        """Whether ``view`` is of a buffer of FP32."""
        return self._context.operands[view.buffer].dtype == "fp32"

    def _position(self, view: View, axis: int, step: int) -> Affine:
        """Return ``step * index`` of ``axis``, over the loops of the unit."""
        return self.position(view.index[axis], step, view.loc, view.buffer.name)

    def position(self, index: Expr, step: int, loc: Location, name: str) -> Affine:
        """Return ``step * index`` over the loops of the unit, the index of an axis of ``name``."""
        form = affine(index, self._context.env, self._context.indices)
        if form is None:
            raise KernelError(
                f"the index `{index}` of `{name}` is not a sum of multiples of indices",
                loc=loc,
                fix="index by a grid or loop index, plus a constant at most",
            )
        constant, terms = form.constant, dict[Loop, int]()
        for symbol, coefficient in form.coefficients:
            value = self._context.indices[symbol]
            constant += coefficient * value.start
            if value.loop is not None and value.loop.count != 1:
                terms[value.loop] = terms.get(value.loop, 0) + coefficient * step
        return Affine(constant * step, tuple((loop, c) for loop, c in terms.items() if c))

    def _window(
        self,
        view: View,
        extent: str,
        rows: int,
        row_extent: Left,
        down: Affine,
        cols: int,
        col_extent: Left,
        along: Affine,
    ) -> Transfer:
        operand = self._context.operands[view.buffer]
        per_quarter = 8 // SIZES[operand.dtype]
        per_row = QUARTERS_PER_WORD * operand.row_words
        constant = QUARTERS_PER_WORD * operand.offset
        terms: dict[Loop, int] = {}
        for number, position in ((per_row * per_quarter, down), (1, along)):
            for loop, c in (*position.terms, (None, position.constant)):
                quarters, rest = divmod(c * number, per_quarter)
                if rest:
                    raise KernelError(
                        f"`{view.buffer.name}` is cut every {c} elements, and memory is "
                        f"addressed in units of {per_quarter}",
                        loc=view.loc,
                        fix=f"use blocks of a multiple of {per_quarter}",
                    )
                if loop is None:
                    constant += quarters
                else:
                    terms[loop] = terms.get(loop, 0) + quarters
        for value, stride in zip(
            self._context.batch, operand.batch_strides, strict=bool(operand.batch_strides)
        ):
            constant += QUARTERS_PER_WORD * stride * value.start
            if value.loop is not None:
                terms[value.loop] = terms.get(value.loop, 0) + QUARTERS_PER_WORD * stride
        mem = Affine(constant, tuple((loop, c) for loop, c in terms.items() if c), operand.number)
        return Transfer(
            extent, mem, operand.row_words, rows, row_extent, cols, col_extent, operand.dtype
        )
