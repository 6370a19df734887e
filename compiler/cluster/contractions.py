"""Contractions as ``GEMM``, with the ``FILL`` of what they stream and the semaphores of both.

An operand lies in a panel, in a stream, or where the vector core has sent it. Neighbours that read
the same place of a stream fill it once: the first of them waits for it, the last lets it go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.cluster.context import ClusterContext, Gemm, Step, emit, spread
from compiler.cluster.operands import Rows, blocks_of_k, computed_side, rows_of, side_view
from compiler.cluster.residency import Panel, panel_strides
from compiler.cluster.transfers import fill
from compiler.cluster.windows import Windows
from compiler.passes.scope import Scope
from compiler.program import Advance, Affine, Emit, Item, Loop, Nonzero
from compiler.vector.context import Landing
from kohakuaccel.errors import InternalError
from kohakutpu import isa
from kohakutpu.lang.ir import SIDES, Accumulate, Side

Pair = tuple[int, int]
"""Of a wait, the semaphore and a count; of a post, the node and the semaphore."""


@dataclass(eq=False, slots=True)
class _Access:
    """How one contraction, between two others, gets at its operands.

    ``filled`` and ``freed`` are the sides whose stream it is the first or the last to read;
    ``waits`` and ``posts`` are about what the vector core has sent.
    """

    step: Gemm
    before: Gemm | None
    after: Gemm | None
    scope: Scope
    operands: dict[str, Any] = field(default_factory=dict[str, Any])
    fills: dict[Side, Emit] = field(default_factory=dict[Side, Emit])
    filled: list[Side] = field(default_factory=list[Side])
    freed: list[Side] = field(default_factory=list[Side])
    waits: list[Pair] = field(default_factory=list[Pair])
    posts: list[Pair] = field(default_factory=list[Pair])
    moves: list[Item] = field(default_factory=list[Item])


class Contractions:
    """Emits the contractions of a stage on one cluster."""

    def __init__(self, context: ClusterContext, windows: Windows) -> None:
        self._context = context
        self._windows = windows

    def chunking(self, statement: Accumulate) -> tuple[int, int]:
        """Return the blocks of K and how many of them a chunk has."""
        blocks = blocks_of_k(statement, self._context.scope.env)
        return blocks, self._windows.tiles[statement.tile].nk

    def join(self, steps: Sequence[Step], scope: Scope, loops: Sequence[Loop]) -> list[Item]:
        """Emit steps; neighbouring contractions with an operand in common fill it once.

        ``loops`` are those of the instance around the steps.
        """
        runs: list[list[Gemm]] = [[]]
        for step in steps:
            if isinstance(step, Gemm):
                runs[-1].append(step)
            elif step is None:
                runs.append([])
        around: dict[Gemm, tuple[Gemm | None, Gemm | None]] = {}
        for run in runs:
            for step, before, after in zip(run, [None, *run], [*run[1:], None], strict=False):
                around[step] = (before, after)
        result: list[Item] = []
        for step in steps:
            if isinstance(step, Gemm):
                result += self._gemm(_Access(step, *around[step], scope), loops)
            elif step is not None:
                result += step
        return result

    def _gemm(self, access: _Access, loops: Sequence[Loop]) -> list[Item]:
        statement, scope = access.step.statement, access.scope
        state, blocks = self._windows.tiles[statement.tile], self._blocks(statement, scope)
        for side in SIDES:
            value = computed_side(statement, side)
            if value is not None:
                self._read_landing(access, side, self._context.landings[value])
                continue
            rows = rows_of(statement, side, access.step.mode(side), scope)
            panel = self._windows.residency.panels.get(rows)
            if panel is not None:
                self._read_panel(access, side, panel, state.nk)
            else:
                self._read_stream(access, side, rows, state.nk, blocks)
        waits, posts = self._hand_over(access)
        flag: Nonzero | bool = True
        if not state.started:
            flag = Nonzero(Affine(0, tuple((loop, 1) for loop in loops[state.depth :])))
            state.started = True
        tile = {"acc": Affine(ring=state.ring), "gm": state.gm, "gn": state.gn}
        operands = {**access.operands, **tile, "nk": blocks, "accumulate": flag}
        gemm = emit(isa.GEMM, operands, statement.loc, waits, posts)
        emits = (*access.fills.values(), gemm)
        return [item for each in emits for item in spread(each)] + access.moves

    def _blocks(self, statement: Accumulate, scope: Scope) -> int:
        """Return how many blocks of K this chunk has."""
        blocks, nk = self.chunking(statement)
        low, high = scope.span(statement.chunk)
        if not blocks % nk or high < blocks // nk:
            return nk
        if low != high:
            raise InternalError(f"{statement.loc}: chunks of different length in one loop")
        return blocks % nk

    def _same(self, access: _Access, other: Gemm | None, side: Side) -> bool:
        """Tell whether a contraction reads the same place of a window as its neighbour."""
        step, scope = access.step, access.scope
        if other is None or self.chunking(step.statement) != self.chunking(other.statement):
            return False
        values = [computed_side(each.statement, side) for each in (step, other)]
        if any(value is not None for value in values):
            return values[0] is values[1]
        chunks = [scope.form(each.statement.chunk) for each in (step, other)]
        rows = [rows_of(each.statement, side, each.mode(side), scope) for each in (step, other)]
        return chunks[0] == chunks[1] and rows[0] == rows[1]

    # Where an operand lies.

    def _read_landing(self, access: _Access, side: Side, landing: Landing) -> None:
        """Read what the vector core has sent; all of it is there already if it is kept."""
        place, terms = landing.size * landing.modes.index(access.step.mode(side)), ()
        if landing.keep is not None:
            keep = landing.keep
            at, terms = access.scope.position(access.step.statement.chunk, keep.nk)
            place, terms = place + at, (*terms, *self._moving(keep.moving, keep.strides))
        self._name(access, side, Affine(place, terms, None, landing.ring), landing.stride)
        if landing.keep is not None:
            return
        if not self._same(access, access.before, side):
            access.waits.append((landing.full[1], 1))
        if not self._same(access, access.after, side):
            access.posts.append((self._context.mate, landing.empty))
            access.moves.append(Advance(landing.ring))

    def _read_panel(self, access: _Access, side: Side, panel: Panel, nk: int) -> None:
        """Read a chunk of what stays; the loops that it stays for wait for it and let it go."""
        at, terms = access.scope.position(access.step.statement.chunk, nk)
        terms = (*terms, *self._moving(panel.moving, panel_strides(panel)))
        self._name(access, side, Affine(at, terms, None, panel.ring), panel.blocks)

    def _read_stream(self, access: _Access, side: Side, rows: Rows, nk: int, blocks: int) -> None:
        """Read a chunk from a stream, and fill it where this cluster does that."""
        statement, ring = access.step.statement, self._windows.residency.streams[side]
        l1 = Affine(ring=ring)
        self._name(access, side, l1, nk)
        if not self._same(access, access.before, side):
            access.filled.append(side)
            if self._windows.fills(ring):
                chunk, loc = access.scope.position(statement.chunk), side_view(statement, side).loc
                nodes = self._windows.receivers(ring)
                access.fills[side] = fill(
                    self._context, access.scope, rows, chunk, nk, blocks, l1, nk, loc, nodes=nodes
                )
        if not self._same(access, access.after, side):
            access.freed.append(side)
            access.moves.append(Advance(ring))

    def _name(self, access: _Access, side: Side, at: Affine, stride: int) -> None:
        access.operands[side.lower()] = at
        access.operands[f"{side.lower()}_stride"] = stride

    def _moving(self, axes: Sequence[int], strides: Sequence[int]) -> list[tuple[Loop, int]]:
        """Return what chooses among the row tiles that a window holds."""
        result: list[tuple[Loop, int]] = []
        for axis, stride in zip(axes, strides, strict=True):
            loop = self._context.axes[axis].value.loop
            assert loop is not None
            result.append((loop, stride))
        return result

    def _hand_over(self, access: _Access) -> tuple[list[Pair], list[Pair]]:
        """Let fills wait for places and tell that they are full; return what a contraction does.

        Of what one cluster fills, in order, the last window stands for all.
        """
        waits: list[Pair] = []
        posts = list(access.posts)
        for order in self._windows.writes:
            mine: list[Side] = [side for side in access.filled if side in order.streams]
            for side in mine:
                if (empty := order.streams[side].empty) is not None:
                    access.fills[side].waits += ((empty, 1),)
            if mine and (full := order.streams[mine[-1]].full) is not None:
                access.fills[mine[-1]].posts += ((order.reader, full),)
        for order in self._windows.reads:
            mine: list[Side] = [side for side in access.filled if side in order.streams]
            if mine and (full := order.streams[mine[-1]].full) is not None:
                waits.append((full, 1))
            empties = (order.streams[side].empty for side in access.freed if side in order.streams)
            posts += ((order.writer, empty) for empty in empties if empty is not None)
        return [*waits, *access.waits], posts
