"""What one instance computes: groups of statements over the same rows, selected and given homes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.program import Loop
from compiler.vector.context import IndexValue, VectorContext
from compiler.vector.cover import Storage
from compiler.vector.geometry import Block, check_limits, measure
from compiler.vector.graph import REDUCTIONS, Graph
from compiler.vector.homes import Sizes
from compiler.vector.layout import Layout
from compiler.vector.operations import Output
from compiler.vector.select import Selector
from compiler.vector.shapes import Blocks, OneBlock, Shapes
from compiler.vector.windows import Arrangement, Segment, arrange
from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import affine
from kohakuaccel.ir.nodes import Repeat, Statement, Store, View
from kohakutpu.lang.ir import Assign, Send, walk

Shrink = Callable[[Block], Block]


@dataclass(eq=False, slots=True)
class Nest:
    """Statements that run equally often: the body of an instance, or of a loop inside it."""

    context: VectorContext
    loop: Loop | None
    number: int
    items: list[Group | Nest]


@dataclass(eq=False, slots=True)
class Group:
    """Neighbouring statements over the same rows, computed together."""

    statements: list[Output | Assign]
    layout: Layout
    segment: Segment


@dataclass(eq=False, slots=True)
class Plan:
    """The nest of groups and where everything lies."""

    root: Nest
    groups: list[Group]
    arrangement: Arrangement


def plan(body: Sequence[Statement], context: VectorContext, shrink: Shrink | None = None) -> Plan:
    """Return the plan of an instance's statements.

    Parameters
    ----------
    body : sequence of Statement
        Stores, sends and assignments, and repeats of them.
    context : VectorContext
        What they depend on; its allocators stay as they are.
    shrink : callable, optional
        Makes a smaller block of each, to find out what would fit.

    Raises
    ------
    KernelError
        If a statement mixes blocks, or an instruction cannot describe one.
    ShortageError
        If registers do not hold what has to lie there.
    """
    planner = _Planner(shrink)
    root = planner.nest(body, context, None)
    segments = [group.segment for group in planner.groups]
    return Plan(root, planner.groups, arrange(segments, context.registers.left))


class _Planner:
    def __init__(self, shrink: Shrink | None) -> None:
        self.groups: list[Group] = []
        self._shrink = shrink
        self._nests = 0

    def nest(self, body: Sequence[Statement], context: VectorContext, loop: Loop | None) -> Nest:
        result = Nest(context, loop, self._nests, [])
        self._nests += 1
        together: list[Output | Assign] = []
        blocks: Blocks | None = None
        for statement in body:
            own = None
            if isinstance(statement, (Store, Send, Assign)):
                own = self._measure(statement, context)
            if together and (own != blocks or _ends(together[-1], statement)):
                assert blocks is not None
                result.items.append(self._group(together, blocks, result))
                together = []
            blocks = own
            if isinstance(statement, (Store, Send, Assign)):
                together.append(statement)
            elif isinstance(statement, Repeat):
                result.items.append(self._repeat(statement, context))
            else:
                raise InternalError(f"a vector stage holds {statement}")
        if together:
            assert blocks is not None
            result.items.append(self._group(together, blocks, result))
        return result

    def _repeat(self, statement: Repeat, context: VectorContext) -> Nest:
        index = statement.index
        loop = Loop(index.symbol.name, index.passes(context.env))
        indices = {**context.indices, index.symbol: IndexValue(0, loop)}
        return self.nest(statement.body, replace(context, indices=indices), loop)

    def _measure(self, store: Output | Assign, context: VectorContext) -> Blocks:
        if context.rows:
            shapes = Shapes(context.rows, context)
            whole = Block(context.rows, max(shapes.widths(store), default=1), context.rows)
            check_limits(whole, store.loc)
            return replace(shapes, rows=self._shrink(whole).rows) if self._shrink else shapes
        assert isinstance(store, Store)
        values = list(walk(store.value))
        views = [value.view for value in values if value.view is not None]
        tiles = [context.tiles[value.tile] for value in values if value.op == "tile"]
        whole_rows = any(value.op in REDUCTIONS for value in values)
        block = measure(
            [store.view, *views],
            dict.fromkeys(tiles),
            context.operands,
            context.env,
            whole_rows,
            store.loc,
        )
        return OneBlock(self._shrink(block) if self._shrink else block)

    def _group(self, statements: list[Output | Assign], blocks: Blocks, nest: Nest) -> Group:
        context = nest.context
        layout = Layout(blocks.block_of, context)
        sizes = Sizes(blocks.rows, context.machine.lanes)
        graph = Graph(context.env, lambda view: is_resident(view, context), blocks.width)
        most = max((1, *(w for s in statements for w in blocks.widths(s))))
        spare = context.registers.left // 4 // sizes.row_beats("channel", most)
        selector = Selector(graph, Storage(layout.tall, layout.fp32, spare, blocks.width))

        def dtype(view: Any) -> str:
            return context.operands[view.buffer].dtype

        segment = Segment(
            sizes,
            selector.select(statements),
            dtype,
            layout.tall,
            context.tiles,
            context.states,
            nest.number,
        )
        group = Group(statements, layout, segment)
        self.groups.append(group)
        return group


def _ends(last: Output | Assign, following: Statement) -> bool:
    """Tell whether what follows an assignment has to see it, as a value of its own."""
    if not isinstance(last, Assign) or not last.narrow:
        return False
    return not (isinstance(following, Assign) and following.value.op == "const")


def is_resident(view: View, context: VectorContext) -> bool:
    """Whether ``view``, of less than a block, is the same in all instances of a unit."""
    if view.kind not in ("whole", "channel", "channel_tile", "column", "scalar"):
        return False
    for index in view.index:
        if not index.symbols() <= context.indices.keys() | context.env.keys():
            return False  # its loops are not known yet
        form = affine(index, context.env, context.indices)
        if form is None or any(_moves(context.indices[s]) for s, _ in form.coefficients):
            return False
    strides = context.operands[view.buffer].batch_strides
    return not any(
        stride and _moves(batch) for stride, batch in zip(strides, context.batch, strict=False)
    )


def _moves(value: IndexValue) -> bool:
    return value.loop is not None and value.loop.count != 1
