"""Operands that use address registers, one a cycle through one adder.

The operands of an engine instruction that use a register are its *steps*. In step ``s`` the
register is read, in the cycle after it the result is kept in slot ``s``; when all steps are done
the slots and the fields of the word together are what the engine is handed.
"""

from collections.abc import Callable, Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.decode import Fields
from hw.common.interfaces import EXTENT_BITS, record_of, resolved
from hw.noc.flit import PC_BITS, WORD_BITS
from kohakuaccel.isa import Operand, Record, Struct, Union
from kohakutpu.config import ADDRESS_BITS, ADDRESS_REGISTERS, Node
from kohakutpu.isa import Address, Extent, Flag
from kohakutpu.isa.operands import LOCAL_BITS

REGISTER_BITS = (ADDRESS_REGISTERS - 1).bit_length()
BEYOND = 1 << LOCAL_BITS  # leaves every storage

WINDOWS: dict[tuple[str, str], Callable[[Fields], Value]] = {
    ("FILL", "rows"): lambda f: f["g"] << 2,
    ("FILL", "k"): lambda f: f["nk"] << 5,
    ("DRAIN", "rows"): lambda f: f["gm"] << 2,
    ("DRAIN", "cols"): lambda f: f["gn"] << 2,
    ("VFILL", "row_extent"): lambda f: f["rows"],
    ("VFILL", "col_extent"): lambda f: f["cols"],
    ("VDRAIN", "row_extent"): lambda f: f["rows"],
    ("VDRAIN", "col_extent"): lambda f: f["cols"],
}
"""How large the window is that an extent is clamped to."""


class Request(data.Struct):
    """One step.

    Members
    -------
    reg : 4
        The register.
    imm : 34
        Immediate of an address or flag, or limit of an extent.
    is_extent, is_flag, is_local, is_whole : 1
        What the operand is; none of them: a memory address. Whole: the extent is the window.
    window : 16
        For an extent.
    """

    reg: REGISTER_BITS
    imm: ADDRESS_BITS
    is_extent: 1
    is_flag: 1
    is_local: 1
    is_whole: 1
    window: EXTENT_BITS


def steps_of(record: Record) -> tuple[Operand, ...]:
    """Return the operands that use a register, in order."""
    return tuple(operand for operand in record.own if _uses_register(operand))


def _uses_register(operand: Operand) -> bool:
    kind = operand.kind
    return isinstance(kind, Union) or (
        isinstance(kind, Struct) and kind.cls in (Address, Extent, Flag)
    )


STEPS = max(len(steps_of(record_of(kind, engine))) for kind in "CV" for engine in range(3))


def _request(f: Fields, operand: Operand) -> dict[str, Value | int]:
    """Return the members of a step that are not zero."""
    name, kind = operand.name, operand.kind
    if isinstance(kind, Union):  # all kinds with a base have it at the same place
        payload = f[f"{name}.payload"]
        imm = payload[REGISTER_BITS : REGISTER_BITS + LOCAL_BITS]
        return {"reg": payload[:REGISTER_BITS], "imm": imm, "is_local": 1}
    assert isinstance(kind, Struct), kind
    reg = f[f"{name}.reg"]
    if kind.cls is Address:
        local = kind.parts["imm"].width < ADDRESS_BITS
        return {"reg": reg, "imm": f[f"{name}.imm"], "is_local": int(local)}
    if kind.cls is Flag:
        return {"reg": reg, "imm": f[f"{name}.imm"], "is_flag": 1}
    whole: Value | int = 0
    if f.record.name == "DRAIN":
        whole = f.holds("to", "memory") & f.holds("order", "tile")
    window = WINDOWS[f.record.name, name](f)
    limit = f[f"{name}.limit"]
    return {"reg": reg, "imm": limit, "is_extent": 1, "is_whole": whole, "window": window}


