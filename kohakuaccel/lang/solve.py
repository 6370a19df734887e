"""Numbers for dimensions: solved from the shapes of a call's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohakuaccel.errors import CallError
from kohakuaccel.ir.expr import Expr, Symbol, affine
from kohakuaccel.ir.nodes import Buffer
from kohakuaccel.ir.printer import shape_text
from kohakuaccel.source import Location, call_site

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Extent:
    """One axis of one argument: what was declared, what came."""

    expr: Expr
    value: int
    buffer: Buffer
    axis: int  # of the argument, batch included


def solve_dims(
    buffers: Sequence[Buffer], shapes: Sequence[Shape], loc: Location | None = None
) -> dict[Symbol, int]:
    """Return a number for every dimension the arguments determine.

    Parameters
    ----------
    buffers : sequence of Buffer
        The arguments' declarations.
    shapes : sequence of tuple of int
        Shapes of the arguments, in the same order.
    loc : Location, optional
        The call; found by itself if left out.

    Raises
    ------
    CallError
        If a rank is wrong, two axes disagree, or a dimension cannot be solved.
    """
    loc = loc or call_site()
    extents: list[_Extent] = []
    for buffer, shape in zip(buffers, shapes, strict=True):
        batch = batch_of(buffer, shape, loc)
        if not buffer.any_rank:
            extents += [
                _Extent(expr, shape[axis], buffer, axis)
                for axis, expr in enumerate(buffer.shape, start=len(batch))
            ]
    env: dict[Symbol, int] = {}
    origin: dict[Symbol, _Extent] = {}
    pending = extents
    while pending:
        left = [extent for extent in pending if not _settle(extent, env, origin, loc)]
        if len(left) == len(pending):
            _refuse_unsolved(left[0], env, loc)
        pending = left
    return env


def batch_of(buffer: Buffer, shape: Shape, loc: Location | None = None) -> Shape:
    """Return the leading axes of an argument that the kernel does not name.

    Raises
    ------
    CallError
        If the argument has too few axes, or too many for a buffer without ``...``.
    """
    if buffer.any_rank:
        return ()
    named = len(buffer.shape)
    if len(shape) < named or (len(shape) > named and not buffer.batched):
        more = "or more " if buffer.batched else ""
        axes = f"{named} {more}{'axis' if named == 1 else 'axes'}"
        raise CallError(
            f"`{buffer.name}` has {axes}, {shape_text(buffer)}, "
            f"but the argument has {len(shape)}: shape {tuple(shape)}",
            loc=loc or call_site(),
            fix=f"reshape the argument to {shape_text(buffer)}"
            + ("" if buffer.batched else "; a leading `...` in the declaration would take a batch"),
            notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
        )
    return tuple(shape[: len(shape) - named])


def broadcast_batch(
    buffers: Sequence[Buffer], shapes: Sequence[Shape], loc: Location | None = None
) -> Shape:
    """Return the batch of a call: numpy's broadcast of the arguments' leading axes.

    Raises
    ------
    CallError
        If two batches do not broadcast.
    """
    loc = loc or call_site()
    result: list[int] = []
    origin: list[tuple[Buffer, int]] = []
    for buffer, shape in zip(buffers, shapes, strict=True):
        batch = batch_of(buffer, shape, loc)
        while len(result) < len(batch):
            result.insert(0, 1)
            origin.insert(0, (buffer, 0))
        for axis in range(1, len(batch) + 1):
            size = batch[-axis]
            if size != 1 and result[-axis] not in (1, size):
                other = origin[-axis][0]
                raise CallError(
                    f"batch axis -{axis} is {result[-axis]} in `{other.name}` "
                    f"but {size} in `{buffer.name}`",
                    loc=loc,
                    fix="make the leading axes equal, or 1 where one element serves all",
                    notes=[(b.loc, f"`{b.name}` is declared here") for b in (other, buffer)],
                )
            if size != 1:
                result[-axis], origin[-axis] = size, (buffer, axis)
    return tuple(result)


def _settle(
    extent: _Extent, env: dict[Symbol, int], origin: dict[Symbol, _Extent], loc: Location
) -> bool:
    """Check an extent whose symbols are known, or solve it for its only unknown."""
    symbols = extent.expr.symbols()
    unknown = [symbol for symbol in symbols if symbol not in env]
    if not unknown:
        expected = extent.expr.evaluate(env)
        if expected != extent.value:
            _refuse_mismatch(extent, expected, origin, loc)
        return True
    if len(unknown) > 1:
        return False
    symbol = unknown[0]
    form = affine(extent.expr, env, unknown)
    if form is None or not form.coefficient(symbol):
        return False
    number, rest = divmod(extent.value - form.constant, form.coefficient(symbol))
    if rest or number < 0:
        raise CallError(
            f"`{extent.buffer.name}` axis {extent.axis} is {extent.value}, "
            f"which is {extent.expr} for no {symbol}",
            loc=loc,
            fix=f"pass an extent of the form {extent.expr}",
            notes=[(extent.buffer.loc, f"`{extent.buffer.name}` is declared here")],
        )
    env[symbol], origin[symbol] = number, extent
    return True


def _refuse_mismatch(
    extent: _Extent, expected: int, origin: Mapping[Symbol, _Extent], loc: Location
) -> None:
    name, expr = extent.buffer.name, extent.expr
    places = {origin[s].buffer: origin[s] for s in sorted(expr.symbols(), key=str)}
    if isinstance(expr, Symbol):
        first = origin[expr]
        message = (
            f"{expr} = {expected} from `{first.buffer.name}` axis {first.axis} "
            f"but {extent.value} from `{name}` axis {extent.axis}"
        )
    else:
        message = f"`{name}` axis {extent.axis} is {extent.value}, but {expr} = {expected}"
    raise CallError(
        message,
        loc=loc,
        fix=f"pass `{name}` with {expected} elements along axis {extent.axis}",
        notes=[(b.loc, f"`{b.name}` is declared here") for b in (*places, extent.buffer)],
    )


def _refuse_unsolved(extent: _Extent, env: Mapping[Symbol, int], loc: Location) -> None:
    unknown = ", ".join(sorted(str(s) for s in extent.expr.symbols() if s not in env))
    raise CallError(
        f"{unknown} cannot be solved from `{extent.buffer.name}` axis {extent.axis}, "
        f"which is {extent.expr} = {extent.value}",
        loc=loc,
        fix=f"declare an argument with an axis that is {unknown.split(',')[0]} alone",
        notes=[(extent.buffer.loc, f"`{extent.buffer.name}` is declared here")],
    )
