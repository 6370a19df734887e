"""What an instruction word is: its fields, and whether it is legal, from the records of the ISA."""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import code
from hw.noc.flit import WORD_BITS
from kohakuaccel.isa import Enumeration, OperandType, Record, Slots, Struct, Union, Unsigned
from kohakutpu import isa
from kohakutpu.config import Machine, Node

FIELDS = {record.name: {field.path: field for field in record.layout} for record in
          (*isa.records("C"), *isa.records("V"))}  # fmt: skip


class Fields:
    """The fields of one record in a word.

    Parameters
    ----------
    record : Record
        Of which instruction.
    word : amaranth.hdl.Value
        256 bits.
    """

    def __init__(self, record: Record, word: Value) -> None:
        self.record, self._word = record, word

    def __getitem__(self, path: str) -> Value:
        """Return a leaf field by its path, ``"mem.imm"``."""
        field = FIELDS[self.record.name][path]
        return self._word[field.offset : field.offset + field.width]

    def payload(self, operand: str, tag: str, path: str) -> Value:
        """Return a part of a source or destination of kind `tag`."""
        kind = self.record.by_name[operand].kind
        assert isinstance(kind, Union), kind
        field = next(field for field in kind.payload_fields(tag) if field.path == path)
        return self[f"{operand}.payload"][field.offset : field.offset + field.width]

    def whole(self, operand: str) -> Value:
        """Return all bits of an operand."""
        leaves = [f for p, f in FIELDS[self.record.name].items() if p.split(".")[0] == operand]
        start = min(field.offset for field in leaves)
        return self._word[start : max(field.offset + field.width for field in leaves)]

    def holds(self, operand: str, *names: str) -> Value:
        """Tell whether an enumeration, or kind of a source or destination, is one of `names`."""
        kind = self.record.by_name[operand].kind
        value = self[f"{operand}.kind" if isinstance(kind, Union) else operand]
        return any_of(value == code(self.record, operand, name) for name in names)


def all_of(conditions: object) -> Value:
    """Return the conjunction of an iterable of values."""
    return reduce(and_, (Value.cast(c).bool() for c in conditions), Const(1, 1))


def any_of(conditions: object) -> Value:
    """Return the disjunction of an iterable of values."""
    return reduce(or_, (Value.cast(c).bool() for c in conditions), Const(0, 1))


def encodes(kind: OperandType, bits: Value) -> Value:
    """Tell whether `bits` are the encoding of a value of an operand type."""
    if isinstance(kind, Unsigned):
        low = bits >= kind.low if kind.low else Const(1, 1)
        high = bits <= kind.high if kind.high < (1 << kind.width) - 1 else Const(1, 1)
        return low & high
    if isinstance(kind, Enumeration):
        full = len(kind.names) == 1 << kind.width
        return Const(1, 1) if full else bits < len(kind.names)
    if isinstance(kind, Struct):
        return all_of(_parts(kind.parts, bits))
    if isinstance(kind, Union):
        tag, payload = bits[: kind.tag_width], bits[kind.tag_width :]
        variants = []
        for number, parts in enumerate(kind.variants.values()):
            used = sum(part.width for part in parts.values())
            clean = (payload[used:] == 0) if used < kind.payload_width else Const(1, 1)
            variants.append((tag == number) & clean & all_of(_parts(parts, payload)))
        return any_of(variants)
    if isinstance(kind, Slots):
        slots = [bits[i * kind.pitch : (i + 1) * kind.pitch] for i in range(kind.count)]
        good = []
        for index, slot in enumerate(slots):
            empty = all_of(later == 0 for later in slots[index:])
            good.append((slot[0] & encodes(kind.element, slot[1:])) | empty)
        return all_of(good)
    return Const(1, 1)  # Boolean, BitSet, Modular: every pattern is a value


def _parts(parts: dict[str, OperandType], bits: Value) -> list[Value]:
    result, offset = [], 0
    for kind in parts.values():
        result.append(encodes(kind, bits[offset : offset + kind.width]))
        offset += kind.width
    return result


L1 = ("l1h", "l1f")


def _at_most_two_ports(f: Fields) -> Value:
    return ~all_of(f.holds(source, *L1) for source in "abc")