class Resolver(wiring.Component):
    """The steps of engine instructions.

    Parameters
    ----------
    node : Node
        The unit.

    Members
    -------
    word : In(256)
        The instruction; it stays while steps are taken.
    pc : In(20)
        Its index.
    engine : In(2)
        Of its record.
    step : In(3)
        Which step.
    enable : In(1)
        Take it in this cycle.
    reg : Out(4)
        The register it needs.
    value : In(34)
        What that holds, in the same cycle.
    last : Out(1)
        It is the last one.
    o_0, o_1, o_2 : Out(resolved)
        What each engine would be handed, from two cycles after the last step on.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._records = [record_of(node.kind, engine) for engine in range(3)]
        super().__init__(
            {
                "word": In(WORD_BITS),
                "pc": In(PC_BITS),
                "engine": In(2),
                "step": In(range(STEPS)),
                "enable": In(1),
                "reg": Out(REGISTER_BITS),
                "value": In(ADDRESS_BITS),
                "last": Out(1),
            }
            | {f"o_{engine}": Out(resolved(r)) for engine, r in enumerate(self._records)}
        )

    def elaborate(self, platform: object) -> Module:
        """Choose the step's operand, compute, keep."""
        m = Module()
        asked = Signal(Request)
        with m.Switch(Cat(self.step, self.engine)):
            for engine, record in enumerate(self._records):
                f, steps = Fields(record, self.word), steps_of(record)
                for step, operand in enumerate(steps):
                    with m.Case(engine << len(self.step) | step):
                        for member, value in _request(f, operand).items():
                            m.d.comb += asked[member].eq(value)
                        m.d.comb += self.last.eq(step == len(steps) - 1)
        m.d.comb += self.reg.eq(asked.reg)
        request, value = Signal(Request), Signal(ADDRESS_BITS)
        computes, slot = Signal(), Signal.like(self.step)
        m.d.sync += [
            request.eq(asked),
            value.eq(self.value),
            computes.eq(self.enable),
            slot.eq(self.step),
        ]
        address = (request.imm + value)[:ADDRESS_BITS]
        left = request.imm.as_unsigned() - value.as_signed()
        extent = Mux(left < 0, 0, Mux(left > request.window, request.window, left))
        result = Signal(ADDRESS_BITS)
        with m.If(request.is_extent):
            m.d.comb += result.eq(Mux(request.is_whole, request.window, extent))
        with m.Elif(request.is_flag):
            m.d.comb += result.eq(request.imm[0] | value.any())
        with m.Elif(request.is_local & (address >= BEYOND)):
            m.d.comb += result.eq(BEYOND)
        with m.Else():
            m.d.comb += result.eq(address)
        slots = Array(Signal(ADDRESS_BITS, name=f"slot_{step}") for step in range(STEPS))
        with m.If(computes):
            m.d.sync += slots[slot].eq(result)
        for engine, record in enumerate(self._records):
            self._assemble(m, record, getattr(self, f"o_{engine}"), slots)
        return m

    def _assemble(
        self, m: Module, record: Record, o: data.View, slots: Sequence[Signal]
    ) -> None:  # fmt: skip
        f, steps = Fields(record, self.word), steps_of(record)
        m.d.comb += o.pc.eq(self.pc)
        for operand in record.own:
            name, member = operand.name, getattr(o, operand.name)
            if isinstance(operand.kind, Union):
                payload = f[f"{name}.payload"]
                m.d.comb += member.kind.eq(f[f"{name}.kind"])
                stride = payload[REGISTER_BITS + LOCAL_BITS :]
                with m.If(self._has_base(f, operand)):
                    m.d.comb += member.payload.window.stride.eq(stride)
                    m.d.comb += member.payload.window.base.eq(slots[steps.index(operand)])
                with m.Else():
                    m.d.comb += member.payload.bits.eq(payload)
            elif operand in steps:
                m.d.comb += member.eq(slots[steps.index(operand)])
            elif name == "nodes" and "to" not in record.by_name:
                m.d.comb += member.eq(Mux(f[name] == 0, 1 << self._node.id, f[name]))
            else:
                m.d.comb += member.eq(f[name])

    @staticmethod
    def _has_base(f: Fields, operand: Operand) -> Value:
        kind = operand.kind
        assert isinstance(kind, Union), kind
        return f.holds(operand.name, *(t for t, parts in kind.variants.items() if "base" in parts))
