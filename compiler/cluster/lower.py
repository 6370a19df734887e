"""Lower the cluster's half of a contraction stage: loops, tiles, panels and what orders them.

Three engines run at once. ``FILL`` loads rings and panels (see :mod:`compiler.cluster.residency`),
``GEMM`` sweeps K into a tile (see :mod:`compiler.cluster.contractions`), ``DRAIN`` takes the
finished tile away while the next one is swept.
Every window has a *full* and an *empty* semaphore; credits for the empty places are posted in the
queue of the engine that will wait for them, and are taken back there at the end of the stage.

The number of blocks a ``GEMM`` runs over never exceeds K: the last chunk is peeled off its loop
where it is shorter, so that a tile's bits do not depend on ``nk``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from compiler.cluster.context import (
    DRAIN,
    FILL,
    GEMM,
    ClusterContext,
    ClusterLowering,
    Gemm,
    Step,
    TileState,
    feeds,
    feeds_again,
    first,
    last,
    post,
    post_all,
    stores,
    wait,
    wait_all,
)
from compiler.cluster.contractions import Contractions
from compiler.cluster.operands import MODES, is_computed
from compiler.cluster.transfers import fill_panel, hand_over, store
from compiler.cluster.windows import Windows
from compiler.passes.scope import Scope
from compiler.passes.stage import statements
from compiler.program import Advance, Item, Loop
from compiler.vector.context import IndexValue
from kohakuaccel.ir.nodes import Repeat, Statement, Store
from kohakutpu.lang.ir import Accumulate, Tile, TileDecl

LEAD = MODES["default"][0]


def lower_cluster(body: Sequence[Statement], context: ClusterContext) -> ClusterLowering:
    """Return the whole stage on one cluster, loops over the instances included.

    Raises
    ------
    CapacityError
        If a tile does not fit the accumulator or an operand its L1.
    """
    lowering = _Lowering(context, Windows(body, context))
    items = lowering.around(lowering.body(body, context.scope))
    windows = lowering.windows
    body_items = [*windows.prologue, *items, *windows.epilogue]
    orders = [*windows.reads, *windows.writes]
    return ClusterLowering(body_items, windows.residency, windows.placements, orders)


class _Lowering:
    def __init__(self, context: ClusterContext, windows: Windows) -> None:
        self.context = context
        self.windows = windows
        self.tiles = windows.tiles
        self.contractions = Contractions(context, windows)
        self.open: list[Loop] = []  # inside of the instance

    # Loops around the instances, with the panels that are filled between them.

    def around(self, inner: list[Item]) -> list[Item]:
        """Wrap one instance in the loops over all of them."""
        items: list[Item] = inner
        axes = self.context.axes
        for level in range(len(axes), -1, -1):
            if level in self.windows.panels:
                items = self._with_panels(level, items)
            for landing in self.context.landings.values():
                if landing.keep is not None and landing.keep.level == level:
                    items = [
                        *wait(GEMM, landing.full[1]),
                        *items,
                        *post(GEMM, self.context.mate, landing.empty),
                        Advance(landing.ring),
                    ]
            if level:
                loop = axes[level - 1].value.loop
                if loop is not None:
                    loop.body = items
                    items = [loop]
        return items

    def _with_panels(self, level: int, inner: list[Item]) -> list[Item]:
        windows, panels = self.windows, self.windows.panels[level]
        fills: list[Item] = []
        for panel in panels:
            if windows.fills(panel.ring):
                fills += fill_panel(self.context, panel, windows.receivers(panel.ring))
        writes = [(o.reader, o.panels[level]) for o in windows.writes if level in o.panels]
        reads = [(o.writer, o.panels[level]) for o in windows.reads if level in o.panels]
        return [
            *wait_all(FILL, (panel.empty for _, panel in writes)),
            *fills,
            *post_all(FILL, ((reader, panel.full) for reader, panel in writes)),
            *wait_all(GEMM, (panel.full for _, panel in reads)),
            *inner,
            *post_all(GEMM, ((writer, panel.empty) for writer, panel in reads)),
            *(Advance(panel.ring) for panel in panels),
        ]

    # Statements of one instance.

    def body(self, body: Sequence[Statement], scope: Scope) -> list[Item]:
        """Lower a body and everything about the tiles that are born in it."""
        born = [self.tiles[s.tile] for s in body if isinstance(s, TileDecl)]
        steps: list[Step] = []
        for index, statement in enumerate(body):
            for state in born:
                if state.window is None and first(body, state.tile, stores) == index:
                    steps.append(wait(DRAIN, state.sync.full))
            if isinstance(statement, TileDecl):
                steps.append(self._bear(self.tiles[statement.tile]))
            elif isinstance(statement, Accumulate):
                computed = is_computed(statement)
                modes = MODES[statement.tile.precision] if computed else (LEAD,)
                steps += [Gemm(statement, pair) for pair in modes]
            elif isinstance(statement, Repeat):
                lower = partial(self.body, statement.body)
                steps += [None, self._repeat(statement, scope, lower)]
            elif isinstance(statement, Store) and statement.value.op == "tile":
                state = self.tiles[statement.value.tile]
                steps.append([store(self.context, scope, state, statement)])
            for state in born:
                fed = last(body, state.tile, feeds)
                if fed == index:
                    steps += self._finish(state, body[: index + 1], scope)
                    if state.window is not None:
                        steps.append(wait(DRAIN, state.sync.full))
                        steps.append(
                            hand_over(self.context, state, self.windows.read_at[state.tile])
                        )
                if max(fed, last(body, state.tile, stores)) == index:
                    steps.append(post(DRAIN, self.context.node, state.sync.empty))
        items = self.contractions.join(steps, scope, self.open)
        return items + [Advance(state.ring) for state in born]

    def _bear(self, state: TileState) -> list[Item]:
        state.started, state.depth = False, len(self.open)
        return wait(GEMM, state.sync.empty)

    def _finish(self, state: TileState, body: Sequence[Statement], scope: Scope) -> list[Step]:
        """Make the further sweeps that precision asks for, then declare the tile full."""
        steps: list[Step] = []
        for modes in MODES[state.tile.precision][1:]:
            steps += self._sweep(body, scope, state.tile, modes)
        return [*steps, post(GEMM, self.context.node, state.sync.full)]

    def _sweep(
        self, body: Sequence[Statement], scope: Scope, tile: Tile, modes: tuple[str, str]
    ) -> list[Step]:
        """Repeat what feeds ``tile``, and nothing else, with other terms of its operands."""
        steps: list[Step] = []
        for statement in body:
            if isinstance(statement, Accumulate) and statement.tile is tile:
                if not is_computed(statement):
                    steps.append(Gemm(statement, modes))
            elif isinstance(statement, Repeat) and feeds_again(statement, tile):
                lower = partial(self._swept, statement.body, tile=tile, modes=modes)
                steps += [None, self._repeat(statement, scope, lower)]
        return steps

    def _swept(
        self, body: Sequence[Statement], scope: Scope, tile: Tile, modes: tuple[str, str]
    ) -> list[Item]:
        return self.contractions.join(self._sweep(body, scope, tile, modes), scope, self.open)

    # Loops.

    def _repeat(
        self, repeat: Repeat, scope: Scope, lower: Callable[[Scope], list[Item]]
    ) -> list[Item]:
        symbol = repeat.index.symbol
        count = repeat.index.passes(scope.env)
        result: list[Item] = []
        inner_bounds = [s.index.count for s in statements(repeat.body) if isinstance(s, Repeat)]
        if any(symbol in bound.symbols() for bound in inner_bounds):
            for value in range(count):
                env = {**scope.env, symbol: value}
                result += lower(Scope(env, scope.indices, scope.batch))
            return result
        sweeps = [s for s in statements(repeat.body) if isinstance(s, Accumulate)]
        if not count and any(not s.extent.evaluate(scope.env) for s in sweeps):
            count = 1  # no K at all: one block of zeros clears the tile
        ahead = self.windows.ahead(repeat)
        if ahead:
            return self._pipelined(repeat, ahead, count, scope)
        for start, length in self._segments(repeat, count, scope):
            loop = Loop(symbol.name, length)
            self.open.append(loop)
            loop.body = lower(scope.inside(symbol, IndexValue(start, loop)))
            self.open.pop()
            result.append(loop)
        return result

    def _pipelined(
        self, repeat: Repeat, ahead: Sequence[Statement], count: int, scope: Scope
    ) -> list[Item]:
        """Run the statements ``ahead`` one pass before those that wait for the vector core.

        So the vector core computes with the tiles of one pass while the next ones are swept.
        """
        symbol = repeat.index.symbol
        behind = [statement for statement in repeat.body if statement not in ahead]

        def lower(body: Sequence[Statement], value: IndexValue) -> list[Item]:
            return self.body(body, scope.inside(symbol, value))

        if not count:
            return []
        loop = Loop(symbol.name, count - 1)
        result = lower(ahead, IndexValue(0))
        if loop.count:
            self.open.append(loop)
            loop.body = lower(ahead, IndexValue(1, loop)) + lower(behind, IndexValue(0, loop))
            self.open.pop()
            result.append(loop)
        return result + lower(behind, IndexValue(count - 1))

    def _segments(self, repeat: Repeat, count: int, scope: Scope) -> list[tuple[int, int]]:
        """Cut a loop so that chunks of K that are shorter than ``nk`` blocks stand alone."""
        symbol = repeat.index.symbol
        shorter: set[int] = set()
        for value in {0, count - 1} if count > 1 else ():
            fixed = scope.inside(symbol, IndexValue(value))
            for inner in statements(repeat.body):
                if isinstance(inner, Repeat):
                    known = inner.index.count.symbols() <= scope.env.keys()
                    length = inner.index.count.evaluate(scope.env) if known else 1
                    other = IndexValue(0, Loop("", max(1, length)))
                    fixed = fixed.inside(inner.index.symbol, other)
                elif isinstance(inner, Accumulate) and symbol in inner.chunk.symbols():
                    blocks, nk = self.contractions.chunking(inner)
                    if blocks % nk and fixed.span(inner.chunk)[1] == blocks // nk:
                        shorter.add(value)
        first = 1 if 0 in shorter else 0
        last = count - 1 if count - 1 in shorter else count
        cuts = [(0, first), (first, last - first), (last, count - last)]
        return [(start, length) for start, length in cuts if length > 0]
