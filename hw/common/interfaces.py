"""What passes between the shell of a unit and its datapath.

The shell fetches and decodes, resolves operands, keeps queues, waits and posts; the datapath holds
the storage and three engines, one record each. The datapath never sees a register, a semaphore or
an illegal word.

**Instructions.** An engine is handed `resolved` operands in program order; it may take the next one
before the last has finished only if nobody can tell. It says `done` once an instruction, in order,
when the instruction has finished: everything written, every ACK in. An instruction that waits for a
semaphore is offered only while the engine owes no `done`; `SYNC` is never offered.

**Faults.** A check that fails says `fault` instead of `done`, before any effect, and holds it; the
machine stops and is reset.

**Flits.** An engine sends READ, WRITE, DATA and CLEAR as if the mesh took one a cycle. The shell
fills in `source`, and `dest` of READ and WRITE; it keeps the credits of READs. An engine's tags are
``2 * engine`` and ``2 * engine + 1`` (`tag`). At most one `ack` may be wanted with a tag at a time:
of each node of ``dest`` (DATA, CLEAR) or of ``nodes`` (READ), or of memory (WRITE). Each arrives in
a cycle of its own as `Ack`, the engine's own node included if it is a receiver.

**Landing.** DATA and CLEAR for the unit's buffers. `ready` must not wait for anything to be sent.
A flit with `ack` comes out again as `Landed` when it and all that its source sent before it have
really landed; one a cycle.
"""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import NODE_BITS, PC_BITS, TAG_BITS, Cause, Flit
from kohakuaccel.isa import Enumeration, Record, Struct, Union
from kohakutpu import isa
from kohakutpu.config import ADDRESS_BITS
from kohakutpu.isa import Address, Extent, Flag
from kohakutpu.isa.operands import LOCAL_BITS

BASE_BITS = LOCAL_BITS + 1
"""Of a resolved local address: ``min(a[r] + imm, 2**14)``, and 2**14 leaves every storage."""

EXTENT_BITS = 16
"""Of a resolved extent: the largest window is 65,535 elements wide."""

MOVERS = (0, 2)
"""Engines that send flits: FILL and DRAIN, VFILL and VDRAIN."""

WINDOW = data.StructLayout({"base": BASE_BITS, "stride": LOCAL_BITS})
"""A register or L1 window of EXEC: resolved base, and stride as encoded."""

PAYLOAD = data.UnionLayout({"bits": 32, "window": WINDOW})
"""Of a resolved source or destination: `bits` of an immediate, `window` (stride 0 with `row`)."""


class Ack(data.Struct):
    """One node has everything of the transfer `tag` (its low bit) of this engine."""

    valid: 1
    source: NODE_BITS
    tag: 1


class Landed(data.Struct):
    """The flit that `requester` wanted to know of, under its `tag`, has really landed."""

    valid: 1
    requester: NODE_BITS
    tag: TAG_BITS


class Fault(data.Struct):
    """An engine's instruction at `pc` breaks a rule."""

    valid: 1
    cause: Cause
    pc: PC_BITS


def record_of(kind: str, engine: int) -> Record:
    """Return the one record that an engine (0, 1, 2) of unit kind ``"C"`` or ``"V"`` executes."""
    (record,) = (record for record in isa.records(kind) if record.engine == engine)
    return record


def resolved(record: Record) -> data.StructLayout:
    """Return what an engine is handed of an instruction.

    Members by name of the operand, in its order, `waits` and `posts` left out, then ``pc``:

    =====================  ====================================================================
    operand                member
    =====================  ====================================================================
    address, memory        34 bits, ``a[r] + imm`` (also `mem` when the receiver is a node)
    address, local         `BASE_BITS`, ``min(a[r] + imm, 2**14)``
    extent                 `EXTENT_BITS`, clamped to ``0 .. window``, and never more: the whole
                           window where the contract has no extents (DRAIN, memory, tile order);
                           FILL with `mode` packed: 0
    flag                   1 bit
    source, destination    ``kind`` and ``payload`` (`PAYLOAD`; zeros where the kind has none)
    enumeration, boolean   as encoded; see `code`
    nodes                  16 bits; in FILL and VFILL never 0, but the own node
    anything else          as encoded
    =====================  ====================================================================
    """
    members: dict[str, object] = {}
    for operand in record.own:
        kind = operand.kind
        if isinstance(kind, Union):
            members[operand.name] = data.StructLayout({"kind": kind.tag_width, "payload": PAYLOAD})
        elif isinstance(kind, Struct) and kind.cls is Address:
            local = kind.parts["imm"].width < ADDRESS_BITS
            members[operand.name] = BASE_BITS if local else ADDRESS_BITS
        elif isinstance(kind, Struct) and kind.cls is Extent:
            members[operand.name] = EXTENT_BITS
        elif isinstance(kind, Struct):
            assert kind.cls is Flag, kind
            members[operand.name] = 1
        else:
            members[operand.name] = kind.width
    return data.StructLayout(members | {"pc": PC_BITS})


def code(record: Record, operand: str, name: str) -> int:
    """Return the number that an enumeration's value, or a source's or destination's kind, has."""
    kind = record.by_name[operand].kind
    if isinstance(kind, Union):
        return kind.tags.index(name)
    assert isinstance(kind, Enumeration), kind
    return kind.names.index(name)


def tag(engine: int, low: int) -> int:
    """Return the tag in flits of transfer `low` (0 or 1) of an engine."""
    return 2 * engine + low


class Engine(wiring.Signature):
    """One engine, seen from the datapath: give it as ``Out`` of a datapath.

    Members
    -------
    i : In(stream of `resolved`)
        The next instruction.
    done : Out(1)
        An instruction has finished, in this cycle.
    fault : Out(Fault)
        The machine must stop.
    step : Out(1)
        Work was done in this cycle, for counters and watchdog. GEMM: once an entry pair, that is
        512 multiply-accumulates; EXEC: once a beat written or reduced; the others: once a word.
    o : Out(stream of Flit), only `MOVERS`
        What it sends.
    ack : In(Ack), only `MOVERS`
        What it is told.
    """

    def __init__(self, kind: str, engine: int) -> None:
        self.record = record_of(kind, engine)
        members = {
            "i": In(stream.Signature(resolved(self.record))),
            "done": Out(1),
            "fault": Out(Fault),
            "step": Out(1),
        }
        if engine in MOVERS:
            members |= {"o": Out(stream.Signature(Flit)), "ack": In(Ack)}
        super().__init__(members)


class Datapath(wiring.Signature):
    """The datapath of a unit, seen from itself.

    Members
    -------
    engine_0, engine_1, engine_2 : Out(Engine)
        FILL, GEMM, DRAIN of a cluster; VFILL, EXEC, VDRAIN of a vector core.
    landing : In(stream of Flit)
        DATA and CLEAR.
    landed : Out(Landed)
        What has really landed.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(
            {f"engine_{index}": Out(Engine(kind, index)) for index in range(3)}
            | {"landing": In(stream.Signature(Flit)), "landed": Out(Landed)}
        )
