"""What the vector lowering is told about a stage, and what it hands back.

The caller owns the loops around an instance, the operand numbers and the allocators; the lowering
owns what happens inside one instance on one vector core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from compiler.program import Item, Loop, Ring
from kohakuaccel.errors import CapacityError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer
from kohakuaccel.source import Location
from kohakutpu.config import Machine
from kohakutpu.lang.ir import Computed, Side, State


@dataclass(frozen=True, slots=True)
class Claim:
    """``size`` units of a resource from ``base`` on, and who asked for them."""

    name: str
    base: int
    size: int
    loc: Location | None = None


@dataclass(eq=False, slots=True)
class Allocator:
    """Hands out a resource of one unit from the bottom up: L1 words, beats or semaphores.

    Parameters
    ----------
    what : str
        The resource as a person would call it, for example ``"L1 words of vector core 1"``.
    limit : int
        How many units there are.
    claims : list of Claim
        What has been handed out, in order.
    shared : int
        Units at the top end that users take turns at, one after the other.
    names : dict, optional
        Of single units, which one goes with a name and how often that has been asked for before:
        stages that follow each other without a barrier have the same, each for one purpose.
    """

    what: str
    limit: int
    claims: list[Claim] = field(default_factory=list[Claim])
    shared: int = 0
    names: dict[tuple[str, int], int] | None = None

    @property
    def used(self) -> int:
        """Units handed out."""
        if self.names is not None:
            return len(self.names)
        return self.claims[-1].base + self.claims[-1].size if self.claims else 0

    @property
    def left(self) -> int:
        """Units that are free."""
        return self.limit - self.used

    def share(self, name: str, size: int, loc: Location | None = None) -> int:
        """Return the base of ``size`` units at the top end, which others may have had or get.

        Raises
        ------
        CapacityError
            If fewer are free.
        """
        if size > self.left:
            self._refuse(name, size, self.left, loc, "")
        self.shared = max(self.shared, size)
        return self.limit - size

    def release(self, mark: int) -> None:
        """Take back every claim after the first ``mark`` (as ``len(claims)`` was then)."""
        del self.claims[mark:]
        self.shared = 0

    def allocate(self, name: str, size: int = 1, loc: Location | None = None, fix: str = "") -> int:
        """Return the base of ``size`` fresh units.

        Raises
        ------
        CapacityError
            If fewer are free; the notes list who uses what.
        """
        if not size:
            return self.used
        key = name, sum(claim.name == name for claim in self.claims)
        if self.names is not None and key in self.names:
            self.claims.append(Claim(name, self.names[key], size, loc))
            return self.names[key]
        if size > self.left - self.shared:
            self._refuse(name, size, self.left - self.shared, loc, fix)
        claim = Claim(name, self.used, size, loc)
        self.claims.append(claim)
        if self.names is not None:
            self.names[key] = claim.base
        return claim.base

    def _refuse(self, name: str, size: int, free: int, loc: Location | None, fix: str) -> NoReturn:
        raise CapacityError(
            f"{name} needs {size} {self.what}, of {self.limit} only {free} are free",
            loc=loc,
            fix=fix or "use smaller blocks, or fewer buffers in one statement",
            notes=[(claim.loc, f"{claim.name}: {claim.size}") for claim in self.claims],
        )


@dataclass(frozen=True, slots=True)
class IndexValue:
    """The value of a grid index in this unit's program: ``start + loop index`` (or ``start``)."""

    start: int = 0
    loop: Loop | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer once shapes are known.

    Parameters
    ----------
    number : int
        Index into the image's operands.
    rows, width : int
        Rows and elements a row of one batch element; a 1-d buffer is one row, a 0-d one element.
    row_words : int
        Words from row to row.
    dtype : str
        ``"fp16"`` or ``"fp32"``.
    batch_strides : tuple of int
        Words from batch element to batch element, one for every entry of the context's ``batch``;
        0 where the buffer is shared.
    offset : int
        Words from the operand's start to the buffer's: a table lies somewhere in the image's data.
    """

    number: int
    rows: int
    width: int
    row_words: int
    dtype: str = "fp16"
    batch_strides: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TileWindow:
    """An accumulator tile as it arrives in the vector core's L1: FP16, row order.

    Parameters
    ----------
    tile : object
        The tile the values name.
    rows, cols : int
        ``4 * gm`` and ``4 * gn``.
    ring : Ring
        Where it lands, in L1 words of the vector core; the lowering advances it.
    stride : int
        Words from row to row: ``ceil(cols / 16)``.
    full : int
        Semaphore of the vector core that the cluster's ``DRAIN`` posts.
    credit : tuple of int
        ``(node, semaphore)`` on the cluster that the last reading ``EXEC`` posts.
    width : int
        Columns of the whole product; row functions need a tile that holds them all.
    """

    tile: Any
    rows: int
    cols: int
    ring: Ring
    stride: int
    full: int
    credit: tuple[int, int]
    width: int = 0


@dataclass(frozen=True, slots=True)
class StateHome:
    """Where a state lies: ``kind`` as in a window, ``base`` and ``stride`` in beats or words."""

    kind: str
    base: int
    stride: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Keep:
    """How all of K of a computed operand stays in a cluster, for several row tiles.

    Parameters
    ----------
    level : int
        It is sent before the loops over the axes from there on.
    moving : tuple of int
        Axes among these that choose among the row tiles it holds.
    loops, strides : tuple
        Loops of the vector core over them, and the entries from one to the next.
    blocks : int
        Of K, so entries from group to group.
    nk : int
        Blocks of a chunk.
    size, slots : int
        Entries of one term, and places.
    """

    level: int
    moving: tuple[int, ...]
    loops: tuple[Loop, ...]
    strides: tuple[int, ...]
    blocks: int
    nk: int
    size: int
    slots: int


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a computed operand lands: a ring of regions in an operand memory of a cluster.

    Parameters
    ----------
    node : int
        The cluster.
    side : str
        ``"A"`` for the left operand, in L1A, ``"B"`` for the right one, in L1B.
    ring : Ring
        Its places, in entries; both sides advance it.
    stride : int
        Entries from group to group, which is the blocks of a whole chunk.
    size : int
        Entries of one term.
    modes : tuple of str
        The terms that are sent, one after the other in a place: ``"fp16"``, ``"residual"``.
    full : tuple of int
        ``(node, semaphore)`` on the cluster that the last ``VDRAIN`` posts.
    empty : int
        Semaphore of the vector core that the last ``GEMM`` posts.
    keep : Keep, optional
        What stays: its semaphores are for all of it.
    """

    node: int
    side: Side
    ring: Ring
    stride: int
    size: int
    modes: tuple[str, ...]
    full: tuple[int, int]
    empty: int
    keep: Keep | None = None


