"""What the arguments of a call settle: dimensions, batch, the shapes of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kohakuaccel.errors import CallError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Trace
from kohakuaccel.lang.solve import Shape, broadcast_batch, solve_dims
from kohakuaccel.source import Location, call_site
from kohakutpu.lang.layout import ANY_ROWS, ANY_WIDTH


@dataclass(frozen=True, slots=True)
class Extents:
    """Numbers of one call.

    Parameters
    ----------
    env : dict
        Dimensions, and what stands behind ``...`` alone; no knobs.
    batch : tuple of int
        The broadcast leading axes.
    block : tuple of int
        The shape of what is declared with ``...`` alone.
    """

    env: dict[Symbol, int]
    batch: Shape
    block: Shape

    def shape(self, buffer: Buffer) -> Shape:
        """Return the whole shape of a result, temporary or table (batch included)."""
        if buffer.any_rank:
            return self.block
        named = tuple(extent.evaluate(self.env) for extent in buffer.shape)
        return self.batch + named if buffer.batched else named


def solve(trace: Trace, shapes: Sequence[Shape], loc: Location | None = None) -> Extents:
    """Return the numbers that the shapes of the arguments settle, in order of the ``L.In``.

    Raises
    ------
    CallError
        If ranks, extents or batches disagree, or a dimension of a result is settled by no argument.
    """
    loc = loc or call_site()
    ins = [buffer for buffer in trace.buffers if buffer.role == "in"]
    env = solve_dims(ins, shapes, loc)
    block: Shape | None = None
    first = ""
    for buffer, shape in zip(ins, shapes, strict=True):
        if not buffer.any_rank:
            continue
        if block is not None and tuple(shape) != block:
            raise CallError(
                f"`{first}` has shape {block} but `{buffer.name}` has shape {tuple(shape)}; "
                "tensors declared L.In(...) share one",
                loc=loc,
                fix="pass tensors of one shape",
                notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
            )
        block, first = tuple(shape), first or buffer.name
    if block is not None:
        env[ANY_ROWS], env[ANY_WIDTH] = prod(block[:-1]), block[-1] if block else 1
    for buffer in trace.buffers:
        for extent in buffer.shape:
            for symbol in sorted(extent.symbols(), key=str):
                if symbol.kind == "dim" and symbol not in env:
                    raise CallError(
                        f"{symbol} is an extent of `{buffer.name}`, but no argument settles it",
                        loc=loc,
                        fix=f"declare an argument with an axis {symbol}",
                        notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
                    )
    return Extents(env, broadcast_batch(ins, shapes, loc), block or ())
