"""How many rows and columns the windows of a group of statements have.

In an ordinary stage a statement has one block, and all its windows are of that shape. In a fused
stage everything has the rows of the stage, and each value as many columns as its tile, buffer or
state: fewer where a loop has reached the last, shorter block of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from compiler.vector.context import VectorContext
from compiler.vector.geometry import Block
from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import affine
from kohakuaccel.ir.nodes import Store, View
from kohakutpu.config import LANES
from kohakutpu.lang.frames import Cut, view_frame
from kohakutpu.lang.ir import Assign, Send, State, Tile, value_of, walk


class Blocks(Protocol):
    """The shapes of a group; equal ones may stand in one group."""

    @property
    def rows(self) -> int:
        """Rows of all windows."""
        ...

    def block_of(self, view: View) -> Block:
        """Return the block that a view is in an instance."""
        ...

    def width(self, source: Any) -> int:
        """Return the elements a row of a view, a tile or a state."""
        ...

    def widths(self, statement: Store | Send | Assign) -> Iterator[int]:
        """Yield the elements a row of all that a statement touches."""
        ...


@dataclass(frozen=True, slots=True)
class OneBlock:
    """One block for everything."""

    block: Block

    @property
    def rows(self) -> int:
        """Rows of all windows."""
        return self.block.rows

    def block_of(self, view: View) -> Block:
        """Return the block."""
        return self.block

    def width(self, source: Any) -> int:
        """Return the columns of the block."""
        return self.block.cols

    def widths(self, statement: Store | Send | Assign) -> Iterator[int]:
        """Yield the columns of the block."""
        yield self.block.cols


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of a fused stage: ``rows``, and columns as each source has them."""

    rows: int
    context: VectorContext

    def block_of(self, view: View) -> Block:
        """Return the block that a view is in an instance."""
        cols = view_frame(view).cols
        if cols is None:
            return Block(self.rows, 1, self.rows)
        step = cols.block.evaluate(self.context.env)
        return Block(self.rows, self.present(cols), self.rows, step)

    def width(self, source: Any) -> int:
        """Return the elements a row of a view, a tile or a state."""
        if isinstance(source, View):
            cols = view_frame(source).cols
        elif isinstance(source, State):
            return source.width.evaluate(self.context.env) if source.width is not None else 0
        else:
            assert isinstance(source, Tile)
            assert source.cols is not None
            assert source.col is not None
            cols = Cut(source.cols, source.gn * LANES, source.col)
        return self.present(cols) if cols is not None else 0

    def widths(self, statement: Store | Send | Assign) -> Iterator[int]:
        """Yield the elements a row of all that a statement touches."""
        value = value_of(statement)
        assert value is not None
        if isinstance(statement, Store):
            yield self.width(statement.view)
        elif isinstance(statement, Assign):
            yield self.width(statement.state)
        for node in walk(value):
            if node.view is not None or node.tile is not None:
                yield self.width(node.view or node.tile)
            elif node.state is not None:
                yield self.width(node.state.state)

    def present(self, cut: Cut) -> int:
        """Return how many columns of a block there are: all but in a last one that stands alone."""
        env, indices = self.context.env, self.context.indices
        if cut.index is None:
            return cut.block.evaluate(env)
        extent, block = cut.extent.evaluate(env), cut.block.evaluate(env)
        form = affine(cut.index, env, indices)
        if form is None:
            raise InternalError(f"index {cut.index} is not affine")
        low = high = form.constant
        for symbol, coefficient in form.coefficients:
            value = indices[symbol]
            count = value.loop.count if value.loop is not None else 1
            ends = sorted((coefficient * value.start, coefficient * (value.start + count - 1)))
            low, high = low + ends[0], high + ends[1]
        first, last = (max(0, min(block, extent - at * block)) for at in (low, high))
        return first if first == last else block