@dataclass(eq=False, slots=True)
class VectorContext:
    """Everything the lowering of one instance on one vector core depends on.

    Parameters
    ----------
    machine : Machine
        The configuration.
    node : int
        Id of the vector core.
    env : mapping
        Dimensions and knobs as numbers.
    indices : mapping
        Every grid index in scope.
    batch : sequence of IndexValue
        The loops over batch axes; ``Operand.batch_strides`` go with them.
    operands : mapping
        Every buffer the body touches.
    tiles : mapping
        The window of every accumulator tile the body reads.
    l1, registers, semaphores : Allocator
        What is left of this core for the stage.
    double_buffer : bool
        False keeps one place a window even where two would fit.
    rows : int
        Rows of every tile and value of a fused stage; 0 where each statement has a block.
    states : mapping
        Where states lie.
    landings : mapping
        Where the computed operands of contractions land.
    held : set
        Tiles that the caller waits for and lets go.
    handshakes : dict, optional
        Semaphores of windows that pieces of a fused stage share, filled as they are made.
    """

    machine: Machine
    node: int
    env: Mapping[Symbol, int]
    indices: Mapping[Symbol, IndexValue]
    operands: Mapping[Buffer, Operand]
    l1: Allocator
    registers: Allocator
    semaphores: Allocator
    batch: Sequence[IndexValue] = ()
    tiles: Mapping[Any, TileWindow] = field(default_factory=dict[Any, TileWindow])
    double_buffer: bool = True
    rows: int = 0
    states: Mapping[State, StateHome] = field(default_factory=dict[State, StateHome])
    landings: Mapping[Computed, Landing] = field(default_factory=dict[Computed, Landing])
    held: frozenset[Any] = frozenset()
    handshakes: dict[Any, tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """One line of the plan: a window, where it lies and how much it takes.

    ``memory`` is ``"L1"`` (words) or ``"registers"`` (beats); ``slots`` is 2 when double-buffered;
    ``size`` counts one slot; ``role`` is ``"in" "out" "resident" "tile"
    "temporary" "state" "operand" "computed once"``.
    """

    name: str
    role: str
    memory: str
    base: int
    size: int
    slots: int
    loc: Location | None = None


@dataclass(eq=False, slots=True)
class VectorLowering:
    """One instance's program, what runs once before the loops and once after them.

    ``ahead`` runs before the loops from a level on. ``placements`` and ``notes`` (sentences) go
    into the plan.
    """

    prologue: list[Item] = field(default_factory=list[Item])
    body: list[Item] = field(default_factory=list[Item])
    epilogue: list[Item] = field(default_factory=list[Item])
    ahead: dict[int, list[Item]] = field(default_factory=dict[int, "list[Item]"])
    placements: list[Placement] = field(default_factory=list[Placement])
    notes: list[str] = field(default_factory=list[str])

    def add(self, other: VectorLowering) -> None:
        """Let what is in and around another instance's program follow that of this one."""
        self.prologue += other.prologue
        self.body += other.body
        self.epilogue += other.epilogue
        self.placements += other.placements
        self.notes += other.notes
