"""Instruction templates: windows as operands, synchronisation beside them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.program import Affine, Emit, Item, Left, Loop, Ring, Window
from compiler.vector.context import Landing
from compiler.vector.graph import Node
from compiler.vector.homes import Home
from compiler.vector.layout import Transfer
from compiler.vector.operations import Operation
from compiler.vector.windows import Arrangement, Segment, l1_sources, state_home
from kohakuaccel.errors import InternalError
from kohakuaccel.source import Location
from kohakutpu import isa

VFILL, EXEC, VDRAIN = 0, 1, 2  # engines
MAX_WAITS = 2
MAX_POSTS = 2

Wait = tuple[int, int]  # semaphore, count
Post = tuple[int, int]  # node, semaphore


def sync(engine: int, waits: Sequence[Wait] = (), posts: Sequence[Post] = ()) -> list[Item]:
    """Return the SYNC instructions that wait and post in ``engine``'s queue, in that order."""
    items: list[Item] = []
    waits, posts = list(waits), list(posts)
    while waits or posts:
        some, waits = waits[:MAX_WAITS], waits[MAX_WAITS:]
        then = [] if waits else posts[:MAX_POSTS]
        posts = posts[len(then) :]
        items.append(Emit(isa.SYNC, {"engine": engine}, tuple(some), tuple(then)))
    return items