CHECKS: dict[str, Callable[[Fields], Value]] = {
    "two semaphores": lambda f: ~(f["waits.0.valid"] & f["waits.1.valid"]
                                  & (f["waits.0.semaphore"] == f["waits.1.semaphore"])),
    "packed": lambda f: ~f.holds("mode", "packed") | all_of(
        f.whole(name) == 0 for name in ("stride", "rows", "k", "transpose")),
    "memory receiver": lambda f: ~f.holds("to", "memory") | (
        (f["nodes"] == 0) & f.holds("buffer", "vector") & ~f["residual"]),
    "some receiver": lambda f: ~f.holds("to", "node") | (f["nodes"] != 0),
    "residual receiver": lambda f: ~f["residual"] | ~f.holds("buffer", "vector"),
    "quantised format": lambda f: f.holds("buffer", "vector") | f.holds("format", "fp16"),
    "quantised order": lambda f: f.holds("buffer", "vector") | f.holds("order", "row"),
    "whole tiles": lambda f: ~f.holds("to", "memory") | ~f.holds("order", "tile") | (
        (f.whole("rows") == 0) & (f.whole("cols") == 0)),
    "whole sub-tiles": lambda f: ~f.holds("order", "tile") | (
        (f["rows"][:2] == 0) & (f["cols"][:2] == 0)),
    "first source": lambda f: ~f.holds("a", "none"),
    "pair": lambda f: f.holds("f", "mac", "select") | (
        ~f.holds("b", "none") & f.holds("c", "none")),
    "triple": lambda f: ~f.holds("f", "select") | ~(f.holds("b", "none") | f.holds("c", "none")),
    "L1 ports": _at_most_two_ports,
    "no reduction": lambda f: ~f.holds("reduce", "none") | (f.whole("red") == 0),
}  # fmt: skip
"""The named checks of all records, as gates."""


class Decoder(wiring.Component):
    """Combinational: which record a word is an instruction of.

    Parameters
    ----------
    machine : Machine
        Says which nodes may receive and have semaphores.
    node : Node
        The unit; its kind decides which records there are.

    Members
    -------
    word : In(256)
        What was fetched.
    is_one : Out(1 for each record)
        By lower-case name: the word is a legal instruction of this record. No bit set: illegal.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self.records = isa.records(node.kind)
        self._machine = machine
        self._kind = node.kind
        super().__init__(
            {"word": In(WORD_BITS)} | {f"is_{r.mnemonic}": Out(1) for r in self.records}
        )

    def is_one(self, record: Record) -> Signal:
        """Return the output for a record."""
        return getattr(self, f"is_{record.mnemonic}")

    def elaborate(self, platform: object) -> Module:
        """Check opcode, operands, unused bits, named checks, and what the machine excludes."""
        m = Module()
        for record in self.records:
            f = Fields(record, self.word)
            operands = [encodes(o.kind, f.whole(o.name)) for o in record.operands]
            checks = [CHECKS[check.name](f) for check in record.checks]
            conditions = [f["opcode"] == record.opcode, *operands, *checks]
            if record.used < WORD_BITS:
                conditions.append(self.word[record.used :] == 0)
            conditions += [*self._posts(f), *self._receivers(f)]
            m.d.comb += self.is_one(record).eq(all_of(conditions))
        return m

    def _set(self, kinds: str) -> int:
        return sum(1 << node.id for node in self._machine.nodes if node.kind in kinds)

    def _posts(self, f: Fields) -> list[Value]:
        """Only units have semaphores."""
        units = Const(self._set("CV"), 16)
        return [
            ~f[f"posts.{slot}.valid"] | units.bit_select(f[f"posts.{slot}.node"], 1)
            for slot in range(2)
        ]

    def _receivers(self, f: Fields) -> list[Value]:
        """Receivers have the buffer that is written."""
        if "nodes" not in f.record.by_name:
            return []
        if "buffer" in f.record.by_name and "to" in f.record.by_name:
            vector = f.holds("buffer", "vector")
            wrong = (f["nodes"] & ~self._set("V")) != 0, (f["nodes"] & ~self._set("C")) != 0
            return [~((vector & wrong[0]) | (~vector & wrong[1]))]
        return [(f["nodes"] & ~self._set(self._kind)) == 0]