@dataclass(frozen=True, slots=True)
class Bases:
    """Where the regions of an arrangement begin: L1 words, beats, rings by number.

    Beats below ``boundary`` are for all instances, those from there on for one.
    """

    rings: dict[int, Ring]
    resident: int
    temporary: int
    permanent: int
    volatile: int
    boundary: int

    def beat(self, offset: int) -> int:
        """Return the register behind an offset of an arrangement."""
        if offset < self.boundary:
            return self.permanent + offset
        return self.volatile + offset - self.boundary


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows and columns of a block that one EXEC of a split operation works on."""

    rows: int
    cols: int
    row: int = 0
    col: int = 0
    row_loop: Loop | None = None
    col_loop: Loop | None = None


class Emitter:
    """Makes the instructions of one segment.

    Parameters
    ----------
    segment : Segment
        What is computed, over which block.
    arrangement : Arrangement
        Where everything lies.
    bases : Bases
        Where the regions begin.
    """

    def __init__(self, segment: Segment, arrangement: Arrangement, bases: Bases) -> None:
        self._segment = segment
        self._arrangement = arrangement
        self._bases = bases

    def fill(self, node: Node, transfer: Transfer, waits: list[Wait], posts: list[Post]) -> Emit:
        """Return the VFILL of a load."""
        home = self._arrangement.homes[node]
        operands = {**self._transfer_operands(home, transfer), "nodes": 0}
        return _emit(isa.VFILL, operands, waits, posts, node.loc)

    def send(
        self,
        operation: Operation,
        landing: Landing,
        at: Affine,
        waits: list[Wait],
        posts: list[Post],
    ) -> list[Emit]:
        """Return the VDRAINs of a computed operand into a cluster, one for each term.

        It goes to the entry ``at`` of its landing.
        """
        store = operation.store
        assert store is not None
        home, cols = self._arrangement.outputs[store], operation.cols
        rows = self._segment.sizes.rows
        emits: list[Emit] = []
        for number, mode in enumerate(landing.modes):
            operands = {
                "l1": self._base(home),
                "l1_stride": home.stride,
                "rows": rows,
                "row_extent": Left(rows),
                "cols": cols,
                "col_extent": Left(cols),
                "format": "fp16",
                "order": "row",
                "to": "node",
                "mem": Affine(at.constant + number * landing.size, at.terms, None, landing.ring),
                "stride": landing.stride,
                "nodes": 1 << landing.node,
                "buffer": f"l1{landing.side.lower()}",
                "residual": mode == "residual",
            }
            emits.append(_emit(isa.VDRAIN, operands, [], [], store.loc))
        emits[0].waits, emits[-1].posts = tuple(waits), tuple(posts)
        return emits

    def drain(
        self, operation: Operation, transfer: Transfer, waits: list[Wait], posts: list[Post]
    ) -> Emit:
        """Return the VDRAIN of a store."""
        assert operation.store is not None
        home = self._arrangement.outputs[operation.store]
        operands = {**self._transfer_operands(home, transfer), "order": "row", "to": "memory"}
        return _emit(isa.VDRAIN, operands, waits, posts, operation.store.loc)

    def _transfer_operands(self, home: Home, transfer: Transfer) -> dict[str, object]:
        return {
            "mem": transfer.mem,
            "stride": transfer.stride,
            "l1": self._base(home),
            "l1_stride": home.stride,
            "rows": transfer.rows,
            "row_extent": transfer.row_extent,
            "cols": transfer.cols,
            "col_extent": transfer.col_extent,
            "format": transfer.dtype,
        }

    def execute(self, operation: Operation, waits: list[Wait], posts: list[Post]) -> list[Item]:
        """Return the EXEC of an operation, split where it would read three L1 windows."""
        rows, cols = self._segment.sizes.dims(operation.extent, operation.cols)
        whole = Piece(rows, cols)
        product = self._arrangement.products.get(operation)
        if product is not None:
            emits = self._two_steps(operation, self._placed(product, whole), whole)
        elif len(l1_sources(operation, self._arrangement.homes)) <= 2:
            emits = [self._execute(operation, whole)]
        else:
            split = self._split(operation, rows, cols)
            return [*sync(EXEC, waits), *split, *sync(EXEC, (), posts)]
        emits[0].waits, emits[-1].posts = tuple(waits[:MAX_WAITS]), tuple(posts[:MAX_POSTS])
        return [*sync(EXEC, waits[MAX_WAITS:]), *emits, *sync(EXEC, (), posts[MAX_POSTS:])]

    # ------------------------------------------------- three L1 windows at once

    def _two_steps(self, operation: Operation, product: Window, whole: Piece) -> list[Emit]:
        """Return ``product = a * b`` and what is left of the operation; both round as one would."""
        a, b, _ = operation.pattern.sources
        assert a is not None
        assert b is not None
        operands = {
            "rows": whole.rows,
            "cols": whole.cols,
            "f": "mac",
            "a": self._window(a, operation.extent, whole),
            "b": self._window(b, operation.extent, whole),
            "dst": product,
        }
        rest = self._execute(operation, whole)
        del rest.operands["b"]
        rest.operands["a"] = product
        return [_emit(isa.EXEC, operands, [], [], operation.loc), rest]

    def _split(self, operation: Operation, rows: int, cols: int) -> list[Item]:
        """Return copies of one operand and the operation itself, in pieces that fit the scratch."""
        sizes, scratch = self._segment.sizes, self._arrangement.scratch
        in_l1 = l1_sources(operation, self._arrangement.homes)
        # One copy replaces every use; a row that all rows share is cheapest.
        copied = max(in_l1, key=lambda node: (in_l1.count(node), node.extent == "channel"))
        if operation.reduced is not None:
            raise InternalError(f"a reduction of three L1 windows, from {operation.loc}")
        one_row = copied.extent == "channel" or rows == 1
        row_beats = sizes.row_beats(operation.extent, operation.cols)
        piece_cols = cols
        if row_beats > scratch:
            piece_cols = scratch * sizes.lanes // 16 * 16
        fitting = scratch // -(-piece_cols // sizes.lanes)
        piece_rows = rows if one_row else min(rows, fitting)

        def body(piece: Piece) -> Sequence[Item]:
            beats = -(-piece.cols // sizes.lanes)
            stride = 0 if one_row else beats
            base = Affine(self._bases.beat(self._arrangement.scratch_offset))
            copy = Window("reg", base, stride)
            source = replace(piece, rows=1, row=0, row_loop=None) if one_row else piece
            operands = {
                "rows": source.rows,
                "cols": source.cols,
                "f": "mac",
                "a": self._window(copied, operation.extent, source),
                "dst": replace(copy, stride=beats),
            }
            return [
                _emit(isa.EXEC, operands, [], [], operation.loc),
                self._execute(operation, piece, {copied: copy}),
            ]

        return _cut(rows, piece_rows, cols, piece_cols, body)

    # ------------------------------------------------------------------ operands

    def _execute(
        self, operation: Operation, piece: Piece, copies: Mapping[Node, Window] | None = None
    ) -> Emit:
        pattern = operation.pattern
        operands: dict[str, object] = {"rows": piece.rows, "cols": piece.cols, "f": pattern.f}
        for name, source in zip("abc", pattern.sources, strict=True):
            if source is not None:
                window = (copies or {}).get(source)
                operands[name] = window or self._window(source, operation.extent, piece)
        operands["unary"] = pattern.unary
        operands["dst"] = self._destination(operation, piece)
        if operation.reduced is not None:
            operands["reduce"] = operation.reduce
            operands["red"] = self._base(self._arrangement.homes[operation.reduced])
        loc = operation.store.loc if operation.store is not None else operation.loc
        return _emit(isa.EXEC, operands, [], [], loc)

    def _destination(self, operation: Operation, piece: Piece) -> Window:
        if operation.store is not None:
            return self._placed(self._arrangement.outputs[operation.store], piece)
        if operation.state is not None:
            return self._placed(state_home(self._segment.states[operation.state]), piece)
        if operation.result is not None:
            return self._placed(self._arrangement.homes[operation.result], piece)
        return Window("none")

    def _window(self, source: Node, extent: str, piece: Piece) -> Window:
        """Return how an operation over ``extent`` reads ``source``."""
        if source.op == "const":
            return Window("imm", value=struct.unpack("<f", struct.pack("<I", source.bits))[0])
        home = self._arrangement.homes[source]
        scalar_a_row = source.extent == "row" and extent in ("full", "column")
        if (scalar_a_row and not source.leaf) or (source.extent == "scalar" and extent != "scalar"):
            return Window("row", self._base(home))
        if source.extent == "channel":
            piece = replace(piece, row=0, row_loop=None)
        return self._placed(home, piece)

    def _placed(self, home: Home, piece: Piece) -> Window:
        base = self._base(home)
        per = {"reg": self._segment.sizes.lanes, "l1h": 16, "l1f": 8}[home.kind]
        constant = base.constant + piece.row * home.stride + piece.col // per
        terms = [*base.terms]
        if piece.row_loop is not None:
            terms.append((piece.row_loop, piece.rows * home.stride))
        if piece.col_loop is not None:
            terms.append((piece.col_loop, piece.cols // per))
        return Window(home.kind, replace(base, constant=constant, terms=tuple(terms)), home.stride)

    def _base(self, home: Home) -> Affine:
        match home.region:
            case "state":
                return Affine(home.offset)
            case "registers":
                return Affine(self._bases.beat(home.offset))
            case "resident":
                return Affine(self._bases.resident + home.offset)
            case "temporary":
                return Affine(self._bases.temporary + home.offset)
            case "tile":
                assert home.tile is not None
                return Affine(ring=home.tile.ring)
            case _:
                return Affine(home.offset, ring=self._bases.rings[home.ring])


def _cut(
    rows: int, piece_rows: int, cols: int, piece_cols: int, body: Callable[[Piece], Sequence[Item]]
) -> list[Item]:
    """Return ``body`` of every piece of ``rows x cols``, in loops where there are several."""
    items: list[Item] = []
    for row, row_count, row_size in _runs(rows, piece_rows):
        row_loop = Loop("rows", row_count) if row_count > 1 else None
        inner: list[Item] = items if row_loop is None else row_loop.body
        for col, col_count, col_size in _runs(cols, piece_cols):
            col_loop = Loop("columns", col_count) if col_count > 1 else None
            piece = Piece(row_size, col_size, row, col, row_loop, col_loop)
            if col_loop is None:
                inner += body(piece)
            else:
                col_loop.body += body(piece)
                inner.append(col_loop)
        if row_loop is not None:
            items.append(row_loop)
    return items


def _runs(total: int, piece: int) -> list[tuple[int, int, int]]:
    """Return ``(first, how many, size)`` of the whole pieces of ``total``, then of the rest."""
    count, rest = divmod(total, piece)
    runs = [(0, count, piece)] if count else []
    return [*runs, (count * piece, 1, rest)] if rest else runs


def _emit(
    record: isa.Record,
    operands: Mapping[str, object],
    waits: Sequence[Wait],
    posts: Sequence[Post],
    loc: Location,
) -> Emit:
    return Emit(record, dict(operands), tuple(waits), tuple(posts), loc, loc.text.strip())
